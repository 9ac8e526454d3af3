// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/plots/trajectory_plot.h"

#include <QCheckBox>
#include <QHBoxLayout>
#include <QStyle>
#include <QToolTip>
#include <algorithm>
#include <cmath>

#include "widgets/plots/plot_kit.h"

namespace spanscope {
namespace {

constexpr int kLegendWidth = 196;
constexpr size_t kMostLines = 8;
constexpr int kLabelRoom = 84;

// A legend row: check box, sample of the line, number and name.
class LegendRow : public QAbstractButton {
 public:
  LegendRow(SpanId span, const QString& name, plots::LineStyle style, bool selected, QWidget* parent)
      : QAbstractButton(parent), name_(name), number_(span == kNoSpan ? QString() : spanNumber(span)), style_(style), selected_(selected) {
    setCheckable(true);
    setFocusPolicy(Qt::StrongFocus);
    setFixedHeight(20);
    setAccessibleName(number_ + " " + name);
    setToolTip(number_ + " " + name);
  }

 protected:
  void paintEvent(QPaintEvent*) override {
    QPainter p(this);
    p.setRenderHint(QPainter::Antialiasing);
    const PanelColors& c = panelColors();
    if (underMouse()) p.fillRect(rect(), c.hover);
    const double y = height() / 2.0;
    QPen line = plots::pen(style_);
    if (!isChecked()) line.setColor(c.border);
    p.setPen(line);
    p.drawLine(QPointF(10, y), QPointF(30, y));
    QFont f = font();
    if (selected_) f.setWeight(QFont::DemiBold);
    p.setFont(f);
    p.setPen(isChecked() ? c.textMuted : c.textFaint);
    int x = 38;
    if (!number_.isEmpty()) {
      p.drawText(QRect(x, 0, 60, height()), Qt::AlignVCenter, number_);
      x += p.fontMetrics().horizontalAdvance(number_) + 5;
    }
    p.setPen(isChecked() ? c.text : c.textFaint);
    p.drawText(QRect(x, 0, width() - x - 4, height()), Qt::AlignVCenter, p.fontMetrics().elidedText(name_, Qt::ElideRight, width() - x - 4));
    if (hasFocus()) {
      p.setRenderHint(QPainter::Antialiasing, false);
      p.setPen(c.focus);
      p.drawRect(rect().adjusted(0, 0, -1, -1));
    }
  }

