// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/panels/panel_tabs.h"

#include <QHBoxLayout>
#include <QStackedWidget>
#include <QTabBar>
#include <QToolButton>
#include <QVBoxLayout>

#include "widgets/panels/panel.h"
#include "widgets/panels/panel_kit.h"
#include "widgets/style/elided_label.h"

namespace spanscope {

PanelTabs::PanelTabs(const QString& objectName, QWidget* parent) : QWidget(parent) {
  setObjectName(objectName);
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(0);
  header_ = new QWidget(this);
  header_->setObjectName("panelHeader");
  header_->setAttribute(Qt::WA_StyledBackground);
  header_->setFixedHeight(26);
  row_ = new QHBoxLayout(header_);
  row_->setContentsMargins(4, 0, 5, 0);
  row_->setSpacing(6);
  bar_ = new QTabBar(header_);
  bar_->setObjectName("panelTabs");
  bar_->setExpanding(false);
  bar_->setDrawBase(false);
  bar_->setUsesScrollButtons(false);
  bar_->setFixedHeight(26);
  subtitle_ = new ElidedLabel({}, header_);
  subtitle_->setObjectName("panelSubtitle");
  badge_ = new ProvBadge(Provenance::captured, header_);
  badge_->hide();
  row_->addWidget(bar_, 0, Qt::AlignBottom);
  row_->addSpacing(4);
  row_->addWidget(subtitle_, 1);
  row_->addWidget(badge_);
  stack_ = new QStackedWidget(this);
  column->addWidget(header_);
  column->addWidget(stack_, 1);
  connect(bar_, &QTabBar::currentChanged, this, [this](int index) {
    stack_->setCurrentIndex(index);
    describe();
    emit currentChanged(index);
  });
}

void PanelTabs::addTab(Panel* panel, const QString& title) {
  panel->setHeaderVisible(false);
  stack_->addWidget(panel);
  connect(panel, &Panel::subtitleChanged, this, &PanelTabs::describe);
  bar_->addTab(title);
  describe();
}

int PanelTabs::count() const { return bar_->count(); }
int PanelTabs::currentIndex() const { return bar_->currentIndex(); }
QString PanelTabs::tabText(int index) const { return bar_->tabText(index); }
Panel* PanelTabs::panel(int index) const { return qobject_cast<Panel*>(stack_->widget(index)); }
void PanelTabs::setCurrentIndex(int index) { bar_->setCurrentIndex(index); }

bool PanelTabs::setCurrentByName(const QString& title) {
  for (int i = 0; i < count(); ++i)
    if (tabText(i).compare(title, Qt::CaseInsensitive) == 0) {
      setCurrentIndex(i);
      return true;
    }
  return false;
}

QToolButton* PanelTabs::addHeaderTool(const QString& icon, const QString& name) {
  QToolButton* button = headerTool(icon, name, header_);
  row_->addWidget(button);
  return button;
}

void PanelTabs::describe() {
  const Panel* front = currentPanel();
  subtitle_->setText(front ? front->subtitle() : QString());
  if (front) badge_->setKind(front->provenance());
  badge_->setVisible(front && front->provenanceShown());
}

}  // namespace spanscope
