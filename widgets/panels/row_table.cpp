// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/panels/row_table.h"

#include <QApplication>
#include <QClipboard>
#include <QContextMenuEvent>
#include <QHeaderView>
#include <QKeyEvent>
#include <QMenu>
#include <QPainter>

#include <algorithm>
#include <cmath>

#include "widgets/panels/panel_kit.h"

namespace spanscope {
namespace {

constexpr int kRowHeight = 22;
constexpr int kPad = 6;

class RowDelegate : public QStyledItemDelegate {
 public:
  explicit RowDelegate(RowTable* table) : QStyledItemDelegate(table), table_(table) {}
  int selectedRow = -1;

  void paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const override {
    const RowModel& model = table_->cells();
    const TableRow& row = model.rows()[size_t(index.row())];
    if (size_t(index.column()) >= row.cells.size()) return;
    const TableCell& cell = row.cells[size_t(index.column())];
    const PanelColors& c = panelColors();
    const bool selected = index.row() == selectedRow;
    painter->save();
    painter->setRenderHint(QPainter::Antialiasing, false);
    QColor back = selected ? c.selection : (index.row() % 2 ? c.panelAlt : c.panel);
    if (!selected && option.state & QStyle::State_MouseOver) back = c.hover;
    painter->fillRect(option.rect, back);
    QFont font = option.font;
    if (cell.strong) font.setWeight(QFont::DemiBold);
    if (cell.mono) font = monoFont(font);
    if (row.struck && cell.kind != TableCell::Kind::number) font.setStrikeOut(true);
    QColor ink = selected ? c.onSelection : (cell.muted || row.struck ? c.textMuted : c.text);
    painter->setFont(font);
    painter->setPen(ink);
    QRect r = option.rect.adjusted(kPad, 0, -kPad, 0);
    const bool right = size_t(index.column()) < model.columns().size() && model.columns()[size_t(index.column())].right;
    switch (cell.kind) {
      case TableCell::Kind::bar: {
        if (cell.bar > 0) {
          const int w = std::max(2, int(std::lround(cell.bar * r.width())));
          const QRect bar(r.left(), r.center().y() - 4, w, 9);
          painter->fillRect(bar, selected ? c.accent : c.bar);
        }
        break;
      }
      case TableCell::Kind::swatch:
      case TableCell::Kind::span: {
        int x = r.left();
        if (cell.kind == TableCell::Kind::span && !cell.role.isEmpty()) {
          drawRoleBox(*painter, QRectF(x, r.center().y() - 6, 14, 14), cell.role);
          x += 19;
        } else if (cell.kind == TableCell::Kind::span) {
          x += 19;
        } else {
          painter->fillRect(QRect(x, r.center().y() - 4, 9, 9), c.expert(cell.swatch));
          x += 14;
        }
        if (cell.kind == TableCell::Kind::span && cell.span != kNoSpan) {
          QFont plain = option.font;
          painter->setFont(plain);
          painter->setPen(selected ? c.onSelection : c.textMuted);
          const QString id = spanNumber(cell.span);
          painter->drawText(QRect(x, r.top(), r.right() - x + 1, r.height()), Qt::AlignVCenter | Qt::AlignLeft, id);
          x += painter->fontMetrics().horizontalAdvance(id) + 5;
          painter->setFont(font);
          painter->setPen(ink);
        }
        const QString text = painter->fontMetrics().elidedText(cell.text, Qt::ElideRight, r.right() - x + 1);
        painter->drawText(QRect(x, r.top(), r.right() - x + 1, r.height()), Qt::AlignVCenter | Qt::AlignLeft, text);
        break;
      }
      default:
        painter->drawText(r, int(Qt::AlignVCenter | (right ? Qt::AlignRight : Qt::AlignLeft)),
                          painter->fontMetrics().elidedText(cell.text, Qt::ElideRight, r.width()));
    }
    if (option.state & QStyle::State_HasFocus && table_->hasFocus()) {
      painter->setPen(c.focus);
      painter->drawRect(option.rect.adjusted(0, 0, -1, -1));
    }
    painter->restore();
  }
  QSize sizeHint(const QStyleOptionViewItem&, const QModelIndex&) const override { return {40, kRowHeight}; }

