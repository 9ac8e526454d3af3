// SPDX-License-Identifier: GPL-3.0-or-later
// The map's figure view: paints the figure of core once per change; hover, cell cursor and threshold are drawn over it.
// Click selects span and turn, the row label the span, the axis the turn; the sums at the right carry the threshold line.
// The rows scroll, what stands above and below them stays. UI thread.
#pragma once
#include <QAbstractScrollArea>
#include <QPixmap>

#include "core/report/figure/map_figure.h"
#include "widgets/document/document.h"

class QPushButton;

namespace spanscope {

class MapTip;

class MapView : public QAbstractScrollArea {
  Q_OBJECT
 public:
  enum class Order { position, reads, lastRead, role };
  explicit MapView(Document* document, QWidget* parent = nullptr);
  const MapFigure& figure() const { return figure_; }
  const std::vector<size_t>& rows() const { return options_.rows; }  // rows of the document's table, as they stand
  DisplayList wholeFigure() const;   // all rows, not only those in the window: what is exported
  Order order() const { return order_; }
  void setOrder(Order order);
  void setLegendLeft(double x);
  void fitRows();
  void zoomRows(double by);
  // "088, turn 64, 126 reads, captured": the cell cursor in words.
  QString cellText(SpanId span, int turn) const;
  bool dragging() const { return dragging_; }

 public slots:
  void rebuild();

 signals:
  void openTranscript();
  void openSlices();
  void figureChanged();

 protected:
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  void mouseDoubleClickEvent(QMouseEvent* event) override;
  void wheelEvent(QWheelEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void changeEvent(QEvent* event) override;
  bool viewportEvent(QEvent* event) override;

 private:
  struct Spot {
    size_t row = SIZE_MAX;      // of rows()
    uint32_t turn = kNone32;    // index into session.turns
    uint32_t column = kNone32;  // of the figure; a column without a turn is one that was lost
    bool bars = false;
  };
  Spot spotAt(const QPoint& pos) const;
  SpanId spanOf(const Spot& spot) const;
  void collectRows();
  void redraw();
  void showTip(const Spot& spot, const QPoint& pos);
  void dragThreshold(double x);
  void endDrag(bool keep);
  void showRow(SpanId span);
  size_t rowOf(SpanId span) const;

  Document* document_;
  MapFigureOptions options_;
  MapFigure figure_;
  QPixmap picture_;
  MapTip* tip_;
  QWidget* nothing_;
  QPushButton* clear_;
  Order order_ = Order::position;
  double zoom_ = 0;  // row height chosen by hand; 0: as the room allows
  bool dragging_ = false;
  QString filterBefore_;
};

}  // namespace spanscope
