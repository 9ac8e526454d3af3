// SPDX-License-Identifier: GPL-3.0-or-later
// The strength from which a look counts as a read, under a small histogram of the session's event masses. Dragging
// recounts every panel; Esc restores. UI thread.
#pragma once
#include <QWidget>

#include "widgets/document/document.h"

namespace spanscope {

class StrengthSlider : public QWidget {
  Q_OBJECT
 public:
  explicit StrengthSlider(Document* document, QWidget* parent = nullptr);
  QSize sizeHint() const override { return {206, 28}; }
  QSize minimumSizeHint() const override { return sizeHint(); }

 protected:
  void paintEvent(QPaintEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  void drag(double x);
  Document* document_;
  std::vector<int> histogram_;  // 70 bins of 0.01 from 0.20
  float before_ = 0.3f;
  bool dragging_ = false;
};

}  // namespace spanscope
