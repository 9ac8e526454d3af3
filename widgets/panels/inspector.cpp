// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/panels/inspector.h"

#include <QGridLayout>
#include <QLabel>
#include <QPainter>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QScrollBar>
#include <QTimer>
#include <algorithm>
#include <cmath>

#include "core/record/units.h"
#include "widgets/panels/panel_kit.h"
#include "widgets/style/style.h"

namespace spanscope {
namespace {

// Reads of the selection by layer at the turn, as bars with their counts.
class LayerBars : public QWidget {
 public:
  LayerBars(std::vector<uint32_t> counts, QWidget* parent) : QWidget(parent), counts_(std::move(counts)) {
    setFixedHeight(86);
    setAccessibleName(QObject::tr("Reads by layer"));
  }

 protected:
  void paintEvent(QPaintEvent*) override {
    QPainter painter(this);
    const Palette& p = style::colors();
    uint32_t most = 1;
    for (uint32_t c : counts_) most = std::max(most, c);
    const double left = 12, w = (width() - 24.0) / double(std::max<size_t>(1, counts_.size())), base = height() - 18;
    QFont small = font();
    small.setPixelSize(9);
    painter.setFont(small);
    for (size_t l = 0; l < counts_.size(); ++l) {
      const double h = (base - 14) * counts_[l] / most, x = left + w * double(l);
      if (counts_[l]) painter.fillRect(QRectF(x + 1, base - h, std::max(1.0, w - 2), h), style::q(p.reads_at(counts_[l])));
      else painter.fillRect(QRectF(x + 1, base - 1, std::max(1.0, w - 2), 1), style::q(p.zeroLine));
      painter.setPen(style::q(p.textMuted));
      if (counts_[l] && w >= 13) painter.drawText(QRectF(x - 4, base - h - 13, w + 8, 12), Qt::AlignCenter, QString::number(counts_[l]));
      const size_t step = counts_.size() <= 8 ? 1 : counts_.size() <= 30 ? 6 : 12;
      if (l % step == 0 || l + 1 == counts_.size()) painter.drawText(QRectF(x - 8, base + 2, w + 16, 12), Qt::AlignCenter, QString::number(l));
    }
  }

