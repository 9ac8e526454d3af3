// SPDX-License-Identifier: GPL-3.0-or-later
// The map with its title, its order, and its pictures. UI thread.
#pragma once
#include "widgets/panels/map_view.h"
#include "widgets/panels/panel.h"

class QComboBox;

namespace spanscope {

class MapPanel : public Panel {
  Q_OBJECT
 public:
  MapPanel(Document* document, QWidget* parent = nullptr);
  MapView* view() const { return view_; }
  bool hasPicture() const override { return true; }
  QByteArray pictureSvg() const override;
  QImage picturePng(double scale) const override;

 private:
  void describe();
  MapView* view_;
  QComboBox* order_;
};

}  // namespace spanscope
