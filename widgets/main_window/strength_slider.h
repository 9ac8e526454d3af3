// SPDX-License-Identifier: GPL-3.0-or-later
// The strength from which a look counts as a read, under a small histogram of the session's event masses. Dragging
// recounts every panel; release commits, Esc restores. UI thread.
#pragma once
#include <QWidget>

#include "widgets/document/document.h"

namespace spanscope {

class StrengthSlider : public QWidget {
  Q_OBJECT
 public:
  explicit StrengthSlider(Document* document, QWidget* parent = nullptr);
  void setCompact(bool compact);
  QSize sizeHint() const override;
  QSize minimumSizeHint() const override { return sizeHint(); }
  int xOf(float theta) const;  // where the handle stands: for tests

 protected:
  void paintEvent(QPaintEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void wheelEvent(QWheelEvent* event) override;

 private:
  void drag(double x);
  void describe();
  int left() const;
  int track() const { return compact_ ? 66 : 104; }
  Document* document_;
  std::vector<int> histogram_;  // 70 bins of 0.01 from 0.20
  qint64 events_ = 0;
  float before_ = 0.3f;
  bool dragging_ = false, compact_ = false;
};

}  // namespace spanscope
