// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/panels/map_panel.h"

#include <QComboBox>
#include <QImage>
#include <QPainter>

#include "core/report/pictures.h"
#include "widgets/figure/painter.h"
#include "widgets/style/style.h"

namespace spanscope {

MapPanel::MapPanel(Document* document, QWidget* parent) : Panel(document, "mapPanel", tr("Spans × turns"), parent), view_(new MapView(document, this)) {
  body()->addWidget(view_);
  setFocusProxy(view_);
  order_ = new QComboBox(view_);
  order_->setObjectName("orderCombo");
  order_->setAccessibleName(tr("Order of the rows"));
  order_->setProperty("small", true);
  order_->addItems({tr("Order: position"), tr("Order: reads"), tr("Order: last read"), tr("Order: role")});
  order_->move(8, 5);
  order_->adjustSize();
  order_->resize(order_->sizeHint().width(), 21);
  view_->setLegendLeft(order_->width() + 18);
  connect(order_, &QComboBox::currentIndexChanged, this, [this](int i) { view_->setOrder(MapView::Order(i)); });
  connect(document, &Document::sessionChanged, this, &MapPanel::describe);
  connect(document, &Document::measureChanged, this, &MapPanel::describe);
  connect(document, &Document::strengthChanged, this, &MapPanel::describe);
  describe();
}

void MapPanel::describe() {
  const auto session = document()->session();
  order_->setVisible(bool(session));
  if (!session) {
    setSubtitle({});
    setProvenance(Provenance::captured, false);
    return;
  }
  const QString shape = tr("%1 × %2 heads").arg(session->header.layers).arg(session->header.query_heads);
  if (document()->measure() == Measure::reads)
    setSubtitle(tr("moments when a head turns to a span; strength %1, answer rows, %2").arg(document()->strength(), 0, 'f', 2).arg(shape));
  else
    setSubtitle(tr("%1, mean over %2, consumer rows, sinks apart").arg(measure_name(document()->measure()), shape));
  setProvenance(Provenance::captured);
}

QByteArray MapPanel::pictureSvg() const {
  const DisplayList list = view_->wholeFigure();
  QByteArray svg = QByteArray::fromStdString(inline_svg(list, "map", list.description));
  // As a file of its own it needs its name space, its size and its ground.
  const QByteArray size = QByteArray("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"") + QByteArray::number(list.width) + "\" height=\"" +
                          QByteArray::number(list.height) + "\" font-family=\"Inter, 'Noto Sans', 'DejaVu Sans Condensed', 'DejaVu Sans', sans-serif\"";
  svg.replace(0, 4, size);
  const qsizetype end = svg.indexOf('>');
  svg.insert(end + 1, "\n<rect width=\"100%\" height=\"100%\" fill=\"" + style::q(style::colors().panel).name().toUtf8() + "\"/>");
  return svg;
}

QImage MapPanel::picturePng(double scale) const {
  const DisplayList list = view_->wholeFigure();
  QImage image((QSizeF(list.width, list.height) * scale).toSize(), QImage::Format_ARGB32_Premultiplied);
  if (image.isNull()) return image;
  image.fill(style::q(style::colors().panel));
  QPainter painter(&image);
  painter.scale(scale, scale);
  painter.setFont(font());
  paintDisplayList(painter, list);
  return image;
}

}  // namespace spanscope
