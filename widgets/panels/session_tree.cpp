// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/panels/session_tree.h"

#include <QHeaderView>
#include <QLineEdit>
#include <QPainter>
#include <QStyledItemDelegate>
#include <functional>
#include <map>

#include "widgets/style/style.h"

namespace spanscope {
namespace {

class TreeDelegate : public QStyledItemDelegate {
 public:
  TreeDelegate(Document* document, SessionTreeModel* model, QObject* parent) : QStyledItemDelegate(parent), document_(document), model_(model) {}
  QSize sizeHint(const QStyleOptionViewItem&, const QModelIndex&) const override { return {60, 22}; }
  void paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const override {
    const auto& node = model_->node(index);
    const Palette& p = style::colors();
    const bool selected = option.state & QStyle::State_Selected;
    painter->save();
    if (selected) painter->fillRect(option.rect, style::q(p.selection));
    QRect rect = option.rect.adjusted(2, 0, -4, 0);
    QFont font = option.font;
    painter->setFont(font);
    painter->setPen(style::q(selected ? p.onSelection : p.text));
    if (index.column() == 0) {
      if (node.span == kNoSpan) {
        font.setBold(true);
        painter->setFont(font);
        const QString head = node.number < 0 ? QObject::tr("System prompt") : QObject::tr("Turn %1").arg(node.number + 1);
        painter->drawText(rect, Qt::AlignVCenter, head);
        rect.setLeft(rect.left() + painter->fontMetrics().horizontalAdvance(head) + 6);
        font.setBold(false);
        painter->setFont(font);
        painter->setPen(style::q(selected ? p.onSelection : p.textMuted));
        painter->drawText(rect, Qt::AlignVCenter, painter->fontMetrics().elidedText(node.title, Qt::ElideRight, rect.width()));
      } else {
        rect.setLeft(rect.left() + style::drawRoleBox(*painter, rect, document_->session()->ledger[node.span].role));
        const QString number = style::spanNumber(node.span);
        if (!selected) painter->setPen(style::q(p.textMuted));
        painter->drawText(rect, Qt::AlignVCenter, number);
        rect.setLeft(rect.left() + painter->fontMetrics().horizontalAdvance(number) + 5);
        if (!selected) painter->setPen(style::q(node.gone ? p.textFaint : p.text));
        painter->drawText(rect, Qt::AlignVCenter, painter->fontMetrics().elidedText(node.title, Qt::ElideRight, rect.width()));
      }
    } else if (index.column() == 1) {
      painter->drawText(rect, Qt::AlignVCenter | Qt::AlignRight, style::number(node.tokens));
    } else if (node.span == kNoSpan) {
      if (node.lost) style::drawIcon(*painter, QRectF(rect.left() + 3, rect.center().y() - 5, 11, 11), "missing", style::q(p.missing));
    } else {
      const double part = double(node.reads) / double(std::max<qint64>(1, model_->mostReads()));
      const int w = node.reads > 0 ? std::max(1, int(part * (rect.width() - 6))) : 0;
      if (w) painter->fillRect(QRect(rect.left() + 3, rect.center().y() - 3, w, 7), style::q(selected ? p.accent : p.borderStrong));
      else painter->fillRect(QRect(rect.left() + 3, rect.center().y() + 3, 6, 1), style::q(p.zeroLine));
    }
    painter->restore();
  }

