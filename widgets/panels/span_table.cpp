// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/panels/span_table.h"

#include <QHeaderView>
#include <QPainter>
#include <QStyledItemDelegate>
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/record/units.h"
#include "widgets/style/style.h"

namespace spanscope {
namespace {
constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();
struct Column {
  const char *title, *tip;
};
const Column kColumns[] = {{"Span", "Span and role"},
                           {"Reads", "Moments when a head turned to it, at the turn cursor"},
                           {"Total reads", "Over all recorded turns"},
                           {"Read rate", "Reads per answer row of the turn"},
                           {"First", "First turn in which it was read"},
                           {"Last", "Last turn in which it was read"},
                           {"Readers", "Heads that read it at the turn"},
                           {"Spike", "The hardest that any head looked at it at the turn"},
                           {"Share", "Fraction of the average row, consumer rows of the turn"},
                           {"Lift", "Times what uniform attention would give, sinks left out"},
                           {"Tokens", "Length"}};

// Letter, number and name of a span.
class SpanDelegate : public QStyledItemDelegate {
 public:
  SpanDelegate(Document* document, SpanTableModel* model, QObject* parent) : QStyledItemDelegate(parent), document_(document), model_(model) {}
  void paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const override {
    const Palette& p = style::colors();
    const bool selected = option.state & QStyle::State_Selected;
    painter->save();
    painter->fillRect(option.rect, style::q(selected ? p.selection : index.row() % 2 ? p.panelAlt : p.panel));
    QRect rect = option.rect.adjusted(8, 0, -4, 0);
    const Span& span = document_->session()->ledger[model_->span(index.row())];
    painter->setFont(option.font);
    rect.setLeft(rect.left() + style::drawRoleBox(*painter, rect, span.role));
    const QString number = style::spanNumber(span.id);
    painter->setPen(style::q(selected ? p.onSelection : p.textMuted));
    painter->drawText(rect, Qt::AlignVCenter, number);
    rect.setLeft(rect.left() + painter->fontMetrics().horizontalAdvance(number) + 6);
    painter->setPen(style::q(selected ? p.onSelection : p.text));
    painter->drawText(rect, Qt::AlignVCenter, painter->fontMetrics().elidedText(QString::fromStdString(span.name), Qt::ElideRight, rect.width()));
    painter->restore();
  }

 private:
  Document* document_;
  SpanTableModel* model_;
};
}  // namespace

int SpanTableModel::columnCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : int(std::size(kColumns)); }

void SpanTableModel::rebuild() {
  beginResetModel();
  rows_.clear();
  if (const TurnRecord* turn = document_->turnRecord()) {
    const SessionData& s = *document_->session();
    const TurnReads& reads = document_->history().turns[size_t(document_->turn())];
    const auto sums = turn_sums(s, *turn, document_->settings().rows);
    for (SpanId id : spans_at_level(s, Level::message)) {
      if (document_->filterActive() && document_->matchingOnly() && !document_->matches(id)) continue;
      const Span& span = s.ledger[id];
      const bool here = reads.reads[id] >= 0 && reads.answer_rows > 0;
      const Value share = unit_of(sums[id], Unit::share, span.tokens, false), lift = unit_of(sums[id], Unit::lift, span.tokens, false);
      Row row{id, {double(id), here ? double(reads.reads[id]) : kMissing, double(document_->history().total_reads[id]),
                   here ? double(reads.reads[id]) / reads.answer_rows : kMissing, double(document_->history().first_read[id]),
                   double(document_->history().last_read[id]), here ? double(readers_of(s, *turn, id, document_->settings().reads).size()) : kMissing,
                   here ? double(reads.spike[id]) : kMissing, sums[id].resident && share.ok() ? share.number : kMissing,
                   sums[id].resident && lift.ok() ? lift.number : kMissing, double(span.tokens)}};
      rows_.push_back(std::move(row));
    }
  }
  reorder();
  endResetModel();
}

void SpanTableModel::reorder() {
  order_.resize(rows_.size());
  std::iota(order_.begin(), order_.end(), 0u);
  const size_t c = size_t(column_);
  std::stable_sort(order_.begin(), order_.end(), [&](uint32_t a, uint32_t b) {
    const double x = rows_[a].values[c], y = rows_[b].values[c];
    if (std::isnan(x) || std::isnan(y)) return !std::isnan(x) && std::isnan(y);
    return sortOrder_ == Qt::AscendingOrder ? x < y : x > y;
  });
}

void SpanTableModel::sort(int column, Qt::SortOrder order) {
  if (column < 0 || column >= columnCount()) return;
  beginResetModel();
  column_ = column;
  sortOrder_ = order;
  reorder();
  endResetModel();
}

int SpanTableModel::rowOf(SpanId span) const {
  for (size_t i = 0; i < order_.size(); ++i)
    if (rows_[order_[i]].span == span) return int(i);
  return -1;
}

