// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/panels/view_list.h"

#include <QKeyEvent>
#include <QTimer>

#include "core/view/view.h"
#include "widgets/panels/panel_kit.h"
#include "widgets/panels/row_table.h"

namespace spanscope {

ViewList::ViewList(Document* document, ViewStore* views, QWidget* parent) : Panel(document, "viewListPanel", tr("Views"), parent), views_(views) {
  table_ = new RowTable("viewList", tr("Views"), this);
  table_->setColumns({{tr("View"), false, 0, tr("Ready-made and saved filters; a click applies one")},
                      {tr("Spans"), true, 48, tr("Messages that it keeps")},
                      {tr("Reads"), true, 50, tr("Part of all reads of the session")},
                      {tr("Cost tier"), false, 64, tr("free: from the turn itself; kept: from sums that the session keeps; neither needs a model")}});
  table_->installEventFilter(this);
  body()->addWidget(table_);
  setFocusProxy(table_);
  connect(table_, &RowTable::rowClicked, this, [this](const TableRow& row, Qt::KeyboardModifiers) {
    if (row.key >= 0 && size_t(row.key) < views_->views().size()) this->document()->setFilter(views_->views()[size_t(row.key)].predicate, Origin::program);
  });
  // Every view is counted anew: not at each step of a drag, but when it rests.
  auto* later = new QTimer(this);
  later->setSingleShot(true);
  later->setInterval(120);
  connect(later, &QTimer::timeout, this, [this] {
    if (stale_ && isVisible()) reload();
  });
  const auto stale = [this, later] {
    stale_ = true;
    later->start();
  };
  connect(document, &Document::sessionChanged, this, stale);
  connect(document, &Document::strengthChanged, this, stale);
  connect(document, &Document::selectionChanged, this, [this, stale, last = -2](const Selection& s, Origin) mutable {
    if (s.turn != last) stale();  // "at the turn" views follow the cursor
    last = s.turn;
  });
  connect(document, &Document::filterChanged, this, &ViewList::mark);
  connect(views, &ViewStore::changed, this, stale);
}

void ViewList::showEvent(QShowEvent* event) {
  Panel::showEvent(event);
  if (stale_) reload();
}

void ViewList::reload() {
  stale_ = false;
  std::vector<TableRow> rows;
  const auto session = document()->session();
  for (size_t i = 0; session && !session->turns.empty() && i < views_->views().size(); ++i) {
    const SavedView& v = views_->views()[i];
    ViewQuery query;
    query.predicate = v.predicate.toStdString();
    query.settings = document()->settings();
    if (document()->turnRecord()) query.turn = document()->turnRecord()->turn;
    const auto view = run_view(*session, query);
    TableRow row;
    row.key = qint64(i);
    TableCell name;
    name.text = v.name;
    name.muted = v.ready;
    name.tip = v.predicate.isEmpty() ? tr("everything") : v.predicate;
    row.cells.push_back(name);
    for (int k = 0; k < 3; ++k) {
      TableCell cell;
      cell.kind = k < 2 ? TableCell::Kind::number : TableCell::Kind::text;
      if (!view) {
        cell.text = QString::fromUtf8("–");
        cell.tip = QString::fromStdString(view.error().message);
      } else if (k == 0) {
        cell.text = count(qint64(view->refs.size()));
      } else if (k == 1) {
        cell.text = view->reads_of > 0 ? wholePercent(double(view->reads) / double(view->reads_of)) : QString::fromUtf8("–");
      } else {
        Tier tier = Tier::free;
        for (const ViewRef& ref : view->refs) tier = std::max(tier, ref.tier);
        cell.text = tr(tier_name(tier));
      }
      row.cells.push_back(cell);
    }
    rows.push_back(std::move(row));
  }
  table_->setRows(std::move(rows));
  mark();
}

void ViewList::mark() {
  const auto& views = views_->views();
  table_->showSelected([&](const TableRow& row) {
    return row.key >= 0 && size_t(row.key) < views.size() && views[size_t(row.key)].predicate == document()->filterText();
  });
}

bool ViewList::eventFilter(QObject* watched, QEvent* event) {
  if (watched == table_ && event->type() == QEvent::KeyPress && static_cast<QKeyEvent*>(event)->key() == Qt::Key_Delete) {
    const int row = table_->currentIndex().row();
    const auto& rows = table_->cells().rows();
    if (row >= 0 && row < int(rows.size()) && !views_->views()[size_t(rows[size_t(row)].key)].ready) {
      views_->remove(views_->views()[size_t(rows[size_t(row)].key)].name);
      return true;
    }
  }
  return Panel::eventFilter(watched, event);
}

}  // namespace spanscope
