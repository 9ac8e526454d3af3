// SPDX-License-Identifier: GPL-3.0-or-later
// Every scalar of the spans in view: sorted by clicking a header, order kept in the model. UI thread.
#pragma once
#include <QAbstractTableModel>
#include <QTableView>

#include "widgets/panels/panel.h"

namespace spanscope {

class SpanTableModel : public QAbstractTableModel {
  Q_OBJECT
 public:
  explicit SpanTableModel(Document* document, QObject* parent = nullptr) : QAbstractTableModel(parent), document_(document) {}
  void rebuild();
  SpanId span(int row) const { return rows_[order_[size_t(row)]].span; }
  int rowOf(SpanId span) const;
  int rowCount(const QModelIndex& parent = {}) const override { return parent.isValid() ? 0 : int(order_.size()); }
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;
  void sort(int column, Qt::SortOrder order) override;

 private:
  struct Row {
    SpanId span;
    std::vector<double> values;  // NaN: missing, sorts last
  };
  void reorder();
  Document* document_;
  std::vector<Row> rows_;
  std::vector<uint32_t> order_;
  int column_ = 1;
  Qt::SortOrder sortOrder_ = Qt::DescendingOrder;
};

class SpanTable : public Panel {
  Q_OBJECT
 public:
  SpanTable(Document* document, QWidget* parent = nullptr);
  SpanTableModel* model() const { return model_; }

 protected:
  void showEvent(QShowEvent* event) override;

 private:
  void refresh();
  void describe();
  void showSelection();
  SpanTableModel* model_;
  QTableView* view_;
  bool own_ = false, stale_ = true;
};

}  // namespace spanscope
