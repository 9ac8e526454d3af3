// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/panels/inspector.h"

#include <QApplication>
#include <QClipboard>
#include <QHBoxLayout>
#include <QLabel>
#include <QFontMetrics>
#include <QPainter>
#include <QPlainTextEdit>
#include <QScrollBar>
#include <QTextOption>
#include <QTimer>
#include <algorithm>
#include <cmath>

#include "widgets/panels/map_tip.h"
#include "widgets/panels/panel_kit.h"
#include "widgets/panels/row_table.h"
#include "widgets/style/elided_label.h"
#include "widgets/style/style.h"

namespace spanscope {
namespace {

// Reads of the selection by layer at the turn, as bars with their counts.
class LayerBars : public QWidget {
 public:
  LayerBars(std::vector<uint32_t> counts, QWidget* parent) : QWidget(parent), counts_(std::move(counts)) {
    setFixedHeight(84);
    setAccessibleName(QObject::tr("Reads by layer"));
    QStringList words;
    for (size_t l = 0; l < counts_.size(); ++l)
      if (counts_[l]) words << QObject::tr("layer %1: %2").arg(l).arg(counts_[l]);
    setAccessibleDescription(words.join(", "));
    setToolTip(words.join("\n"));
  }

 protected:
  void paintEvent(QPaintEvent*) override {
    QPainter painter(this);
    const Palette& p = style::colors();
    uint32_t most = 1;
    for (uint32_t c : counts_) most = std::max(most, c);
    const double left = 12, w = std::min(26.0, (width() - 24.0) / double(std::max<size_t>(1, counts_.size()))), base = height() - 19;
    painter.setFont(style::sized(10));
    double lastTick = -100, lastCount = -100;
    for (size_t l = 0; l < counts_.size(); ++l) {
      const double h = (base - 16) * counts_[l] / most, x = left + w * double(l), gap = w > 5 ? 1 : 0;
      if (counts_[l]) painter.fillRect(QRectF(x + gap, base - std::max(1.0, h), std::max(1.0, w - 2 * gap), std::max(1.0, h)), style::q(p.reads_at(counts_[l])));
      else painter.fillRect(QRectF(x + gap, base - 1, std::max(1.0, w - 2 * gap), 1), style::q(p.zeroLine));
      painter.setPen(style::q(p.text));
      if (counts_[l] && counts_[l] * 12 >= most && x - lastCount >= 13) {
        painter.drawText(QRectF(x - 10, base - h - 14, w + 20, 12), Qt::AlignCenter, QString::number(counts_[l]));
        lastCount = x;
      }
      painter.setPen(style::q(p.textMuted));
      const size_t step = counts_.size() <= 8 ? 1 : counts_.size() <= 30 ? 6 : 12;
      if (l % step == 0 || (l + 1 == counts_.size() && x - lastTick > 20)) {
        painter.drawText(QRectF(x - 8, base + 3, w + 16, 12), Qt::AlignCenter, QString::number(l));
        lastTick = x;
      }
    }
  }

 private:
  std::vector<uint32_t> counts_;
};

// Words in a thin frame: HIT, tainted.
class Mark : public QWidget {
 public:
  Mark(const QString& text, const Color& ink, QWidget* parent) : QWidget(parent), text_(text), ink_(style::q(ink)) {
    setSizePolicy(QSizePolicy::Fixed, QSizePolicy::Fixed);
    setAccessibleName(text);
  }
  QSize sizeHint() const override { return {QFontMetrics(style::sized(11)).horizontalAdvance(text_) + 12, 17}; }

 protected:
  void paintEvent(QPaintEvent*) override {
    QPainter p(this);
    p.setRenderHint(QPainter::Antialiasing);
    p.setPen(QPen(ink_, 1));
    p.drawRoundedRect(QRectF(rect()).adjusted(0.5, 0.5, -0.5, -0.5), 3, 3);
    p.setFont(style::sized(11));
    p.drawText(rect(), Qt::AlignCenter, text_);
  }

 private:
  QString text_;
  QColor ink_;
};

class RoleBox : public QWidget {
 public:
  RoleBox(std::string role, QWidget* parent) : QWidget(parent), role_(std::move(role)) { setFixedSize(15, 16); }

 protected:
  void paintEvent(QPaintEvent*) override {
    QPainter p(this);
    style::drawRoleBox(p, rect(), role_);
  }