 private:
  QString name_, number_;
  plots::LineStyle style_;
  bool selected_;
};

}  // namespace

TrajectoryPlot::TrajectoryPlot(Document* document, QWidget* parent)
    : Panel(document, "trajectoryPlot", tr("Trajectories"), parent), plot_(new QCustomPlot(this)), legend_(new QWidget(this)) {
  setAccessibleName(tr("Reads of selected spans by turn"));
  auto* row = new QHBoxLayout;
  row->setContentsMargins(0, 0, 0, 0);
  row->setSpacing(0);
  auto* left = new QVBoxLayout(legend_);
  left->setContentsMargins(0, 6, 0, 6);
  left->setSpacing(0);
  legendRows_ = new QVBoxLayout;
  legendRows_->setSpacing(0);
  left->addLayout(legendRows_);
  left->addStretch(1);
  auto* switches = new QHBoxLayout;
  switches->setContentsMargins(8, 2, 4, 0);
  switches->setSpacing(4);
  difference_ = new SmallButton(tr("Change"), legend_);
  difference_->setObjectName("trajectoryDifference");
  difference_->setAccessibleName(tr("Change"));
  difference_->setCheckable(true);
  difference_->setToolTip(tr("Change from one turn to the next"));
  perRow_ = new SmallButton(tr("Per row"), legend_);
  perRow_->setObjectName("trajectoryPerRow");
  perRow_->setAccessibleName(tr("Per row"));
  perRow_->setCheckable(true);
  perRow_->setToolTip(tr("Reads divided by the turn's answer rows"));
  sum_ = new SmallButton(tr("Sum"), legend_);
  sum_->setObjectName("trajectorySum");
  sum_->setAccessibleName(tr("Sum"));
  sum_->setCheckable(true);
  sum_->setToolTip(tr("The sum of the spans that are drawn"));
  for (auto* b : {difference_, perRow_, sum_}) {
    switches->addWidget(b);
    connect(b, &QToolButton::toggled, this, [this] { reload(); });
  }
  switches->addStretch(1);
  left->addLayout(switches);
  legend_->setFixedWidth(kLegendWidth);
  row->addWidget(legend_);
  row->addWidget(plot_, 1);
  body()->addLayout(row, 1);

  plot_->setObjectName("trajectoryCanvas");
  plot_->setMinimumSize(160, 80);
  plot_->setNoAntialiasingOnDrag(false);
  plot_->setMouseTracking(true);
  plot_->installEventFilter(this);
  plot_->xAxis2->setVisible(false);
  plot_->yAxis2->setVisible(false);
  // Labels are placed when the axis rect has its final size, inside the same replot.
  connect(plot_, &QCustomPlot::afterLayout, this, [this] { placeLabels(); });

  connect(document, &Document::sessionChanged, this, [this] {
    hidden_.clear();
    reload();
  });
  connect(document, &Document::selectionChanged, this, [this](const Selection&, Origin) { reload(); });
  connect(document, &Document::pinsChanged, this, [this] { reload(); });
  connect(document, &Document::measureChanged, this, [this] { reload(); });
  connect(document, &Document::strengthChanged, this, [this] { reload(); });
  fillWithPanelColor(this);
  reload();
}

TrajectoryPlot::~TrajectoryPlot() = default;

void TrajectoryPlot::alignTo(int left, int right) {
  if (left == alignLeft_ && right == alignRight_) return;
  alignLeft_ = left;
  alignRight_ = right;
  redraw();
}

std::vector<SpanId> TrajectoryPlot::shownSpans() const {
  std::vector<SpanId> spans;
  if (!document()->session()) return spans;
  const auto add = [&](SpanId id) {
    if (spans.size() < kMostLines && id < document()->session()->ledger.spans.size() && std::find(spans.begin(), spans.end(), id) == spans.end())
      spans.push_back(id);
  };
  for (SpanId id : document()->selection().spans) add(id);
  for (SpanId id : document()->pins()) add(id);
  return spans;
}

void TrajectoryPlot::reload() {
  const bool reads = document()->measure() == Measure::reads;
  perRow_->setVisible(reads);
  sum_->setVisible(reads);
  if (auto session = document()->session()) {
    panels::TrajectoryOptions options;
    options.difference = difference_->isChecked();
    options.per_row = reads && perRow_->isChecked();
    options.sum = reads && sum_->isChecked();
    data_ = panels::trajectory_data(*session, shownSpans(), document()->settings(), options);
    QString what = QString(measure_name(document()->measure()));
    if (reads) what = options.per_row ? tr("reads per answer row") : tr("reads");
    if (options.difference) what = tr("change of %1").arg(what);
    setSubtitle(reads ? tr("%1 by turn, strength %2, answer rows").arg(what, strength(document()->strength()))
                      : tr("%1 by turn").arg(what));
  } else {
    data_ = {};
    setSubtitle({});
  }
  rebuildLegend();
  redraw();
}

void TrajectoryPlot::rebuildLegend() {
  while (QLayoutItem* item = legendRows_->takeAt(0)) {
    if (QWidget* w = item->widget()) {
      w->hide();
      w->deleteLater();
    }
    delete item;
  }
  const auto session = document()->session();
  if (!session) return;
  if (data_.lines.empty()) {
    auto* hint = new QLabel(tr("Select spans in the map or the tree, or pin some with P, to see when they were read."), legend_);
    hint->setWordWrap(true);
    hint->setContentsMargins(10, 2, 8, 2);
    hint->setObjectName("muted");
    legendRows_->addWidget(hint);
    return;
  }
  for (size_t i = 0; i < data_.lines.size(); ++i) {
    const SpanId span = data_.lines[i].span;
    auto* row = new LegendRow(span, span == kNoSpan ? tr("sum of these") : spanTitle(*session, span), plots::lineStyle(i),
                              document()->selection().contains(span), legend_);
    row->setChecked(std::find(hidden_.begin(), hidden_.end(), span) == hidden_.end());
    connect(row, &QAbstractButton::toggled, this, [this, span](bool on) {
      if (on) hidden_.erase(std::remove(hidden_.begin(), hidden_.end(), span), hidden_.end());
      else hidden_.push_back(span);
      redraw();
    });
    legendRows_->addWidget(row);
  }
}

void TrajectoryPlot::redraw() {
  const PanelColors& c = panelColors();
  plot_->clearPlottables();
  plot_->clearItems();
  labels_.clear();
  cursor_ = nullptr;
  plot_->setBackground(QBrush(c.panel));
  plots::styleRect(plot_->axisRect());
  plots::styleAxis(plot_->xAxis, false);
  plots::styleAxis(plot_->yAxis, true);
  plot_->yAxis->setBasePen(Qt::NoPen);
  const Measure measure = document()->measure();
  const auto session = document()->session();
  const double n = std::max<double>(1, data_.turns);
  plot_->xAxis->setRange(-0.5, n - 0.5);
  auto turns = QSharedPointer<plots::TurnTicker>::create();
  turns->setTurns(data_.first_turn, data_.turns, data_.turns > 96 ? 16 : data_.turns > 16 ? 8 : data_.turns > 8 ? 2 : 1);
  plot_->xAxis->setTicker(turns);
  auto values = QSharedPointer<plots::MeasureTicker>::create();
  values->measure = measure;
  values->setTickCount(4);
  plot_->yAxis->setTicker(values);
  double low = 0, high = 0;
  for (const auto& line : data_.lines) {
    if (std::find(hidden_.begin(), hidden_.end(), line.span) != hidden_.end()) continue;
    for (double y : line.y)
      if (!std::isnan(y)) low = std::min(low, y), high = std::max(high, y);
  }
  if (high <= low) high = low + (measure == Measure::reads ? 4 : measure == Measure::lift ? 2 : 0.01);
  const double room = (high - low) * 0.06;
  plot_->yAxis->setRange(low < 0 ? low - room : 0, high + room);

  for (uint32_t i = 0; i < data_.turns; ++i) {
    if (!data_.missing[i]) continue;
    uint32_t last = i;
    while (last + 1 < data_.turns && data_.missing[last + 1]) ++last;
    auto* hatch = new QCPItemRect(plot_);
    hatch->setPen(Qt::NoPen);
    hatch->setBrush(plots::hatchBrush());
    hatch->topLeft->setTypeX(QCPItemPosition::ptPlotCoords);
    hatch->topLeft->setTypeY(QCPItemPosition::ptAxisRectRatio);
    hatch->topLeft->setCoords(i - 0.5, 0);
    hatch->bottomRight->setTypeX(QCPItemPosition::ptPlotCoords);
    hatch->bottomRight->setTypeY(QCPItemPosition::ptAxisRectRatio);
    hatch->bottomRight->setCoords(last + 0.5, 1);
    i = last;
  }

  cursor_ = new QCPItemStraightLine(plot_);
  cursor_->setPen(plots::pen(c.textMuted));

  for (size_t k = data_.lines.size(); k-- > 0;) {  // the first, the selected one, lies on top
    const auto& line = data_.lines[k];
    if (std::find(hidden_.begin(), hidden_.end(), line.span) != hidden_.end()) continue;
    const auto style = plots::lineStyle(k);
    auto* graph = plot_->addGraph();
    graph->setPen(plots::pen(style));
    graph->setAntialiased(true);
    QVector<double> x(int(line.y.size())), y(line.y.begin(), line.y.end());
    for (int i = 0; i < x.size(); ++i) x[i] = i;
    graph->setData(x, y, true);
    // A value between two gaps has no line to either side.
    QVector<double> alone_x, alone_y;
    int last = -1;
    for (int i = 0; i < int(line.y.size()); ++i) {
      if (std::isnan(line.y[size_t(i)])) continue;
      last = i;
      const bool before = i > 0 && !std::isnan(line.y[size_t(i - 1)]);
      const bool after = i + 1 < int(line.y.size()) && !std::isnan(line.y[size_t(i + 1)]);
      if (!before && !after) alone_x << i, alone_y << line.y[size_t(i)];
    }
    const auto marks = [&](const QVector<double>& mx, const QVector<double>& my, QCPScatterStyle::ScatterShape shape, const QBrush& fill) {
      auto* g = plot_->addGraph();
      g->setLineStyle(QCPGraph::lsNone);
      g->setScatterStyle(QCPScatterStyle(shape, QPen(style.color, 1.6), fill, 6));
      g->setData(mx, my, true);
    };
    if (!alone_x.isEmpty()) marks(alone_x, alone_y, QCPScatterStyle::ssCircle, style.color);
    const auto at = [&](int i) { return i >= 0 && !std::isnan(line.y[size_t(i)]) ? line.y[size_t(i)] : 0.0; };
    // The turn after its own is the first that can read it: the open circle stands on the first drawn value.
    int first = line.born;
    while (first >= 0 && first < int(line.y.size()) && std::isnan(line.y[size_t(first)])) ++first;
    if (line.born >= 0 && first < int(line.y.size())) marks({double(first)}, {at(first)}, QCPScatterStyle::ssCircle, c.panel);
    if (line.gone >= 0) {
      auto* tick = new QCPItemLine(plot_);
      tick->setPen(QPen(style.color, 1.5));
      tick->start->setCoords(line.gone + 0.5, at(line.gone));
      tick->end->setParentAnchor(tick->start);
      tick->end->setTypeX(QCPItemPosition::ptAbsolute);
      tick->end->setTypeY(QCPItemPosition::ptAbsolute);
      tick->end->setCoords(0, -8);
    }
    if (last >= 0) {
      Label label;
      label.x = last;
      label.y = line.y[size_t(last)];
      label.line = new QCPItemLine(plot_);
      label.line->setPen(QPen(style.color, 1));
      label.line->setClipToAxisRect(false);
      label.text = new QCPItemText(plot_);
      label.text->setClipToAxisRect(false);
      label.text->setPositionAlignment(Qt::AlignLeft | Qt::AlignVCenter);
      label.text->setFont(sized(font(), 0.92, document()->selection().contains(line.span)));
      label.text->setColor(c.text);
      label.text->setText((line.span == kNoSpan ? tr("sum") : spanNumber(line.span)) + " " + plots::measureText(measure, label.y));
      label.text->position->setType(QCPItemPosition::ptAbsolute);
      label.line->start->setType(QCPItemPosition::ptAbsolute);
      label.line->end->setType(QCPItemPosition::ptAbsolute);
      labels_.push_back(label);
    }
  }
  Q_UNUSED(session);
  placeCursor();
  if (alignLeft_ >= 0) {
    // Map pixels are given in this panel's coordinates; the legend and the axis labels share the left margin.
    legend_->setFixedWidth(std::max(120, std::min(kLegendWidth, alignLeft_ - 36)));
    // Signs instead of words where the words would be cut; the tool tips say what they mean.
    int words = 16;
    for (const QString& text : {tr("Change"), tr("Per row"), tr("Sum")}) words += fontMetrics().horizontalAdvance(text) + 22;
    const bool fits = words <= legend_->maximumWidth();
    difference_->setText(fits ? tr("Change") : QStringLiteral("Δ"));
    perRow_->setText(fits ? tr("Per row") : tr("/row"));
    sum_->setText(fits ? tr("Sum") : QStringLiteral("Σ"));
    plot_->axisRect()->setAutoMargins(QCP::msTop | QCP::msBottom);
    plot_->axisRect()->setMargins(QMargins(alignLeft_ - legend_->width(), 0, std::max(kLabelRoom, alignRight_), 0));
    plot_->axisRect()->setMinimumMargins(QMargins(0, 10, 0, 0));
  } else {
    legend_->setFixedWidth(kLegendWidth);
    plot_->axisRect()->setAutoMargins(QCP::msLeft | QCP::msTop | QCP::msBottom);
    plot_->axisRect()->setMargins(QMargins(0, 0, kLabelRoom, 0));
    plot_->axisRect()->setMinimumMargins(QMargins(0, 10, 0, 0));
  }
  plot_->replot(QCustomPlot::rpQueuedReplot);
}

void TrajectoryPlot::placeCursor() {
  if (!cursor_) return;
  const int turn = document()->turn() - int(data_.first_turn);
  cursor_->setVisible(turn >= 0 && turn < int(data_.turns));
  cursor_->point1->setCoords(turn, 0);
  cursor_->point2->setCoords(turn, 1);
}

void TrajectoryPlot::placeLabels() {
  if (labels_.empty()) return;
  const QRect rect = plot_->axisRect()->rect();
  std::vector<size_t> order(labels_.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::vector<double> at(labels_.size());
  for (size_t i = 0; i < labels_.size(); ++i) at[i] = plot_->yAxis->coordToPixel(labels_[i].y);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return at[a] < at[b]; });
  const double step = QFontMetrics(sized(font(), 0.92)).height() - 1;
  std::vector<double> place(labels_.size());
  double next = rect.top() + 3;
  for (size_t k : order) {
    place[k] = std::max(next, at[k]);
    next = place[k] + step;
  }
  // What ran over the foot is pushed up again from below.
  double floor = rect.bottom() + 4;
  for (size_t j = order.size(); j-- > 0;) {
    place[order[j]] = std::min(place[order[j]], floor);
    floor = place[order[j]] - step;
  }
  for (size_t i = 0; i < labels_.size(); ++i) {
    const double x = plot_->xAxis->coordToPixel(labels_[i].x), right = rect.right() + 18;
    labels_[i].line->start->setCoords(x + 2, at[i]);
    labels_[i].line->end->setCoords(right - 3, place[i]);
    labels_[i].text->position->setCoords(right, place[i]);
  }
}

