// SPDX-License-Identifier: GPL-3.0-or-later
// A flat table as most panels need it: spans with their role letter, numbers on the right, bars, marks. Rows are plain
// structs; there is no proxy and no sorting behind the panel's back. UI thread.
#pragma once
#include <QAbstractTableModel>
#include <QString>
#include <QStyledItemDelegate>
#include <QTableView>
#include <functional>
#include <vector>

#include "core/base/ids.h"

namespace spanscope {

struct TableCell {
  enum class Kind : uint8_t { text, number, bar, span, swatch } kind = Kind::text;
  QString text;             // span: the name
  QString tip;
  double bar = 0;           // 0 to 1
  bool strong = false, muted = false, mono = false;
  SpanId span = kNoSpan;    // span: its number is drawn in front
  QString role;             // span: letter and colour
  int swatch = -1;          // expert colour
};
struct TableRow {
  std::vector<TableCell> cells;
  SpanId span = kNoSpan;    // what a click selects
  qint64 key = -1;          // the panel's own
  bool struck = false;
};

class RowModel : public QAbstractTableModel {
  Q_OBJECT
 public:
  struct Column {
    QString title;
    bool right = false;
    int width = 0;          // 0: takes the rest
    QString tip;
  };
  explicit RowModel(QObject* parent = nullptr) : QAbstractTableModel(parent) {}
  void setColumns(std::vector<Column> columns);
  void setRows(std::vector<TableRow> rows);
  const std::vector<TableRow>& rows() const { return rows_; }
  const std::vector<Column>& columns() const { return columns_; }
  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;
  QString asMarkdown() const;
  QString asCsv() const;

 private:
  std::vector<Column> columns_;
  std::vector<TableRow> rows_;
};

class RowTable : public QTableView {
  Q_OBJECT
 public:
  explicit RowTable(const QString& objectName, const QString& accessibleName, QWidget* parent = nullptr);
  void setColumns(std::vector<RowModel::Column> columns);
  void setRows(std::vector<TableRow> rows);
  RowModel& cells() { return *model_; }
  // Height for its rows and header: for tables that stand in a scrolling panel.
  void setFitsRows(bool fits);
  // The row that is drawn as selected (a span or a key); nothing is emitted.
  void showSelected(const std::function<bool(const TableRow&)>& is);

 signals:
  void rowClicked(const spanscope::TableRow& row, Qt::KeyboardModifiers modifiers);
  void rowOpened(const spanscope::TableRow& row);  // Enter or double click

 protected:
  void resizeEvent(QResizeEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void contextMenuEvent(QContextMenuEvent* event) override;
  QSize sizeHint() const override;
  QSize minimumSizeHint() const override;

 private:
  void fitColumns();
  RowModel* model_;
  bool fits_ = false;
};

}  // namespace spanscope