QVariant SpanTableModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid() || index.row() >= int(order_.size())) return {};
  const Row& row = rows_[order_[size_t(index.row())]];
  const int c = index.column();
  if (role == Qt::TextAlignmentRole) return int((c ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter);
  if (role == Qt::ForegroundRole && c == 0) return style::q(style::colors().text);
  if (role != Qt::DisplayRole) return {};
  const double v = row.values[size_t(c)];
  if (c == 0) {
    const Span& span = document_->session()->ledger[row.span];
    return QString("%1  %2  %3").arg(style::spanNumber(row.span), QString(QLatin1Char(role_letter(span.role))), QString::fromStdString(span.name));
  }
  if (std::isnan(v)) return QString::fromUtf8("–");
  if ((c == 4 || c == 5) && v == 0) return tr("never");
  if (c == 3 || c == 7 || c == 9) return QString::number(v, 'f', 2);
  if (c == 8) return style::percent(v, 2);
  return style::number(qint64(v));
}

QVariant SpanTableModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal || section >= columnCount()) return {};
  if (role == Qt::DisplayRole) return tr(kColumns[section].title);
  if (role == Qt::ToolTipRole) return tr(kColumns[section].tip);
  if (role == Qt::TextAlignmentRole) return int((section ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter);
  return {};
}

SpanTable::SpanTable(Document* document, QWidget* parent) : Panel(document, "spanTablePanel", tr("Table"), parent) {
  model_ = new SpanTableModel(document, this);
  view_ = new QTableView(this);
  view_->setObjectName("spanTable");
  view_->setAccessibleName(tr("All spans"));
  view_->setModel(model_);
  view_->setItemDelegateForColumn(0, new SpanDelegate(document, model_, this));
  view_->setSelectionBehavior(QAbstractItemView::SelectRows);
  view_->setSortingEnabled(true);
  view_->horizontalHeader()->setSortIndicator(1, Qt::DescendingOrder);
  view_->verticalHeader()->hide();
  view_->verticalHeader()->setDefaultSectionSize(21);
  view_->setShowGrid(false);
  view_->setAlternatingRowColors(true);
  view_->setWordWrap(false);
  view_->horizontalHeader()->setSectionResizeMode(QHeaderView::Interactive);
  view_->horizontalHeader()->setMinimumSectionSize(40);
  for (int c = 1; c < model_->columnCount(); ++c)
    view_->setColumnWidth(c, std::max(58, view_->fontMetrics().horizontalAdvance(tr(kColumns[c].title)) + 30));
  view_->horizontalHeader()->setSectionResizeMode(0, QHeaderView::Stretch);
  view_->setTabKeyNavigation(false);
  body()->addWidget(view_);
  setFocusProxy(view_);
  auto again = [this] {
    stale_ = true;
    if (isVisible()) refresh();
  };
  connect(document, &Document::sessionChanged, this, again);
  connect(document, &Document::measureChanged, this, again);
  connect(document, &Document::strengthChanged, this, again);
  connect(document, &Document::filterChanged, this, again);
  connect(document, &Document::selectionChanged, this, [this, again, last = -2](const Selection& s, Origin origin) mutable {
    if (s.turn != last) again();
    last = s.turn;
    if (origin != Origin::table) showSelection();
  });
  connect(view_->selectionModel(), &QItemSelectionModel::selectionChanged, this, [this] {
    if (own_) return;
    std::vector<SpanId> spans;
    for (const QModelIndex& i : view_->selectionModel()->selectedRows()) spans.push_back(model_->span(i.row()));
    this->document()->selectSpans(spans, Origin::table);
  });
  describe();
}

void SpanTable::showEvent(QShowEvent* event) {
  Panel::showEvent(event);
  if (stale_) refresh();
}

void SpanTable::refresh() {
  stale_ = false;
  own_ = true;
  model_->rebuild();
  own_ = false;
  showSelection();
  describe();
}

void SpanTable::describe() {
  const TurnRecord* turn = document()->turnRecord();
  setSubtitle(turn ? tr("%1 spans; columns at turn %2 unless they say otherwise").arg(model_->rowCount()).arg(turn->turn + 1) : QString());
  setProvenance(Provenance::captured, turn != nullptr);
}

void SpanTable::showSelection() {
  if (stale_) return;
  own_ = true;
  view_->selectionModel()->clearSelection();
  for (SpanId id : document()->selection().spans)
    if (const int row = model_->rowOf(id); row >= 0) {
      view_->selectionModel()->select(model_->index(row, 0), QItemSelectionModel::Select | QItemSelectionModel::Rows);
      view_->scrollTo(model_->index(row, 0));
    }
  own_ = false;
}

}  // namespace spanscope