void TrajectoryPlot::showTip(const QPoint& pos) {
  const int i = int(std::lround(plot_->xAxis->pixelToCoord(pos.x())));
  const auto session = document()->session();
  if (!session || i < 0 || i >= int(data_.turns) || data_.lines.empty()) {
    QToolTip::hideText();
    return;
  }
  QString tip = tr("<b>Turn %1</b>").arg(data_.first_turn + uint32_t(i) + 1);
  if (data_.missing[size_t(i)]) tip += "<br>" + tr("no answer rows were captured in this turn");
  for (const auto& line : data_.lines) {
    if (std::find(hidden_.begin(), hidden_.end(), line.span) != hidden_.end()) continue;
    const QString name = line.span == kNoSpan ? tr("sum") : spanNumber(line.span) + " " + spanTitle(*session, line.span).toHtmlEscaped();
    tip += "<br>" + name + ": <b>" + plots::measureText(document()->measure(), line.y[size_t(i)]) + "</b>";
  }
  QToolTip::showText(plot_->mapToGlobal(pos + QPoint(12, 12)), tip, plot_);
}

bool TrajectoryPlot::eventFilter(QObject* watched, QEvent* event) {
  if (watched == plot_) {
    if (event->type() == QEvent::MouseButtonRelease) {
      const auto* mouse = static_cast<QMouseEvent*>(event);
      const int i = int(std::lround(plot_->xAxis->pixelToCoord(mouse->position().x())));
      if (mouse->button() == Qt::LeftButton && i >= 0 && i < int(data_.turns)) document()->setTurn(int(data_.first_turn) + i, Origin::plot);
    } else if (event->type() == QEvent::MouseMove) {
      showTip(static_cast<QMouseEvent*>(event)->pos());
    } else if (event->type() == QEvent::Leave) {
      document()->setHover({});
    }
  }
  return Panel::eventFilter(watched, event);
}

void TrajectoryPlot::changeEvent(QEvent* event) {
  Panel::changeEvent(event);
  // Events also come while the constructor is still building.
  if (legendRows_ && (event->type() == QEvent::PaletteChange || event->type() == QEvent::FontChange)) {
    rebuildLegend();
    redraw();
  }
}

QByteArray TrajectoryPlot::pictureSvg() const { return plots::svgOf(*plot_, title() + ": " + subtitle()); }
QImage TrajectoryPlot::picturePng(double scale) const { return plot_->toPixmap(0, 0, scale).toImage(); }

}  // namespace spanscope
