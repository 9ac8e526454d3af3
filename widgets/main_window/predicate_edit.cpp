// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/main_window/predicate_edit.h"

#include <QAbstractItemView>
#include <QCompleter>
#include <QCoreApplication>
#include <QHeaderView>
#include <QInputMethodEvent>
#include <QKeyEvent>
#include <QRegularExpression>
#include <QStandardItemModel>
#include <QTextCharFormat>
#include <QTreeView>
#include <cmath>

#include "widgets/style/style.h"

namespace spanscope {

PredicateEdit::PredicateEdit(QWidget* parent) : QLineEdit(parent), completer_(new QCompleter(this)) {
  setObjectName("predicateEdit");
  setAccessibleName(tr("Filter"));
  setClearButtonEnabled(true);
  setFont(style::mono());
  auto* popup = new QTreeView;
  popup->setRootIsDecorated(false);
  popup->setHeaderHidden(true);
  popup->setUniformRowHeights(true);
  popup->setSelectionBehavior(QAbstractItemView::SelectRows);
  completer_->setPopup(popup);
  completer_->setWidget(this);
  completer_->setCompletionMode(QCompleter::PopupCompletion);
  completer_->setCaseSensitivity(Qt::CaseInsensitive);
  connect(completer_, qOverload<const QString&>(&QCompleter::activated), this, &PredicateEdit::insert);
  connect(this, &QLineEdit::textChanged, this, &PredicateEdit::colour);
  connect(this, &QLineEdit::textEdited, this, &PredicateEdit::complete);
}

void PredicateEdit::setFields(const std::vector<std::pair<QString, QString>>& fields) {
  auto* model = new QStandardItemModel(completer_);
  names_.clear();
  for (const auto& [name, meaning] : fields) {
    // "role, kind, taint" is one line of help and three words to complete.
    for (QString word : name.split(", ")) {
      names_ << word;
      auto* left = new QStandardItem(word);
      left->setFont(font());
      model->appendRow({left, new QStandardItem(meaning)});
    }
  }
  completer_->setModel(model);
  auto* popup = static_cast<QTreeView*>(completer_->popup());
  popup->header()->setSectionResizeMode(0, QHeaderView::ResizeToContents);
  popup->setMinimumWidth(460);
}

void PredicateEdit::setErrorAt(int position) {
  errorAt_ = position;
  colour();  // also when nothing changed: the text may have been set with its signals blocked
}

void PredicateEdit::colour() {
  static const QRegularExpression token(R"(("[^"]*"?)|(\b(?:and|or|not|top|by|of|last|under|missing)\b)|([0-9]+(?:\.[0-9]+)?(?:\s*%)?)|([A-Za-z_]+))");
  const Palette& p = style::colors();
  QList<QInputMethodEvent::Attribute> attributes;
  const auto mark = [&](int from, int length, const QTextCharFormat& format) {
    attributes.append(QInputMethodEvent::Attribute(QInputMethodEvent::TextFormat, from - cursorPosition(), length, format));
  };
  const QString value = text();
  for (auto it = token.globalMatch(value); it.hasNext();) {
    const auto match = it.next();
    QTextCharFormat format;
    if (match.capturedLength(1)) format.setForeground(style::q(p.synString));
    else if (match.capturedLength(2)) {
      format.setForeground(style::q(p.synKeyword));
      format.setFontWeight(QFont::Bold);
    } else if (match.capturedLength(3)) format.setForeground(style::q(p.synNumber));
    else format.setForeground(style::q(p.synField));
    const int from = int(match.capturedStart()), to = int(match.capturedEnd());
    if (errorAt_ >= from && errorAt_ < to) {
      format.setFontUnderline(true);
      format.setUnderlineColor(style::q(p.error));
      format.setUnderlineStyle(QTextCharFormat::WaveUnderline);
      format.setForeground(style::q(p.error));
    }
    mark(from, to - from, format);
  }
  QInputMethodEvent event(QString(), attributes);
  QCoreApplication::sendEvent(this, &event);
}

int PredicateEdit::wordStart() const {
  int at = cursorPosition();
  const QString value = text();
  while (at > 0 && (value[at - 1].isLetterOrNumber() || value[at - 1] == '_')) --at;
  return at;
}

void PredicateEdit::complete() {
  const QString word = text().mid(wordStart(), cursorPosition() - wordStart());
  if (word.isEmpty() || word[0].isDigit() || names_.contains(word)) {
    completer_->popup()->hide();
    return;
  }
  completer_->setCompletionPrefix(word);
  if (completer_->completionCount() == 0) {
    completer_->popup()->hide();
    return;
  }
  completer_->popup()->setCurrentIndex(completer_->completionModel()->index(0, 0));
  completer_->complete();
}

void PredicateEdit::insert(const QString& word) {
  const int from = wordStart();
  QString plain = word;
  if (const int bracket = int(plain.indexOf(QRegularExpression("[\\[( ]"))); bracket > 0) plain = plain.left(bracket + (plain[bracket] == ' ' ? 0 : 1));
  setText(text().left(from) + plain + text().mid(cursorPosition()));
  setCursorPosition(from + int(plain.size()));
  emit textEdited(text());
}

bool PredicateEdit::stepNumber(int direction, bool coarse) {
  static const QRegularExpression number("[0-9]+(?:\\.[0-9]+)?");
  const int at = cursorPosition();
  for (auto it = number.globalMatch(text()); it.hasNext();) {
    const auto match = it.next();
    if (at < match.capturedStart() || at > match.capturedEnd()) continue;
    const QString old = match.captured();
    const double value = old.toDouble();
    const int decimals = old.contains('.') ? int(old.size() - old.indexOf('.') - 1) : 0;
    // One step of the first significant digit's neighbour: 145 by 1, 0.30 by 0.01; ten times that with Shift.
    const double step = std::pow(10.0, -decimals) * (coarse ? 10 : 1);
    const QString next = QString::number(std::max(0.0, value + direction * step), 'f', decimals);
    setText(text().replace(match.capturedStart(), match.capturedLength(), next));
    setCursorPosition(int(match.capturedStart() + next.size()));
    emit textEdited(text());
    return true;
  }
  return false;
}

bool PredicateEdit::event(QEvent* event) {
  if (event->type() == QEvent::KeyPress && static_cast<QKeyEvent*>(event)->key() == Qt::Key_Tab && completer_->popup()->isVisible()) {
    insert(completer_->popup()->currentIndex().sibling(completer_->popup()->currentIndex().row(), 0).data().toString());
    completer_->popup()->hide();
    return true;
  }
  return QLineEdit::event(event);
}

void PredicateEdit::keyPressEvent(QKeyEvent* event) {
  if (completer_->popup()->isVisible() && (event->key() == Qt::Key_Return || event->key() == Qt::Key_Enter || event->key() == Qt::Key_Escape)) {
    event->ignore();  // the popup's
    return;
  }
  if ((event->key() == Qt::Key_Up || event->key() == Qt::Key_Down) &&
      stepNumber(event->key() == Qt::Key_Up ? 1 : -1, event->modifiers() & Qt::ShiftModifier))
    return;
  QLineEdit::keyPressEvent(event);
}

void PredicateEdit::changeEvent(QEvent* event) {
  QLineEdit::changeEvent(event);
  if (event->type() == QEvent::PaletteChange) colour();
}

}  // namespace spanscope
