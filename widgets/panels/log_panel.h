// SPDX-License-Identifier: GPL-3.0-or-later
// What was found while reading the session, by grade, and what the program said since. UI thread.
#pragma once
#include "widgets/panels/panel.h"

namespace spanscope {

class RowTable;

class LogPanel : public Panel {
  Q_OBJECT
 public:
  LogPanel(Document* document, QWidget* parent = nullptr);
  void add(const QString& text, const QString& tag = {});
  int findings() const { return findings_; }

 private:
  void reload();
  struct Line {
    QString time, text, tag;
  };
  RowTable* table_;
  std::vector<Line> said_;
  int findings_ = 0;
};

}  // namespace spanscope
