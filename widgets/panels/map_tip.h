// SPDX-License-Identifier: GPL-3.0-or-later
// What is under the mouse on the map, in words, at once. UI thread.
#pragma once
#include <QFrame>

#include "widgets/document/document.h"

class QLabel;

namespace spanscope {

QString measureValue(double value, Measure measure);  // "126 reads", "10.7 %", "6.8×"

class MapTip : public QFrame {
  Q_OBJECT
 public:
  explicit MapTip(QWidget* parent);
  // turn: index into session.turns; kNone32 with a column: a turn that the session does not have.
  void say(const Document& document, SpanId span, uint32_t turn, uint32_t turnNumber);
  void sayText(const QString& text);
  // Beside the point, inside of the parent.
  void place(const QPoint& pos);
  QString text() const;

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  QLabel* label_;
};

}  // namespace spanscope
