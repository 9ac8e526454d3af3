// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/main_window/banner.h"

#include <QHBoxLayout>
#include <QLabel>
#include <QPainter>
#include <QToolButton>
#include <QVBoxLayout>

#include "widgets/style/style.h"

namespace spanscope {

Banner::Banner(QWidget* parent) : QFrame(parent) {
  setObjectName("banner");
  row_ = new QHBoxLayout(this);
  row_->setContentsMargins(38, 7, 10, 7);
  row_->setSpacing(8);
  auto* words = new QVBoxLayout;
  words->setSpacing(1);
  title_ = new QLabel(this);
  title_->setObjectName("strong");
  text_ = new QLabel(this);
  text_->setObjectName("bannerText");
  text_->setWordWrap(true);
  for (QLabel* l : {title_, text_}) {
    l->setTextFormat(Qt::PlainText);
    l->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
    words->addWidget(l);
  }
  row_->addLayout(words, 1);
  auto* close = new QToolButton(this);
  close->setObjectName("headerTool");
  close->setIcon(style::icon("close"));
  close->setIconSize({12, 12});
  close->setToolTip(tr("Put away"));
  close->setAccessibleName(tr("Put the message away"));
  connect(close, &QToolButton::clicked, this, &QWidget::hide);
  row_->addWidget(close);
  hide();
}

void Banner::say(Grade grade, const QString& title, const QString& text) {
  grade_ = grade;
  for (QToolButton* b : buttons_) b->deleteLater();
  buttons_.clear();
  title_->setText(title);
  text_->setText(text);
  text_->setVisible(!text.isEmpty());
  setAccessibleName(title);
  setAccessibleDescription(text);
  style::mark(this, "grade", grade == Grade::error ? "error" : "warn");
  show();
}

QToolButton* Banner::addButton(const QString& text) {
  auto* b = new QToolButton(this);
  b->setText(text);
  b->setAccessibleName(text);
  buttons_ << b;
  row_->insertWidget(row_->count() - 1, b);
  return b;
}

QString Banner::title() const { return title_->text(); }
QString Banner::text() const { return text_->text(); }

void Banner::paintEvent(QPaintEvent* event) {
  QFrame::paintEvent(event);
  QPainter painter(this);
  const Palette& p = style::colors();
  style::drawIcon(painter, QRectF(14, height() / 2.0 - 8, 16, 16), grade_ == Grade::error ? "error" : "warning", style::q(grade_ == Grade::error ? p.error : p.warn));
}

}  // namespace spanscope
