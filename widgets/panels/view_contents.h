// SPDX-License-Identifier: GPL-3.0-or-later
// What the filter keeps, most reads first, and while the threshold moves: what leaves and what enters. UI thread.
#pragma once
#include <vector>

#include "widgets/panels/panel.h"

class QLabel;

namespace spanscope {

class RowTable;

class ViewContents : public Panel {
  Q_OBJECT
 public:
  ViewContents(Document* document, QWidget* parent = nullptr);
  RowTable* table() const { return table_; }
  // The view that leaving and entering are told against: called when a drag begins and ends.
  void setDragging(bool dragging);
  int inView() const { return inView_; }
  int leaving() const { return leaving_; }
  int entering() const { return entering_; }

 private:
  void reload();
  RowTable* table_;
  QLabel *facts_, *change_;
  std::vector<uint8_t> before_;  // [spans] in the view when the drag began
  bool dragging_ = false;
  int inView_ = 0, leaving_ = 0, entering_ = 0;
};

}  // namespace spanscope
