// SPDX-License-Identifier: GPL-3.0-or-later
// The status bar: what is under the mouse or was just done, progress with a way to stop it, and facts that last. UI thread.
#pragma once
#include <QObject>
#include <QString>

class QLabel;
class QProgressBar;
class QStatusBar;
class QToolButton;

namespace spanscope {

class ElidedLabel;

class StatusArea : public QObject {
  Q_OBJECT
 public:
  explicit StatusArea(QStatusBar* bar);
  void say(const QString& text);            // passing
  void error(const QString& text);          // stays until something else is said
  void progress(const QString& text, quint64 done, quint64 total);  // total 0: not countable
  void idle();                              // nothing runs
  void setFacts(const QString& engine, const QString& state, bool good, const QString& file);
  void clearFacts();
  QString text() const;
  bool busy() const { return busy_; }

 signals:
  void cancelRequested();

 private:
  QWidget* icon_;
  QLabel *ready_, *engine_, *state_, *file_;
  ElidedLabel* text_;
  QProgressBar* bar_;
  QToolButton* cancel_;
  bool busy_ = false;
};

}  // namespace spanscope
