// SPDX-License-Identifier: GPL-3.0-or-later
// One line of text that gives way: cut with an ellipsis where there is no room, whole in its tooltip. UI thread.
#pragma once
#include <QWidget>

namespace spanscope {

class ElidedLabel : public QWidget {
  Q_OBJECT
 public:
  explicit ElidedLabel(const QString& text = {}, QWidget* parent = nullptr);
  void setText(const QString& text);
  QString text() const { return text_; }
  void setMode(Qt::TextElideMode mode);
  void setAlignment(Qt::Alignment alignment);
  QSize sizeHint() const override;
  QSize minimumSizeHint() const override { return {0, sizeHint().height()}; }

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  QString text_;
  Qt::TextElideMode mode_ = Qt::ElideRight;
  Qt::Alignment alignment_ = Qt::AlignLeft;
};

}  // namespace spanscope
