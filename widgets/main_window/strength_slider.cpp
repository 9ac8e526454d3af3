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
constexpr float kLow = 0.20f, kHigh = 0.90f, kUsual = 0.30f;
}

StrengthSlider::StrengthSlider(Document* document, QWidget* parent) : QWidget(parent), document_(document), histogram_(70, 0) {
  setObjectName("strengthSlider");
  setFocusPolicy(Qt::StrongFocus);
  setSizePolicy(QSizePolicy::Fixed, QSizePolicy::Fixed);
  connect(document, &Document::sessionChanged, this, [this] {
    std::fill(histogram_.begin(), histogram_.end(), 0);
    events_ = 0;
    if (const auto s = document_->session())
      for (const TurnRecord& t : s->turns)
        for (float m : t.events.mass) {
          ++histogram_[size_t(std::clamp(int((m - kLow) * 100), 0, 69))];
          ++events_;
        }
    describe();
  });
  connect(document, &Document::strengthChanged, this, &StrengthSlider::describe);
  describe();
}

void StrengthSlider::describe() {
  const float theta = document_->strength();
  setAccessibleName(tr("Strength of a read, %1").arg(theta, 0, 'f', 2));
  qint64 reads = 0;
  if (!document_->empty())
    for (const TurnReads& t : document_->history().turns) reads += t.total;
  const QString text = tr("Strength: from what part of one row's attention a look counts as a read.\n%1 of %2 recorded looks are above %3.")
                           .arg(style::number(reads), style::number(events_)).arg(theta, 0, 'f', 2);
  setToolTip(text);
  setAccessibleDescription(text);
  update();
}

void StrengthSlider::setCompact(bool compact) {
  if (compact_ == compact) return;
  compact_ = compact;
  updateGeometry();
  update();
}

int StrengthSlider::left() const { return compact_ ? 10 : 18 + fontMetrics().horizontalAdvance(tr("Strength")); }
int StrengthSlider::xOf(float theta) const { return left() + int(std::lround(track() * (theta - kLow) / (kHigh - kLow))); }
QSize StrengthSlider::sizeHint() const { return {left() + track() + 42, 25}; }

void StrengthSlider::paintEvent(QPaintEvent*) {
  QPainter p(this);
  const Palette& c = style::colors();
  p.setRenderHint(QPainter::Antialiasing);
  p.setPen(QPen(style::q(hasFocus() ? c.focus : c.borderStrong), 1));
  p.setBrush(style::q(c.field));
  p.drawRoundedRect(QRectF(0.5, 0.5, width() - 1, height() - 1), 4, 4);
  if (!compact_) {
    p.setPen(style::q(c.textMuted));
    p.drawText(QRect(9, 0, left() - 9, height()), Qt::AlignVCenter, tr("Strength"));
  }
  p.setRenderHint(QPainter::Antialiasing, false);
  const int most = std::max(1, *std::max_element(histogram_.begin(), histogram_.end()));
  const float theta = document_->strength();
  const int base = 16;
  const double bin = track() / 70.0;
  for (int i = 0; i < 70; ++i) {
    if (!histogram_[size_t(i)]) continue;
    const double h = std::max(1.0, 12 * std::sqrt(double(histogram_[size_t(i)]) / most));
    const bool counts = kLow + (i + 0.5f) * 0.01f > theta;
    p.fillRect(QRectF(left() + i * bin, base - h, bin, h), style::q(counts ? c.borderStrong : c.border));
  }
  p.fillRect(QRectF(left(), base + 1, track(), 2), style::q(c.border));
  p.fillRect(QRectF(xOf(theta), base + 1, left() + track() - xOf(theta), 2), style::q(c.threshold));
  p.fillRect(QRectF(xOf(theta) - 0.5, 4, 1.5, base - 3), style::q(c.threshold));
  p.setRenderHint(QPainter::Antialiasing);
  p.setPen(QPen(style::q(c.threshold), 2));
  p.setBrush(style::q(c.field));
  p.drawEllipse(QPointF(xOf(theta) + 0.25, base + 2), 3.6, 3.6);
  QFont bold = font();
  bold.setWeight(QFont::DemiBold);
  p.setFont(bold);
  p.setPen(style::q(c.text));
  p.drawText(QRect(0, 0, width() - 9, height()), Qt::AlignVCenter | Qt::AlignRight, QString::number(theta, 'f', 2));
}

void StrengthSlider::drag(double x) {
  float theta = kLow + float((x - left()) / track()) * (kHigh - kLow);
  theta = std::round(theta * 100) / 100;
  if (std::fabs(theta - kUsual) < 0.012f) theta = kUsual;
  document_->setStrength(theta);
}
void StrengthSlider::mousePressEvent(QMouseEvent* e) {
  if (e->button() != Qt::LeftButton) return;
  before_ = document_->strength();
  dragging_ = true;
  setFocus();
  drag(e->position().x());
}
void StrengthSlider::mouseMoveEvent(QMouseEvent* e) {
  if (dragging_) drag(e->position().x());
}
void StrengthSlider::mouseReleaseEvent(QMouseEvent*) { dragging_ = false; }
void StrengthSlider::wheelEvent(QWheelEvent* e) { document_->setStrength(document_->strength() + (e->angleDelta().y() > 0 ? 0.01f : -0.01f)); }
void StrengthSlider::keyPressEvent(QKeyEvent* e) {
  const float theta = document_->strength();
  switch (e->key()) {
    case Qt::Key_Right:
    case Qt::Key_Up: document_->setStrength(theta + 0.01f); return;
    case Qt::Key_Left:
    case Qt::Key_Down: document_->setStrength(theta - 0.01f); return;
    case Qt::Key_Plus: document_->setStrength(theta + 0.05f); return;
    case Qt::Key_Minus: document_->setStrength(theta - 0.05f); return;
    case Qt::Key_Home: document_->setStrength(kLow); return;
    case Qt::Key_End: document_->setStrength(kHigh); return;
    case Qt::Key_Escape:
      if (dragging_) {
        dragging_ = false;
        document_->setStrength(before_);
      } else {
        document_->setStrength(kUsual);
      }
      return;
    default: QWidget::keyPressEvent(e);
  }
}

}  // namespace spanscope
