// SPDX-License-Identifier: GPL-3.0-or-later
// The tool bar: workspaces, measure, strength, export and report. UI thread.
#pragma once
#include <QToolBar>

#include "widgets/document/document.h"

class QButtonGroup;
class QComboBox;
class QLabel;
class QToolButton;

namespace spanscope {

class StrengthSlider;

class ToolBar : public QToolBar {
  Q_OBJECT
 public:
  explicit ToolBar(Document* document, QWidget* parent = nullptr);
  void setPlace(int place);
  void setPlaceVisible(int place, bool visible);
  void setCompact(bool compact);  // for narrow windows: measure as a menu, icons only
  StrengthSlider* strength() const { return strength_; }

 signals:
  void placeChosen(int place);
  void findRequested();
  void pictureRequested();
  void reportRequested();

 private:
  void refresh();
  void changeEvent(QEvent* event) override;
  Document* document_;
  QButtonGroup *places_, *measures_;
  QComboBox* measureMenu_;
  QWidget* measureButtons_;
  StrengthSlider* strength_;
  QLabel* rows_;
  QToolButton *find_, *picture_, *report_;
  QAction *measureButtonsAction_ = nullptr, *measureMenuAction_ = nullptr, *rowsAction_ = nullptr;
};

// Buttons that stand joined, as one control.
void joinButtons(const QList<QToolButton*>& buttons);

}  // namespace spanscope