 private:
  Document* document_;
  SessionTreeModel* model_;
};

}  // namespace

SessionTreeModel::SessionTreeModel(Document* document, QObject* parent) : QAbstractItemModel(parent), document_(document) { rebuild(); }

int SessionTreeModel::add(int parent, Node node) {
  const int id = int(nodes_.size());
  auto& siblings = parent < 0 ? roots_ : nodes_[size_t(parent)].children;
  node.parent = parent;
  node.row = int(siblings.size());
  siblings.push_back(id);
  nodes_.push_back(std::move(node));
  return id;
}

void SessionTreeModel::rebuild() {
  beginResetModel();
  nodes_.clear();
  roots_.clear();
  if (const auto session = document_->session()) {
    const SessionData& s = *session;
    nodes_.reserve(s.ledger.spans.size() * 2 + s.turns.size() + 1);
    std::vector<std::vector<SpanId>> children(s.ledger.spans.size());
    std::vector<SpanId> top;
    for (const Span& span : s.ledger.spans) {
      if (span.kind != SpanKind::parent && span.kind != SpanKind::content) continue;
      if (span.parent == kNoSpan) top.push_back(span.id);
      else if (span.parent < children.size()) children[span.parent].push_back(span.id);
    }
    std::function<void(int, SpanId, int)> put = [&](int parent, SpanId id, int depth) {
      Node node;
      node.span = id;
      node.title = QString::fromStdString(s.ledger[id].name);
      node.tokens = s.ledger[id].tokens;
      const int at = add(parent, node);
      if (children[id].size() > 1 && depth < 16)
        for (SpanId child : children[id]) put(at, child, depth + 1);
    };
    // Groups by the turn of birth, -1 the system prompt; turns that the session does not have keep their place.
    std::map<int, std::vector<SpanId>> groups;
    std::map<uint32_t, int> index;
    for (size_t t = 0; t < s.turns.size(); ++t) index[s.turns[t].turn] = int(t);
    if (!s.turns.empty() && s.turns.back().turn < 65536)
      for (uint32_t t = 0; t < s.turns.back().turn; ++t)
        if (!index.count(t)) groups[int(t)];
    for (SpanId id : top) groups[s.ledger[id].role == "system" && s.ledger[id].birth == 0 ? -1 : int(s.ledger[id].birth)].push_back(id);
    for (const auto& [number, spans] : groups) {
      Node node;
      node.number = number;
      const auto at = index.find(uint32_t(number));
      node.turn = number >= 0 && at != index.end() ? at->second : -1;
      node.lost = number >= 0 && node.turn < 0;
      node.title = spans.empty() ? tr("not captured") : number < 0 ? QString() : QString::fromStdString(s.ledger[spans.front()].name);
      const int group = add(-1, node);
      for (SpanId id : spans) {
        nodes_[size_t(group)].tokens += s.ledger[id].tokens;
        put(group, id, 0);
      }
    }
    if (!s.turns.empty()) {
      std::vector<uint8_t> resident(s.ledger.spans.size(), 0);
      for (const LayoutEntry& e : s.turns.back().layout) {
        resident[e.leaf] = 1;
        for (SpanId a : s.ledger.ancestors(e.leaf)) resident[a] = 1;
      }
      for (Node& n : nodes_) n.gone = n.span != kNoSpan && !resident[n.span];
    }
  }
  endResetModel();
  recount();
}

void SessionTreeModel::recount() {
  most_ = 1;
  if (document_->empty()) return;
  const ReadHistory& history = document_->history();
  for (Node& node : nodes_)
    if (node.span != kNoSpan && node.span < history.total_reads.size()) {
      node.reads = history.total_reads[node.span];
      most_ = std::max(most_, node.reads);
    }
  if (!roots_.empty()) emit dataChanged(index(0, 0), index(int(roots_.size()) - 1, 2));
}

QModelIndex SessionTreeModel::indexOf(SpanId span) const {
  for (size_t i = 0; i < nodes_.size(); ++i)
    if (nodes_[i].span == span) return createIndex(nodes_[i].row, 0, quintptr(i));
  return {};
}

void SessionTreeModel::setFind(const QString& text) { find_ = text; }
bool SessionTreeModel::visible(int id) const {
  if (find_.isEmpty()) return true;
  const Node& node = nodes_[size_t(id)];
  if (node.title.contains(find_, Qt::CaseInsensitive)) return true;
  if (node.span != kNoSpan && QString::fromStdString(document_->session()->text_of(node.span)).contains(find_, Qt::CaseInsensitive)) return true;
  for (int child : node.children)
    if (visible(child)) return true;
  return false;
}

QModelIndex SessionTreeModel::index(int row, int column, const QModelIndex& parent) const {
  const auto& list = parent.isValid() ? node(parent).children : roots_;
  if (row < 0 || row >= int(list.size()) || column < 0 || column > 2) return {};
  return createIndex(row, column, quintptr(list[size_t(row)]));
}
QModelIndex SessionTreeModel::parent(const QModelIndex& child) const {
  if (!child.isValid()) return {};
  const int up = node(child).parent;
  return up < 0 ? QModelIndex() : createIndex(nodes_[size_t(up)].row, 0, quintptr(up));
}
int SessionTreeModel::rowCount(const QModelIndex& parent) const {
  if (parent.column() > 0) return 0;
  return int(parent.isValid() ? node(parent).children.size() : roots_.size());
}
QVariant SessionTreeModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid()) return {};
  const Node& n = node(index);
  if (role == Qt::DisplayRole || role == Qt::AccessibleTextRole) {
    if (index.column() == 1) return style::number(n.tokens);
    if (index.column() == 2) return n.span == kNoSpan ? QVariant() : QVariant(style::number(n.reads));
    if (n.span != kNoSpan) return style::spanNumber(n.span) + " " + n.title;
    return n.number < 0 ? tr("System prompt") : tr("Turn %1 %2").arg(n.number + 1).arg(n.title);
  }
  if (role == Qt::ToolTipRole && n.span == kNoSpan && n.lost) return tr("Turn %1 could not be read: not captured").arg(n.number + 1);
  if (role == Qt::ToolTipRole && n.span != kNoSpan)
    return tr("%1 reads over the session, %2 tokens%3").arg(style::number(n.reads), style::number(n.tokens), n.gone ? tr("; it left the context") : QString());
  return {};
}
QVariant SessionTreeModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal) return {};
  if (role == Qt::TextAlignmentRole) return int(section == 1 ? Qt::AlignRight | Qt::AlignVCenter : Qt::AlignLeft | Qt::AlignVCenter);
  if (role != Qt::DisplayRole) return {};
  return section == 0 ? tr("Turn, span") : section == 1 ? tr("Tokens") : tr("Reads");
}

