// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/panels/head_grid_panel.h"

#include <QHBoxLayout>
#include <QPainter>
#include <QToolTip>
#include <algorithm>
#include <cmath>
#include <map>

#include "widgets/panels/data/session_access.h"
#include "widgets/panels/figure_canvas.h"
#include "widgets/panels/panel_kit.h"
#include "widgets/panels/row_table.h"
#include "widgets/style/style.h"

namespace spanscope {
namespace {

constexpr size_t kReaderRows = 16;
constexpr size_t kHeadRows = 7;

// 0, then the ramp from 1 to 32 reads.
class GridScale : public QWidget {
 public:
  explicit GridScale(QWidget* parent) : QWidget(parent) { setFixedSize(210, 30); }

 protected:
  void paintEvent(QPaintEvent*) override {
    QPainter p(this);
    const PanelColors& c = panelColors();
    p.setFont(sized(font(), 0.88));
    p.setPen(c.textMuted);
    p.drawText(QRect(0, 0, 40, 16), Qt::AlignVCenter | Qt::AlignLeft, tr("reads"));
    p.setPen(c.zeroLine);
    p.drawLine(44, 13, 58, 13);
    for (int i = 0; i < 120; ++i) p.fillRect(QRect(68 + i, 5, 1, 9), c.reads(4 * std::pow(32.0, i / 119.0)));
    p.setPen(c.textMuted);
    p.drawText(QRect(38, 15, 26, 14), Qt::AlignCenter, "0");
    for (int v : {1, 4, 16, 32}) {
      const int x = 68 + int(120 * std::log(v) / std::log(32.0));
      p.drawText(QRect(x - 16, 15, 32, 14), Qt::AlignCenter, v == 32 ? QString("32+") : QString::number(v));
    }
  }
};

}  // namespace

HeadGridPanel::HeadGridPanel(Document* document, QWidget* parent) : Panel(document, "headGridPanel", tr("Layers × heads"), parent) {
  setAccessibleName(tr("Layers by heads"));
  fillWithPanelColor(this);
  setProvenance(Provenance::captured);
  empty_ = new StateNote(this);
  page_ = new QWidget(this);
  auto* row = new QHBoxLayout(page_);
  row->setContentsMargins(0, 0, 0, 0);
  row->setSpacing(0);
  auto* left = new QVBoxLayout;
  left->setSpacing(0);
  of_ = new QLabel(page_);
  of_->setFixedHeight(28);
  of_->setContentsMargins(12, 4, 10, 0);
  of_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Fixed);
  left->addWidget(of_);
  auto* bar = new QWidget(page_);
  bar->setFixedHeight(34);
  auto* bars = new QHBoxLayout(bar);
  bars->setContentsMargins(12, 0, 10, 0);
  bars->setSpacing(8);
  mode_ = new Segments("headGridMode", tr("Columns"), {tr("Query heads"), tr("KV sum")}, bar);
  bars->addWidget(mode_);
  bars->addStretch(1);
  bars->addWidget(new GridScale(bar));
  left->addWidget(bar);
  canvas_ = new FigureCanvas("headGrid", tr("Layers by heads, reads"), page_);
  canvas_->setPadding(8);
  left->addWidget(canvas_, 1);
  auto* foot = new QWidget(page_);
  foot->setFixedHeight(28);
  auto* feet = new QHBoxLayout(foot);
  feet->setContentsMargins(12, 0, 12, 0);
  legendLeft_ = new QLabel(foot);
  legendLeft_->setObjectName("muted");
  legendLeft_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
  legendLeft_->setTextFormat(Qt::RichText);
  legendRight_ = new QLabel(foot);
  legendRight_->setObjectName("muted");
  feet->addWidget(legendLeft_, 1);
  feet->addWidget(legendRight_);
  left->addWidget(foot);
  row->addLayout(left, 1);

  auto* side = new QFrame(page_);
  side->setObjectName("headPanel");
  side->setAccessibleName(tr("Head"));
  side->setFixedWidth(316);
  auto* column = new QVBoxLayout(side);
  column->setContentsMargins(1, 0, 0, 0);
  column->setSpacing(0);
  headHeader_ = new SectionHeader(tr("What one head read"), side);
  headReads_ = new RowTable("headReads", tr("Spans this head read"), side);
  headReads_->setFitsRows(true);
  headReads_->setColumns({{tr("Span"), false, 0, {}}, {QString(), false, 64, {}}, {tr("Reads"), true, 58, {}}, {tr("Habit"), true, 56, tr("largest habit among these reads")}});
  readersHeader_ = new SectionHeader(tr("Readers"), side);
  readers_ = new RowTable("headReaders", tr("Heads by number of reads"), side);
  readers_->setFitsRows(true);
  readers_->setColumns({{tr("Head"), false, 54, tr("layer.head")}, {tr("KV"), true, 40, tr("KV head it shares")}, {tr("Reads"), true, 0, {}}, {tr("Spike"), true, 54, {}}, {tr("Habit"), true, 54, {}}});
  column->addWidget(headHeader_);
  column->addWidget(headReads_);
  column->addWidget(readersHeader_);
  column->addWidget(readers_);
  column->addStretch(1);
  row->addWidget(side);
  body()->addWidget(empty_, 1);
  body()->addWidget(page_, 1);

