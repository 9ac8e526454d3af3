// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/panels/figure_canvas.h"

#include <QImage>
#include <QMouseEvent>
#include <QPainter>
#include <QScrollBar>
#include <cmath>

#include "core/report/pictures.h"
#include "widgets/figure/painter.h"
#include "widgets/panels/panel_kit.h"

namespace spanscope {

FigureCanvas::FigureCanvas(const QString& objectName, const QString& accessibleName, QWidget* parent) : QAbstractScrollArea(parent) {
  setObjectName(objectName);
  setAccessibleName(accessibleName);
  setFrameShape(QFrame::NoFrame);
  setFocusPolicy(Qt::StrongFocus);
  viewport()->setMouseTracking(true);
}

void FigureCanvas::setBuilder(std::function<DisplayList(double, double)> build) {
  build_ = std::move(build);
  rebuild();
}

void FigureCanvas::rebuild() {
  if (!build_) return;
  // All the room there is without scroll bars.
  const QMargins m = viewportMargins();
  const QSize room = contentsRect().size() - QSize(m.left() + m.right(), m.top() + m.bottom());
  list_ = build_(room.width(), room.height());
  const int wide = verticalScrollBar()->sizeHint().width(), high = horizontalScrollBar()->sizeHint().height();
  bool down = list_.height > room.height();
  if (down) list_ = build_(room.width() - wide - 1, room.height());
  const bool across = list_.width > room.width() - (down ? wide : 0);
  down = list_.height > room.height() - (across ? high : 0);
  const QSize size(room.width() - (down ? wide : 0), room.height() - (across ? high : 0));
  horizontalScrollBar()->setRange(0, std::max(0, int(std::ceil(list_.width)) - size.width()));
  horizontalScrollBar()->setPageStep(size.width());
  horizontalScrollBar()->setSingleStep(24);
  verticalScrollBar()->setRange(0, std::max(0, int(std::ceil(list_.height)) - size.height()));
  verticalScrollBar()->setPageStep(size.height());
  verticalScrollBar()->setSingleStep(24);
  setAccessibleDescription(QString::fromStdString(list_.description));
  viewport()->update();
}

QPointF FigureCanvas::offset() const { return {double(-horizontalScrollBar()->value()), double(-verticalScrollBar()->value())}; }

void FigureCanvas::paintEvent(QPaintEvent*) {
  QPainter p(viewport());
  p.fillRect(viewport()->rect(), panelColors().panel);
  p.translate(offset());
  paintDisplayList(p, list_);
  if (hasFocus()) {
    p.resetTransform();
    p.setPen(panelColors().focus);
    p.drawRect(viewport()->rect().adjusted(0, 0, -1, -1));
  }
}

void FigureCanvas::resizeEvent(QResizeEvent*) { rebuild(); }

uint64_t FigureCanvas::idAt(const QPoint& pos) const {
  const QPointF at = QPointF(pos) - offset();
  for (size_t i = list_.items.size(); i-- > 0;) {
    const DrawItem& item = list_.items[i];
    if (!item.id) continue;
    if (item.kind == DrawItem::Kind::rect && QRectF(item.x, item.y, item.w, item.h).contains(at)) return item.id;
    if (item.kind == DrawItem::Kind::text && std::abs(at.x() - item.x) < 14 && std::abs(at.y() - (item.y - item.size / 2)) < 9) return item.id;
  }
  return 0;
}

void FigureCanvas::mouseMoveEvent(QMouseEvent* event) {
  const uint64_t id = idAt(event->pos());
  if (id != last_ || id) emit hovered(id, event->globalPosition().toPoint());
  last_ = id;
}
void FigureCanvas::mousePressEvent(QMouseEvent* event) {
  if (event->button() == Qt::LeftButton) emit clicked(idAt(event->pos()), event->modifiers());
}
void FigureCanvas::leaveEvent(QEvent* event) {
  last_ = 0;
  emit hovered(0, {});
  QAbstractScrollArea::leaveEvent(event);
}
void FigureCanvas::changeEvent(QEvent* event) {
  QAbstractScrollArea::changeEvent(event);
  if (event->type() == QEvent::PaletteChange) rebuild();
}

QByteArray FigureCanvas::svg() const { return QByteArray::fromStdString(inline_svg(list_, objectName().toStdString(), list_.description)); }

QImage FigureCanvas::png(double scale) const {
  QImage image(int(std::ceil(list_.width * scale)), int(std::ceil(list_.height * scale)), QImage::Format_ARGB32_Premultiplied);
  image.fill(panelColors().panel);
  QPainter p(&image);
  p.scale(scale, scale);
  paintDisplayList(p, list_);
  return image;
}

}  // namespace spanscope
