// SPDX-License-Identifier: GPL-3.0-or-later
// How few spans hold how much: the threshold plot with its bar. UI thread.
#pragma once
#include "widgets/panels/panel.h"

namespace spanscope {

class ThresholdPlot;

class ThresholdPanel : public Panel {
  Q_OBJECT
 public:
  ThresholdPanel(Document* document, QWidget* parent = nullptr);
  ThresholdPlot* plot() const { return plot_; }
  bool hasPicture() const override { return true; }
  QByteArray pictureSvg() const override;
  QImage picturePng(double scale) const override;

 private:
  void retitle();
  ThresholdPlot* plot_;
};

}  // namespace spanscope
