// SPDX-License-Identifier: GPL-3.0-or-later
// The map: spans by turns. Paints the figure once per change; hover, cell cursor and threshold are drawn over it.
// Click selects span and turn, the row label the span, the axis the turn; the sums at the right carry the threshold line.
#pragma once
#include <QAbstractScrollArea>
#include <QPixmap>

#include "core/report/figure/map_figure.h"
#include "widgets/panels/panel.h"

namespace spanscope {

class MapView : public QAbstractScrollArea {
  Q_OBJECT
 public:
  explicit MapView(Document* document, QWidget* parent = nullptr);
  const MapFigure& figure() const { return figure_; }
  const std::vector<size_t>& rows() const { return options_.rows; }
  void fitRows();
  void rebuild();

 protected:
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  void mouseDoubleClickEvent(QMouseEvent* event) override;
  void wheelEvent(QWheelEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void leaveEvent(QEvent* event) override;
  bool viewportEvent(QEvent* event) override;

 signals:
  void openTranscript();

 private:
  struct Spot {
    size_t row = SIZE_MAX;  // of rows()
    uint32_t turn = kNone32;
    bool bars = false, label = false;
  };
  Spot spotAt(const QPoint& pos) const;
  void dragThreshold(double x);
  QString tip(const Spot& spot) const;
  void showRow(SpanId span);
  Document* document_;
  MapFigureOptions options_;
  MapFigure figure_;
  QPixmap picture_;
  bool dragging_ = false;
  QString filterBefore_;
};

class MapPanel : public Panel {
  Q_OBJECT
 public:
  MapPanel(Document* document, QWidget* parent = nullptr);
  MapView* view() const { return view_; }
  bool hasPicture() const override { return true; }
  QByteArray pictureSvg() const override;
  QImage picturePng(double scale) const override;

 private:
  void describe();
  MapView* view_;
};

}  // namespace spanscope
