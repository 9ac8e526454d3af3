// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/main_window/predicate_bar.h"

#include <QAccessible>
#include <QAction>
#include <QButtonGroup>
#include <QComboBox>
#include <QHBoxLayout>
#include <QInputDialog>
#include <QLabel>
#include <QToolButton>
#include <QVBoxLayout>

#include "widgets/document/view_store.h"
#include "widgets/main_window/predicate_edit.h"
#include "widgets/main_window/tool_bar.h"
#include "widgets/panels/panel_kit.h"
#include "widgets/style/style.h"

namespace spanscope {

PredicateBar::PredicateBar(Document* document, ViewStore* views, QWidget* parent) : QWidget(parent), document_(document), views_(views) {
  setObjectName("predicateBar");
  auto* outer = new QVBoxLayout(this);
  outer->setContentsMargins(4, 5, 4, 0);
  outer->setSpacing(3);
  auto* row = new QHBoxLayout;
  row->setSpacing(8);
  view_ = new QComboBox(this);
  view_->setObjectName("viewCombo");
  view_->setAccessibleName(tr("View"));
  view_->setToolTip(tr("Ready-made and saved views"));
  view_->setFixedWidth(132);
  edit_ = new PredicateEdit(this);
  edit_->setPlaceholderText(tr("Filter, for example: total_reads >= 40 and not role = system"));
  edit_->addAction(style::icon("filter"), QLineEdit::LeadingPosition);
  std::vector<std::pair<QString, QString>> fields;
  for (const FieldHelp& f : predicate_fields())
    fields.push_back({QString::fromStdString(f.name), QString::fromStdString(f.meaning + (f.unit.empty() ? "" : ", " + f.unit))});
  edit_->setFields(fields);
  count_ = new QLabel(this);
  count_->setObjectName("countLabel");
  count_->setTextFormat(Qt::RichText);
  auto* group = new QButtonGroup(this);
  matching_ = new QToolButton(this);
  matching_->setText(tr("Matching"));
  matching_->setObjectName("showMatching");
  all_ = new QToolButton(this);
  all_->setText(tr("All"));
  all_->setObjectName("showAll");
  auto* joined = new QHBoxLayout;
  joined->setSpacing(0);
  for (QToolButton* b : {matching_, all_}) {
    b->setCheckable(true);
    b->setAccessibleName(tr("Show: %1").arg(b->text()));
    group->addButton(b);
    joined->addWidget(b);
  }
  joinButtons({matching_, all_});
  matching_->setToolTip(tr("Rows of the map and the table: only what the filter keeps"));
  all_->setToolTip(tr("Rows of the map and the table: everything, the rest stands back"));
  matching_->setChecked(true);
  save_ = new QToolButton(this);
  save_->setObjectName("saveView");
  save_->setText(tr("Save view…"));
  save_->setAccessibleName(tr("Save view"));
  save_->setToolTip(tr("Keep this filter under a name\nCtrl+S"));
  row->addWidget(view_);
  row->addWidget(edit_, 1);
  row->addWidget(count_);
  row->addLayout(joined);
  row->addWidget(save_);
  error_ = new QLabel(this);
  error_->setObjectName("errorText");
  error_->setWordWrap(true);
  error_->hide();
  outer->addLayout(row);
  auto* below = new QHBoxLayout;
  below->addSpacing(view_->width() + 10);
  below->addWidget(error_, 1);
  outer->addLayout(below);
  connect(edit_, &QLineEdit::textEdited, this, [this](const QString& text) { document_->setFilter(text, Origin::predicate); });
  connect(edit_, &QLineEdit::textChanged, this, [this](const QString& text) { document_->setFilter(text, Origin::predicate); });
  connect(view_, &QComboBox::activated, this, [this](int i) { document_->setFilter(view_->itemData(i).toString(), Origin::program); });
  connect(matching_, &QToolButton::toggled, this, [this](bool on) { document_->setMatchingOnly(on); });
  connect(save_, &QToolButton::clicked, this, &PredicateBar::saveView);
  connect(document, &Document::filterChanged, this, &PredicateBar::refresh);
  connect(document, &Document::sessionChanged, this, &PredicateBar::refresh);
  connect(document, &Document::strengthChanged, this, &PredicateBar::refresh);
  connect(document, &Document::measureChanged, this, &PredicateBar::refresh);
  connect(document, &Document::selectionChanged, this, &PredicateBar::refresh);
  connect(views, &ViewStore::changed, this, [this] {
    refreshViews();
    refresh();
  });
  refreshViews();
  refresh();
}

void PredicateBar::focusEdit() {
  edit_->setFocus(Qt::ShortcutFocusReason);
  edit_->selectAll();
}

void PredicateBar::setCompact(bool compact) {
  if (compact_ == compact) return;
  compact_ = compact;
  view_->setFixedWidth(compact ? 100 : 132);
  save_->setVisible(!compact);
  refresh();
}

QString PredicateBar::countText() const { return count_->accessibleName(); }
QString PredicateBar::errorText() const { return error_->isHidden() ? QString() : error_->text(); }

void PredicateBar::saveView() {
  if (document_->empty() || !document_->filterActive() || !document_->filterError().isEmpty()) return;
  bool ok = false;
  const QString name = QInputDialog::getText(this, tr("Save view"), tr("Name of this view:"), QLineEdit::Normal, views_->suggestedName(), &ok).trimmed();
  if (ok && !name.isEmpty()) views_->save(name, document_->filterText());
}

void PredicateBar::refreshViews() {
  view_->clear();
  for (const SavedView& v : views_->views()) {
    view_->addItem(style::icon("view"), v.name, v.predicate);
    if (v.ready) {
      QFont italic = view_->font();
      italic.setItalic(true);
      view_->setItemData(view_->count() - 1, italic, Qt::FontRole);
    }
  }
}

void PredicateBar::refresh() {
  if (edit_->text() != document_->filterText()) {
    const QSignalBlocker block(edit_);
    edit_->setText(document_->filterText());
  }
  edit_->setErrorAt(document_->filterErrorAt());
  int known = -1;
  for (int i = 0; i < view_->count(); ++i)
    if (view_->itemData(i).toString() == document_->filterText()) known = i;
  view_->setCurrentIndex(known);
  view_->setPlaceholderText(tr("own filter"));
  error_->setVisible(!document_->filterError().isEmpty());
  error_->setText(document_->filterError());
  save_->setEnabled(document_->filterActive() && document_->filterError().isEmpty());
  if (document_->empty()) {
    count_->clear();
    count_->setAccessibleName({});
    return;
  }
  const View& v = document_->view();
  const size_t of = document_->cells().rows.size();
  const bool byReads = document_->measure() == Measure::reads;
  const QString part = byReads ? (v.reads_of > 0 ? wholePercent(double(v.reads) / double(v.reads_of)) : QString::fromUtf8("–")) : wholePercent(v.share);
  const QString tokens = tr("%1 tokens").arg(style::number(qint64(v.tokens)));
  const QString plain = compact_ ? QString("%1 of %2 · %3 · %4").arg(v.refs.size()).arg(of).arg(part, tokens)
                                 : tr("%1 of %2 spans · %3 of %4 · %5").arg(v.refs.size()).arg(of).arg(part, byReads ? tr("reads") : tr("mass"), tokens);
  if (plain == count_->accessibleName()) return;
  count_->setText("<b>" + plain + "</b>");
  count_->setToolTip(QString::fromStdString(v.caption));
  count_->setAccessibleName(plain);
  QAccessibleEvent changed(count_, QAccessible::NameChanged);  // a polite live region
  QAccessible::updateAccessibility(&changed);
}

}  // namespace spanscope
