// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/panels/view_contents.h"

#include <QHBoxLayout>
#include <QLabel>
#include <algorithm>

#include "widgets/panels/panel_kit.h"
#include "widgets/panels/row_table.h"
#include "widgets/style/style.h"

namespace spanscope {

ViewContents::ViewContents(Document* document, QWidget* parent) : Panel(document, "viewContentsPanel", tr("View contents"), parent) {
  auto* bar = new QWidget(this);
  bar->setFixedHeight(30);
  auto* row = new QHBoxLayout(bar);
  row->setContentsMargins(10, 0, 10, 0);
  facts_ = new QLabel(bar);
  facts_->setObjectName("viewFacts");
  change_ = new QLabel(bar);
  change_->setObjectName("viewChange");
  row->addWidget(facts_);
  row->addStretch(1);
  row->addWidget(change_);
  body()->addWidget(bar);
  table_ = new RowTable("viewContents", tr("Spans in the view"), this);
  table_->setColumns({{tr("In the view, by reads"), false, 0, {}}, {tr("Tokens"), true, 56, {}}, {tr("Reads"), true, 56, tr("Over all recorded turns")}});
  body()->addWidget(table_, 1);
  setFocusProxy(table_);
  connect(table_, &RowTable::rowClicked, this, [this](const TableRow& r, Qt::KeyboardModifiers modifiers) {
    if (r.span != kNoSpan) this->document()->select(r.span, Origin::table, modifiers & Qt::ControlModifier);
  });
  connect(document, &Document::sessionChanged, this, [this] {
    before_.clear();
    dragging_ = false;
    reload();
  });
  connect(document, &Document::filterChanged, this, &ViewContents::reload);
  connect(document, &Document::strengthChanged, this, &ViewContents::reload);
  connect(document, &Document::selectionChanged, this, [this](const Selection& s, Origin) {
    table_->showSelected([&](const TableRow& r) { return r.span != kNoSpan && s.contains(r.span); });
  });
}

void ViewContents::setDragging(bool dragging) {
  dragging_ = dragging;
  before_.clear();
  if (dragging && !document()->empty()) {
    before_.resize(document()->session()->ledger.spans.size());
    for (const ViewRef& ref : document()->view().refs) before_[ref.span] = 1;
  }
  reload();
}

void ViewContents::reload() {
  inView_ = leaving_ = entering_ = 0;
  std::vector<TableRow> rows;
  if (const auto session = document()->session()) {
    const ReadHistory& history = document()->history();
    std::vector<SpanId> in, out, fresh;
    std::vector<uint8_t> now(session->ledger.spans.size(), 0);
    for (const ViewRef& ref : document()->view().refs) {
      now[ref.span] = 1;
      if (dragging_ && !before_.empty() && !before_[ref.span]) fresh.push_back(ref.span);
      else in.push_back(ref.span);
    }
    for (size_t id = 0; dragging_ && id < before_.size(); ++id)
      if (before_[id] && !now[id]) out.push_back(SpanId(id));
    inView_ = int(in.size() + fresh.size()), leaving_ = int(out.size()), entering_ = int(fresh.size());
    const auto add = [&](std::vector<SpanId>& spans, bool struck) {
      std::stable_sort(spans.begin(), spans.end(), [&](SpanId a, SpanId b) { return history.total_reads[a] > history.total_reads[b]; });
      for (SpanId id : spans) {
        TableRow row;
        row.span = id;
        row.struck = struck;
        TableCell name;
        name.kind = TableCell::Kind::span;
        name.span = id;
        name.role = spanRole(*session, id);
        name.text = spanTitle(*session, id);
        name.muted = struck;
        TableCell tokens, reads;
        tokens.kind = reads.kind = TableCell::Kind::number;
        tokens.text = count(session->ledger[id].tokens);
        reads.text = count(history.total_reads[id]);
        tokens.muted = reads.muted = struck;
        row.cells = {name, tokens, reads};
        rows.push_back(std::move(row));
      }
    };
    const auto heading = [&](const QString& text) {
      TableRow row;
      TableCell cell;
      cell.text = text;
      cell.strong = true;
      row.cells = {cell, TableCell{}, TableCell{}};
      rows.push_back(std::move(row));
    };
    add(in, false);
    if (!fresh.empty()) {
      heading(tr("Entering at this threshold"));
      add(fresh, false);
    }
    if (!out.empty()) {
      heading(tr("Leaving at this threshold"));
      add(out, true);
    }
    const View& v = document()->view();
    facts_->setText(tr("<b>%1 spans</b> · %2 · %3 tokens").arg(v.refs.size())
                        .arg(v.reads_of > 0 ? wholePercent(double(v.reads) / double(v.reads_of)) : QString::fromUtf8("–"), count(qint64(v.tokens))));
    QStringList change;
    if (leaving_) change << QString::fromUtf8("−%1 leaving").arg(leaving_);
    if (entering_) change << tr("+%1 entering").arg(entering_);
    change_->setText(QString("<span style='color:%1;font-weight:600'>%2</span>").arg(style::q(style::colors().threshold).name(), change.join(", ")));
  } else {
    facts_->clear();
    change_->clear();
  }
  table_->setRows(std::move(rows));
  const Selection& s = document()->selection();
  table_->showSelected([&](const TableRow& r) { return r.span != kNoSpan && s.contains(r.span); });
}

}  // namespace spanscope
