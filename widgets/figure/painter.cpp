// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/figure/painter.h"

#include <QFontDatabase>
#include <QPainter>
#include <QPainterPath>
#include <cmath>

#include "core/report/figure/text_width.h"

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

void paintHatch(QPainter& painter, const QRectF& rect, const DrawItem& d) {
  painter.save();
  painter.setClipRect(rect, Qt::IntersectClip);
  painter.fillRect(rect, color(d.fill));
  painter.setPen(QPen(color(d.stroke), 1));
  painter.setRenderHint(QPainter::Antialiasing, true);
  // Lines start on one grid for the whole picture, so that neighbouring hatches join.
  const double sum = rect.left() + rect.bottom();
  const double first = std::ceil((rect.left() + rect.top()) / 5) * 5;
  for (double s = first; s < sum + rect.width(); s += 5)
    painter.drawLine(QPointF(s - rect.bottom(), rect.bottom()), QPointF(s - rect.top(), rect.top()));
  painter.restore();
}
}  // namespace

void paintDisplayList(QPainter& painter, const DisplayList& list) {
  painter.save();
  const QFont base = painter.font();
  int clips = 0;
  for (const DrawItem& d : list.items) {
    const QRectF rect(d.x, d.y, d.w, d.h);
    if (d.kind == DrawItem::Kind::rect && d.radius <= 0 && !d.stroke.a) {  // most of a map
      painter.fillRect(rect, color(d.fill));
      continue;
    }
    painter.setPen(pen(d));
    painter.setBrush(d.fill.a ? QBrush(color(d.fill)) : Qt::NoBrush);
    switch (d.kind) {
      case DrawItem::Kind::rect:
        painter.setRenderHint(QPainter::Antialiasing, d.radius > 0 || d.x != std::floor(d.x) || d.y != std::floor(d.y));
        if (d.radius > 0) painter.drawRoundedRect(rect, d.radius, d.radius);
        else painter.drawRect(rect);
        painter.setRenderHint(QPainter::Antialiasing, false);
        break;
      case DrawItem::Kind::line:
        painter.setRenderHint(QPainter::Antialiasing, (d.w != 0 && d.h != 0) || d.stroke_width > 1);
        painter.drawLine(QPointF(d.x, d.y), QPointF(d.x + d.w, d.y + d.h));
        painter.setRenderHint(QPainter::Antialiasing, false);
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
        painter.setRenderHint(QPainter::Antialiasing, false);
        break;
      }
      case DrawItem::Kind::circle:
        painter.setRenderHint(QPainter::Antialiasing, true);
        painter.drawEllipse(QPointF(d.x, d.y), d.w, d.w);
        painter.setRenderHint(QPainter::Antialiasing, false);
        break;
      case DrawItem::Kind::text: {
        QFont font = d.mono ? QFontDatabase::systemFont(QFontDatabase::FixedFont) : base;
        font.setPixelSize(std::max(1, int(d.size + 0.5)));
        font.setWeight(d.bold ? QFont::DemiBold : QFont::Normal);
        painter.setFont(font);
        painter.setPen(color(d.fill));
        const QString text = QString::fromStdString(d.text);
        const double width = QFontMetricsF(font).horizontalAdvance(text);
        // The figure was laid out without knowing this machine's font: a wider one is narrowed to the room it was given,
        // so that no label runs into its neighbour.
        const double room = d.mono ? width : text_width(d.text, d.size, d.bold);
        const double narrow = width > room + 0.5 ? room / width : 1.0;
        const double shift = d.anchor == TextAnchor::start ? 0 : d.anchor == TextAnchor::middle ? 0.5 : 1;
        if (narrow == 1.0) {
          painter.drawText(QPointF(d.x - shift * width, d.y), text);
        } else {
          painter.save();
          painter.translate(d.x - shift * room, d.y);
          painter.scale(narrow, 1);
          painter.drawText(QPointF(0, 0), text);
          painter.restore();
        }
        break;
      }
      case DrawItem::Kind::hatch: paintHatch(painter, rect, d); break;
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
