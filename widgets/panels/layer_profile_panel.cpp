// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/panels/layer_profile_panel.h"

#include <QHBoxLayout>
#include <QToolTip>
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/record/units.h"
#include "core/report/figure/head_grid_figure.h"
#include "widgets/panels/figure_canvas.h"
#include "widgets/panels/panel_kit.h"
#include "widgets/style/style.h"

namespace spanscope {

std::vector<double> layer_shares(const SessionData& session, const TurnRecord& turn, const std::vector<SpanId>& spans, bool consumer) {
  const uint32_t layers = session.header.layers, heads = session.header.query_heads;
  std::vector<double> n(layers, 0), out(layers, std::numeric_limits<double>::quiet_NaN());
  const size_t P = turn.profile_spans.size();
  if (turn.layer_mass.size() != size_t(layers) * 2 * P || !heads) return out;
  // Rows: answer rows are the turn's; consumer rows differ by span, so numerators and denominators are summed alike.
  double rows = 0;
  bool any = false;
  std::vector<Sums> sums;
  if (consumer) sums = turn_sums(session, turn, RowSet::consumer);
  for (SpanId id : spans) {
    const auto at = std::find(turn.profile_spans.begin(), turn.profile_spans.end(), id);
    if (at == turn.profile_spans.end()) continue;
    const size_t p = size_t(at - turn.profile_spans.begin());
    for (uint32_t l = 0; l < layers; ++l) n[l] += turn.layer_mass[(size_t(l) * 2 + (consumer ? 1 : 0)) * P + p];
    if (consumer && id < sums.size()) rows = std::max(rows, sums[id].triples / (double(layers) * heads));
    any = true;
  }
  if (!consumer) rows = turn.answer_rows();
  if (any && rows > 0)
    for (uint32_t l = 0; l < layers; ++l) out[l] = n[l] / (rows * heads);
  return out;
}

LayerProfilePanel::LayerProfilePanel(Document* document, QWidget* parent) : Panel(document, "layerProfile", tr("By layer"), parent) {
  setAccessibleName(tr("Share and reads of the selection by layer"));
  fillWithPanelColor(this);
  setProvenance(Provenance::captured);
  empty_ = new StateNote(this);
  page_ = new QWidget(this);
  auto* column = new QVBoxLayout(page_);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(0);
  auto* bar = new QWidget(page_);
  bar->setFixedHeight(32);
  auto* row = new QHBoxLayout(bar);
  row->setContentsMargins(12, 0, 8, 0);
  auto* label = new QLabel(tr("Rows"), bar);
  label->setObjectName("muted");
  rows_ = new Segments("layerRows", tr("Rows"), {tr("Answer"), tr("Consumer")}, bar);
  rows_->setToolTip(tr("Answer: rows that wrote the answer. Consumer: every row behind the span."));
  row->addWidget(label);
  row->addWidget(rows_);
  row->addStretch(1);
  column->addWidget(bar);
  canvas_ = new FigureCanvas("layerProfileView", tr("Share by layer"), page_);
  canvas_->setPadding(6);
  column->addWidget(canvas_, 1);
  body()->addWidget(empty_, 1);
  body()->addWidget(page_, 1);
  canvas_->setBuilder([this](double w, double h) {
    const Palette& c = style::colors();
    DisplayList list;
    const size_t layers = shares_.size();
    list.title = "By layer";
    list.width = w;
    if (!layers) return list;
    const double rowHeight = std::clamp(std::floor((h - 30) / double(layers)), 13.0, 22.0);
    list.height = 24 + rowHeight * double(layers) + 6;
    const auto text = [&](double x, double y, std::string s, Color ink, TextAnchor anchor, bool bold = false) {
      DrawItem i;
      i.kind = DrawItem::Kind::text;
      i.x = x, i.y = y, i.text = std::move(s), i.fill = ink, i.anchor = anchor, i.size = 10.5, i.bold = bold;
      list.items.push_back(std::move(i));
    };
    const auto rect = [&](double x, double y, double rw, double rh, Color fill, uint64_t id = 0) {
      DrawItem i;
      i.kind = DrawItem::Kind::rect;
      i.x = x, i.y = y, i.w = rw, i.h = rh, i.fill = fill, i.id = id;
      list.items.push_back(std::move(i));
    };
    const double left = 40, gap = 14, number = 42;
    const double room = std::max(20.0, (w - left - gap - 2 * number - 10) / 2);
    const double second = left + room + number + gap;
    text(left - 8, 12, "layer", c.textMuted, TextAnchor::end);
    text(left, 12, "share of mass", c.text, TextAnchor::start, true);
    text(second, 12, "reads", c.text, TextAnchor::start, true);
    double top = 0;
    uint32_t most = 0;
    for (double s : shares_)
      if (s > top) top = s;
    for (uint32_t r : reads_) most = std::max(most, r);
    const int on = this->document()->selection().layer;
    const auto bar = [](Color a, Color b) {
      const auto mix = [](uint8_t x, uint8_t y) { return uint8_t(x + (int(y) - x) * 0.3); };
      return Color{mix(a.r, b.r), mix(a.g, b.g), mix(a.b, b.b)};
    }(c.borderStrong, c.panel);
    for (size_t l = 0; l < layers; ++l) {
      const double y = 22 + double(l) * rowHeight, base = y + rowHeight / 2 + 4;
      const bool chosen = int(l) == on;
      const Color ink = chosen ? c.accent : c.textMuted, fill = chosen ? c.accent : bar;
      rect(0, y, w, rowHeight, Color{0, 0, 0, 0}, l + 1);
      text(left - 8, base, std::to_string(l), ink, TextAnchor::end, chosen);
      if (std::isnan(shares_[l])) {
        DrawItem hatch;
        hatch.kind = DrawItem::Kind::hatch;
        hatch.x = left, hatch.y = y + 3, hatch.w = room, hatch.h = rowHeight - 6;
        hatch.fill = c.hatchBack, hatch.stroke = c.hatchLine;
        list.items.push_back(hatch);
      } else {
        const double bw = top > 0 ? shares_[l] / top * room : 0;
        if (bw > 0) rect(left, y + 3, bw, rowHeight - 6, fill);
        text(left + bw + 5, base, percent(shares_[l]).toStdString(), ink, TextAnchor::start, chosen);
      }
      const double rw = most ? double(reads_[l]) / most * room : 0;
      if (rw > 0) rect(second, y + 3, rw, rowHeight - 6, this->document()->strength() > 0 ? c.reads_at(reads_[l]) : fill);
      text(second + rw + 5, base, count(reads_[l]).toStdString(), ink, TextAnchor::start, chosen);
    }
    return list;
  });
  connect(rows_, &Segments::chosen, this, [this] { reload(); });
  connect(canvas_, &FigureCanvas::clicked, this, [this](quint64 id, Qt::KeyboardModifiers) {
    this->document()->setHead(id ? int(id) - 1 : -1, -1, Origin::slices);
  });
  connect(canvas_, &FigureCanvas::hovered, this, [this](quint64 id, const QPoint& pos) {
    if (!id || id > shares_.size()) return QToolTip::hideText();
    QToolTip::showText(pos + QPoint(10, 10),
                       tr("<b>Layer %1</b><br>share %2 of all mass, sinks included<br>%3 reads").arg(id - 1).arg(percent(shares_[id - 1])).arg(reads_[id - 1]), canvas_);
  });
  connect(document, &Document::sessionChanged, this, [this] { reload(); });
  connect(document, &Document::selectionChanged, this, [this](const Selection&, Origin) { reload(); });
  connect(document, &Document::strengthChanged, this, [this] { reload(); });
  reload();
}

void LayerProfilePanel::reload() {
  const auto session = document()->session();
  const TurnRecord* turn = document()->turnRecord();
  const Selection& s = document()->selection();
  const bool any = session && turn && !s.spans.empty();
  empty_->setVisible(!any);
  page_->setVisible(any);
  shares_.clear();
  reads_.clear();
  if (!any) {
    setSubtitle({});
    empty_->say(session ? tr("No span selected") : tr("No session"),
                session ? tr("Click a row in the map or the tree to see in which layers it has attention.") : tr("Open a session first."));
    return;
  }
  const bool consumer = rows_->index() == 1;
  shares_ = layer_shares(*session, *turn, s.spans, consumer);
  HeadGridRequest request;
  request.spans = s.spans;
  request.settings = document()->settings().reads;
  reads_ = head_grid(*session, *turn, request).layer_reads;
  setSubtitle(tr("%1, turn %2; share of all mass, mean of %3 heads, %4 rows; reads at %5")
                  .arg(s.spans.size() == 1 ? spanNumber(s.first()) : tr("%1 spans, sum").arg(s.spans.size()))
                  .arg(turn->turn + 1)
                  .arg(session->header.query_heads)
                  .arg(consumer ? tr("consumer") : tr("answer"), strength(document()->strength())));
  canvas_->rebuild();
}

QByteArray LayerProfilePanel::pictureSvg() const { return canvas_->svg(); }
QImage LayerProfilePanel::picturePng(double scale) const { return canvas_->png(scale); }

}  // namespace spanscope
