// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/document/document.h"

#include <QRegularExpression>
#include <algorithm>
#include <cmath>

namespace spanscope {
namespace {
constexpr size_t kTrail = 100;
constexpr size_t kPins = 8;
}  // namespace

Document::Document(QObject* parent) : QObject(parent) {
  qRegisterMetaType<spanscope::Selection>("spanscope::Selection");
  qRegisterMetaType<spanscope::Hover>("spanscope::Hover");
  qRegisterMetaType<spanscope::Origin>("spanscope::Origin");
}
Document::~Document() = default;

void Document::setSession(std::shared_ptr<const SessionData> session) {
  session_ = std::move(session);
  selection_ = {};
  hover_ = {};
  pins_.clear();
  trail_.clear();
  at_ = -1;
  history_.reset();
  cells_.reset();
  states_.reset();
  filterText_.clear();
  filterError_.clear();
  if (session_) {
    settings_.reads.theta = std::max(settings_.reads.theta, session_->header.theta_rec);
    // The cursor stands on the last turn that has an answer: what people come to look at.
    for (int t = int(session_->turns.size()) - 1; t >= 0 && selection_.turn < 0; --t)
      if (session_->turns[size_t(t)].answer_rows() > 0) selection_.turn = t;
    if (selection_.turn < 0) selection_.turn = int(session_->turns.size()) - 1;
    trail_.push_back(selection_);
    at_ = 0;
  }
  refilter();
  emit sessionChanged();
  emit selectionChanged(selection_, Origin::program);
}

const TurnRecord* Document::turnRecord() const {
  if (!session_ || selection_.turn < 0 || selection_.turn >= int(session_->turns.size())) return nullptr;
  return &session_->turns[size_t(selection_.turn)];
}

void Document::changed(Origin origin) {
  if (!walking_ && (at_ < 0 || !(trail_[size_t(at_)] == selection_))) {
    trail_.resize(size_t(at_ + 1));
    trail_.push_back(selection_);
    if (trail_.size() > kTrail) trail_.erase(trail_.begin());
    at_ = int(trail_.size()) - 1;
  }
  emit selectionChanged(selection_, origin);
}

void Document::select(SpanId span, Origin origin, bool add) {
  if (!session_) return;
  if (span == kNoSpan) {
    selection_.spans.clear();
  } else if (!add) {
    selection_.spans = {span};
  } else if (const auto it = std::find(selection_.spans.begin(), selection_.spans.end(), span); it != selection_.spans.end()) {
    selection_.spans.erase(it);
  } else {
    selection_.spans.push_back(span);
  }
  changed(origin);
}

void Document::selectSpans(std::vector<SpanId> spans, Origin origin) {
  if (!session_) return;
  selection_.spans = std::move(spans);
  changed(origin);
}

void Document::setTurn(int turn, Origin origin) {
  if (!session_ || session_->turns.empty()) return;
  turn = std::clamp(turn, 0, int(session_->turns.size()) - 1);
  if (turn == selection_.turn) return;
  selection_.turn = turn;
  selection_.words = {};
  refilter();  // fields "at the turn" follow the cursor
  changed(origin);
}

void Document::setHead(int layer, int head, Origin origin) {
  selection_.layer = layer;
  selection_.head = head;
  changed(origin);
}
void Document::setExpert(int expert, Origin origin) {
  selection_.expert = expert;
  changed(origin);
}
void Document::setWords(TokenRange words, Origin origin) {
  if (selection_.words == words) return;
  selection_.words = words;
  changed(origin);
}

void Document::setHover(const Hover& hover) {
  if (hover_ == hover) return;
  hover_ = hover;
  emit hoverChanged(hover_);
}

void Document::togglePin(SpanId span) {
  if (const auto it = std::find(pins_.begin(), pins_.end(), span); it != pins_.end()) {
    pins_.erase(it);
  } else if (pins_.size() >= kPins) {
    emit message(tr("At most %1 spans can be pinned; unpin one first.").arg(kPins));
    return;
  } else {
    pins_.push_back(span);
  }
  emit pinsChanged();
}

void Document::goBack() {
  if (!canGoBack()) return;
  walking_ = true;
  selection_ = trail_[size_t(--at_)];
  refilter();
  changed(Origin::program);
  walking_ = false;
}
void Document::goForward() {
  if (!canGoForward()) return;
  walking_ = true;
  selection_ = trail_[size_t(++at_)];
  refilter();
  changed(Origin::program);
  walking_ = false;
}

void Document::setMeasure(Measure measure) {
  if (settings_.measure == measure) return;
  settings_.measure = measure;
  cells_.reset();
  refilter();
  emit measureChanged();
}
void Document::setRows(RowSet rows) {
  if (settings_.rows == rows) return;
  settings_.rows = rows;
  cells_.reset();
  refilter();
  emit measureChanged();
}
void Document::setStrength(float theta) {
  theta = std::clamp(theta, session_ ? session_->header.theta_rec : 0.2f, 0.9f);
  if (std::fabs(theta - settings_.reads.theta) < 1e-6f) return;
  settings_.reads.theta = theta;
  history_.reset();
  cells_.reset();
  refilter();
  emit strengthChanged();
}

const ReadHistory& Document::history() const {
  if (!history_) history_ = std::make_unique<ReadHistory>(session_ ? read_history(*session_, settings_.reads) : ReadHistory{});
  return *history_;
}
const CellTable& Document::cells() const {
  if (cells_) return *cells_;
  cells_ = std::make_unique<CellTable>();
  if (!session_) return *cells_;
  if (settings_.measure != Measure::reads) {
    *cells_ = cell_table(*session_, spans_at_level(*session_, Level::message), settings_);
    return *cells_;
  }
  // Under reads only the counts depend on the strength: they come from the history, the rest is kept, so that dragging the
  // strength costs one pass over the events.
  if (!states_) states_ = std::make_unique<CellTable>(cell_table(*session_, spans_at_level(*session_, Level::message), settings_));
  *cells_ = *states_;
  const ReadHistory& h = history();
  for (size_t r = 0; r < cells_->rows.size(); ++r) {
    const SpanId id = cells_->rows[r];
    double sum = 0;
    for (uint32_t t = 0; t < cells_->turns; ++t) {
      Cell& cell = cells_->cells[r * cells_->turns + t];
      if (cell.state != CellState::value) continue;
      cell.number = h.turns[t].reads[id];
      cell.was_read = h.turns[t].was_read[id];
      sum += cell.number;
    }
    cells_->row_value[r] = sum;
  }
  for (uint32_t t = 0; t < cells_->turns; ++t) cells_->column_reads[t] = h.turns[t].total;
  return *cells_;
}

const View& Document::view() const { return view_; }
bool Document::matches(SpanId span) const { return span < inView_.size() && inView_[span]; }

void Document::setFilter(const QString& text, Origin origin) {
  if (text == filterText_) return;
  filterText_ = text;
  refilter();
  emit filterChanged(origin);
}
void Document::setMatchingOnly(bool on) {
  if (matchingOnly_ == on) return;
  matchingOnly_ = on;
  emit filterChanged(Origin::program);
}

void Document::refilter() {
  if (!session_ || session_->turns.empty()) {
    view_ = {};
    inView_.clear();
    return;
  }
  ViewQuery query;
  query.predicate = filterText_.trimmed().toStdString();
  query.turn = selection_.turn >= 0 ? session_->turns[size_t(selection_.turn)].turn : kNone32;
  query.settings = settings_;
  auto view = run_view(*session_, query);
  filterError_.clear();
  filterErrorAt_ = -1;
  if (!view) {
    const Error& e = view.error();
    filterError_ = QString::fromStdString(e.message);
    if (!filterError_.isEmpty()) filterError_[0] = filterError_[0].toUpper();
    if (e.offset) {
      // The error counts bytes of the trimmed text, the line edit counts characters of the whole one.
      const QByteArray bytes = QByteArray::fromStdString(query.predicate);
      filterErrorAt_ = int(QString::fromUtf8(bytes.left(qsizetype(std::min<uint64_t>(*e.offset, uint64_t(bytes.size()))))).size());
      qsizetype blank = 0;
      while (blank < filterText_.size() && filterText_[blank].isSpace()) ++blank;
      filterErrorAt_ += int(blank);
      filterError_ += tr(" (at character %1)").arg(filterErrorAt_ + 1);
    }
    static const QRegularExpression joint("\\b(and|or)\\b", QRegularExpression::CaseInsensitiveOption);
    qsizetype at = -1;
    QString word;
    for (auto it = joint.globalMatch(filterText_); it.hasNext();) {
      const auto match = it.next();
      at = match.capturedStart();
      word = match.captured();
    }
    if (at <= 0) return;  // the last good view stays
    query.predicate = filterText_.left(at).trimmed().toStdString();
    view = run_view(*session_, query);
    if (!view) return;
    filterError_ += tr(". The count uses the text before “%1”.").arg(word);
  }
  view_ = std::move(*view);
  inView_.assign(session_->ledger.spans.size(), 0);
  for (const ViewRef& ref : view_.refs) inView_[ref.span] = 1;
}

}  // namespace spanscope