  canvas_->setBuilder([this](double w, double h) {
    const Selection& s = this->document()->selection();
    const uint32_t perKv = std::max(1u, grid_.heads / std::max(1u, grid_.kv_heads));
    const int column = s.head < 0 ? -1 : grid_.kv_sum ? s.head / int(perKv) : s.head;
    picture_ = head_grid_figure(grid_, style::colors(), w, h, s.layer, column);
    return picture_.list;
  });
  connect(mode_, &Segments::chosen, this, [this] { reload(); });
  connect(canvas_, &FigureCanvas::hovered, this, &HeadGridPanel::onHover);
  connect(canvas_, &FigureCanvas::clicked, this, [this](quint64 id, Qt::KeyboardModifiers) { onClick(id); });
  connect(readers_, &RowTable::rowClicked, this, [this](const TableRow& r, Qt::KeyboardModifiers) {
    if (r.key >= 0) this->document()->setHead(int(r.key >> 16), int(r.key & 0xffff), Origin::slices);
  });
  connect(headReads_, &RowTable::rowClicked, this, [this](const TableRow& r, Qt::KeyboardModifiers modifiers) {
    if (r.span != kNoSpan) this->document()->select(r.span, Origin::slices, modifiers & Qt::ControlModifier);
  });
  connect(document, &Document::sessionChanged, this, [this] { reload(); });
  connect(document, &Document::selectionChanged, this, [this](const Selection&, Origin) { reload(); });
  connect(document, &Document::strengthChanged, this, [this] { reload(); });
  reload();
}

void HeadGridPanel::reload() {
  const auto session = document()->session();
  const TurnRecord* turn = document()->turnRecord();
  const Selection& s = document()->selection();
  const bool any = session && turn && !s.spans.empty();
  empty_->setVisible(!any);
  page_->setVisible(any);
  if (!any) {
    grid_ = {};
    setSubtitle({});
    if (!session) empty_->say(tr("No session"), tr("Open a session to see which heads read a span."));
    else empty_->say(tr("No span selected"), tr("Click a row in the map or the tree to see which layers and heads read it at this turn."));
    return;
  }
  HeadGridRequest request;
  request.spans = s.spans;
  request.settings = document()->settings().reads;
  request.kv_sum = mode_->index() == 1;
  if (!s.words.empty()) {
    request.first_row = s.words.begin > 0 ? s.words.begin - 1 : 0;
    request.last_row = s.words.end >= 2 ? s.words.end - 2 : 0;
  }
  grid_ = head_grid(*session, *turn, request);
  retitle();
  canvas_->setAccessibleName(tr("Layers by heads, reads of span %1").arg(spanNumber(s.first())));
  canvas_->rebuild();
  fillReaders();
  fillHead();
}

void HeadGridPanel::retitle() {
  const auto session = document()->session();
  const Selection& s = document()->selection();
  const QString turn = tr("turn %1").arg(document()->turnRecord()->turn + 1);
  QString name = s.spans.size() == 1 ? QString("<b>%1 %2</b>").arg(spanNumber(s.first()), spanTitle(*session, s.first()).toHtmlEscaped())
                                     : tr("<b>%1 spans</b>, their sum").arg(s.spans.size());
  of_->setText(tr("Of %1 at %2%3").arg(name, turn, s.words.empty() ? QString() : tr(", for the selected words")));
  of_->setToolTip(of_->text());
  setSubtitle(tr("reads by head, strength %1, answer rows, %2 × %3 heads").arg(strength(document()->strength())).arg(grid_.layers).arg(grid_.heads));
  legendLeft_->setText(tr("<span style='color:%1'>◤</span> habit above %2 raises the bound")
                           .arg(panelColors().threshold.name(), strength(document()->strength() / 3)));
  legendLeft_->setToolTip(tr("The corner is drawn where an event of this turn says the habit; other heads' habits need --detail head. No retrieval-head map is loaded."));
  legendRight_->setToolTip(tr("The same sum as in the inspector, the map and the table."));
  legendRight_->setText(tr("%1 heads, %2 reads").arg(count(grid_.readers), count(grid_.total)));
}

