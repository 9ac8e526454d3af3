// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/panels/threshold_panel.h"

#include <QHBoxLayout>
#include <QPainter>

#include "widgets/panels/panel_kit.h"
#include "widgets/plots/threshold_plot.h"

namespace spanscope {
namespace {

// Letter and word of the roles that the bars have.
class RoleLegend : public QWidget {
 public:
  explicit RoleLegend(QWidget* parent) : QWidget(parent) { setSizePolicy(QSizePolicy::Fixed, QSizePolicy::Fixed); }
  QSize sizeHint() const override {
    int w = 0;
    for (const char* role : kRoles) w += 14 + 4 + fontMetrics().horizontalAdvance(role) + 12;
    return {w, 20};
  }

 protected:
  void paintEvent(QPaintEvent*) override {
    QPainter p(this);
    int x = 0;
    for (const char* role : kRoles) {
      drawRoleBox(p, QRectF(x, 3, 14, 14), role);
      x += 18;
      p.setPen(panelColors().textMuted);
      p.drawText(QRect(x, 0, 200, 20), Qt::AlignVCenter, role);
      x += p.fontMetrics().horizontalAdvance(role) + 12;
    }
  }

 private:
  static constexpr const char* kRoles[] = {"system", "user", "assistant", "tool", "document"};
};

}  // namespace

ThresholdPanel::ThresholdPanel(Document* document, QWidget* parent)
    : Panel(document, "thresholdView", tr("Threshold"), parent), plot_(new ThresholdPlot(document, this)) {
  setAccessibleName(tr("Spans sorted by total reads, with threshold"));
  fillWithPanelColor(this);
  auto* bar = new QWidget(this);
  bar->setFixedHeight(30);
  auto* row = new QHBoxLayout(bar);
  row->setContentsMargins(10, 0, 10, 0);
  row->setSpacing(8);
  auto* hint = new QLabel(tr("Sorted by total reads. Drag the line or press ↑ ↓; Esc while dragging restores."), bar);
  hint->setObjectName("muted");
  hint->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
  row->addWidget(hint, 1);
  row->addWidget(new RoleLegend(bar));
  body()->addWidget(bar);
  body()->addWidget(plot_, 1);
  setProvenance(Provenance::captured);
  connect(document, &Document::sessionChanged, this, [this] { retitle(); });
  connect(document, &Document::strengthChanged, this, [this] { retitle(); });
  connect(document, &Document::filterChanged, this, [this](Origin) { retitle(); });
  retitle();
}

void ThresholdPanel::retitle() {
  const auto session = document()->session();
  if (!session) return setSubtitle({});
  QString text = tr("total reads of every message, strength %1, answer rows").arg(strength(document()->strength()));
  if (thresholdTerm(document()->filterText()).others) text += tr("; the line edits total_reads, the other terms stay");
  setSubtitle(text);
}

QByteArray ThresholdPanel::pictureSvg() const { return plot_->svg(title() + ": " + subtitle()); }
QImage ThresholdPanel::picturePng(double scale) const { return plot_->png(scale); }

}  // namespace spanscope