 private:
  RowTable* table_;
};

// Titles stand exactly over their columns: the style's own margin would push them aside.
class RowHeader : public QHeaderView {
 public:
  explicit RowHeader(QWidget* parent) : QHeaderView(Qt::Horizontal, parent) {
    setSectionsClickable(false);
    viewport()->setMouseTracking(true);
  }

 protected:
  void paintSection(QPainter* painter, const QRect& rect, int index) const override {
    const PanelColors& c = panelColors();
    painter->save();
    painter->fillRect(rect, c.panel);
    painter->setPen(c.border);
    painter->drawLine(rect.bottomLeft(), rect.bottomRight());
    painter->setFont(font());
    painter->setPen(c.textMuted);
    const QString text = model()->headerData(index, Qt::Horizontal).toString();
    const int align = model()->headerData(index, Qt::Horizontal, Qt::TextAlignmentRole).toInt();
    const QRect r = rect.adjusted(kPad, 0, -kPad, 0);
    painter->drawText(r, align, painter->fontMetrics().elidedText(text, Qt::ElideRight, r.width()));
    painter->restore();
  }
  void paintEvent(QPaintEvent* event) override {
    QPainter(viewport()).fillRect(event->rect(), panelColors().panel);
    QHeaderView::paintEvent(event);
  }
};

QString plain(const TableCell& cell) {
  if (cell.kind == TableCell::Kind::bar) return {};
  if (cell.kind == TableCell::Kind::span && cell.span != kNoSpan) return spanNumber(cell.span) + " " + cell.text;
  return cell.text;
}

}  // namespace

void RowModel::setColumns(std::vector<Column> columns) {
  beginResetModel();
  columns_ = std::move(columns);
  endResetModel();
}

void RowModel::setRows(std::vector<TableRow> rows) {
  beginResetModel();
  rows_ = std::move(rows);
  endResetModel();
}

int RowModel::rowCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : int(rows_.size()); }
int RowModel::columnCount(const QModelIndex& parent) const { return parent.isValid() ? 0 : int(columns_.size()); }

QVariant RowModel::data(const QModelIndex& index, int role) const {
  if (!index.isValid() || size_t(index.row()) >= rows_.size()) return {};
  const TableRow& row = rows_[size_t(index.row())];
  if (size_t(index.column()) >= row.cells.size()) return {};
  const TableCell& cell = row.cells[size_t(index.column())];
  if (role == Qt::DisplayRole || role == Qt::AccessibleTextRole) return plain(cell);
  if (role == Qt::ToolTipRole) return cell.tip.isEmpty() ? plain(cell) : cell.tip;
  return {};
}

QVariant RowModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal || size_t(section) >= columns_.size()) return {};
  const Column& c = columns_[size_t(section)];
  if (role == Qt::DisplayRole) return c.title;
  if (role == Qt::TextAlignmentRole) return int(Qt::AlignVCenter | (c.right ? Qt::AlignRight : Qt::AlignLeft));
  if (role == Qt::ToolTipRole) return c.tip;
  return {};
}

QString RowModel::asMarkdown() const {
  QString head = "|", rule = "|", body;
  for (const Column& c : columns_) {
    head += " " + c.title + " |";
    rule += c.right ? " ---: |" : " --- |";
  }
  for (const TableRow& row : rows_) {
    body += "|";
    for (const TableCell& cell : row.cells) body += " " + plain(cell).replace("|", "\\|") + " |";
    body += "\n";
  }
  return head + "\n" + rule + "\n" + body;
}

QString RowModel::asCsv() const {
  const auto quoted = [](QString s) {
    if (s.contains(',') || s.contains('"') || s.contains('\n')) s = "\"" + s.replace("\"", "\"\"") + "\"";
    return s;
  };
  QStringList lines, head;
  for (const Column& c : columns_) head << quoted(c.title);
  lines << head.join(",");
  for (const TableRow& row : rows_) {
    QStringList line;
    for (const TableCell& cell : row.cells) line << quoted(plain(cell));
    lines << line.join(",");
  }
  return lines.join("\n") + "\n";
}

