// SPDX-License-Identifier: GPL-3.0-or-later
// Panels behind tabs: the strip holds the tabs and, of the panel in front, subtitle, badge and buttons. UI thread.
#pragma once
#include <QWidget>

class QHBoxLayout;
class QStackedWidget;
class QTabBar;
class QToolButton;

namespace spanscope {

class ElidedLabel;
class Panel;
class ProvBadge;

class PanelTabs : public QWidget {
  Q_OBJECT
 public:
  explicit PanelTabs(const QString& objectName, QWidget* parent = nullptr);
  void addTab(Panel* panel, const QString& title);
  int count() const;
  int currentIndex() const;
  QString tabText(int index) const;
  Panel* panel(int index) const;
  Panel* currentPanel() const { return panel(currentIndex()); }
  bool setCurrentByName(const QString& title);
  QWidget* header() const { return header_; }
  QToolButton* addHeaderTool(const QString& icon, const QString& name);

 public slots:
  void setCurrentIndex(int index);

 signals:
  void currentChanged(int index);

 private:
  void describe();
  QWidget* header_;
  QHBoxLayout* row_;
  QTabBar* bar_;
  ElidedLabel* subtitle_;
  ProvBadge* badge_;
  QStackedWidget* stack_;
};

}  // namespace spanscope
