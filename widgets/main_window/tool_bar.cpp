// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/main_window/tool_bar.h"

#include <QAction>
#include <QButtonGroup>
#include <QComboBox>
#include <QEvent>
#include <QHBoxLayout>
#include <QLabel>
#include <QToolButton>

#include "widgets/main_window/strength_slider.h"
#include "widgets/style/style.h"

namespace spanscope {

void joinButtons(const QList<QToolButton*>& buttons) {
  QList<QToolButton*> shown;
  for (QToolButton* b : buttons)
    if (!b->isHidden()) shown.append(b);
  for (int i = 0; i < shown.size(); ++i)
    style::mark(shown[i], "seg", shown.size() == 1 ? "" : i == 0 ? "first" : i + 1 == shown.size() ? "last" : "mid");
}

ToolBar::ToolBar(Document* document, QWidget* parent) : QToolBar(tr("Tools"), parent), document_(document) {
  setObjectName("toolBar");
  setMovable(false);
  setFloatable(false);
  setContextMenuPolicy(Qt::PreventContextMenu);
  setFixedHeight(37);
  setIconSize({14, 14});
  const auto group = [this](const QString& name, const QString& accessible) {
    auto* holder = new QWidget(this);
    holder->setObjectName(name);
    holder->setAccessibleName(accessible);
    auto* row = new QHBoxLayout(holder);
    row->setContentsMargins(0, 0, 0, 0);
    row->setSpacing(0);
    return holder;
  };
  QWidget* placeHolder = group("workspaceGroup", tr("Workspace"));
  places_ = new QButtonGroup(this);
  const std::tuple<QString, const char*, QString> places[] = {
      {tr("Explore"), "explore", tr("What was read, and when; which spans make a view")},
      {tr("Slices"), "slices", tr("Which layers and heads read the selected span")},
      {tr("Experts"), "experts", tr("Which experts worked on it, and how evenly")},
      {tr("Re-attend"), "reattend", tr("What a new question would turn to: computed now, not recorded")}};
  QList<QToolButton*> placeButtons;
  for (int i = 0; i < 4; ++i) {
    auto* b = new QToolButton(placeHolder);
    b->setObjectName(QString("workspace_") + std::get<1>(places[i]));
    b->setText(std::get<0>(places[i]));
    b->setIcon(style::icon(std::get<1>(places[i]), true));
    b->setIconSize({14, 14});
    b->setToolButtonStyle(Qt::ToolButtonTextBesideIcon);
    b->setToolTip(tr("%1\nCtrl+%2").arg(std::get<2>(places[i])).arg(i + 1));
    b->setAccessibleName(std::get<0>(places[i]));
    b->setCheckable(true);
    b->setProperty("place", true);
    places_->addButton(b, i);
    placeHolder->layout()->addWidget(b);
    placeButtons << b;
  }
  joinButtons(placeButtons);
  places_->button(0)->setChecked(true);
  connect(places_, &QButtonGroup::idClicked, this, &ToolBar::placeChosen);
  addWidget(placeHolder);
  addSeparator();

  measureButtons_ = group("measureGroup", tr("Measure"));
  measures_ = new QButtonGroup(this);
  measureMenu_ = new QComboBox(this);
  measureMenu_->setObjectName("measureMenu");
  measureMenu_->setAccessibleName(tr("Measure"));
  const QString measures[] = {tr("Reads"), tr("Share"), tr("Mass"), tr("Density"), tr("Lift")};
  const QString tips[] = {tr("How often a head turned to the span while the answer was written. One count per head and row; content only."),
                          tr("The average row's fraction of its attention on the span."), tr("Attention in rows: summed over layers and heads, sinks included."),
                          tr("Share per 1,000 tokens. Fair to short spans; does not add up."),
                          tr("Mass over what an even spread over the visible tokens would give. 1× means no preference; does not add up.")};
  QList<QToolButton*> measureList;
  for (int i = 0; i < 5; ++i) {
    auto* b = new QToolButton(measureButtons_);
    b->setObjectName("measure_" + QString(measure_name(Measure(i))));
    b->setText(measures[i]);
    b->setToolTip(tips[i]);
    b->setAccessibleName(tr("Measure: %1").arg(measures[i]));
    b->setCheckable(true);
    measures_->addButton(b, i);
    measureButtons_->layout()->addWidget(b);
    measureMenu_->addItem(measures[i]);
    measureMenu_->setItemData(i, tips[i], Qt::ToolTipRole);
    measureList << b;
  }
  joinButtons(measureList);
  connect(measures_, &QButtonGroup::idClicked, this, [this](int id) { document_->setMeasure(Measure(id)); });
  connect(measureMenu_, &QComboBox::activated, this, [this](int id) { document_->setMeasure(Measure(id)); });
  measureButtonsAction_ = addWidget(measureButtons_);
  measureMenuAction_ = addWidget(measureMenu_);
  measureMenuAction_->setVisible(false);
  strength_ = new StrengthSlider(document, this);
  addWidget(strength_);
  rows_ = new QLabel(this);
  rows_->setObjectName("muted");
  rowsAction_ = addWidget(rows_);
  auto* spacer = new QWidget(this);
  spacer->setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Preferred);
  addWidget(spacer);
  const auto button = [this](const QString& name, const QString& text, const QString& icon, const QString& tip, bool flat) {
    auto* b = new QToolButton(this);
    b->setObjectName(name);
    b->setText(text);
    b->setAccessibleName(text);
    b->setToolTip(tip);
    b->setIcon(style::icon(icon));
    b->setIconSize({14, 14});
    b->setToolButtonStyle(Qt::ToolButtonTextBesideIcon);
    b->setProperty("flat", flat);
    addWidget(b);
    return b;
  };
  find_ = button("findButton", tr("Find"), "search", tr("Find in names and texts\nCtrl+F"), true);
  picture_ = button("pictureButton", tr("Export"), "image", tr("Save the picture in front as SVG or PNG, exactly as it looks\nCtrl+Shift+E"), true);
  report_ = button("reportButton", tr("Report…"), "report", tr("Write a report: one HTML file that opens without network\nCtrl+E"), false);
  connect(find_, &QToolButton::clicked, this, &ToolBar::findRequested);
  connect(picture_, &QToolButton::clicked, this, &ToolBar::pictureRequested);
  connect(report_, &QToolButton::clicked, this, &ToolBar::reportRequested);
  connect(document, &Document::measureChanged, this, &ToolBar::refresh);
  connect(document, &Document::sessionChanged, this, &ToolBar::refresh);
  refresh();
  layout()->setContentsMargins(8, 5, 8, 5);
}