QString HeadGridPanel::why(int layer, int column) const {
  if (layer < 0 || column < 0 || uint32_t(layer) >= grid_.layers || uint32_t(column) >= grid_.columns) return {};
  const auto session = document()->session();
  const TurnRecord* turn = document()->turnRecord();
  if (!session || !turn) return {};
  const HeadCell& cell = grid_.at(uint32_t(layer), uint32_t(column));
  const SpanId first = document()->selection().first();
  const QString of = document()->selection().spans.size() == 1 ? spanNumber(first) : tr("%1 spans").arg(document()->selection().spans.size());
  QString text = tr("%1 %2.%3 on %4 at turn %5").arg(grid_.kv_sum ? tr("KV head") : tr("Head")).arg(layer).arg(column).arg(of).arg(turn->turn + 1);
  if (cell.reads == 0) {
    text += "\n" + tr("0 reads");
    if (cell.has_habit) text += tr(", habit %1").arg(strength(cell.habit));
    return text;
  }
  text += "\n" + tr("%1 reads, spike %2").arg(count(cell.reads), strength(cell.spike));
  if (!grid_.kv_sum) {
    const BoundParts b = bound_parts(*session, *turn, grid_, uint32_t(layer), uint32_t(column));
    text += "\n" + tr("habit %1 over %2 earlier rows").arg(strength(cell.habit), count(qint64(b.habit_rows)));
    text += "\n" + tr("bound %1, set by %2:").arg(strength(b.bound), tr(b.set_by));
    text += "\n" + tr("strength %1, %2 × habit %3, %2 × uniform %4")
                       .arg(strength(b.strength))
                       .arg(session->header.factor)
                       .arg(strength(b.three_habit), strength(b.three_uniform));
  }
  return text;
}

void HeadGridPanel::onHover(quint64 id, const QPoint& pos) {
  if (HeadGridItem(id >> 32) != HeadGridItem::cell) return QToolTip::hideText();
  const uint32_t index = uint32_t(id);
  QStringList lines = why(int(index / grid_.columns), int(index % grid_.columns)).split('\n');
  for (QString& line : lines) line = line.toHtmlEscaped();
  if (!lines.isEmpty()) lines[0] = "<b>" + lines[0] + "</b>";
  QToolTip::showText(pos + QPoint(10, 10), lines.join("<br>"), canvas_);
}

void HeadGridPanel::onClick(quint64 id) {
  const uint32_t index = uint32_t(id);
  const uint32_t perKv = std::max(1u, grid_.heads / std::max(1u, grid_.kv_heads));
  switch (HeadGridItem(id >> 32)) {
    case HeadGridItem::cell: {
      const int column = int(index % grid_.columns);
      document()->setHead(int(index / grid_.columns), grid_.kv_sum ? column * int(perKv) : column, Origin::slices);
      break;
    }
    case HeadGridItem::layer: document()->setHead(int(index), -1, Origin::slices); break;
    case HeadGridItem::column: document()->setHead(-1, grid_.kv_sum ? int(index * perKv) : int(index), Origin::slices); break;
    default: document()->setHead(-1, -1, Origin::slices);
  }
}

