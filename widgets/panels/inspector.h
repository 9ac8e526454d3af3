// SPDX-License-Identifier: GPL-3.0-or-later
// Everything about the selected span: head, text, how much it was read at the turn cursor and over the session, reads by
// layer. Several spans: their sums. UI thread.
#pragma once
#include <QScrollArea>

#include "widgets/panels/panel.h"

namespace spanscope {

class Inspector : public Panel {
  Q_OBJECT
 public:
  Inspector(Document* document, QWidget* parent = nullptr);
  // The reads at the turn cursor as shown, for tests and copying.
  QString shownReads() const { return reads_; }

 private:
  void rebuild();
  QScrollArea* area_;
  QString reads_;
};

}  // namespace spanscope
