// SPDX-License-Identifier: GPL-3.0-or-later
// What fills the window without a session: open, the demo, recent files, what to do in two minutes. UI thread.
#pragma once
#include <QListWidget>
#include <QWidget>

namespace spanscope {

class StartPage : public QWidget {
  Q_OBJECT
 public:
  explicit StartPage(QWidget* parent = nullptr);
  void setRecent(const QStringList& files);

 signals:
  void openRequested();
  void fileRequested(const QString& path);

 private:
  QListWidget* recent_;
};

}  // namespace spanscope