SessionTree::SessionTree(Document* document, QWidget* parent) : Panel(document, "sessionTreePanel", tr("Session"), parent) {
  find_ = new QLineEdit(this);
  find_->setObjectName("findField");
  find_->setPlaceholderText(tr("Find in names and text"));
  find_->addAction(style::icon("search"), QLineEdit::LeadingPosition);
  find_->setToolTip(tr("Find in names and text  ( / )"));
  find_->setAccessibleName(tr("Find in names and text"));
  find_->setClearButtonEnabled(true);
  auto* holder = new QWidget(this);
  auto* row = new QVBoxLayout(holder);
  row->setContentsMargins(6, 5, 6, 5);
  row->addWidget(find_);
  tree_ = new QTreeView(this);
  tree_->setObjectName("sessionTree");
  tree_->setAccessibleName(tr("Session, tree of turns and spans"));
  model_ = new SessionTreeModel(document, this);
  tree_->setModel(model_);
  tree_->setUniformRowHeights(true);
  tree_->setItemDelegate(new TreeDelegate(document, model_, this));
  tree_->setSelectionMode(QAbstractItemView::ExtendedSelection);
  tree_->setIndentation(14);
  tree_->header()->setStretchLastSection(false);
  tree_->header()->setSectionResizeMode(0, QHeaderView::Stretch);
  tree_->header()->setSectionResizeMode(1, QHeaderView::Fixed);
  tree_->header()->setSectionResizeMode(2, QHeaderView::Fixed);
  tree_->header()->resizeSection(1, 60);
  tree_->header()->resizeSection(2, 52);
  body()->addWidget(holder);
  body()->addWidget(tree_, 1);
  auto expand = [this] {
    // Short sessions open whole, long ones at their beginning; what is selected opens by itself.
    const int open = model_->rowCount() <= 12 ? model_->rowCount() : 3;
    for (int i = 0; i < open; ++i) tree_->expand(model_->index(i, 0));
  };
  connect(document, &Document::sessionChanged, this, [this, expand] {
    model_->rebuild();
    expand();
  });
  connect(document, &Document::strengthChanged, this, [this] {
    model_->recount();
    tree_->viewport()->update();
  });
  connect(tree_->selectionModel(), &QItemSelectionModel::selectionChanged, this, [this] {
    if (own_) return;
    std::vector<SpanId> spans;
    int turn = -1;
    for (const QModelIndex& i : tree_->selectionModel()->selectedRows()) {
      const auto& node = model_->node(i);
      if (node.span != kNoSpan) spans.push_back(node.span);
      else if (node.turn >= 0) turn = node.turn;
    }
    if (turn >= 0 && spans.empty()) this->document()->setTurn(turn, Origin::tree);
    else this->document()->selectSpans(spans, Origin::tree);
  });
  connect(document, &Document::selectionChanged, this, [this](const Selection& s, Origin origin) {
    if (origin == Origin::tree) return;
    own_ = true;
    tree_->selectionModel()->clearSelection();
    for (SpanId id : s.spans)
      if (const QModelIndex i = model_->indexOf(id); i.isValid()) {
        tree_->selectionModel()->select(i, QItemSelectionModel::Select | QItemSelectionModel::Rows);
        tree_->scrollTo(i);
      }
    own_ = false;
  });
  connect(find_, &QLineEdit::textChanged, this, [this] { applyFind(); });
  expand();
}

void SessionTree::focusFind() {
  find_->setFocus();
  find_->selectAll();
}

void SessionTree::applyFind() {
  model_->setFind(find_->text());
  std::function<void(const QModelIndex&)> walk = [&](const QModelIndex& parent) {
    for (int i = 0; i < model_->rowCount(parent); ++i) {
      const QModelIndex child = model_->index(i, 0, parent);
      tree_->setRowHidden(i, parent, !model_->visible(int(child.internalId())));
      walk(child);
    }
  };
  walk({});
}

}  // namespace spanscope