void HeadGridPanel::fillReaders() {
  const auto session = document()->session();
  const uint32_t perKv = std::max(1u, grid_.heads / std::max(1u, grid_.kv_heads));
  struct R {
    uint32_t layer, column;
  };
  std::vector<R> order;
  for (uint32_t l = 0; l < grid_.layers; ++l)
    for (uint32_t c = 0; c < grid_.columns; ++c)
      if (grid_.at(l, c).reads) order.push_back({l, c});
  std::stable_sort(order.begin(), order.end(), [&](const R& a, const R& b) { return grid_.at(a.layer, a.column).reads > grid_.at(b.layer, b.column).reads; });
  readersHeader_->setTitle(document()->selection().spans.size() == 1 ? tr("Readers of %1").arg(spanNumber(document()->selection().first())) : tr("Readers"));
  readersHeader_->setNote(tr("%1 of %2 heads").arg(count(grid_.readers), count(qint64(session->header.layers) * grid_.columns)));
  std::vector<TableRow> rows;
  for (size_t i = 0; i < std::min(kReaderRows, order.size()); ++i) {
    const HeadCell& cell = grid_.at(order[i].layer, order[i].column);
    TableRow row;
    const uint32_t head = grid_.kv_sum ? order[i].column * perKv : order[i].column;
    row.key = qint64(order[i].layer) << 16 | head;
    TableCell name;
    name.text = QString("%1.%2").arg(order[i].layer).arg(order[i].column);
    name.mono = true;
    TableCell kv;
    kv.kind = TableCell::Kind::number;
    kv.text = QString::number(grid_.kv_sum ? order[i].column : order[i].column / perKv);
    TableCell reads;
    reads.kind = TableCell::Kind::number;
    reads.text = count(cell.reads);
    reads.strong = true;
    TableCell spike = kv, habit = kv;
    spike.text = strength(cell.spike);
    habit.text = strength(cell.habit);
    row.cells = {name, kv, reads, spike, habit};
    rows.push_back(std::move(row));
  }
  if (order.size() > kReaderRows) {
    uint32_t rest = 0;
    for (size_t i = kReaderRows; i < order.size(); ++i) rest += grid_.at(order[i].layer, order[i].column).reads;
    TableRow row;
    TableCell more;
    more.muted = true;
    more.text = tr("… %1").arg(order.size() - kReaderRows);
    TableCell n;
    n.kind = TableCell::Kind::number;
    n.muted = true;
    n.text = tr("more, %1 reads").arg(count(rest));
    row.cells = {more, {}, n, {}, {}};
    rows.push_back(std::move(row));
  }
  readers_->setRows(std::move(rows));
  const Selection& s = document()->selection();
  readers_->showSelected([&](const TableRow& row) { return row.key >= 0 && s.layer == int(row.key >> 16) && s.head == int(row.key & 0xffff); });
}

// Everything the chosen head read at the turn; the head with most reads when none is chosen.
void HeadGridPanel::fillHead() {
  const auto session = document()->session();
  const TurnRecord& turn = *document()->turnRecord();
  int layer = document()->selection().layer, head = document()->selection().head;
  if (layer < 0 || head < 0) {
    layer = head = -1;
    const uint32_t perKv = std::max(1u, grid_.heads / std::max(1u, grid_.kv_heads));
    uint32_t most = 0;
    for (uint32_t l = 0; l < grid_.layers; ++l)
      for (uint32_t c = 0; c < grid_.columns; ++c)
        if (grid_.at(l, c).reads > most) most = grid_.at(l, c).reads, layer = int(l), head = int(grid_.kv_sum ? c * perKv : c);
  }
  if (layer < 0) {
    headHeader_->setTitle(tr("What one head read"));
    headHeader_->setNote(tr("no head read it"));
    headReads_->setRows({});
    return;
  }
  struct S {
    uint32_t reads = 0;
    float habit = 0;
  };
  std::map<SpanId, S> spans;
  uint32_t total = 0;
  const panels::ReadTest is_read(*session, turn, document()->settings().reads);
  for (size_t i = 0; i < turn.events.size(); ++i) {
    if (turn.events.layer[i] != layer || turn.events.head[i] != head || !is_read(i)) continue;
    S& s = spans[panels::message_or_self(*session, turn.events.leaf[i])];
    ++s.reads;
    ++total;
    s.habit = std::max(s.habit, turn.events.habit[i]);
  }
  std::vector<std::pair<SpanId, S>> order(spans.begin(), spans.end());
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.second.reads > b.second.reads; });
  headHeader_->setTitle(tr("What head %1.%2 read at turn %3").arg(layer).arg(head).arg(turn.turn + 1));
  headHeader_->setNote(tr("%1 reads of %2").arg(count(total), count(qint64(order.size()))));
  std::vector<TableRow> rows;
  for (size_t i = 0; i < std::min(kHeadRows, order.size()); ++i) {
    TableRow row;
    row.span = order[i].first;
    TableCell name;
    name.kind = TableCell::Kind::span;
    name.span = row.span;
    name.role = spanRole(*session, row.span);
    name.text = spanTitle(*session, row.span);
    TableCell bar;
    bar.kind = TableCell::Kind::bar;
    bar.bar = double(order[i].second.reads) / order.front().second.reads;
    TableCell reads;
    reads.kind = TableCell::Kind::number;
    reads.text = count(order[i].second.reads);
    reads.strong = true;
    TableCell habit;
    habit.kind = TableCell::Kind::number;
    habit.text = strength(order[i].second.habit);
    row.cells = {name, bar, reads, habit};
    rows.push_back(std::move(row));
  }
  headReads_->setRows(std::move(rows));
  headReads_->showSelected([&](const TableRow& row) { return document()->selection().contains(row.span); });
}

QByteArray HeadGridPanel::pictureSvg() const { return canvas_->svg(); }
QImage HeadGridPanel::picturePng(double scale) const { return canvas_->png(scale); }

}  // namespace spanscope
