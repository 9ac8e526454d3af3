// SPDX-License-Identifier: GPL-3.0-or-later
// The filter: a predicate that applies while it is typed, what it keeps, and whether the rest is hidden. UI thread.
#pragma once
#include <QWidget>

#include "widgets/document/document.h"

class QLabel;
class QLineEdit;
class QComboBox;
class QToolButton;

namespace spanscope {

class PredicateBar : public QWidget {
  Q_OBJECT
 public:
  PredicateBar(Document* document, QWidget* parent = nullptr);
  void focusEdit();

 private:
  void refresh();
  Document* document_;
  QComboBox* ready_;
  QLineEdit* edit_;
  QLabel *count_, *error_;
  QToolButton *matching_, *all_;
};

}  // namespace spanscope
