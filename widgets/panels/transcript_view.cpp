// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/panels/transcript_view.h"

#include <QApplication>
#include <QClipboard>
#include <QMouseEvent>
#include <QPainter>
#include <QScrollBar>
#include <algorithm>
#include <cmath>

#include "widgets/panels/data/session_access.h"
#include "widgets/panels/panel_kit.h"

namespace spanscope {
namespace {

constexpr int kGutter = 108;
constexpr int kFoldHeight = 20;
constexpr int kHead = 17;
constexpr int kPadTop = 5, kPadBottom = 6, kPadText = 12;
constexpr int kLeastBlock = 40;
constexpr int kShownLines = 12;  // of a text that is not an answer, until asked for

}  // namespace

// The scroll bar with marks where something was read.
class MarkedScrollBar : public QScrollBar {
 public:
  explicit MarkedScrollBar(QWidget* parent) : QScrollBar(Qt::Vertical, parent) {}
  struct Mark {
    double at, height;  // part of the whole
    QColor color;
  };
  void setMarks(std::vector<Mark> marks) {
    marks_ = std::move(marks);
    update();
  }

 protected:
  void paintEvent(QPaintEvent* event) override {
    QScrollBar::paintEvent(event);
    QPainter p(this);
    for (const Mark& m : marks_)
      p.fillRect(QRectF(1, m.at * height(), width() - 2, std::max(3.0, m.height * height())), m.color);
  }

