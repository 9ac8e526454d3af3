// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/panels/words_panel.h"

#include <QApplication>
#include <QClipboard>
#include <QHBoxLayout>
#include <QMouseEvent>
#include <QPainter>
#include <QScrollArea>
#include <QToolTip>
#include <algorithm>
#include <cmath>

#include "widgets/panels/data/session_access.h"
#include "widgets/panels/panel_kit.h"
#include "widgets/panels/row_table.h"

namespace spanscope {
namespace {

constexpr size_t kReaderRows = 12;
constexpr size_t kDotRows = 40;

// Bytes of a token as a label: a token that splits a character shows its bytes.
QString tokenLabel(const std::string& bytes) {
  const QString text = QString::fromUtf8(bytes.data(), qsizetype(bytes.size()));
  if (text.contains(QChar(0xFFFD)) && !QString::fromStdString(bytes).isNull()) {
    QStringList hex;
    for (unsigned char b : bytes) hex << QString("%1").arg(b, 2, 16, QChar('0')).toUpper();
    return QChar(0x27E8) + hex.join(' ') + QChar(0x27E9);
  }
  QString shown = text;
  shown.replace("\n", QString(QChar(0x00B6))).replace("\t", QString(QChar(0x2192)));
  if (shown.trimmed().isEmpty()) return QString(shown).replace(' ', QChar(0x00B7));
  return shown.trimmed();
}

}  // namespace

// Dots of word x span: area by count; the sum per word at the right.
class WordDots : public QWidget {
  Q_OBJECT
 public:
  explicit WordDots(Document* document, QWidget* parent) : QWidget(parent), document_(document) {
    setObjectName("wordDots");
    setAccessibleName(tr("Word by word"));
    setMouseTracking(true);
    setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  }
  void setData(const panels::WordsData* data) {
    data_ = data;
    updateGeometry();
    update();
  }
  QSize sizeHint() const override { return {300, data_ && !data_->words.empty() ? int(kTop + rows() * kStep + 8) : 0}; }
  QSize minimumSizeHint() const override { return {160, sizeHint().height()}; }

 protected:
  void paintEvent(QPaintEvent*) override {
    if (!data_) return;
    QPainter p(this);
    p.setRenderHint(QPainter::Antialiasing);
    const PanelColors& c = panelColors();
    const QFont small = sized(font(), 0.88), mono = monoFont(font());
    p.setFont(small);
    for (size_t k = 0; k < data_->columns.size(); ++k) {
      const bool on = document_->selection().contains(data_->columns[k]);
      p.setFont(sized(font(), 0.88, on));
      p.setPen(on ? c.accent : c.textMuted);
      p.drawText(QRectF(x(k) - 20, 0, 40, 16), Qt::AlignCenter, spanNumber(data_->columns[k]));
    }
    p.setFont(small);
    p.setPen(c.textMuted);
    p.drawText(QRectF(width() - 52, 0, 40, 16), Qt::AlignVCenter | Qt::AlignRight, tr("all"));
    for (size_t w = 0; w < rows(); ++w) {
      const double y = kTop + double(w) * kStep + kStep / 2;
      p.setPen(c.grid);
      if (!data_->columns.empty()) p.drawLine(QPointF(kLabel + 6, y), QPointF(x(data_->columns.size() - 1) + 12, y));
      p.setFont(mono);
      p.setPen(c.text);
      p.drawText(QRectF(8, y - 9, kLabel - 8, 18), Qt::AlignVCenter | Qt::AlignRight,
                 p.fontMetrics().elidedText(tokenLabel(data_->words[w].bytes), Qt::ElideRight, int(kLabel - 8)));
      for (size_t k = 0; k < data_->columns.size(); ++k) {
        const uint32_t n = data_->dots[w * data_->columns.size() + k];
        if (!n) continue;
        const double r = std::min(kStep * 0.48, 1.4 + 1.75 * std::sqrt(double(n)));
        p.setPen(QPen(c.borderStrong, 0.6));
        p.setBrush(c.reads(n * 3.0));
        p.drawEllipse(QPointF(x(k), y), r, r);
      }
      p.setFont(sized(font(), 0.88, data_->words[w].reads >= 10));
      p.setPen(data_->words[w].reads ? c.text : c.textFaint);
      p.drawText(QRectF(width() - 52, y - 9, 40, 18), Qt::AlignVCenter | Qt::AlignRight, count(data_->words[w].reads));
    }
    if (rows() < data_->words.size()) {
      p.setFont(small);
      p.setPen(c.textFaint);
      p.drawText(QRectF(8, kTop + double(rows()) * kStep - 4, width() - 16, 14), Qt::AlignLeft,
                 tr("… %1 more words").arg(data_->words.size() - rows()));
    }
  }
  void mouseMoveEvent(QMouseEvent* event) override {
    size_t w, k;
    if (!hit(event->pos(), w, k)) return QToolTip::hideText();
    const uint32_t n = data_->dots[w * data_->columns.size() + k];
    const auto session = document_->session();
    QToolTip::showText(event->globalPosition().toPoint(),
                       tr("<b>%1</b> × %2 %3: <b>%4 reads</b>")
                           .arg(tokenLabel(data_->words[w].bytes).toHtmlEscaped(), spanNumber(data_->columns[k]),
                                session ? spanTitle(*session, data_->columns[k]).toHtmlEscaped() : QString())
                           .arg(n),
                       this);
  }
  void mousePressEvent(QMouseEvent* event) override {
    size_t w, k;
    if (hit(event->pos(), w, k)) document_->select(data_->columns[k], Origin::transcript, event->modifiers() & Qt::ControlModifier);
  }

