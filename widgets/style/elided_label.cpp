// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/style/elided_label.h"

#include <QPainter>
#include <QStyleOption>

#include "widgets/style/style.h"

namespace spanscope {

ElidedLabel::ElidedLabel(const QString& text, QWidget* parent) : QWidget(parent), text_(text) {
  setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
  setAccessibleName(text);
}

void ElidedLabel::setText(const QString& text) {
  if (text_ == text) return;
  text_ = text;
  setAccessibleName(text);
  updateGeometry();
  update();
}
void ElidedLabel::setMode(Qt::TextElideMode mode) {
  mode_ = mode;
  update();
}
void ElidedLabel::setAlignment(Qt::Alignment alignment) {
  alignment_ = alignment;
  update();
}

QSize ElidedLabel::sizeHint() const {
  const QFontMetrics metrics(font());
  return {metrics.horizontalAdvance(text_) + 2, metrics.height() + 2};
}

void ElidedLabel::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  const QString shown = painter.fontMetrics().elidedText(text_, mode_, width());
  const QString tip = shown == text_ ? QString() : text_;
  if (toolTip() != tip) setToolTip(tip);
  painter.setPen(objectName() == "panelSubtitle" || objectName() == "muted" ? style::q(style::colors().textMuted) : palette().color(QPalette::WindowText));
  painter.drawText(rect(), int(alignment_ | Qt::AlignVCenter), shown);
}

}  // namespace spanscope
