// SPDX-License-Identifier: GPL-3.0-or-later
// The line in which a predicate is written: coloured by syntax, completed by field, numbers stepped under the caret, the
// wrong part underlined. UI thread.
#pragma once
#include <QLineEdit>

class QCompleter;

namespace spanscope {

class PredicateEdit : public QLineEdit {
  Q_OBJECT
 public:
  explicit PredicateEdit(QWidget* parent = nullptr);
  void setFields(const std::vector<std::pair<QString, QString>>& nameAndMeaning);
  void setErrorAt(int position);  // -1: none

 protected:
  void keyPressEvent(QKeyEvent* event) override;
  bool event(QEvent* event) override;
  void changeEvent(QEvent* event) override;

 private:
  void colour();
  void complete();
  void insert(const QString& word);
  bool stepNumber(int direction, bool coarse);
  int wordStart() const;
  QCompleter* completer_;
  QStringList names_;
  int errorAt_ = -1;
};

}  // namespace spanscope