 private:
  static constexpr double kTop = 18, kStep = 15, kLabel = 74;
  size_t rows() const { return std::min(kDotRows, data_ ? data_->words.size() : 0); }
  double x(size_t column) const {
    const double room = width() - kLabel - 60;
    const double step = std::min(34.0, room / double(std::max<size_t>(1, data_->columns.size())));
    return kLabel + 12 + step * (double(column) + 0.5);
  }
  bool hit(const QPoint& pos, size_t& w, size_t& k) const {
    if (!data_ || data_->columns.empty() || pos.y() < kTop) return false;
    w = size_t((pos.y() - kTop) / kStep);
    if (w >= rows()) return false;
    for (k = 0; k < data_->columns.size(); ++k)
      if (std::abs(pos.x() - x(k)) < 10) return true;
    return false;
  }
  Document* document_;
  const panels::WordsData* data_ = nullptr;
};

WordsPanel::WordsPanel(Document* document, QWidget* parent) : Panel(document, "wordsPanel", tr("What these words read"), parent) {
  setAccessibleName(tr("What the selected words read"));
  fillWithPanelColor(this);
  empty_ = new StateNote(this);
  scroll_ = new QScrollArea(this);
  scroll_->setWidgetResizable(true);
  scroll_->setFrameShape(QFrame::NoFrame);
  scroll_->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  auto* page = new QWidget(scroll_);
  fillWithPanelColor(page);
  auto* column = new QVBoxLayout(page);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(0);
  auto* head = new QWidget(page);
  auto* headColumn = new QVBoxLayout(head);
  headColumn->setContentsMargins(12, 8, 12, 8);
  headColumn->setSpacing(4);
  quote_ = new QLabel(head);
  quote_->setWordWrap(true);
  quote_->setTextFormat(Qt::PlainText);
  quote_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  facts_ = new QLabel(head);
  facts_->setObjectName("muted");
  facts_->setWordWrap(true);
  badgeRow_ = new QWidget(head);
  auto* badges = new QHBoxLayout(badgeRow_);
  badges->setContentsMargins(0, 0, 0, 0);
  badges->setSpacing(6);
  events_ = new QLabel(badgeRow_);
  events_->setObjectName("muted");
  events_->setWordWrap(true);
  badges->addWidget(new ProvBadge(Provenance::captured, badgeRow_), 0, Qt::AlignTop);
  badges->addWidget(events_, 1);
  headColumn->addWidget(quote_);
  headColumn->addWidget(facts_);
  headColumn->addWidget(badgeRow_);
  column->addWidget(head);
  spans_ = new RowTable("wordsTable", tr("Spans these words read"), page);
  spans_->setFitsRows(true);
  spans_->setColumns({{tr("Span read"), false, 0, {}}, {QString(), false, 70, {}}, {tr("Reads"), true, 58, tr("events of these words' rows, at this strength")}, {tr("Heads"), true, 58, tr("different heads among them")}});
  column->addWidget(spans_);
  dotsHeader_ = new SectionHeader(tr("Word by word"), page);
  column->addWidget(dotsHeader_);
  dots_ = new WordDots(document, page);
  column->addWidget(dots_);
  readersHeader_ = new SectionHeader(tr("Readers"), page);
  column->addWidget(readersHeader_);
  readers_ = new RowTable("wordsReaders", tr("Heads that read for these words"), page);
  readers_->setFitsRows(true);
  readers_->setColumns({{tr("Head"), false, 54, tr("layer.head")}, {tr("Reads"), true, 58, {}}, {tr("Of"), false, 0, {}}, {tr("Spike"), true, 52, tr("largest mass of its reads")}});
  column->addWidget(readers_);
  actions_ = new QWidget(page);
  auto* buttons = new QHBoxLayout(actions_);
  buttons->setContentsMargins(12, 8, 12, 8);
  buttons->setSpacing(6);
  auto* select = new SmallButton(tr("Select these spans"), actions_);
  select->setObjectName("wordsSelect");
  auto* copy = new SmallButton(tr("Copy"), actions_);
  copy->setObjectName("wordsCopy");
  copy->setToolTip(tr("Copy what these words read as Markdown"));
  buttons->addWidget(select);
  buttons->addWidget(copy);
  buttons->addStretch(1);
  column->addWidget(actions_);
  column->addStretch(1);
  scroll_->setWidget(page);
  body()->addWidget(empty_, 1);
  body()->addWidget(scroll_, 1);

  connect(select, &QToolButton::clicked, this, [this] {
    std::vector<SpanId> ids;
    for (const auto& s : data_.spans) ids.push_back(s.span);
    this->document()->selectSpans(ids, Origin::transcript);
  });
  connect(copy, &QToolButton::clicked, this, [this] {
    QApplication::clipboard()->setText(quote_->text() + "\n\n" + facts_->text() + "; " + events_->text() + "\n\n" + spans_->cells().asMarkdown() + "\n" +
                                       readers_->cells().asMarkdown());
  });
  connect(spans_, &RowTable::rowClicked, this, [this](const TableRow& row, Qt::KeyboardModifiers modifiers) {
    if (row.span != kNoSpan) this->document()->select(row.span, Origin::transcript, modifiers & Qt::ControlModifier);
  });
  connect(readers_, &RowTable::rowClicked, this, [this](const TableRow& row, Qt::KeyboardModifiers) {
    if (row.key >= 0) this->document()->setHead(int(row.key >> 16), int(row.key & 0xffff), Origin::transcript);
  });
  connect(document, &Document::sessionChanged, this, [this] { reload(); });
  connect(document, &Document::strengthChanged, this, [this] { reload(); });
  connect(document, &Document::selectionChanged, this, [this](const Selection& s, Origin) {
    const bool same = !s.words.empty() == (data_.tokens > 0) && this->document()->turnRecord() && data_.turn == this->document()->turnRecord()->turn &&
                      shown_ == s.words;
    if (same) markSelection();
    else reload();
  });
  reload();
}

void WordsPanel::reload() {
  data_ = {};
  const auto session = document()->session();
  const TurnRecord* turn = document()->turnRecord();
  shown_ = document()->selection().words;
  if (session && turn && !shown_.empty()) {
    // The selection is in absolute positions; slots are where the tokens lie.
    Slot begin = kNone32, end = 0;
    for (const LayoutEntry& e : turn->layout) {
      const TokenPos from = std::max(e.position, shown_.begin), to = std::min(e.position + e.len, shown_.end);
      if (from >= to) continue;
      begin = std::min(begin, e.slot + (from - e.position));
      end = std::max(end, e.slot + (to - e.position));
    }
    if (begin < end) data_ = panels::words_data(*session, *turn, begin, end, document()->settings().reads);
  }
  show();
}

void WordsPanel::show() {
  const auto session = document()->session();
  const bool any = session && data_.tokens > 0 && data_.answer;
  empty_->setVisible(!any);
  scroll_->setVisible(any);
  if (!any) {
    dots_->setData(nullptr);
    if (!session) empty_->say(tr("No session"), tr("Open a session to see what words read."));
    else if (data_.tokens == 0)
      empty_->say(tr("No words selected"), tr("Drag over words of an answer in Transcript. The spans they read appear here, with the heads that did it."));
    else
      empty_->say(tr("These words were read, not written"),
                  tr("Only words of this turn's answer have reads: the row before a word predicts it. Select words of the answer of turn %1.").arg(data_.turn + 1));
    setSubtitle({});
    return;
  }
  QString text = QString::fromUtf8(data_.text.data(), qsizetype(data_.text.size())).trimmed();
  if (text.size() > 240) text = text.left(160) + " … " + text.right(60);
  quote_->setText(QChar(0x201C) + text + QChar(0x201D));
  facts_->setText(tr("%1 tokens of span %2, answer rows %3 to %4").arg(count(data_.tokens), spanNumber(data_.reader), count(data_.first_row), count(data_.last_row)));
  events_->setText(tr("%1 read events by %2 heads, strength %3").arg(count(data_.total), count(data_.heads), strength(document()->strength())));
  setSubtitle(tr("turn %1").arg(data_.turn + 1));
  fillSpans();
  dotsHeader_->setNote(tr("reads"));
  dots_->setData(&data_);
  fillReaders();
  markSelection();
}

void WordsPanel::fillSpans() {
  const auto session = document()->session();
  std::vector<TableRow> rows;
  const double most = data_.spans.empty() ? 1 : data_.spans.front().reads;
  for (const auto& s : data_.spans) {
    TableRow row;
    row.span = s.span;
    TableCell name;
    name.kind = TableCell::Kind::span;
    name.span = s.span;
    name.role = spanRole(*session, s.span);
    name.text = spanTitle(*session, s.span);
    TableCell bar;
    bar.kind = TableCell::Kind::bar;
    bar.bar = s.reads / most;
    TableCell reads;
    reads.kind = TableCell::Kind::number;
    reads.text = count(s.reads);
    reads.strong = true;
    TableCell heads = reads;
    heads.text = count(s.heads);
    heads.strong = false;
    heads.muted = true;
    row.cells = {name, bar, reads, heads};
    rows.push_back(std::move(row));
  }
  TableRow rest;
  TableCell name;
  name.kind = TableCell::Kind::span;
  name.text = plural(data_.other_spans, tr("other span"), tr("other spans"));
  name.muted = true;
  TableCell zero;
  zero.kind = TableCell::Kind::number;
  zero.text = "0";
  zero.muted = true;
  rest.cells = {name, {}, zero, {}};
  if (data_.other_spans) rows.push_back(std::move(rest));
  spans_->setRows(std::move(rows));
}

void WordsPanel::fillReaders() {
  const auto session = document()->session();
  readersHeader_->setNote(tr("%1 of %2 heads").arg(count(data_.heads), count(qint64(session->header.layers) * session->header.query_heads)));
  std::vector<TableRow> rows;
  for (size_t i = 0; i < std::min(kReaderRows, data_.readers.size()); ++i) {
    const auto& r = data_.readers[i];
    TableRow row;
    row.key = qint64(r.layer) << 16 | r.head;
    TableCell head;
    head.text = QString("%1.%2").arg(r.layer).arg(r.head);
    head.mono = true;
    TableCell reads;
    reads.kind = TableCell::Kind::number;
    reads.text = count(r.reads);
    reads.strong = true;
    TableCell of;
    QStringList parts;
    for (const auto& [span, n] : r.of) parts << QString("%1 ×%2").arg(spanNumber(span)).arg(n);
    of.text = parts.join(", ");
    TableCell spike;
    spike.kind = TableCell::Kind::number;
    spike.text = strength(r.spike);
    row.cells = {head, reads, of, spike};
    rows.push_back(std::move(row));
  }
  if (data_.readers.size() > kReaderRows) {
    uint32_t rest = 0;
    for (size_t i = kReaderRows; i < data_.readers.size(); ++i) rest += data_.readers[i].reads;
    TableRow row;
    TableCell more;
    more.muted = true;
    more.text = tr("… %1").arg(data_.readers.size() - kReaderRows);
    TableCell n;
    n.kind = TableCell::Kind::number;
    n.muted = true;
    n.text = count(rest);
    TableCell of;
    of.muted = true;
    of.text = tr("more heads");
    row.cells = {more, n, of, {}};
    rows.push_back(std::move(row));
  }
  readers_->setRows(std::move(rows));
}

void WordsPanel::markSelection() {
  const Selection& s = document()->selection();
  spans_->showSelected([&](const TableRow& row) { return row.span != kNoSpan && s.contains(row.span); });
  readers_->showSelected([&](const TableRow& row) { return row.key >= 0 && s.layer == int(row.key >> 16) && s.head == int(row.key & 0xffff); });
  dots_->update();
}

}  // namespace spanscope

#include "words_panel.moc"
