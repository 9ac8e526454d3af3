// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/figure/painter.h"

#include <QFontDatabase>
#include <QPainter>
#include <QPainterPath>

namespace spanscope {
namespace {
QColor color(const Color& c) { return QColor(c.r, c.g, c.b, c.a); }
QPen pen(const DrawItem& d) {
  if (!d.stroke.a) return Qt::NoPen;
  QPen p(color(d.stroke), d.stroke_width);
  p.setCapStyle(Qt::FlatCap);
  if (!d.dash.empty()) {
    QList<qreal> pattern;
    for (double x : d.dash) pattern.append(x / d.stroke_width);
    if (pattern.size() % 2) pattern.append(pattern.last());
    p.setDashPattern(pattern);
  }
  return p;
}
}  // namespace

void paintDisplayList(QPainter& painter, const DisplayList& list) {
  painter.save();
  int clips = 0;
  for (const DrawItem& d : list.items) {
    painter.setPen(pen(d));
    painter.setBrush(d.fill.a ? QBrush(color(d.fill)) : Qt::NoBrush);
    const QRectF rect(d.x, d.y, d.w, d.h);
    switch (d.kind) {
      case DrawItem::Kind::rect:
        painter.setRenderHint(QPainter::Antialiasing, d.radius > 0);
        if (d.radius > 0) painter.drawRoundedRect(rect, d.radius, d.radius);
        else if (d.stroke.a) painter.drawRect(rect);
        else painter.fillRect(rect, color(d.fill));
        break;
      case DrawItem::Kind::line:
        painter.setRenderHint(QPainter::Antialiasing, d.w != 0 && d.h != 0);
        painter.drawLine(QPointF(d.x, d.y), QPointF(d.x + d.w, d.y + d.h));
        break;
      case DrawItem::Kind::polyline:
      case DrawItem::Kind::polygon: {
        painter.setRenderHint(QPainter::Antialiasing, true);
        QPolygonF points;
        for (const auto& [x, y] : d.points) points << QPointF(x, y);
        if (d.kind == DrawItem::Kind::polygon) {
          painter.drawPolygon(points);
        } else {
          painter.setBrush(Qt::NoBrush);
          painter.drawPolyline(points);
        }
        break;
      }
      case DrawItem::Kind::circle:
        painter.setRenderHint(QPainter::Antialiasing, true);
        painter.drawEllipse(QPointF(d.x, d.y), d.w, d.w);
        break;
      case DrawItem::Kind::text: {
        QFont font = d.mono ? QFontDatabase::systemFont(QFontDatabase::FixedFont) : painter.font();
        font.setPixelSize(std::max(1, int(d.size + 0.5)));
        font.setBold(d.bold);
        const QFont before = painter.font();
        painter.setFont(font);
        painter.setPen(color(d.fill));
        const QString text = QString::fromStdString(d.text);
        const double width = QFontMetricsF(font).horizontalAdvance(text);
        const double x = d.anchor == TextAnchor::start ? d.x : d.anchor == TextAnchor::middle ? d.x - width / 2 : d.x - width;
        painter.drawText(QPointF(x, d.y), text);
        painter.setFont(before);
        break;
      }
      case DrawItem::Kind::hatch: {
        painter.save();
        painter.setClipRect(rect, Qt::IntersectClip);
        painter.fillRect(rect, color(d.fill));
        painter.setPen(QPen(color(d.stroke), 1));
        painter.setRenderHint(QPainter::Antialiasing, true);
        for (double x = rect.left() - rect.height(); x < rect.right(); x += 4) painter.drawLine(QPointF(x, rect.bottom()), QPointF(x + rect.height(), rect.top()));
        painter.restore();
        break;
      }
      case DrawItem::Kind::clip_begin:
        painter.save();
        painter.setClipRect(rect, Qt::IntersectClip);
        ++clips;
        break;
      case DrawItem::Kind::clip_end:
        if (clips-- > 0) painter.restore();
        break;
    }
  }
  while (clips-- > 0) painter.restore();
  painter.restore();
}

}  // namespace spanscope
