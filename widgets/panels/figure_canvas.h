// SPDX-License-Identifier: GPL-3.0-or-later
// Shows a display list, scrolls when it is larger than the room, and says which item lies under the mouse. UI thread.
#pragma once
#include <QAbstractScrollArea>
#include <functional>

#include "core/report/figure/display_list.h"

namespace spanscope {

class FigureCanvas : public QAbstractScrollArea {
  Q_OBJECT
 public:
  FigureCanvas(const QString& objectName, const QString& accessibleName, QWidget* parent = nullptr);
  // Called with the room there is; gives the list to draw.
  void setBuilder(std::function<DisplayList(double width, double height)> build);
  void setPadding(int pixels) { setViewportMargins(pixels, pixels, 0, 0); }
  void rebuild();
  const DisplayList& list() const { return list_; }
  uint64_t idAt(const QPoint& viewportPos) const;
  QByteArray svg() const;
  QImage png(double scale) const;

 signals:
  void hovered(quint64 id, const QPoint& globalPos);   // 0: nothing
  void clicked(quint64 id, Qt::KeyboardModifiers modifiers);

 protected:
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void leaveEvent(QEvent* event) override;
  void changeEvent(QEvent* event) override;

 private:
  QPointF offset() const;
  std::function<DisplayList(double, double)> build_;
  DisplayList list_;
  uint64_t last_ = 0;
};

}  // namespace spanscope
