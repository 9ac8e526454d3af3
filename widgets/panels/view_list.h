// SPDX-License-Identifier: GPL-3.0-or-later
// Which sets are there, and what do they cost: ready-made and saved views with spans, part of all reads and tier. UI thread.
#pragma once
#include "widgets/document/view_store.h"
#include "widgets/panels/panel.h"

namespace spanscope {

class RowTable;

class ViewList : public Panel {
  Q_OBJECT
 public:
  ViewList(Document* document, ViewStore* views, QWidget* parent = nullptr);
  RowTable* table() const { return table_; }

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;
  void showEvent(QShowEvent* event) override;

 private:
  void reload();
  void mark();
  ViewStore* views_;
  RowTable* table_;
  bool stale_ = true;
};

}  // namespace spanscope
