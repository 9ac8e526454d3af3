// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/main_window/predicate_bar.h"

#include <QButtonGroup>
#include <QComboBox>
#include <QCompleter>
#include <QHBoxLayout>
#include <QLabel>
#include <QLineEdit>
#include <QStringListModel>
#include <QToolButton>
#include <QVBoxLayout>

#include "widgets/style/style.h"

namespace spanscope {

PredicateBar::PredicateBar(Document* document, QWidget* parent) : QWidget(parent), document_(document) {
  setObjectName("predicateBar");
  auto* outer = new QVBoxLayout(this);
  outer->setContentsMargins(8, 4, 8, 4);
  outer->setSpacing(2);
  auto* row = new QHBoxLayout;
  row->setSpacing(8);
  ready_ = new QComboBox(this);
  ready_->setObjectName("viewCombo");
  ready_->setAccessibleName(tr("Ready-made views"));
  ready_->setMinimumWidth(150);
  const std::pair<QString, QString> views[] = {{tr("All spans"), ""},
                                               {tr("Read most"), "top 10 by total_reads"},
                                               {tr("Read by the last answer"), "reads >= 1"},
                                               {tr("Never read again"), "last_read <= 0 and birth < turn - 1"},
                                               {tr("Not read for 8 turns"), "last_read > 0 and last_read < turn - 7"},
                                               {tr("Tool results"), "role = tool"}};
  for (const auto& [name, text] : views) ready_->addItem(name, text);
  edit_ = new QLineEdit(this);
  edit_->setObjectName("predicateEdit");
  edit_->setAccessibleName(tr("Filter predicate"));
  edit_->setPlaceholderText(tr("Filter, for example: total_reads >= 40 and not role = system"));
  edit_->setClearButtonEnabled(true);
  edit_->setFont(style::mono());
  QStringList words;
  for (const FieldHelp& f : predicate_fields()) {
    words << QString::fromStdString(f.name);
    edit_->setToolTip(edit_->toolTip() + QString::fromStdString(f.name + ": " + f.meaning) + "\n");
  }
  auto* completer = new QCompleter(words, this);
  completer->setCompletionMode(QCompleter::PopupCompletion);
  edit_->setCompleter(completer);
  count_ = new QLabel(this);
  count_->setObjectName("countLabel");
  count_->setMinimumWidth(60);
  auto* group = new QButtonGroup(this);
  matching_ = new QToolButton(this);
  matching_->setText(tr("Matching"));
  all_ = new QToolButton(this);
  all_->setText(tr("All"));
  for (QToolButton* b : {matching_, all_}) {
    b->setCheckable(true);
    group->addButton(b);
  }
  matching_->setToolTip(tr("Rows of the map and table: only what the filter keeps"));
  all_->setToolTip(tr("Rows of the map and table: everything"));
  matching_->setChecked(true);
  row->addWidget(ready_);
  row->addWidget(edit_, 1);
  row->addWidget(count_);
  row->addWidget(matching_);
  row->addWidget(all_);
  error_ = new QLabel(this);
  error_->setObjectName("errorText");
  error_->setWordWrap(true);
  error_->hide();
  outer->addLayout(row);
  outer->addWidget(error_);
  connect(edit_, &QLineEdit::textEdited, this, [this](const QString& text) { document_->setFilter(text, Origin::predicate); });
  connect(edit_, &QLineEdit::textChanged, this, [this](const QString& text) { document_->setFilter(text, Origin::predicate); });
  connect(ready_, &QComboBox::activated, this, [this](int i) { document_->setFilter(ready_->itemData(i).toString(), Origin::program); });
  connect(matching_, &QToolButton::toggled, this, [this](bool on) { document_->setMatchingOnly(on); });
  auto again = [this] { refresh(); };
  connect(document, &Document::filterChanged, this, again);
  connect(document, &Document::sessionChanged, this, again);
  connect(document, &Document::strengthChanged, this, again);
  connect(document, &Document::measureChanged, this, again);
  connect(document, &Document::selectionChanged, this, again);
  refresh();
}

void PredicateBar::focusEdit() {
  edit_->setFocus();
  edit_->selectAll();
}

void PredicateBar::refresh() {
  if (edit_->text() != document_->filterText()) {
    const QSignalBlocker block(edit_);
    edit_->setText(document_->filterText());
  }
  int known = -1;
  for (int i = 0; i < ready_->count(); ++i)
    if (ready_->itemData(i).toString() == document_->filterText()) known = i;
  ready_->setCurrentIndex(known);
  error_->setVisible(!document_->filterError().isEmpty());
  error_->setText(document_->filterError());
  if (document_->empty()) {
    count_->clear();
    return;
  }
  const View& v = document_->view();
  const size_t of = document_->cells().rows.size();
  const QString reads = v.reads_of > 0 ? tr("%1 of reads").arg(style::percent(double(v.reads) / double(v.reads_of), 0)) : tr("no reads");
  const QString full = tr("%1 of %2 spans · %3 · %4 tokens").arg(v.refs.size()).arg(of).arg(reads, style::number(qint64(v.tokens)));
  count_->setText(window()->width() < 1150 ? tr("%1 of %2 · %3").arg(v.refs.size()).arg(of).arg(v.reads_of > 0 ? style::percent(double(v.reads) / double(v.reads_of), 0) : "–") : full);
  count_->setToolTip(full);
  count_->setAccessibleName(full);
  QFont bold = count_->font();
  bold.setBold(true);
  count_->setFont(bold);
}

}  // namespace spanscope
