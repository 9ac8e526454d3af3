// SPDX-License-Identifier: GPL-3.0-or-later
// The filter: a predicate that applies while it is typed, what it keeps, and whether the rest is hidden. UI thread.
#pragma once
#include <QWidget>

#include "widgets/document/document.h"

class QComboBox;
class QLabel;
class QToolButton;

namespace spanscope {

class PredicateEdit;
class ViewStore;

class PredicateBar : public QWidget {
  Q_OBJECT
 public:
  PredicateBar(Document* document, ViewStore* views, QWidget* parent = nullptr);
  void focusEdit();
  void setCompact(bool compact);
  QString countText() const;
  QString errorText() const;
  // Keeps the filter as a view of this name.
  void saveView();

 private:
  void refresh();
  void refreshViews();
  Document* document_;
  ViewStore* views_;
  QComboBox* view_;
  PredicateEdit* edit_;
  QLabel *count_, *error_;
  QToolButton *matching_, *all_, *save_;
  bool compact_ = false;
};

}  // namespace spanscope