 private:
  std::string role_;
};

QString dash() { return QString::fromUtf8("–"); }
QString shown(const Value& v, Measure measure) {
  if (v.state == ValueState::idle) return QObject::tr("idle");
  return v.ok() ? measureValue(v.number, measure).replace(QObject::tr(" / 1,000 tokens"), QString()) : dash();
}

QLabel* words(const QString& text, QWidget* parent, const char* name = "muted") {
  auto* label = new QLabel(text, parent);
  label->setObjectName(name);
  label->setWordWrap(true);
  label->setTextFormat(Qt::PlainText);
  label->setTextInteractionFlags(Qt::TextSelectableByMouse);
  return label;
}

void pad(QVBoxLayout* column, QWidget* w, int top, int bottom) {
  auto* box = new QVBoxLayout;
  box->setContentsMargins(12, top, 12, bottom);
  box->addWidget(w);
  column->addLayout(box);
}

}  // namespace

Inspector::Inspector(Document* document, QWidget* parent) : Panel(document, "inspector", tr("Inspector"), parent) {
  area_ = new QScrollArea(this);
  area_->setWidgetResizable(true);
  area_->setFrameShape(QFrame::NoFrame);
  area_->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  area_->setFocusPolicy(Qt::NoFocus);
  body()->addWidget(area_);
  const auto stale = [this] {
    stale_ = true;
    if (isVisible()) rebuild();
  };
  connect(document, &Document::sessionChanged, this, stale);
  connect(document, &Document::selectionChanged, this, stale);
  connect(document, &Document::strengthChanged, this, stale);
  connect(document, &Document::measureChanged, this, stale);
  connect(document, &Document::pinsChanged, this, stale);
  rebuild();
}

void Inspector::showEvent(QShowEvent* event) {
  Panel::showEvent(event);
  if (stale_) rebuild();
}
void Inspector::changeEvent(QEvent* event) {
  Panel::changeEvent(event);
  if (event->type() == QEvent::PaletteChange) {
    stale_ = true;
    if (isVisible()) QTimer::singleShot(0, this, [this] { rebuild(); });
  }
}

void Inspector::resizeEvent(QResizeEvent* event) {
  Panel::resizeEvent(event);
  if (isVisible() && (width() < 300) != tight_) QTimer::singleShot(0, this, [this] { rebuild(); });
}

void Inspector::rebuild() {
  stale_ = false;
  tight_ = width() < 300;  // short words where there is little room
  reads_.clear();
  sentence_.clear();
  const auto session = document()->session();
  const auto& spans = document()->selection().spans;
  auto* form = new QWidget;
  form->setAutoFillBackground(true);
  QPalette back = form->palette();
  back.setColor(QPalette::Window, style::q(style::colors().panel));
  form->setPalette(back);
  auto* column = new QVBoxLayout(form);
  column->setContentsMargins(0, 0, 0, 8);
  column->setSpacing(0);
  setSubtitle(session ? tr("%1 selected, %2 pinned").arg(spans.size()).arg(document()->pins().size()) : QString());
  if (!session || !document()->turnRecord() || spans.empty()) {
    addEmpty(column, form);
  } else if (spans.size() > 1) {
    addSeveral(column, form);
    addLayers(column, form);
  } else {
    addHead(column, form, spans.front());
    addText(column, form, spans.front());
    addNumbers(column, form, spans.front());
    addLayers(column, form);
    addActions(column, form, spans.front());
  }
  column->addStretch(1);
  const int scroll = area_->verticalScrollBar()->value();
  area_->setWidget(form);
  area_->verticalScrollBar()->setValue(scroll);
  if (!sentence_.isEmpty()) setAccessibleDescription(sentence_);
}

void Inspector::addEmpty(QVBoxLayout* column, QWidget* form) {
  const TurnRecord* turn = document()->turnRecord();
  if (!turn) {
    pad(column, words(document()->empty() ? tr("No session is open.") : tr("The session has no closed turn."), form), 12, 4);
    return;
  }
  const TurnReads& reads = document()->history().turns[size_t(document()->turn())];
  pad(column, words(tr("Turn %1").arg(turn->turn + 1), form, "strong"), 12, 3);
  pad(column, words(turn->answer_rows() == 0
                        ? tr("A turn without an answer: %1 prompt rows, so nothing was read.").arg(turn->rows(RowPhase::prompt))
                        : tr("%1 answer rows made %2 reads. %3 prompt rows, %4 tokens in the context.")
                              .arg(style::number(turn->answer_rows()), style::number(reads.total), style::number(turn->rows(RowPhase::prompt)), style::number(turn->context)),
                    form), 0, 12);
  pad(column, words(tr("Nothing selected"), form, "strong"), 8, 3);
  pad(column, words(tr("Click a row in the map or a span in the tree. Hold Ctrl to add, Shift to extend."), form), 0, 4);
}

void Inspector::addHead(QVBoxLayout* column, QWidget* form, SpanId id) {
  const SessionData& s = *document()->session();
  const TurnRecord& turn = *document()->turnRecord();
  const Span& span = s.ledger[id];
  auto* row = new QHBoxLayout;
  row->setContentsMargins(12, 9, 10, 2);
  row->setSpacing(7);
  row->addWidget(new RoleBox(span.role, form));
  auto* number = new QLabel(style::spanNumber(id), form);
  number->setObjectName("muted");
  row->addWidget(number);
  auto* name = new ElidedLabel(spanTitle(s, id), form);
  name->setObjectName("inspectorName");
  name->setFont(style::sized(13, true));
  row->addWidget(name, 1);
  const bool pinned = std::find(document()->pins().begin(), document()->pins().end(), id) != document()->pins().end();
  auto* pin = new QToolButton(form);
  pin->setObjectName("headerTool");
  pin->setProperty("action", "pin");
  pin->setIcon(style::icon("pin"));
  pin->setIconSize({14, 14});
  pin->setFixedSize(22, 20);
  pin->setCheckable(true);
  pin->setChecked(pinned);
  if (pinned) pin->setStyleSheet(QString("QToolButton{background:%1}").arg(style::q(style::colors().selection).name()));
  pin->setToolTip(pinned ? tr("Unpin (P)") : tr("Pin: keep it in the trajectories (P)"));
  pin->setAccessibleName(pinned ? tr("Unpin") : tr("Pin"));
  connect(pin, &QToolButton::clicked, this, [d = document(), id] { QTimer::singleShot(0, d, [d, id] { d->togglePin(id); }); });
  row->addWidget(pin);
  column->addLayout(row);

  uint32_t from = 0, end = 0;
  for (const LayoutEntry& e : turn.layout) {
    bool mine = e.leaf == id;
    if (!mine && s.ledger[e.leaf].kind == SpanKind::content)
      for (SpanId a : s.ledger.ancestors(e.leaf)) mine = mine || a == id;
    if (!mine) continue;
    if (!end) from = e.position;
    end = e.position + e.len;
  }
  QString facts = tr("%1 · turn %2 · %3 tokens").arg(span.role == "tool" ? tr("tool result") : QString::fromStdString(span.role)).arg(span.birth + 1).arg(style::number(span.tokens));
  facts += end ? tr(" · positions %1–%2").arg(style::number(from), style::number(end - 1)) : tr(" · not in the context at turn %1").arg(turn.turn + 1);
  pad(column, words(facts, form), 0, 4);
  const Palette& p = style::colors();
  auto* marks = new QHBoxLayout;
  marks->setContentsMargins(12, 0, 12, 8);
  marks->setSpacing(6);
  marks->addWidget(end ? new Mark(tr("✓ HIT, resident"), p.ok, form) : new Mark(tr("FAULT, left the context"), p.warn, form));
  if (span.taint != Taint::trusted) marks->addWidget(new Mark(tr(taint_name(span.taint)), p.warn, form));
  if (!span.digest.empty()) {
    auto* digest = new ElidedLabel(tr("digest %1 %2").arg(QString::fromStdString(span.digest.substr(0, 4)), QString::fromStdString(span.digest.substr(4, 4))), form);
    digest->setObjectName("muted");
    marks->addWidget(digest, 1);
  }
  marks->addStretch();
  column->addLayout(marks);
}

void Inspector::addText(QVBoxLayout* column, QWidget* form, SpanId id) {
  const SessionData& s = *document()->session();
  auto* head = new SectionHeader(tr("Text"), form);
  column->addWidget(head);
  if (!s.header.has_text) {
    pad(column, words(tr("Not captured: recorded with --no-text."), form), 5, 6);
    return;
  }
  if (s.ledger[id].taint == Taint::quarantined) {
    pad(column, words(tr("Quarantined: not shown."), form), 5, 6);
    return;
  }
  auto* view = new QPlainTextEdit(form);
  view->setObjectName("spanText");
  view->setReadOnly(true);
  view->setFrameShape(QFrame::NoFrame);
  view->setFont(style::mono());
  view->document()->setDocumentMargin(2);
  view->setWordWrapMode(QTextOption::WrapAtWordBoundaryOrAnywhere);
  view->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  view->setPlainText(QString::fromStdString(s.text_of(id)));
  view->setAccessibleName(tr("Text of span %1").arg(style::spanNumber(id)));
  view->setTabChangesFocus(true);
  const bool low = window()->height() < 800;
  const int most = low ? 3 : 9;
  // Lines as they will wrap: counted from the width of a fixed font.
  const int columns = std::max(10, (area_->viewport()->width() - 40) / std::max(1, view->fontMetrics().horizontalAdvance('0')));
  int lines = 0, paragraphs = 0;
  for (const QString& line : view->toPlainText().split('\n')) {
    lines += std::max(1, int((line.size() + columns - 1) / columns));
    ++paragraphs;
  }
  head->setNote(lines > most ? tr("%1 of %2 lines").arg(most).arg(lines) : QString());
  view->setFixedHeight(std::clamp(lines, 1, most) * view->fontMetrics().lineSpacing() + 6);
  pad(column, view, 4, 4);
}

const Sums& Inspector::wholeSums(SpanId id) {
  const auto session = document()->session();
  const RowSet rows = document()->settings().rows;
  if (wholeOf_ != id || wholeRows_ != rows || wholeSession_ != session.get()) {
    whole_ = {};
    for (const TurnRecord& k : session->turns)
      if (const Sums one = span_sums(*session, k, id, rows); one.resident) {
        whole_ += one;
        whole_.resident = true;
      }
    wholeOf_ = id, wholeRows_ = rows, wholeSession_ = session.get();
  }
  return whole_;
}

void Inspector::addNumbers(QVBoxLayout* column, QWidget* form, SpanId id) {
  const SessionData& s = *document()->session();
  const TurnRecord& turn = *document()->turnRecord();
  const Span& span = s.ledger[id];
  const ReadHistory& history = document()->history();
  const TurnReads& reads = history.turns[size_t(document()->turn())];
  const ReadSettings& settings = document()->settings().reads;
  auto* head = new QWidget(form);
  head->setFixedHeight(23);
  column->addWidget(head);
  auto* headRow = new QHBoxLayout(head);
  headRow->setContentsMargins(0, 0, 0, 0);
  const bool tight = tight_;
  // The whole title only where it does not reach the column titles, whatever the font.
  QFont strong = font();
  strong.setWeight(QFont::DemiBold);
  const int room = width() - NumberRows::kNow - QFontMetrics(font()).horizontalAdvance(tr("turn %1").arg(1000));
  const bool fits = QFontMetrics(strong).horizontalAdvance(tr("How much it was read")) + 24 < room;
  auto* section = new SectionHeader(tight || !fits ? tr("Read") : tr("How much it was read"), head);
  headRow->addWidget(section);
  // Column titles stand over their numbers.
  class Titles : public QWidget {
   public:
    Titles(QString now, QString all, QWidget* over) : QWidget(over), now_(std::move(now)), all_(std::move(all)) {
      setAttribute(Qt::WA_TransparentForMouseEvents);
    }
   protected:
    void paintEvent(QPaintEvent*) override {
      QPainter p(this);
      p.setPen(style::q(style::colors().textMuted));
      p.drawText(QRect(width() - NumberRows::kNow - 80, 0, 80, height()), Qt::AlignVCenter | Qt::AlignRight, now_);
      p.drawText(QRect(width() - NumberRows::kAll - 80, 0, 80, height()), Qt::AlignVCenter | Qt::AlignRight, all_);
    }
   private:
    QString now_, all_;
  };
  auto* titleLayout = new QHBoxLayout(section);
  titleLayout->setContentsMargins(0, 0, 0, 0);
  titleLayout->addWidget(new Titles(tr("turn %1").arg(turn.turn + 1), tr("session"), section));

  const bool here = reads.reads[id] >= 0 && reads.answer_rows > 0;
  const QString scope = tr("captured; strength %1; %2 answer rows; %3 layers × %4 heads").arg(settings.theta, 0, 'f', 2).arg(style::number(reads.answer_rows)).arg(s.header.layers).arg(s.header.query_heads);
  std::vector<NumberRow> rows;
  const auto add = [&](const QString& name, const QString& now, const QString& all, const QString& tip, bool ruled = false) {
    NumberRow r;
    r.name = name, r.now = now, r.all = all, r.tip = tip, r.ruled = ruled;
    r.sentence = tr("%1 %2 at turn %3 = %4 (%5)").arg(style::spanNumber(id), name.toLower()).arg(turn.turn + 1).arg(now.isEmpty() ? all : now, scope);
    rows.push_back(std::move(r));
  };
  reads_ = reads.reads[id] >= 0 ? style::number(reads.reads[id]) : dash();
  add(tr("Reads"), reads_, style::number(history.total_reads[id]), tr("Moments when a head turned to the span: counted, never averaged"));
  uint64_t answerRows = 0;
  for (const TurnRecord& x : s.turns)
    if (x.turn >= span.birth) answerRows += x.answer_rows();
  add(tight ? tr("Per row") : tr("Reads per answer row"), here ? QString::number(double(reads.reads[id]) / reads.answer_rows, 'f', 2) : dash(),
      answerRows ? QString::number(double(history.total_reads[id]) / double(answerRows), 'f', 2) : dash(), {});
  const uint32_t first = history.first_read[id], last = history.last_read[id];
  add(tight ? tr("First, last") : tr("First and last read"), {}, first ? tr("t%1, t%2").arg(first).arg(last) : tr("never"), tr("Turns with at least %1 reads within 16 answer rows").arg(s.header.read_min()));
  add(tight ? tr("Readers") : tr("Readers, of %1 heads").arg(s.header.layers * s.header.query_heads), here ? QString::number(readers_of(s, turn, id, settings).size()) : dash(), {}, tr("Heads that read it"));
  float spikeMost = -1;
  uint32_t spikeTurn = 0;
  for (size_t k = 0; k < s.turns.size(); ++k)
    if (const float x = history.turns[k].spike[id]; std::isfinite(x) && x > spikeMost) {
      spikeMost = x;
      spikeTurn = s.turns[k].turn + 1;
    }
  const float spike = reads.spike[id];
  add(tr("Spike"), std::isfinite(spike) ? QString::number(spike, 'f', 2) : dash(), spikeMost >= 0 ? tr("%1 t%2").arg(spikeMost, 0, 'f', 2).arg(spikeTurn) : dash(),
      tr("The hardest that any head looked at it, as a part of one row's attention"));
  const auto& all = document()->cells().rows;
  const auto rank = [&](auto value) {
    int better = 1;
    for (SpanId other : all) better += value(other) > value(id);
    return better;
  };
  add(tr("Rank of %1").arg(all.size()), here ? QString::number(rank([&](SpanId x) { return qint64(reads.reads[x]); })) : dash(),
      QString::number(rank([&](SpanId x) { return history.total_reads[x]; })), tr("By reads, among the messages"));
  const Sums now = span_sums(s, turn, id, document()->settings().rows);
  const Sums& whole = wholeSums(id);
  const bool sink = span.kind == SpanKind::sink;
  const std::tuple<Measure, Unit, QString, QString> units[] = {
      {Measure::share, Unit::share, tr("Share"), tr("Fraction of the average row, consumer rows")},
      {Measure::density, Unit::density, tight ? tr("Density") : tr("Share per 1,000 tokens"), tr("Fair to short spans; does not add up")},
      {Measure::lift, Unit::lift, tight ? tr("Lift") : tr("Lift over uniform"), tr("Times what an even spread would give, sinks left out")}};
  bool ruled = true;
  for (const auto& [measure, unit, name, tip] : units) {
    add(name, now.resident ? shown(unit_of(now, unit, span.tokens, sink), measure) : dash(), whole.resident ? shown(unit_of(whole, unit, span.tokens, sink), measure) : dash(), tip, ruled);
    ruled = false;
  }
  auto* table = new NumberRows(tr("How much span %1 was read").arg(style::spanNumber(id)), form);
  table->setObjectName("inspectorNumbers");
  table->setRows(std::move(rows));
  column->addWidget(table);
  sentence_ = table->rows().front().sentence;
}

void Inspector::addSeveral(QVBoxLayout* column, QWidget* form) {
  const SessionData& s = *document()->session();
  const TurnRecord& turn = *document()->turnRecord();
  const TurnReads& reads = document()->history().turns[size_t(document()->turn())];
  const auto& spans = document()->selection().spans;
  qint64 now = 0, total = 0, tokens = 0;
  std::vector<TableRow> rows;
  const auto number = [](qint64 n, bool strong) {
    TableCell c;
    c.kind = TableCell::Kind::number;
    c.text = n < 0 ? dash() : count(n);
    c.strong = strong;
    return c;
  };
  for (SpanId id : spans) {
    const bool here = reads.reads[id] >= 0 && reads.answer_rows > 0;
    if (here) now += reads.reads[id];
    total += document()->history().total_reads[id];
    tokens += s.ledger[id].tokens;
    TableRow row;
    row.span = id;
    TableCell name;
    name.kind = TableCell::Kind::span;
    name.span = id;
    name.role = spanRole(s, id);
    name.text = spanTitle(s, id);
    row.cells = {name, number(here ? reads.reads[id] : -1, false), number(document()->history().total_reads[id], false)};
    rows.push_back(std::move(row));
  }
  TableRow sum;
  TableCell label;
  label.text = tr("Sum");
  label.strong = true;
  sum.cells = {label, number(now, true), number(total, true)};
  rows.push_back(std::move(sum));
  pad(column, words(tr("%1 spans selected").arg(spans.size()), form, "strong"), 10, 2);
  pad(column, words(tr("%1 tokens. Reads are summed.").arg(style::number(tokens)), form), 0, 6);
  auto* table = new RowTable("inspectorSelection", tr("Selected spans"), form);
  table->setColumns({{tr("Span"), false, 0, {}}, {tr("Turn %1").arg(turn.turn + 1), true, 62, {}}, {tr("Session"), true, 62, {}}});
  table->setRows(std::move(rows));
  table->setFitsRows(true);
  connect(table, &RowTable::rowClicked, this, [d = document()](const TableRow& row, Qt::KeyboardModifiers) {
    if (row.span != kNoSpan) QTimer::singleShot(0, d, [d, id = row.span] { d->select(id, Origin::inspector); });
  });
  column->addWidget(table);
  reads_ = style::number(now);
  sentence_ = tr("%1 spans, %2 reads at turn %3, %4 in the session").arg(spans.size()).arg(reads_).arg(turn.turn + 1).arg(style::number(total));
}

void Inspector::addLayers(QVBoxLayout* column, QWidget* form) {
  const SessionData& s = *document()->session();
  const TurnRecord& turn = *document()->turnRecord();
  std::vector<uint32_t> byLayer(s.header.layers, 0);
  uint32_t sum = 0;
  for (SpanId x : document()->selection().spans)
    for (const Reader& r : readers_of(s, turn, x, document()->settings().reads))
      if (r.layer < byLayer.size()) {
        byLayer[r.layer] += r.reads;
        sum += r.reads;
      }
  auto* head = new SectionHeader(tr("Reads by layer, turn %1").arg(turn.turn + 1), form);
  head->setNote(tr("sum %1").arg(style::number(sum)));
  column->addWidget(head);
  column->addWidget(new LayerBars(std::move(byLayer), form));
}

void Inspector::addActions(QVBoxLayout* column, QWidget* form, SpanId id) {
  column->addWidget(new SectionHeader(tr("Is it needed?"), form));
  pad(column, words(tr("Not tested. Reads say where heads looked; that the span can go is a hypothesis until the model was run without it."), form), 5, 7);
  auto* row = new QHBoxLayout;
  row->setContentsMargins(12, 0, 12, 4);
  row->setSpacing(6);
  auto* only = new SmallButton(tr("Filter by this"), form);
  only->setToolTip(tr("Shows this span alone; the filter can be widened from there"));
  connect(only, &QToolButton::clicked, this, [d = document(), id] { QTimer::singleShot(0, d, [d, id] { d->setFilter(QString("id = %1").arg(id), Origin::inspector); }); });
  auto* copy = new SmallButton(tr("Copy"), form);
  copy->setToolTip(tr("Copies these numbers as text"));
  connect(copy, &QToolButton::clicked, this, [this] {
    QStringList lines;
    if (const auto* table = findChild<NumberRows*>("inspectorNumbers"))
      for (const NumberRow& r : table->rows()) lines << r.sentence;
    QApplication::clipboard()->setText(lines.join('\n'));
  });
  row->addWidget(only);
  row->addWidget(copy);
  row->addStretch(1);
  column->addLayout(row);
}

}  // namespace spanscope
