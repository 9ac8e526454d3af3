// SPDX-License-Identifier: GPL-3.0-or-later
// When was it read: selected and pinned spans over turns, in the document's measure. Gaps stay gaps. UI thread.
#pragma once
#include <vector>

#include "widgets/panels/data/trajectory_data.h"
#include "widgets/panels/panel.h"

class QCustomPlot;
class QCPItemText;
class QCPItemLine;
class QCPItemStraightLine;
class QVBoxLayout;

namespace spanscope {

class SmallButton;

class TrajectoryPlot : public Panel {
  Q_OBJECT
 public:
  TrajectoryPlot(Document* document, QWidget* parent = nullptr);
  ~TrajectoryPlot() override;
  // Same turns at the same pixels as a map above: distance of the first turn's left and the last turn's right edge from
  // the window's. Negative: the plot chooses.
  void alignTo(int left, int right);
  const panels::TrajectoryData& data() const { return data_; }
  QCustomPlot* plot() const { return plot_; }
  bool hasPicture() const override { return true; }
  QByteArray pictureSvg() const override;
  QImage picturePng(double scale) const override;

 protected:
  void changeEvent(QEvent* event) override;
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  void reload();
  void rebuildLegend();
  void redraw();
  void placeLabels();
  void placeCursor();
  void showTip(const QPoint& pos);
  std::vector<SpanId> shownSpans() const;

  QCustomPlot* plot_;
  QWidget* legend_ = nullptr;
  QVBoxLayout* legendRows_ = nullptr;
  SmallButton *difference_, *perRow_, *sum_;
  QCPItemStraightLine* cursor_ = nullptr;
  struct Label {
    QCPItemText* text = nullptr;
    QCPItemLine* line = nullptr;
    double x = 0, y = 0;
  };
  std::vector<Label> labels_;
  std::vector<SpanId> hidden_;  // switched off in the legend
  panels::TrajectoryData data_;
  int alignLeft_ = -1, alignRight_ = -1;
};

}  // namespace spanscope
