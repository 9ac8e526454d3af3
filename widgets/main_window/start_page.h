// SPDX-License-Identifier: GPL-3.0-or-later
// What fills the window without a session: open, the demo, recent files, what to do in two minutes. UI thread.
#pragma once
#include <QString>
#include <QWidget>
#include <vector>

class QLineEdit;
class QListWidget;
class QPushButton;

namespace spanscope {

struct RecentSession {
  QString path, facts;  // facts: "64 turns, 142 spans, 29,261 tokens · model · 21.3 MB", as seen when it was open
};

class StartPage : public QWidget {
  Q_OBJECT
 public:
  explicit StartPage(QWidget* parent = nullptr);
  void setRecent(const std::vector<RecentSession>& sessions);
  void setDemo(bool available);  // whether "Open the demo" has something to open

 signals:
  void openRequested();
  void demoRequested();
  void fileRequested(const QString& path);
  void forgetRequested(const QString& path);

 private:
  QPushButton* card(const QString& name, const QString& icon, const QString& title, const QString& text, const QStringList& keys, bool primary);
  void filter();
  QPushButton *demo_, *open_;
  QListWidget* recent_;
  QLineEdit* find_;
};

}  // namespace spanscope
