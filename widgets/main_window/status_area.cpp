// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/main_window/status_area.h"

#include <QLabel>
#include <QPainter>
#include <QProgressBar>
#include <QStatusBar>
#include <QToolButton>
#include <algorithm>

#include "widgets/style/elided_label.h"
#include "widgets/style/style.h"

namespace spanscope {
namespace {

// Well, or not.
class StateIcon : public QWidget {
 public:
  explicit StateIcon(QWidget* parent) : QWidget(parent) {
    setObjectName("statusIcon");
    setFixedSize(22, 16);
  }

 protected:
  void paintEvent(QPaintEvent*) override {
    QPainter painter(this);
    const Palette& p = style::colors();
    const bool error = property("grade").toString() == "error", busy = property("grade").toString() == "busy";
    style::drawIcon(painter, QRectF(8, 2, 12, 12), error ? "error" : busy ? "rerun" : "ok", style::q(error ? p.error : busy ? p.textMuted : p.ok));
  }
};

}  // namespace

StatusArea::StatusArea(QStatusBar* bar) : QObject(bar) {
  bar->setSizeGripEnabled(false);
  bar->setContentsMargins(0, 0, 0, 0);
  const auto label = [bar](const char* name) {
    auto* l = new QLabel(bar);
    l->setObjectName(name);
    l->setProperty("rule", true);
    return l;
  };
  ready_ = new QLabel(tr("Ready"), bar);
  ready_->setObjectName("statusReady");
  text_ = new ElidedLabel({}, bar);
  text_->setObjectName("muted");
  text_->setAccessibleName(tr("Status"));
  bar_ = new QProgressBar(bar);
  bar_->setObjectName("statusProgress");
  bar_->setAccessibleName(tr("Progress"));
  bar_->setTextVisible(false);
  bar_->setFixedSize(128, 9);
  bar_->hide();
  cancel_ = new QToolButton(bar);
  cancel_->setObjectName("cancelButton");
  cancel_->setText(tr("Cancel"));
  cancel_->setAccessibleName(tr("Cancel"));
  cancel_->setToolTip(tr("Stop what runs\nCtrl+."));
  cancel_->setProperty("small", true);
  cancel_->setProperty("flat", true);
  cancel_->hide();
  connect(cancel_, &QToolButton::clicked, this, &StatusArea::cancelRequested);
  engine_ = label("statusEngine");
  state_ = label("statusState");
  file_ = label("statusFile");
  icon_ = new StateIcon(bar);
  bar->addWidget(icon_);
  bar->addWidget(ready_);
  bar->addWidget(bar_);
  bar->addWidget(cancel_);
  bar->addWidget(text_, 1);
  for (QLabel* l : {engine_, state_, file_}) bar->addPermanentWidget(l);
  clearFacts();
}

void StatusArea::say(const QString& text) {
  style::mark(ready_, "grade", "ok");
  style::mark(icon_, "grade", busy_ ? "busy" : "ok");
  if (!busy_) ready_->setText(tr("Ready"));
  text_->setText(text);
}

void StatusArea::error(const QString& text) {
  style::mark(ready_, "grade", "error");
  style::mark(icon_, "grade", "error");
  ready_->setText(tr("Error"));
  text_->setText(text);
}

void StatusArea::progress(const QString& text, quint64 done, quint64 total) {
  busy_ = true;
  style::mark(ready_, "grade", "ok");
  style::mark(icon_, "grade", "busy");
  ready_->setText(text);
  text_->setText({});
  bar_->setRange(0, total ? 1000 : 0);
  if (total) bar_->setValue(int(1000.0 * double(done) / double(total)));
  bar_->show();
  cancel_->show();
}

void StatusArea::idle() {
  busy_ = false;
  bar_->hide();
  cancel_->hide();
  if (ready_->property("grade").toString() == "error") return;
  ready_->setText(tr("Ready"));
  style::mark(icon_, "grade", "ok");
}

void StatusArea::setFacts(const QString& engine, const QString& state, bool good, const QString& file) {
  engine_->setText(engine);
  state_->setText(state);
  style::mark(state_, "grade", good ? "ok" : "warn");
  file_->setText(file);
  for (QLabel* l : {engine_, state_, file_}) l->setVisible(!l->text().isEmpty());
}

void StatusArea::clearFacts() { setFacts({}, {}, true, {}); }
QString StatusArea::text() const { return ready_->property("grade").toString() == "error" || busy_ ? ready_->text() + " " + text_->text() : text_->text(); }

}  // namespace spanscope
