// SPDX-License-Identifier: GPL-3.0-or-later
// What is in the context: the system prompt, then turns with their messages, long messages with their parts. Each row has
// its tokens and a bar of total reads on one scale. UI thread.
#pragma once
#include <QAbstractItemModel>
#include <QTreeView>

#include "widgets/panels/panel.h"

class QLineEdit;

namespace spanscope {

class SessionTreeModel : public QAbstractItemModel {
  Q_OBJECT
 public:
  struct Node {
    int parent = -1, row = 0;
    std::vector<int> children;
    SpanId span = kNoSpan;  // none: a turn
    int number = -1;        // of a turn, 0-based; -1: the system prompt
    int turn = -1;          // its index in session.turns; -1: none
    bool lost = false;      // a turn that the session does not have
    bool gone = false;      // a span that left the context
    QString title;
    uint32_t tokens = 0;
    qint64 reads = 0;
  };
  explicit SessionTreeModel(Document* document, QObject* parent = nullptr);
  void rebuild();
  void recount();
  const Node& node(const QModelIndex& index) const { return nodes_[size_t(index.internalId())]; }
  QModelIndex indexOf(SpanId span) const;
  qint64 mostReads() const { return most_; }
  void setFind(const QString& text);
  bool visible(int node) const;

  QModelIndex index(int row, int column, const QModelIndex& parent = {}) const override;
  QModelIndex parent(const QModelIndex& child) const override;
  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& = {}) const override { return 3; }
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;

 private:
  int add(int parent, Node node);
  Document* document_;
  std::vector<Node> nodes_;
  std::vector<int> roots_;
  qint64 most_ = 1;
  QString find_;
};

class SessionTree : public Panel {
  Q_OBJECT
 public:
  SessionTree(Document* document, QWidget* parent = nullptr);
  QTreeView* tree() const { return tree_; }
  void focusFind();

 private:
  void applyFind();
  SessionTreeModel* model_;
  QTreeView* tree_;
  QLineEdit* find_;
  bool own_ = false;
};

}  // namespace spanscope
