// SPDX-License-Identifier: GPL-3.0-or-later
// What went wrong, where, and the ways out. Stays until it is read. UI thread.
#pragma once
#include <QFrame>

class QLabel;
class QHBoxLayout;
class QToolButton;

namespace spanscope {

class Banner : public QFrame {
  Q_OBJECT
 public:
  enum class Grade { warn, error };
  explicit Banner(QWidget* parent = nullptr);
  void say(Grade grade, const QString& title, const QString& text);
  QToolButton* addButton(const QString& text);  // of the message that stands; the next one starts without buttons
  QString title() const;
  QString text() const;

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  QLabel *title_, *text_;
  QHBoxLayout* row_;
  QList<QToolButton*> buttons_;
  Grade grade_ = Grade::warn;
};

}  // namespace spanscope
