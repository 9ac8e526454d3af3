// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/panels/panel.h"

#include <QHBoxLayout>
#include <QImage>

#include "widgets/style/style.h"

namespace spanscope {

Panel::Panel(Document* document, const QString& objectName, const QString& title, QWidget* parent)
    : QWidget(parent), document_(document), title_(title) {
  setObjectName(objectName);
  setAccessibleName(title);
  auto* outer = new QVBoxLayout(this);
  outer->setContentsMargins(0, 0, 0, 0);
  outer->setSpacing(0);
  header_ = new QWidget(this);
  header_->setObjectName("panelHeader");
  header_->setAttribute(Qt::WA_StyledBackground);
  header_->setFixedHeight(26);
  auto* row = new QHBoxLayout(header_);
  row->setContentsMargins(10, 0, 8, 0);
  row->setSpacing(8);
  titleLabel_ = new QLabel(title, header_);
  titleLabel_->setObjectName("panelTitle");
  subtitleLabel_ = new QLabel(header_);
  subtitleLabel_->setObjectName("panelSubtitle");
  subtitleLabel_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
  badge_ = new QLabel(header_);
  badge_->setObjectName("badge");
  badge_->hide();
  row->addWidget(titleLabel_);
  row->addWidget(subtitleLabel_, 1);
  row->addWidget(badge_);
  outer->addWidget(header_);
  body_ = new QVBoxLayout;
  body_->setContentsMargins(0, 0, 0, 0);
  body_->setSpacing(0);
  outer->addLayout(body_, 1);
}

void Panel::setSubtitle(const QString& text) {
  if (subtitle_ == text) return;
  subtitle_ = text;
  subtitleLabel_->setText(text);
  subtitleLabel_->setToolTip(text);
  setAccessibleDescription(text);
  emit subtitleChanged();
}

void Panel::setProvenance(Provenance provenance, bool visible) {
  static const char* words[] = {"captured", "re-run", "approximated", "not captured"};
  badge_->setText(QString::fromUtf8("● ") + tr(words[int(provenance)]));
  badge_->setProperty("provenance", words[int(provenance)]);
  badge_->setAccessibleName(tr("Provenance: %1").arg(tr(words[int(provenance)])));
  const Palette& p = style::colors();
  const Color inks[] = {p.captured, p.rerun, p.approx, p.missing};
  const QString ink = style::q(inks[int(provenance)]).name();
  badge_->setStyleSheet(QString("QLabel{color:%1;border:1px solid %1;border-radius:3px;padding:0 5px;font-size:10px;}").arg(ink));
  badge_->setVisible(visible);
}

void Panel::setHeaderVisible(bool visible) { header_->setVisible(visible); }

QImage Panel::picturePng(double scale) const {
  QImage image(size() * scale, QImage::Format_ARGB32_Premultiplied);
  image.setDevicePixelRatio(scale);
  const_cast<Panel*>(this)->render(&image);
  return image;
}

}  // namespace spanscope
