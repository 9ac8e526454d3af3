// SPDX-License-Identifier: GPL-3.0-or-later
// Named numbers in two columns, each row with the mark of where it comes from. Rows take the focus by key; Ctrl+C copies
// the row as a sentence. UI thread.
#pragma once
#include <QString>
#include <QWidget>
#include <vector>

#include "widgets/panels/panel.h"

namespace spanscope {

struct NumberRow {
  QString name, now, all;
  QString tip;
  QString sentence;                 // what Ctrl+C copies
  bool ruled = false;               // a line above
  Provenance provenance = Provenance::captured;
};

class NumberRows : public QWidget {
  Q_OBJECT
 public:
  explicit NumberRows(const QString& accessibleName, QWidget* parent = nullptr);
  void setRows(std::vector<NumberRow> rows);
  const std::vector<NumberRow>& rows() const { return rows_; }
  QSize sizeHint() const override { return {220, int(rows_.size()) * kHeight + 8}; }
  QSize minimumSizeHint() const override { return {180, sizeHint().height()}; }
  // Right ends of the two number columns, for a header above.
  static constexpr int kNow = 112, kAll = 42;

 protected:
  void paintEvent(QPaintEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  bool event(QEvent* event) override;
  void focusInEvent(QFocusEvent* event) override;
  void focusOutEvent(QFocusEvent* event) override;

 private:
  static constexpr int kHeight = 22;
  void setCurrent(int row);
  int rowAt(int y) const { return (y - 4) / kHeight; }
  std::vector<NumberRow> rows_;
  int current_ = 0;
};

// The mark of a provenance alone, for places where its word has no room.
void drawProvenanceMark(QPainter& painter, const QPointF& centre, Provenance provenance);

}  // namespace spanscope
