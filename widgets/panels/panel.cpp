// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/panels/panel.h"

#include <QHBoxLayout>
#include <QImage>
#include <QLabel>
#include <QToolButton>

#include "widgets/panels/panel_kit.h"
#include "widgets/style/elided_label.h"
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
  header_->setFixedHeight(25);
  headerRow_ = new QHBoxLayout(header_);
  headerRow_->setContentsMargins(9, 0, 5, 1);
  headerRow_->setSpacing(6);
  auto* titleLabel = new QLabel(title, header_);
  titleLabel->setObjectName("panelTitle");
  subtitleLabel_ = new ElidedLabel({}, header_);
  subtitleLabel_->setObjectName("panelSubtitle");
  badge_ = new ProvBadge(Provenance::captured, header_);
  badge_->hide();
  headerRow_->addWidget(titleLabel);
  headerRow_->addWidget(subtitleLabel_, 1);
  headerRow_->addWidget(badge_);
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
  setAccessibleDescription(text);
  emit subtitleChanged();
}

void Panel::setProvenance(Provenance provenance, bool visible) {
  if (provenance_ == provenance && provenanceShown_ == visible) return;
  provenance_ = provenance;
  provenanceShown_ = visible;
  badge_->setKind(provenance);
  badge_->setVisible(visible);
  emit subtitleChanged();
}

void Panel::setHeaderVisible(bool visible) { header_->setVisible(visible); }

QToolButton* Panel::addHeaderTool(const QString& icon, const QString& name) {
  QToolButton* button = headerTool(icon, name, header_);
  headerRow_->addWidget(button);
  return button;
}

QImage Panel::picturePng(double scale) const {
  QImage image(size() * scale, QImage::Format_ARGB32_Premultiplied);
  image.setDevicePixelRatio(scale);
  const_cast<Panel*>(this)->render(&image);
  return image;
}

QToolButton* headerTool(const QString& icon, const QString& name, QWidget* parent) {
  auto* button = new QToolButton(parent);
  button->setObjectName("headerTool");
  button->setIcon(style::icon(icon));
  button->setIconSize({12, 12});
  button->setFixedSize(18, 18);
  button->setToolTip(name);
  button->setAccessibleName(name);
  return button;
}

}  // namespace spanscope