RowTable::RowTable(const QString& objectName, const QString& accessibleName, QWidget* parent)
    : QTableView(parent), model_(new RowModel(this)) {
  setObjectName(objectName);
  setAccessibleName(accessibleName);
  setModel(model_);
  setItemDelegate(new RowDelegate(this));
  setShowGrid(false);
  setFrameShape(QFrame::NoFrame);
  setSelectionMode(QAbstractItemView::NoSelection);
  setEditTriggers(QAbstractItemView::NoEditTriggers);
  setMouseTracking(true);
  setWordWrap(false);
  setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  verticalHeader()->hide();
  verticalHeader()->setSectionResizeMode(QHeaderView::Fixed);
  verticalHeader()->setDefaultSectionSize(kRowHeight);
  verticalHeader()->setMinimumSectionSize(kRowHeight);
  setHorizontalHeader(new RowHeader(this));
  horizontalHeader()->setSectionResizeMode(QHeaderView::Fixed);
  horizontalHeader()->setFixedHeight(kRowHeight);
  horizontalHeader()->setHighlightSections(false);

  setTabKeyNavigation(false);
  connect(this, &QTableView::clicked, this, [this](const QModelIndex& i) {
    emit rowClicked(model_->rows()[size_t(i.row())], QApplication::keyboardModifiers());
  });
  connect(this, &QTableView::doubleClicked, this, [this](const QModelIndex& i) { emit rowOpened(model_->rows()[size_t(i.row())]); });
}

void RowTable::setColumns(std::vector<RowModel::Column> columns) {
  model_->setColumns(std::move(columns));
  fitColumns();
}

void RowTable::setRows(std::vector<TableRow> rows) {
  model_->setRows(std::move(rows));
  static_cast<RowDelegate*>(itemDelegate())->selectedRow = -1;
  if (fits_) updateGeometry();
  fitColumns();
}

void RowTable::setFitsRows(bool fits) {
  fits_ = fits;
  setVerticalScrollBarPolicy(fits ? Qt::ScrollBarAlwaysOff : Qt::ScrollBarAsNeeded);
  setSizePolicy(QSizePolicy::Preferred, fits ? QSizePolicy::Fixed : QSizePolicy::Expanding);
  updateGeometry();
}

void RowTable::showSelected(const std::function<bool(const TableRow&)>& is) {
  auto* delegate = static_cast<RowDelegate*>(itemDelegate());
  delegate->selectedRow = -1;
  for (size_t i = 0; i < model_->rows().size(); ++i)
    if (is(model_->rows()[i])) {
      delegate->selectedRow = int(i);
      break;
    }
  viewport()->update();
}

void RowTable::fitColumns() {
  int fixed = 0, free = 0;
  for (const auto& c : model_->columns()) c.width ? fixed += c.width : ++free;
  const int rest = std::max(40 * free, viewport()->width() - fixed);
  for (size_t i = 0; i < model_->columns().size(); ++i)
    setColumnWidth(int(i), model_->columns()[i].width ? model_->columns()[i].width : rest / std::max(1, free));
}

QSize RowTable::sizeHint() const {
  if (!fits_) return QTableView::sizeHint();
  return {200, horizontalHeader()->height() * horizontalHeader()->isVisibleTo(this) + kRowHeight * model_->rowCount() + 1};
}

QSize RowTable::minimumSizeHint() const { return fits_ ? QSize(80, sizeHint().height()) : QSize(80, 60); }

void RowTable::resizeEvent(QResizeEvent* event) {
  QTableView::resizeEvent(event);
  fitColumns();
}

void RowTable::keyPressEvent(QKeyEvent* event) {
  const QModelIndex i = currentIndex();
  if (event->matches(QKeySequence::Copy)) {
    QApplication::clipboard()->setText(model_->asMarkdown());
    return;
  }
  if (i.isValid() && size_t(i.row()) < model_->rows().size()) {
    if (event->key() == Qt::Key_Space) {
      emit rowClicked(model_->rows()[size_t(i.row())], event->modifiers());
      return;
    }
    if (event->key() == Qt::Key_Return || event->key() == Qt::Key_Enter) {
      emit rowOpened(model_->rows()[size_t(i.row())]);
      return;
    }
  }
  QTableView::keyPressEvent(event);
}

void RowTable::contextMenuEvent(QContextMenuEvent* event) {
  QMenu menu(this);
  menu.addAction(tr("Copy as Markdown"), this, [this] { QApplication::clipboard()->setText(model_->asMarkdown()); });
  menu.addAction(tr("Copy as CSV"), this, [this] { QApplication::clipboard()->setText(model_->asCsv()); });
  menu.exec(event->globalPos());
}

}  // namespace spanscope
