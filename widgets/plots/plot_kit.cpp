// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/plots/plot_kit.h"

#include <QBuffer>
#include <QSvgGenerator>
#include <cmath>

namespace spanscope::plots {

LineStyle lineStyle(size_t i) {
  const PanelColors& c = panelColors();
  switch (i % 5) {
    case 0: return {c.accent, Qt::SolidLine, 2.2};
    case 1: return {c.expert(5), Qt::SolidLine, 1.5};
    case 2: return {c.expert(2), Qt::DashLine, 1.6};
    case 3: return {c.role("document"), Qt::DotLine, 1.8};
    default: return {c.role("tool"), Qt::DashDotLine, 1.6};
  }
}

QPen pen(const LineStyle& s) {
  QPen p(s.color, s.width, s.dash);
  if (s.dash == Qt::DotLine) p.setDashPattern({1.2, 1.8});
  if (s.dash == Qt::DashLine) p.setDashPattern({4, 2});
  p.setJoinStyle(Qt::RoundJoin);
  return p;
}
QPen pen(const QColor& color, double width, Qt::PenStyle dash) { return QPen(color, width, dash); }

QFont axisFont(const QWidget* widget) { return sized(widget->font(), 0.88); }

void styleAxis(QCPAxis* axis, bool gridLines) {
  const PanelColors& c = panelColors();
  const QFont font = axisFont(axis->parentPlot());
  axis->setBasePen(pen(c.borderStrong));
  axis->setTickPen(Qt::NoPen);
  axis->setSubTickPen(Qt::NoPen);
  axis->setTickLength(0, 0);
  axis->setTickLabelFont(font);
  axis->setTickLabelColor(c.textMuted);
  axis->setLabelFont(font);
  axis->setLabelColor(c.textMuted);
  axis->setTickLabelPadding(5);
  axis->grid()->setVisible(gridLines);
  axis->grid()->setPen(pen(c.grid));
  axis->grid()->setZeroLinePen(pen(c.grid));
  axis->grid()->setSubGridVisible(false);
}

void styleRect(QCPAxisRect* rect) {
  const PanelColors& c = panelColors();
  rect->setBackground(QBrush(c.panel));
}

void TurnTicker::setTurns(uint32_t first, uint32_t turns, int spacing) {
  first_ = first;
  turns_ = turns;
  spacing_ = std::max(1, spacing);
}

QVector<double> TurnTicker::createTickVector(double, const QCPRange&) {
  QVector<double> ticks;
  if (!turns_) return ticks;
  for (uint32_t i = 0; i < turns_; ++i) {
    const uint32_t turn = first_ + i + 1;
    const bool last = i + 1 == turns_, first = i == 0;
    // The last turn is always named; its neighbour gives way.
    const bool near = !last && turns_ - 1 - i < uint32_t(spacing_) / 2;
    const bool nearFirst = !first && !last && i < uint32_t(spacing_) / 2;
    if (first || last || (turn % uint32_t(spacing_) == 0 && !near && !nearFirst)) ticks << double(i);
  }
  return ticks;
}

QString TurnTicker::getTickLabel(double tick, const QLocale&, QChar, int) { return QString::number(first_ + uint32_t(std::lround(tick)) + 1); }

QString measureText(Measure measure, double v) {
  if (std::isnan(v)) return QString(QChar(0x2013));
  const QString sign = v < 0 ? QString(QChar(0x2212)) : QString();
  const double a = std::fabs(v);
  switch (measure) {
    case Measure::reads: return sign + (a == std::floor(a) ? count(qint64(a)) : QString::number(a, 'f', 2));
    case Measure::share: return sign + percent(a);
    case Measure::density: return sign + percent(a * 1000) + " / 1,000";
    case Measure::lift: return sign + QString::number(a, 'f', a < 10 ? 1 : 0) + QChar(0x00D7);
    default: return sign + QString::number(a, 'g', 3);
  }
}

double MeasureTicker::getTickStep(const QCPRange& range) {
  const double step = QCPAxisTicker::getTickStep(range);
  // Counts have no halves; a rate per row does.
  return measure == Measure::reads && range.size() > 3 ? std::ceil(step - 1e-9) : step;
}

QBrush hatchBrush() {
  const PanelColors& c = panelColors();
  QPixmap tile(10, 10);
  tile.fill(c.hatchBack);
  QPainter p(&tile);
  p.setRenderHint(QPainter::Antialiasing);
  p.setPen(QPen(c.hatchLine, 1));
  for (int x : {-10, -5, 0, 5, 10}) p.drawLine(x, 10, x + 10, 0);
  return QBrush(tile);
}

QByteArray svgOf(QCustomPlot& plot, const QString& title) {
  QByteArray bytes;
  QBuffer buffer(&bytes);
  buffer.open(QIODevice::WriteOnly);
  QSvgGenerator svg;
  svg.setOutputDevice(&buffer);
  svg.setSize(plot.size());
  svg.setViewBox(QRect(QPoint(0, 0), plot.size()));
  svg.setTitle(title);
  QCPPainter painter;
  painter.begin(&svg);
  painter.setMode(QCPPainter::pmVectorized);
  plot.toPainter(&painter, plot.width(), plot.height());
  painter.end();
  return bytes;
}

}  // namespace spanscope::plots