 private:
  std::vector<Mark> marks_;
};

TranscriptView::TranscriptView(Document* document, QWidget* parent)
    : QAbstractScrollArea(parent), document_(document), bar_(new MarkedScrollBar(this)) {
  setObjectName("transcriptView");
  setAccessibleName(tr("Transcript"));
  setFrameShape(QFrame::NoFrame);
  setFocusPolicy(Qt::StrongFocus);
  setVerticalScrollBar(bar_);
  setVerticalScrollBarPolicy(Qt::ScrollBarAlwaysOn);
  setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  viewport()->setMouseTracking(true);
  viewport()->setCursor(Qt::IBeamCursor);
  connect(document, &Document::sessionChanged, this, [this] { reload(); });
  connect(document, &Document::strengthChanged, this, [this] { recount(); });
  connect(document, &Document::filterChanged, this, [this](Origin) {
    if (tint_ == Tint::view) recount();
  });
  connect(document, &Document::selectionChanged, this, [this](const Selection& s, Origin origin) {
    recount();
    if (origin == Origin::transcript || s.spans.empty()) return;
    for (size_t b = 0; b < blocks_.size(); ++b)
      if (s.contains(blocks_[b].span)) return scrollToBlock(b);
  });
  reload();
}

TranscriptView::~TranscriptView() = default;

void TranscriptView::reload() {
  laid_.clear();
  opened_.clear();
  whole_.clear();
  dragging_ = false;
  const auto session = document_->session();
  blocks_ = session ? panels::transcript_blocks(*session) : std::vector<panels::TranscriptBlock>{};
  recount();
  // The newest text is what people come for.
  bar_->setValue(bar_->maximum());
}

void TranscriptView::setTint(Tint tint) {
  tint_ = tint;
  recount();
}
void TranscriptView::setMode(panels::TextMode mode) {
  mode_ = mode;
  laid_.clear();
  arrange();
}
void TranscriptView::setFolding(bool fold) {
  folding_ = fold;
  opened_.clear();
  recount();
}

bool TranscriptView::isReader(size_t b) const {
  const TurnRecord* turn = document_->turnRecord();
  return turn && blocks_[b].answer_turn == turn->turn;
}

bool TranscriptView::folded(size_t b) const {
  return folding_ && counts_[b] <= 0 && !isReader(b) && !opened_.count(b) && !document_->selection().contains(blocks_[b].span);
}

void TranscriptView::recount() {
  const auto session = document_->session();
  counts_.assign(blocks_.size(), 0);
  leafCounts_.assign(blocks_.size(), {});
  most_ = 0;
  if (session && !blocks_.empty()) {
    const int at = document_->turn();
    const ReadHistory& history = document_->history();
    const TurnRecord* turn = document_->turnRecord();
    std::vector<qint64> bySpan(session->ledger.spans.size(), 0);
    if (tint_ == Tint::words) {
      const TokenRange words = document_->selection().words;
      if (turn && !words.empty()) {
        const panels::ReadTest is_read(*session, *turn, document_->settings().reads);
        for (size_t i = 0; i < turn->events.size(); ++i) {
          const TokenPos row = turn->events.row[i];
          if (row + 1 < words.begin || row + 1 >= words.end || !is_read(i)) continue;
          ++bySpan[turn->events.leaf[i]];
        }
      }
    } else if (tint_ == Tint::turn) {
      if (at >= 0 && at < int(history.turns.size())) {
        const auto& reads = history.turns[size_t(at)].reads;
        for (size_t i = 0; i < bySpan.size() && i < reads.size(); ++i) bySpan[i] = reads[i];
      }
    } else {
      for (size_t i = 0; i < bySpan.size() && i < history.total_reads.size(); ++i) bySpan[i] = history.total_reads[i];
    }
    for (size_t b = 0; b < blocks_.size(); ++b) {
      qint64 sum = 0;
      bool any = false;
      for (const auto& leaf : blocks_[b].leaves) {
        qint64 n = bySpan[leaf.leaf];
        if (tint_ == Tint::view && !document_->matches(blocks_[b].span)) n = 0;
        leafCounts_[b].push_back(n);
        if (n >= 0) sum += n, any = true;
      }
      // An answer that was split later has reads on the leaf it was written as too.
      if (tint_ != Tint::words && blocks_[b].span < bySpan.size()) sum = bySpan[blocks_[b].span] >= 0 || any ? std::max<qint64>(sum, bySpan[blocks_[b].span]) : -1;
      if (tint_ == Tint::view && !document_->matches(blocks_[b].span)) sum = 0;
      counts_[b] = any || sum > 0 ? sum : -1;
      most_ = std::max(most_, counts_[b]);
    }
  }
  arrange();
  emit contentChanged();
}

QFont TranscriptView::fontOf(size_t b) const {
  const auto session = document_->session();
  return session && session->ledger[blocks_[b].span].role == "tool" ? monoFont(font()) : font();
}

TranscriptView::Laid& TranscriptView::laid(size_t b) {
  const int width = std::max(120, viewport()->width() - kGutter - 2 * kPadText);
  auto& entry = laid_[b];
  const bool whole = whole_.count(b) || blocks_[b].answer_turn != kNone32;
  if (entry && entry->width == width && entry->whole == whole) return *entry;
  entry = std::make_unique<Laid>();
  Laid& l = *entry;
  l.width = width;
  l.whole = whole;
  l.map = panels::char_map(blocks_[b], mode_);
  const QString text = QString::fromUtf16(l.map.text.data(), qsizetype(l.map.text.size()));
  const QFont font = fontOf(b);
  const double lineHeight = std::ceil(QFontMetricsF(font).height()) + (font.fixedPitch() ? 1 : 2);
  QTextOption option;
  option.setWrapMode(QTextOption::WrapAtWordBoundaryOrAnywhere);
  option.setTabStopDistance(QFontMetricsF(font).horizontalAdvance(' ') * 4);
  int lines = 0;
  uint32_t begin = 0;
  double y = 0;
  const uint32_t size = uint32_t(text.size());
  while (begin <= size) {
    uint32_t end = begin;
    while (end < size && text[qsizetype(end)] != '\n') ++end;
    if (!whole && lines >= kShownLines) {
      l.cut = begin < size;
      break;
    }
    if (begin == size && !l.paragraphs.empty()) break;
    Paragraph para;
    para.begin = begin;
    para.end = end;
    para.y = y;
    para.layout = std::make_unique<QTextLayout>(text.mid(qsizetype(begin), qsizetype(end - begin)), font);
    para.layout->setTextOption(option);
    para.layout->setCacheEnabled(true);
    if (mode_ == panels::TextMode::tokens) {
      QList<QTextLayout::FormatRange> formats;
      for (size_t k = 0; k < l.map.token_begin.size(); ++k) {
        const uint32_t from = std::max(l.map.token_begin[k], begin), to = std::min(l.map.token_end[k], end);
        if (from >= to) continue;
        QTextLayout::FormatRange f;
        f.start = int(from - begin);
        f.length = int(to - from);
        f.format.setFontUnderline(true);
        f.format.setUnderlineColor(k % 2 ? panelColors().accent : panelColors().threshold);
        if (l.map.broken[k]) f.format.setForeground(panelColors().accent);
        formats << f;
      }
      para.layout->setFormats(formats);
    }
    para.layout->beginLayout();
    double h = 0;
    while (true) {
      QTextLine line = para.layout->createLine();
      if (!line.isValid()) break;
      line.setLineWidth(width);
      line.setPosition(QPointF(0, h + (lineHeight - line.height()) / 2));
      h += lineHeight;
      if (++lines >= kShownLines && !whole) {
        // What is not laid out is not drawn; the rest of the paragraph waits for "show all".
        QTextLine more = para.layout->createLine();
        if (more.isValid()) {
          more.setNumColumns(0);
          more.setPosition(QPointF(0, -10000));
          l.cut = true;
        }
        break;
      }
    }
    para.layout->endLayout();
    if (h == 0) h = lineHeight;
    para.height = h;
    y += h;
    l.paragraphs.push_back(std::move(para));
    begin = end + 1;
  }
  l.height = y;
  return l;
}

double TranscriptView::textHeight(size_t b) {
  const auto session = document_->session();
  if (!session || !session->header.has_text) return 18;
  Laid& l = laid(b);
  return l.height + (l.cut ? 17 : 0);
}

void TranscriptView::arrange() {
  items_.clear();
  double y = 0;
  for (size_t b = 0; b < blocks_.size();) {
    Item item;
    item.first = item.last = b;
    item.y = y;
    if (folded(b)) {
      item.fold = true;
      while (item.last + 1 < blocks_.size() && folded(item.last + 1)) ++item.last;
      item.height = kFoldHeight;
    } else {
      item.height = std::max<double>(kLeastBlock, kPadTop + kHead + textHeight(b) + kPadBottom);
    }
    y += item.height;
    b = item.last + 1;
    items_.push_back(item);
  }
  const int total = int(std::ceil(y));
  bar_->setRange(0, std::max(0, total - viewport()->height()));
  bar_->setPageStep(viewport()->height());
  bar_->setSingleStep(34);
  std::vector<MarkedScrollBar::Mark> marks;
  const PanelColors& c = panelColors();
  if (total > 0)
    for (const Item& item : items_) {
      if (item.fold) continue;
      const qint64 n = counts_[item.first];
      if (isReader(item.first)) marks.push_back({item.y / total, 0, c.accent});
      else if (n > 0) marks.push_back({item.y / total, n >= 16 ? 5.0 / std::max(1, viewport()->height()) : 0, c.reads(double(n))});
    }
  bar_->setMarks(std::move(marks));
  viewport()->update();
}

void TranscriptView::resizeEvent(QResizeEvent*) { arrange(); }

QColor TranscriptView::wash(qint64 n) const {
  if (n < 1) return {};
  const PanelColors& c = panelColors();
  // Never more opaque than this: text keeps 4.5:1 on it.
  const double t = std::min(1.0, 0.16 + 0.84 * std::log(double(n)) / std::log(64.0));
  QColor color = c.share(11.0 / 32);
  color.setAlphaF(float(t * (c.dark ? 0.55 : 0.42)));
  return color;
}

int TranscriptView::itemAt(double y) const {
  for (size_t i = 0; i < items_.size(); ++i)
    if (y >= items_[i].y && y < items_[i].y + items_[i].height) return int(i);
  return -1;
}

double TranscriptView::textTop(size_t b) const {
  for (const Item& item : items_)
    if (!item.fold && item.first == b) return item.y + kPadTop + kHead - bar_->value();
  return 0;
}

bool TranscriptView::charAt(const QPoint& pos, size_t& block, uint32_t& index) const {
  const int i = itemAt(pos.y() + bar_->value());
  if (i < 0 || items_[size_t(i)].fold || pos.x() < kGutter) return false;
  block = items_[size_t(i)].first;
  const auto it = laid_.find(block);
  if (it == laid_.end()) return false;
  const double y = pos.y() - textTop(block);
  const Laid& l = *it->second;
  for (const Paragraph& para : l.paragraphs) {
    if (y >= para.y + para.height && &para != &l.paragraphs.back()) continue;
    for (int k = 0; k < para.layout->lineCount(); ++k) {
      const QTextLine line = para.layout->lineAt(k);
      if (line.y() < -1000) continue;
      const bool last = k + 1 == para.layout->lineCount();
      if (y - para.y < line.y() + line.height() || last) {
        index = para.begin + uint32_t(line.xToCursor(pos.x() - kGutter - kPadText, QTextLine::CursorBetweenCharacters));
        return y >= -2;
      }
    }
    index = para.begin;
    return true;
  }
  return false;
}

QPoint TranscriptView::pointOf(size_t b, uint32_t token) const {
  const auto it = laid_.find(b);
  if (it == laid_.end() || token >= it->second->map.token_begin.size()) return {};
  const uint32_t at = it->second->map.token_begin[token];
  for (const Paragraph& para : it->second->paragraphs)
    if (at >= para.begin && at <= para.end) {
      const QTextLine line = para.layout->lineForTextPosition(int(at - para.begin));
      if (!line.isValid()) return {};
      return QPoint(int(kGutter + kPadText + line.cursorToX(int(at - para.begin)) + 1), int(textTop(b) + para.y + line.y() + line.height() / 2));
    }
  return {};
}

std::pair<uint32_t, uint32_t> TranscriptView::selectedTokens(size_t b) const {
  const TokenRange words = document_->selection().words;
  const TurnRecord* turn = document_->turnRecord();
  if (words.empty() || !turn) return {0, 0};
  uint32_t first = kNone32, last = 0;
  if (isReader(b)) {
    for (uint32_t k = 0; k < blocks_[b].tokens; ++k) {
      const TokenPos at = panels::position_of(*turn, blocks_[b].first_slot + k);
      if (at >= words.begin && at < words.end) first = std::min(first, k), last = k + 1;
    }
  } else {
    for (const auto& leaf : blocks_[b].leaves) {
      const LayoutEntry* place = panels::place_of(*turn, leaf.leaf);
      if (!place) continue;
      for (uint32_t k = 0; k < leaf.tokens && k < place->len; ++k)
        if (place->position + k >= words.begin && place->position + k < words.end) first = std::min(first, leaf.first_token + k), last = leaf.first_token + k + 1;
    }
  }
  return first == kNone32 ? std::pair<uint32_t, uint32_t>{0, 0} : std::pair<uint32_t, uint32_t>{first, last};
}

void TranscriptView::selectTokens(size_t b, uint32_t begin, uint32_t end) {
  const auto session = document_->session();
  if (!session || begin >= end || b >= blocks_.size()) return;
  end = std::min(end, blocks_[b].tokens);
  if (blocks_[b].answer_turn != kNone32) {
    // The rows that wrote these words are in the turn of that answer: the cursor goes there.
    for (size_t i = 0; i < session->turns.size(); ++i)
      if (session->turns[i].turn == blocks_[b].answer_turn) document_->setTurn(int(i), Origin::transcript);
    const TurnRecord* turn = document_->turnRecord();
    document_->setWords({panels::position_of(*turn, blocks_[b].first_slot + begin), panels::position_of(*turn, blocks_[b].first_slot + end - 1) + 1}, Origin::transcript);
    return;
  }
  const TurnRecord* turn = document_->turnRecord();
  if (!turn) return;
  TokenRange range{kNone32, 0};
  for (const auto& leaf : blocks_[b].leaves) {
    const LayoutEntry* place = panels::place_of(*turn, leaf.leaf);
    if (!place) continue;
    const uint32_t from = std::max(begin, leaf.first_token), to = std::min(end, leaf.first_token + leaf.tokens);
    if (from >= to) continue;
    range.begin = std::min(range.begin, place->position + (from - leaf.first_token));
    range.end = std::max(range.end, place->position + (to - leaf.first_token));
  }
  if (range.begin < range.end) document_->setWords(range, Origin::transcript);
}

void TranscriptView::mousePressEvent(QMouseEvent* event) {
  if (event->button() != Qt::LeftButton) return;
  const int i = itemAt(event->pos().y() + bar_->value());
  if (i < 0) {
    document_->select(kNoSpan, Origin::transcript);
    document_->setWords({}, Origin::transcript);
    return;
  }
  const Item item = items_[size_t(i)];
  if (item.fold) {
    for (size_t b = item.first; b <= item.last; ++b) opened_.insert(b);
    arrange();
    return;
  }
  size_t block;
  uint32_t index;
  const auto found = laid_.find(item.first);
  if (found != laid_.end() && found->second->cut && event->pos().y() > textTop(item.first) + found->second->height && event->pos().x() > kGutter) {
    whole_.insert(item.first);
    arrange();
    return;
  }
  if (charAt(event->pos(), block, index)) {
    dragging_ = true;
    moved_ = false;
    dragBlock_ = block;
    dragFrom_ = dragTo_ = index;
  } else {
    document_->select(blocks_[item.first].span, Origin::transcript, event->modifiers() & Qt::ControlModifier);
  }
}

void TranscriptView::mouseMoveEvent(QMouseEvent* event) {
  if (!dragging_) {
    const int i = itemAt(event->pos().y() + bar_->value());
    const bool text = i >= 0 && !items_[size_t(i)].fold && event->pos().x() > kGutter;
    viewport()->setCursor(text ? Qt::IBeamCursor : i >= 0 ? Qt::PointingHandCursor : Qt::ArrowCursor);
    document_->setHover({i >= 0 && !items_[size_t(i)].fold ? blocks_[items_[size_t(i)].first].span : kNoSpan, -1});
    return;
  }
  size_t block;
  uint32_t index;
  if (!charAt(event->pos(), block, index) || block != dragBlock_) return;
  if (index != dragFrom_) moved_ = true;
  dragTo_ = index;
  viewport()->update();
}

void TranscriptView::mouseReleaseEvent(QMouseEvent* event) {
  if (!dragging_ || event->button() != Qt::LeftButton) return;
  dragging_ = false;
  if (moved_) finishDrag();
  else document_->select(blocks_[dragBlock_].span, Origin::transcript, event->modifiers() & Qt::ControlModifier);
}

void TranscriptView::finishDrag() {
  const uint32_t from = std::min(dragFrom_, dragTo_), to = std::max(dragFrom_, dragTo_);
  const auto [first, last] = laid(dragBlock_).map.tokens_of(from, to);
  if (first != kNone32) selectTokens(dragBlock_, first, last);
  viewport()->update();
}

void TranscriptView::mouseDoubleClickEvent(QMouseEvent* event) {
  size_t block;
  uint32_t index;
  if (!charAt(event->pos(), block, index)) return;
  const QString text = QString::fromUtf16(laid(block).map.text.data(), qsizetype(laid(block).map.text.size()));
  uint32_t from = index, to = index;
  while (from > 0 && text[qsizetype(from - 1)].isLetterOrNumber()) --from;
  while (to < uint32_t(text.size()) && text[qsizetype(to)].isLetterOrNumber()) ++to;
  dragBlock_ = block;
  dragFrom_ = from;
  dragTo_ = to;
  if (from < to) finishDrag();
}

void TranscriptView::next(int direction) {
  const double here = bar_->value() + 2;
  const Item* best = nullptr;
  for (const Item& item : items_) {
    if (item.fold || (counts_[item.first] <= 0 && !isReader(item.first))) continue;
    if (document_->filterActive() && !document_->matches(blocks_[item.first].span)) continue;
    if (direction > 0 && item.y > here + 4) {
      best = &item;
      break;
    }
    if (direction < 0 && item.y < here - 4) best = &item;
  }
  if (best) bar_->setValue(int(best->y));
}

void TranscriptView::scrollToBlock(size_t b) {
  for (const Item& item : items_) {
    if (b < item.first || b > item.last) continue;
    const int top = int(item.y), bottom = int(item.y + std::min<double>(item.height, viewport()->height()));
    if (top < bar_->value()) bar_->setValue(top);
    else if (bottom > bar_->value() + viewport()->height()) bar_->setValue(bottom - viewport()->height());
    return;
  }
}

void TranscriptView::copySelection() const {
  const auto session = document_->session();
  if (!session) return;
  QString out;
  for (size_t b = 0; b < blocks_.size(); ++b) {
    const auto [first, last] = selectedTokens(b);
    if (first >= last && !document_->selection().contains(blocks_[b].span)) continue;
    const uint32_t from = first < last ? (first ? blocks_[b].token_end[first - 1] : 0) : 0;
    const uint32_t to = first < last ? blocks_[b].token_end[last - 1] : uint32_t(blocks_[b].text.size());
    out += QString("**%1 %2**\n\n").arg(spanNumber(blocks_[b].span), spanTitle(*session, blocks_[b].span)) + QString::fromUtf8(blocks_[b].text.data() + from, qsizetype(to - from)) + "\n\n";
  }
  if (!out.isEmpty()) QApplication::clipboard()->setText(out);
}

void TranscriptView::keyPressEvent(QKeyEvent* event) {
  if (event->matches(QKeySequence::Copy)) return copySelection();
  switch (event->key()) {
    case Qt::Key_N: return next(event->modifiers() & Qt::ShiftModifier ? -1 : +1);
    case Qt::Key_Up: return bar_->triggerAction(QAbstractSlider::SliderSingleStepSub);
    case Qt::Key_Down: return bar_->triggerAction(QAbstractSlider::SliderSingleStepAdd);
    case Qt::Key_PageUp: return bar_->triggerAction(QAbstractSlider::SliderPageStepSub);
    case Qt::Key_PageDown: return bar_->triggerAction(QAbstractSlider::SliderPageStepAdd);
    case Qt::Key_Home: return bar_->triggerAction(QAbstractSlider::SliderToMinimum);
    case Qt::Key_End: return bar_->triggerAction(QAbstractSlider::SliderToMaximum);
    case Qt::Key_Space: {
      // Folds or opens what is at the top, or the selected block.
      for (size_t b = 0; b < blocks_.size(); ++b)
        if (document_->selection().contains(blocks_[b].span)) {
          if (!opened_.erase(b)) opened_.insert(b);
        }
      arrange();
      return;
    }
    case Qt::Key_Escape:
      if (dragging_) {
        dragging_ = false;
        viewport()->update();
        return;
      }
      if (!document_->selection().words.empty()) return document_->setWords({}, Origin::transcript);
      break;
    default: break;
  }
  QAbstractScrollArea::keyPressEvent(event);
}

void TranscriptView::changeEvent(QEvent* event) {
  QAbstractScrollArea::changeEvent(event);
  if (event->type() == QEvent::FontChange || event->type() == QEvent::PaletteChange || event->type() == QEvent::StyleChange) {
    laid_.clear();
    arrange();
  }
}

void TranscriptView::paintFold(QPainter& p, const Item& item, double y) {
  const PanelColors& c = panelColors();
  const QRectF box(0, y, viewport()->width(), item.height);
  p.fillRect(box, c.panelAlt);
  p.setPen(c.border);
  p.drawLine(QPointF(0, y + item.height - 0.5), QPointF(box.width(), y + item.height - 0.5));
  p.setPen(QPen(c.textMuted, 1.3));
  p.setRenderHint(QPainter::Antialiasing);
  p.drawPolyline(QPolygonF() << QPointF(12, y + 6) << QPointF(16, y + 10) << QPointF(12, y + 14));
  const size_t n = item.last - item.first + 1;
  const QString ids = n == 1 ? spanNumber(blocks_[item.first].span) : tr("%1 to %2").arg(spanNumber(blocks_[item.first].span), spanNumber(blocks_[item.last].span));
  QString what;
  size_t absent = 0;
  for (size_t b = item.first; b <= item.last; ++b) absent += counts_[b] < 0;
  switch (tint_) {
    case Tint::words: what = document_->selection().words.empty() ? tr("select words of an answer to see what they read") : tr("not read by these words"); break;
    case Tint::turn: what = absent == n ? tr("not in the context of turn %1").arg(document_->turn() + 1) : tr("not read at turn %1").arg(document_->turn() + 1); break;
    case Tint::view: what = tr("not in the view, or never read"); break;
    default: what = tr("never read");
  }
  p.setPen(c.textMuted);
  p.drawText(box.adjusted(28, 0, -8, 0), Qt::AlignVCenter | Qt::AlignLeft,
             p.fontMetrics().elidedText(tr("%1 folded, %2: %3").arg(plural(qint64(n), tr("span"), tr("spans")), ids, what), Qt::ElideRight, int(box.width()) - 40));
}

void TranscriptView::paintBlock(QPainter& p, const Item& item, double y) {
  const auto session = document_->session();
  const PanelColors& c = panelColors();
  const size_t b = item.first;
  const auto& block = blocks_[b];
  const Span& span = session->ledger[block.span];
  const bool reader = isReader(b), selected = document_->selection().contains(block.span);
  const double width = viewport()->width();
  p.fillRect(QRectF(0, y, width, item.height), reader ? c.panelAlt : c.panel);
  p.setRenderHint(QPainter::Antialiasing, false);
  p.setPen(c.border);
  p.drawLine(QPointF(0, y + item.height - 1), QPointF(width, y + item.height - 1));
  p.drawLine(QPointF(kGutter, y), QPointF(kGutter, y + item.height - 1));
  if (selected) p.fillRect(QRectF(0, y, 3, item.height - 1), c.accent);

  // Gutter: letter, number, count, bar.
  drawRoleBox(p, QRectF(7, y + 6, 14, 14), QString::fromStdString(span.role));
  p.setFont(font());
  p.setPen(c.textMuted);
  p.drawText(QRectF(26, y + 4, 40, 18), Qt::AlignVCenter | Qt::AlignLeft, spanNumber(block.span));
  const qint64 n = counts_[b];
  if (reader) {
    p.setFont(sized(font(), 0.92));
    p.setPen(c.textFaint);
    p.drawText(QRectF(8, y + 22, kGutter - 12, 16), Qt::AlignVCenter | Qt::AlignLeft, tr("the reader"));
  } else {
    QFont strong = font();
    if (n >= qint64(session->header.read_min())) strong.setWeight(QFont::DemiBold);
    p.setFont(strong);
    p.setPen(n > 0 ? c.text : c.textFaint);
    p.drawText(QRectF(60, y + 4, kGutter - 68, 18), Qt::AlignVCenter | Qt::AlignRight, n < 0 ? QString(QChar(0x2013)) : count(n));
    if (n >= 0) {
      p.setPen(c.zeroLine);
      p.drawLine(QPointF(8, y + 30.5), QPointF(kGutter - 10, y + 30.5));
    }
    if (n > 0) {
      const double w = std::max(2.0, double(n) / double(std::max<qint64>(1, most_)) * (kGutter - 18));
      p.fillRect(QRectF(8, y + 24, w, 7), c.reads(double(n)));
      p.setPen(QPen(c.borderStrong, 0.8));
      p.setBrush(Qt::NoBrush);
      p.drawRect(QRectF(8, y + 24, w, 7));
    }
  }

  // Head: name, then the facts.
  const double left = kGutter + kPadText;
  QFont strong = font();
  strong.setWeight(QFont::DemiBold);
  p.setFont(strong);
  p.setPen(c.text);
  QString facts = tr("turn %1 · %2 tokens").arg(block.birth + 1).arg(count(block.tokens));
  if (reader) facts += tr(" · drag over words to see what they read");
  else if (block.gone) facts += tr(" · left the context after turn %1").arg(block.last_seen + 1);
  if (span.taint == Taint::quarantined) facts += tr(" · quarantined");
  const double factsWidth = QFontMetricsF(font()).horizontalAdvance(facts);
  const QString name = p.fontMetrics().elidedText(spanTitle(*session, block.span), Qt::ElideRight, int(std::max(60.0, width - left - factsWidth - 20)));
  p.drawText(QRectF(left, y + kPadTop - 1, width - left, kHead), Qt::AlignVCenter | Qt::AlignLeft, name);
  const double after = left + p.fontMetrics().horizontalAdvance(name) + 8;
  p.setFont(font());
  p.setPen(c.textFaint);
  p.drawText(QRectF(after, y + kPadTop - 1, width - after - 4, kHead), Qt::AlignVCenter | Qt::AlignLeft, p.fontMetrics().elidedText(facts, Qt::ElideRight, int(width - after - 6)));
  if (selected && !reader && n > 0 && session->header.detail != "token") {
    const QString lock = tr("which tokens of it: not captured, record with --detail token");
    const QFont small = sized(font(), 0.9);
    const double w = QFontMetricsF(small).horizontalAdvance(lock) + 14;
    if (after + factsWidth + w + 24 < width) {
      const QRectF pill(width - w - 10, y + kPadTop - 1, w, 17);
      p.setRenderHint(QPainter::Antialiasing);
      p.setPen(c.missing);
      p.drawRoundedRect(pill.adjusted(0.5, 0.5, -0.5, -0.5), 3, 3);
      p.setFont(small);
      p.drawText(pill, Qt::AlignCenter, lock);
    }
  }

  const double top = y + kPadTop + kHead;
  if (!session->header.has_text) {
    p.setFont(font());
    p.setPen(c.textFaint);
    p.drawText(QRectF(left, top, width - left, 17), Qt::AlignVCenter | Qt::AlignLeft, tr("text not captured: recorded with --no-text"));
    return;
  }
  const Laid& l = laid(b);
  // Characters each leaf covers, and the selected ones.
  struct Range {
    uint32_t begin, end;
    QTextCharFormat format;
  };
  std::vector<Range> ranges;
  if (!reader)
    for (size_t k = 0; k < block.leaves.size(); ++k) {
      const auto& leaf = block.leaves[k];
      const QColor color = wash(leafCounts_[b][k]);
      if (!color.isValid() || leaf.tokens == 0) continue;
      Range r;
      r.begin = l.map.token_begin[leaf.first_token];
      r.end = l.map.token_end[leaf.first_token + leaf.tokens - 1];
      r.format.setBackground(color);
      ranges.push_back(r);
    }
  Range marked{0, 0, {}};
  if (dragging_ && moved_ && dragBlock_ == b) {
    marked.begin = std::min(dragFrom_, dragTo_), marked.end = std::max(dragFrom_, dragTo_);
  } else if (const auto [first, last] = selectedTokens(b); first < last) {
    marked.begin = l.map.token_begin[first], marked.end = l.map.token_end[last - 1];
  }
  if (marked.begin < marked.end) {
    marked.format.setBackground(c.selection);
    marked.format.setForeground(c.onSelection);
    ranges.push_back(marked);
  }
  p.setPen(c.text);
  p.setRenderHint(QPainter::Antialiasing);
  for (const Paragraph& para : l.paragraphs) {
    if (top + para.y > viewport()->height() || top + para.y + para.height < 0) continue;
    QList<QTextLayout::FormatRange> selections;
    for (const Range& r : ranges) {
      const uint32_t from = std::max(r.begin, para.begin), to = std::min(r.end, para.end);
      if (from >= to) continue;
      QTextLayout::FormatRange f;
      f.start = int(from - para.begin);
      f.length = int(to - from);
      f.format = r.format;
      selections << f;
    }
    para.layout->draw(&p, QPointF(left, top + para.y), selections, QRectF(left, std::max(0.0, top), width - left, viewport()->height()));
    // A frame around the selected words, line by line.
    if (marked.begin < marked.end && marked.end > para.begin && marked.begin < para.end) {
      const int from = int(std::max(marked.begin, para.begin) - para.begin), to = int(std::min(marked.end, para.end) - para.begin);
      p.setPen(QPen(c.accent, 1.2));
      p.setBrush(Qt::NoBrush);
      for (int k = 0; k < para.layout->lineCount(); ++k) {
        const QTextLine line = para.layout->lineAt(k);
        const int a = std::max(from, line.textStart()), z = std::min(to, line.textStart() + line.textLength());
        if (a >= z || line.y() < -1000) continue;
        const double x1 = line.cursorToX(a), x2 = line.cursorToX(z);
        p.drawRect(QRectF(left + std::min(x1, x2) - 1, top + para.y + line.y(), std::abs(x2 - x1) + 2, line.height()));
      }
      p.setPen(c.text);
    }
  }
  if (l.cut) {
    p.setFont(font());
    p.setPen(c.accent);
    p.drawText(QRectF(left, top + l.height, width - left, 17), Qt::AlignVCenter | Qt::AlignLeft, tr("… show all %1 tokens").arg(count(block.tokens)));
  }
}

void TranscriptView::paintEvent(QPaintEvent*) {
  QPainter p(viewport());
  const PanelColors& c = panelColors();
  p.fillRect(viewport()->rect(), c.panel);
  if (!document_->session() || items_.empty()) {
    p.setPen(c.textMuted);
    p.drawText(viewport()->rect(), Qt::AlignCenter, document_->session() ? tr("This session has no messages with content.") : tr("Open a session to read its text."));
    return;
  }
  const double top = bar_->value();
  for (const Item& item : items_) {
    if (item.y + item.height < top) continue;
    if (item.y > top + viewport()->height()) break;
    p.save();
    if (item.fold) paintFold(p, item, item.y - top);
    else paintBlock(p, item, item.y - top);
    p.restore();
  }
}

}  // namespace spanscope
