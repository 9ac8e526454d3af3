// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/panels/number_rows.h"

#include <QAccessible>
#include <QApplication>
#include <QClipboard>
#include <QHelpEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>
#include <algorithm>

#include "widgets/style/style.h"

namespace spanscope {

void drawProvenanceMark(QPainter& painter, const QPointF& at, Provenance provenance) {
  const Palette& p = style::colors();
  static const char* icons[] = {"captured", "rerun", "approx", "missing"};
  const Color inks[] = {p.captured, p.rerun, p.approx, p.missing};
  style::drawIcon(painter, QRectF(at.x() - 6, at.y() - 6, 12, 12), icons[int(provenance)], style::q(inks[int(provenance)]));
}

NumberRows::NumberRows(const QString& accessibleName, QWidget* parent) : QWidget(parent) {
  setAccessibleName(accessibleName);
  setFocusPolicy(Qt::StrongFocus);
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
}

void NumberRows::setRows(std::vector<NumberRow> rows) {
  rows_ = std::move(rows);
  current_ = std::clamp(current_, 0, std::max(0, int(rows_.size()) - 1));
  QStringList all;
  for (const NumberRow& r : rows_) all << r.sentence;
  setAccessibleDescription(all.join(". "));
  updateGeometry();
  update();
}

void NumberRows::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  const Palette& p = style::colors();
  const QFont plain = font();
  QFont strong = plain;
  strong.setWeight(QFont::DemiBold);
  for (int i = 0; i < int(rows_.size()); ++i) {
    const NumberRow& r = rows_[size_t(i)];
    const QRect box(0, 4 + i * kHeight, width(), kHeight);
    if (hasFocus() && i == current_) painter.fillRect(box, style::q(p.selection));
    if (r.ruled) {
      painter.setPen(style::q(p.border));
      painter.drawLine(12, box.top(), width() - 12, box.top());
    }
    painter.setFont(plain);
    painter.setPen(style::q(p.textMuted));
    const int end = r.now.isEmpty() ? width() - kAll - QFontMetrics(plain).horizontalAdvance(r.all) : width() - kNow - QFontMetrics(strong).horizontalAdvance(r.now);
    const int room = std::max(20, end - 12 - 8);
    painter.drawText(QRect(12, box.top(), room, kHeight), Qt::AlignVCenter, painter.fontMetrics().elidedText(r.name, Qt::ElideRight, room));
    painter.setPen(style::q(p.text));
    painter.drawText(QRect(width() - kAll - 76, box.top(), 76, kHeight), Qt::AlignVCenter | Qt::AlignRight, r.all);
    painter.setFont(strong);
    painter.drawText(QRect(width() - kNow - 74, box.top(), 74, kHeight), Qt::AlignVCenter | Qt::AlignRight, r.now);
    drawProvenanceMark(painter, QPointF(width() - 20, box.center().y() + 0.5), r.provenance);
  }
}

void NumberRows::setCurrent(int row) {
  current_ = std::clamp(row, 0, std::max(0, int(rows_.size()) - 1));
  if (!rows_.empty()) setAccessibleDescription(rows_[size_t(current_)].sentence);
  QAccessibleEvent changed(this, QAccessible::DescriptionChanged);
  QAccessible::updateAccessibility(&changed);
  update();
}

void NumberRows::keyPressEvent(QKeyEvent* event) {
  if (event->matches(QKeySequence::Copy) && !rows_.empty()) {
    QApplication::clipboard()->setText(rows_[size_t(current_)].sentence);
    return;
  }
  if (event->key() == Qt::Key_Down && current_ + 1 < int(rows_.size())) return setCurrent(current_ + 1);
  if (event->key() == Qt::Key_Up && current_ > 0) return setCurrent(current_ - 1);
  QWidget::keyPressEvent(event);
}

void NumberRows::mousePressEvent(QMouseEvent* event) { setCurrent(rowAt(event->pos().y())); }

bool NumberRows::event(QEvent* event) {
  if (event->type() == QEvent::ToolTip) {
    const auto* help = static_cast<QHelpEvent*>(event);
    const int row = rowAt(help->pos().y());
    if (row >= 0 && row < int(rows_.size()) && !rows_[size_t(row)].tip.isEmpty()) QToolTip::showText(help->globalPos(), rows_[size_t(row)].tip, this);
    else QToolTip::hideText();
    return true;
  }
  return QWidget::event(event);
}
void NumberRows::focusInEvent(QFocusEvent*) { update(); }
void NumberRows::focusOutEvent(QFocusEvent*) { update(); }

}  // namespace spanscope