 private:
  std::vector<uint32_t> counts_;
};

QString dash() { return QString::fromUtf8("–"); }
QString shown(const Value& v, bool percent, const char* unit = "") {
  if (v.state == ValueState::idle) return QObject::tr("idle");
  if (!v.ok()) return dash();
  return percent ? style::percent(v.number, v.number < 0.1 ? 2 : 1) : QString::number(v.number, 'f', 2) + QString::fromUtf8(unit);
}

}  // namespace

Inspector::Inspector(Document* document, QWidget* parent) : Panel(document, "inspector", tr("Inspector"), parent) {
  area_ = new QScrollArea(this);
  area_->setWidgetResizable(true);
  area_->setFrameShape(QFrame::NoFrame);
  area_->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  body()->addWidget(area_);
  auto again = [this] { rebuild(); };
  connect(document, &Document::sessionChanged, this, again);
  connect(document, &Document::selectionChanged, this, again);
  connect(document, &Document::strengthChanged, this, again);
  connect(document, &Document::measureChanged, this, again);
  connect(document, &Document::pinsChanged, this, again);
  rebuild();
}

void Inspector::rebuild() {
  auto* form = new QWidget;
  form->setAutoFillBackground(true);
  QPalette back = form->palette();
  back.setColor(QPalette::Window, style::q(style::colors().panel));
  form->setPalette(back);
  auto* column = new QVBoxLayout(form);
  column->setContentsMargins(0, 0, 0, 8);
  column->setSpacing(0);
  reads_.clear();
  auto pad = [&](QWidget* w, int top = 3, int bottom = 3) {
    auto* box = new QVBoxLayout;
    box->setContentsMargins(12, top, 12, bottom);
    box->addWidget(w);
    column->addLayout(box);
  };
  auto text = [&](const QString& t, const char* name = nullptr, bool wrap = true) {
    auto* label = new QLabel(t, form);
    if (name) label->setObjectName(name);
    label->setWordWrap(wrap);
    label->setTextFormat(Qt::PlainText);
    label->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
    return label;
  };
  Document* d = document();
  const auto session = d->session();
  const TurnRecord* turn = d->turnRecord();
  const auto& spans = d->selection().spans;
  setSubtitle(session ? tr("%1 selected, %2 pinned").arg(spans.size()).arg(d->pins().size()) : QString());
  if (!session || !turn) {
    pad(text(tr("No session is open."), "muted"), 12);
  } else if (spans.empty()) {
    const TurnReads& reads = d->history().turns[size_t(d->turn())];
    pad(text(tr("Turn %1").arg(turn->turn + 1), "panelTitle"), 12);
    pad(text(turn->open ? tr("An open turn: %1 prompt rows, no answer, so nothing was read.").arg(turn->rows(RowPhase::prompt))
                        : tr("%1 answer rows made %2 reads. %3 prompt rows, %4 tokens in the context.")
                              .arg(turn->answer_rows()).arg(style::number(reads.total)).arg(turn->rows(RowPhase::prompt)).arg(style::number(turn->context)), "muted"));
    pad(text(tr("Select a span in the map, the tree or the transcript to see how much it was read."), "muted"));
  } else {
    const SessionData& s = *session;
    const SpanId id = spans.front();
    const Span& span = s.ledger[id];
    const size_t t = size_t(d->turn());
    const TurnReads& reads = d->history().turns[t];
    const ReadSettings& settings = d->settings().reads;
    auto* head = new QLabel(form);
    head->setTextFormat(Qt::RichText);
    head->setWordWrap(true);
    head->setText(QString("<span style='color:%1;font-weight:700'>%2</span> &nbsp;<span style='color:%3'>%4</span> &nbsp;<b>%5</b>")
                      .arg(style::q(style::colors().role(span.role)).name(), QString(QLatin1Char(role_letter(span.role))),
                           style::q(style::colors().textMuted).name(), style::spanNumber(id), QString::fromStdString(span.name).toHtmlEscaped()));
    head->setObjectName("inspectorHead");
    pad(head, 10, 2);
    uint32_t from = 0, end = 0;
    for (const LayoutEntry& e : turn->layout) {
      bool mine = e.leaf == id;
      if (!mine && s.ledger[e.leaf].kind == SpanKind::content)
        for (SpanId a : s.ledger.ancestors(e.leaf)) mine = mine || a == id;
      if (!mine) continue;
      if (!end) from = e.position;
      end = e.position + e.len;
    }
    pad(text(tr("%1 · since turn %2 · %3 tokens%4").arg(QString::fromStdString(span.role)).arg(span.birth + 1).arg(style::number(span.tokens),
             end ? tr(" · positions %1–%2").arg(style::number(from), style::number(end - 1)) : tr(" · not in the context at turn %1").arg(turn->turn + 1)), "muted"), 0, 2);
    auto* marks = text(QString("%1   %2%3").arg(end ? tr("✓ HIT, resident") : tr("left the context"), QString(taint_name(span.taint)),
                                               span.digest.empty() ? QString() : tr("   digest %1").arg(QString::fromStdString(span.digest.substr(0, 8)))), "faint");
    pad(marks, 0, 4);
    if (spans.size() > 1) pad(text(tr("%1 spans selected; reads, share and mass below are their sums where said, the rest is of the first.").arg(spans.size()), "muted"));

    auto* textHead = new SectionHeader(tr("Text"), form);
    column->addWidget(textHead);
    if (!s.header.has_text) {
      pad(text(tr("Not captured: recorded with --no-text."), "muted"));
    } else if (span.taint == Taint::quarantined) {
      pad(text(tr("Quarantined: shown only after you ask."), "muted"));
    } else {
      auto* view = new QPlainTextEdit(form);
      view->setReadOnly(true);
      view->setFrameShape(QFrame::NoFrame);
      view->setStyleSheet("border:none;background:transparent;padding:0;");
      view->setPlainText(QString::fromStdString(s.text_of(id)));
      view->setAccessibleName(tr("Text of span %1").arg(id));
      const int lines = std::min(9, std::max(2, int(view->toPlainText().size()) / 42 + int(view->toPlainText().count(QLatin1Char(10))) + 1));
      view->setFixedHeight(lines * view->fontMetrics().lineSpacing() + 10);
      view->setTabChangesFocus(true);
      pad(view, 2, 2);
    }

    auto* grid = new QGridLayout;
    grid->setContentsMargins(12, 4, 12, 6);
    grid->setVerticalSpacing(5);
    grid->setColumnStretch(0, 1);
    grid->setHorizontalSpacing(14);
    int row = 0;
    auto line = [&](const QString& name, const QString& now, const QString& all, const QString& tipText = {}) {
      auto* label = text(name, "muted", false);
      auto* a = text(now, nullptr, false);
      auto* b = text(all, nullptr, false);
      a->setAlignment(Qt::AlignRight);
      b->setAlignment(Qt::AlignRight);
      QFont strong = a->font();
      strong.setBold(true);
      a->setFont(strong);
      for (QLabel* l : {label, a, b}) l->setToolTip(tipText);
      a->setAccessibleName(tr("%1 at turn %2: %3").arg(name).arg(turn->turn + 1).arg(now));
      grid->addWidget(label, row, 0);
      grid->addWidget(a, row, 1);
      grid->addWidget(b, row++, 2);
    };
    auto* countsHead = new SectionHeader(tr("How much it was read"), form);
    countsHead->setNote(tr("turn %1    session").arg(turn->turn + 1));
    column->addWidget(countsHead);
    qint64 now = 0, total = 0;
    bool resident = false;
    for (SpanId x : spans) {
      if (reads.reads[x] >= 0) {
        now += reads.reads[x];
        resident = true;
      }
      total += d->history().total_reads[x];
    }
    reads_ = resident && reads.answer_rows ? style::number(now) : dash();
    line(tr("Reads"), reads_, style::number(total), tr("Moments when a head turned to the span; strength %1").arg(settings.theta, 0, 'f', 2));
    uint64_t rows = 0;
    for (const TurnRecord& x : s.turns)
      if (x.turn >= span.birth) rows += x.answer_rows();
    line(tr("Reads per answer row"), resident && reads.answer_rows ? QString::number(double(now) / reads.answer_rows, 'f', 2) : dash(),
         rows ? QString::number(double(total) / double(rows), 'f', 2) : dash());
    const uint32_t first = d->history().first_read[id], last = d->history().last_read[id];
    line(tr("First and last read"), "", first ? tr("t%1, t%2").arg(first).arg(last) : tr("never"),
         tr("Turns with at least %1 reads within 16 answer rows").arg(s.header.read_min()));
    line(tr("Readers, of %1 heads").arg(s.header.layers * s.header.query_heads), reads.answer_rows && resident ? QString::number(readers_of(s, *turn, id, settings).size()) : dash(), "");
    float spikeMost = -1;
    uint32_t spikeTurn = 0;
    for (size_t k = 0; k < s.turns.size(); ++k)
      if (const float x = d->history().turns[k].spike[id]; std::isfinite(x) && x > spikeMost) {
        spikeMost = x;
        spikeTurn = s.turns[k].turn + 1;
      }
    const float spike = reads.spike[id];
    line(tr("Spike"), std::isfinite(spike) ? QString::number(spike, 'f', 2) : dash(),
         spikeMost >= 0 ? tr("%1 t%2").arg(spikeMost, 0, 'f', 2).arg(spikeTurn) : dash(), tr("The hardest that any head looked at it"));
    const RowSet set = d->settings().rows;
    Sums here, whole;
    for (SpanId x : spans)
      if (const Sums one = turn_sums(s, *turn, set)[x]; one.resident) {
        const double triples = std::max(here.triples, one.triples), sink = std::max(here.sink, one.sink);
        here += one;
        here.triples = triples, here.sink = sink, here.resident = true;
      }
    for (const TurnRecord& k : s.turns)
      if (const Sums one = turn_sums(s, k, set)[id]; one.resident) whole += one;
    const bool sink = span.kind == SpanKind::sink;
    line(tr("Share"), shown(unit_of(here, Unit::share, span.tokens, sink), true), shown(unit_of(whole, Unit::share, span.tokens, sink), true), tr("Fraction of the average row; consumer rows"));
    line(tr("Mass"), shown(unit_of(here, Unit::mass, span.tokens, sink), false), shown(unit_of(whole, Unit::mass, span.tokens, sink), false), tr("Rows' worth of attention, summed over layers and heads"));
    line(tr("Lift over uniform"), shown(unit_of(here, Unit::lift, span.tokens, sink), false, "×"), shown(unit_of(whole, Unit::lift, span.tokens, sink), false, "×"), tr("Times what uniform attention would give, sinks left out"));
    column->addLayout(grid);

    std::vector<uint32_t> byLayer(s.header.layers, 0);
    uint32_t sum = 0;
    for (SpanId x : spans)
      for (const Reader& r : readers_of(s, *turn, x, settings)) {
        byLayer[r.layer] += r.reads;
        sum += r.reads;
      }
    auto* layerHead = new SectionHeader(tr("Reads by layer, turn %1").arg(turn->turn + 1), form);
    layerHead->setNote(tr("sum %1").arg(sum));
    column->addWidget(layerHead);
    column->addWidget(new LayerBars(std::move(byLayer), form));

    auto* needHead = new SectionHeader(tr("Is it needed?"), form);
    column->addWidget(needHead);
    pad(text(tr("Not tested. Reads are where heads looked, not proof of use: a claim that the span can go is a hypothesis until an ablation confirms it."), "muted"), 4, 6);
    auto* pin = new QPushButton(std::find(d->pins().begin(), d->pins().end(), id) != d->pins().end() ? tr("Unpin") : tr("Pin"), form);
    pin->setObjectName("pinButton");
    connect(pin, &QPushButton::clicked, this, [d, id] { QTimer::singleShot(0, d, [d, id] { d->togglePin(id); }); });
    auto* buttons = new QHBoxLayout;
    buttons->setContentsMargins(12, 0, 12, 4);
    buttons->addWidget(pin);
    buttons->addStretch(1);
    column->addLayout(buttons);
    setAccessibleDescription(tr("Span %1, %2: %3 reads at turn %4").arg(id).arg(QString::fromStdString(span.name), reads_).arg(turn->turn + 1));
  }
  column->addStretch(1);
  const int scroll = area_->verticalScrollBar()->value();
  area_->setWidget(form);
  area_->verticalScrollBar()->setValue(scroll);
}

}  // namespace spanscope
