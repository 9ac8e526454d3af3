// SPDX-License-Identifier: GPL-3.0-or-later
// The chat as text, tinted by what was read; runs of unread spans fold; selecting words of an answer asks what they read.
// UI thread.
#pragma once
#include <memory>

#include "widgets/panels/panel.h"

namespace spanscope {

class Segments;
class SmallButton;
class TranscriptView;

class TranscriptPanel : public Panel {
  Q_OBJECT
 public:
  TranscriptPanel(Document* document, QWidget* parent = nullptr);
  TranscriptView* view() const { return view_; }
  bool hasPicture() const override { return true; }
  QByteArray pictureSvg() const override;

 protected:
  void resizeEvent(QResizeEvent* event) override;

 private:
  void retitle();
  TranscriptView* view_;
  QWidget *key_, *label_;
  Segments *tint_, *mode_;
  SmallButton* fold_;
};

}  // namespace spanscope
