// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/main_window/strength_slider.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <algorithm>
#include <cmath>

#include "widgets/style/style.h"

namespace spanscope {
namespace {
constexpr int kLeft = 62, kTrack = 104;
constexpr float kLow = 0.20f, kHigh = 0.90f;
double xOf(float theta) { return kLeft + kTrack * (theta - kLow) / (kHigh - kLow); }
}  // namespace

StrengthSlider::StrengthSlider(Document* document, QWidget* parent) : QWidget(parent), document_(document), histogram_(70, 0) {
  setObjectName("strengthSlider");
  setAccessibleName(tr("Strength from which a look counts as a read"));
  setFocusPolicy(Qt::StrongFocus);
  setSizePolicy(QSizePolicy::Fixed, QSizePolicy::Fixed);
  connect(document, &Document::sessionChanged, this, [this] {
    std::fill(histogram_.begin(), histogram_.end(), 0);
    if (const auto s = document_->session())
      for (const TurnRecord& t : s->turns)
        for (float m : t.events.mass) ++histogram_[size_t(std::clamp(int((m - kLow) * 100), 0, 69))];
    update();
  });
  connect(document, &Document::strengthChanged, this, [this] {
    setAccessibleDescription(tr("%1").arg(document_->strength(), 0, 'f', 2));
    update();
  });
}

void StrengthSlider::paintEvent(QPaintEvent*) {
  QPainter p(this);
  p.setRenderHint(QPainter::Antialiasing);
  const Palette& c = style::colors();
  p.setPen(QPen(style::q(hasFocus() ? c.focus : c.borderStrong), 1));
  p.setBrush(style::q(c.field));
  p.drawRoundedRect(QRectF(0.5, 0.5, width() - 1, height() - 1), 3, 3);
  p.setPen(style::q(c.textMuted));
  p.drawText(QRect(9, 0, 54, height()), Qt::AlignVCenter, tr("Strength"));
  const int most = std::max(1, *std::max_element(histogram_.begin(), histogram_.end()));
  const float theta = document_->strength();
  for (int i = 0; i < 70; ++i) {
    if (!histogram_[size_t(i)]) continue;
    const double h = 12 * std::sqrt(double(histogram_[size_t(i)]) / most);
    const float at = kLow + i * 0.01f;
    p.fillRect(QRectF(xOf(at), 17 - h, kTrack / 70.0, h), style::q(at + 0.005f < theta ? c.border : c.borderStrong));
  }
  p.setPen(QPen(style::q(c.threshold), 2));
  p.drawLine(QPointF(kLeft, 19), QPointF(kLeft + kTrack, 19));
  p.drawLine(QPointF(xOf(theta), 5), QPointF(xOf(theta), 19));
  p.setBrush(style::q(c.field));
  p.drawEllipse(QPointF(xOf(theta), 19), 3.5, 3.5);
  QFont bold = font();
  bold.setBold(true);
  p.setFont(bold);
  p.setPen(style::q(c.text));
  p.drawText(QRect(kLeft + kTrack + 4, 0, 34, height()), Qt::AlignVCenter | Qt::AlignRight, QString::number(theta, 'f', 2));
}

void StrengthSlider::drag(double x) {
  float theta = kLow + float((x - kLeft) / kTrack) * (kHigh - kLow);
  theta = std::round(theta * 100) / 100;
  if (std::fabs(theta - 0.30f) < 0.012f) theta = 0.30f;
  document_->setStrength(theta);
}
void StrengthSlider::mousePressEvent(QMouseEvent* e) {
  before_ = document_->strength();
  dragging_ = true;
  drag(e->position().x());
}
void StrengthSlider::mouseMoveEvent(QMouseEvent* e) {
  if (dragging_) drag(e->position().x());
}
void StrengthSlider::mouseReleaseEvent(QMouseEvent*) { dragging_ = false; }
void StrengthSlider::keyPressEvent(QKeyEvent* e) {
  switch (e->key()) {
    case Qt::Key_Right:
    case Qt::Key_Up: document_->setStrength(document_->strength() + 0.01f); return;
    case Qt::Key_Left:
    case Qt::Key_Down: document_->setStrength(document_->strength() - 0.01f); return;
    case Qt::Key_Plus: document_->setStrength(document_->strength() + 0.05f); return;
    case Qt::Key_Minus: document_->setStrength(document_->strength() - 0.05f); return;
    case Qt::Key_Escape:
      if (dragging_) {
        dragging_ = false;
        document_->setStrength(before_);
      } else {
        document_->setStrength(0.30f);
      }
      return;
    default: QWidget::keyPressEvent(e);
  }
}

}  // namespace spanscope