void ToolBar::changeEvent(QEvent* event) {
  QToolBar::changeEvent(event);
  // The bar's layout takes its margins from the style anew.
  if (event->type() == QEvent::StyleChange && layout()) layout()->setContentsMargins(8, 5, 8, 5);
}

void ToolBar::refresh() {
  const int measure = int(document_->measure());
  measures_->button(measure)->setChecked(true);
  measureMenu_->setCurrentIndex(measure);
  rows_->setText(document_->measure() == Measure::reads ? tr("answer rows") : tr("consumer rows, sinks apart"));
}

void ToolBar::setPlace(int place) {
  if (auto* b = places_->button(place)) b->setChecked(true);
}

void ToolBar::setPlaceVisible(int place, bool visible) {
  QList<QToolButton*> list;
  for (QAbstractButton* b : places_->buttons()) {
    if (places_->id(b) == place) b->setVisible(visible);
    list << static_cast<QToolButton*>(b);
  }
  joinButtons(list);
}

void ToolBar::setCompact(bool compact) {
  measureButtonsAction_->setVisible(!compact);
  measureMenuAction_->setVisible(compact);
  rowsAction_->setVisible(!compact);
  strength_->setCompact(compact);
  find_->setToolButtonStyle(compact ? Qt::ToolButtonIconOnly : Qt::ToolButtonTextBesideIcon);
  picture_->setToolButtonStyle(compact ? Qt::ToolButtonIconOnly : Qt::ToolButtonTextBesideIcon);
}

}  // namespace spanscope
