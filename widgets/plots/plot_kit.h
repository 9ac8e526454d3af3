// SPDX-License-Identifier: GPL-3.0-or-later
// What the QCustomPlot widgets share: colours of axes, tickers, line styles, export. Includes the heavy header: only for
// .cpp files of this folder.
#pragma once
#include <qcustomplot.h>

#include "core/view/columns.h"
#include "widgets/panels/panel_kit.h"

namespace spanscope::plots {

struct LineStyle {
  QColor color;
  Qt::PenStyle dash;
  double width;
};
LineStyle lineStyle(size_t index);  // five, then again
QPen pen(const LineStyle& style);
QPen pen(const QColor& color, double width = 1, Qt::PenStyle dash = Qt::SolidLine);

void styleAxis(QCPAxis* axis, bool gridLines);
void styleRect(QCPAxisRect* rect);
QFont axisFont(const QWidget* widget);

// 1-based turns under 0-based indices: 1, 8, 16 ... and the last.
class TurnTicker : public QCPAxisTicker {
 public:
  void setTurns(uint32_t first, uint32_t turns, int spacing);

 protected:
  QVector<double> createTickVector(double step, const QCPRange& range) override;
  QString getTickLabel(double tick, const QLocale& locale, QChar format, int precision) override;
  int getSubTickCount(double) override { return 0; }

 private:
  uint32_t first_ = 0, turns_ = 0;
  int spacing_ = 8;
};

// A measure's own way of writing a value: integers for reads, percent for shares.
QString measureText(Measure measure, double value);
class MeasureTicker : public QCPAxisTicker {
 public:
  Measure measure = Measure::reads;

 protected:
  QString getTickLabel(double tick, const QLocale&, QChar, int) override { return measureText(measure, tick); }
  double getTickStep(const QCPRange& range) override;
  int getSubTickCount(double) override { return 0; }
};

QBrush hatchBrush();
QByteArray svgOf(QCustomPlot& plot, const QString& title);

}  // namespace spanscope::plots
