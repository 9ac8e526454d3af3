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
        const QString head = node.turn < 0 ? QObject::tr("System prompt") : QObject::tr("Turn %1").arg(document_->session()->turns[size_t(node.turn)].turn + 1);
        painter->drawText(rect, Qt::AlignVCenter, head);
        rect.setLeft(rect.left() + painter->fontMetrics().horizontalAdvance(head) + 6);
        font.setBold(false);
        painter->setFont(font);
        painter->setPen(style::q(selected ? p.onSelection : p.textMuted));
        painter->drawText(rect, Qt::AlignVCenter, painter->fontMetrics().elidedText(node.title, Qt::ElideRight, rect.width()));
      } else {
        rect.setLeft(rect.left() + style::drawRoleBox(*painter, rect, document_->session()->ledger[node.span].role));
        QString text = style::spanNumber(node.span) + " " + node.title;
        painter->drawText(rect, Qt::AlignVCenter, painter->fontMetrics().elidedText(text, Qt::ElideRight, rect.width()));
      }
    } else if (index.column() == 1) {
      painter->drawText(rect, Qt::AlignVCenter | Qt::AlignRight, style::number(node.tokens));
    } else if (node.span != kNoSpan) {
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
    std::map<int, int> group;  // turn index -> node; -1 the system prompt
    for (SpanId id : top) {
      const Span& span = s.ledger[id];
      int turn = -1;
      if (!(span.role == "system" && span.birth == 0))
        for (size_t t = 0; t < s.turns.size(); ++t)
          if (s.turns[t].turn == span.birth) turn = int(t);
      if (turn < 0 && span.role != "system") turn = 0;
      if (!group.count(turn)) {
        Node node;
        node.turn = turn;
        node.title = turn < 0 ? QString() : QString::fromStdString(span.name);
        group[turn] = add(-1, node);
      }
      nodes_[size_t(group[turn])].tokens += span.tokens;
      put(group[turn], id, 0);
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
  if (!nodes_.empty()) emit dataChanged(index(0, 0), index(int(roots_.size()) - 1, 2));
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
    return n.turn < 0 ? tr("System prompt") : tr("Turn %1 %2").arg(document_->session()->turns[size_t(n.turn)].turn + 1).arg(n.title);
  }
  if (role == Qt::ToolTipRole && n.span != kNoSpan) return tr("%1 reads over the session, %2 tokens").arg(style::number(n.reads), style::number(n.tokens));
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
  find_->setPlaceholderText(tr("Find in names and text   ( / )"));
  find_->setAccessibleName(tr("Find in names and text"));
  find_->setClearButtonEnabled(true);
  auto* holder = new QWidget(this);
  auto* row = new QVBoxLayout(holder);
  row->setContentsMargins(6, 6, 6, 6);
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
  tree_->header()->resizeSection(1, 54);
  tree_->header()->resizeSection(2, 58);
  body()->addWidget(holder);
  body()->addWidget(tree_, 1);
  auto expand = [this] {
    for (int i = 0; i < model_->rowCount(); ++i) tree_->expand(model_->index(i, 0));
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
