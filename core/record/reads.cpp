// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/record/reads.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "core/record/units.h"
#include "core/record/visible.h"

namespace spanscope {
namespace {

constexpr uint32_t kWindowRows = 16;  // answer rows in which read_min reads make a span read

uint32_t read_min_of(const SessionData& s, const ReadSettings& settings) {
  return settings.read_min ? settings.read_min : s.header.read_min();
}

// Does event i count at these settings? Only a larger factor than recorded needs more than the stored mass.
class Counts {
 public:
  Counts(const SessionData& s, const TurnRecord& turn, const ReadSettings& settings)
      : session_(s), turn_(turn), theta_(settings.theta), factor_(settings.factor > s.header.factor ? settings.factor : 0) {
    if (factor_ <= 0) return;
    outside_ = keys_outside(turn.layout, turn.context);
    column_.assign(s.ledger.spans.size(), kNone32);
    for (uint32_t c = 0; c < turn.layout.size(); ++c)
      if (turn.layout[c].leaf < column_.size()) column_[turn.layout[c].leaf] = c;
  }
  bool operator()(size_t i) const {
    const EventColumns& e = turn_.events;
    if (!(e.mass[i] > theta_)) return false;
    if (factor_ <= 0) return true;
    const uint32_t column = e.leaf[i] < column_.size() ? column_[e.leaf[i]] : kNone32;
    if (column == kNone32) return false;
    const LayoutEntry& leaf = turn_.layout[column];
    const uint32_t window = e.layer[i] < session_.header.window.size() ? session_.header.window[e.layer[i]] : 0;
    const uint64_t all = all_visible_keys(turn_.layout, outside_, e.row[i], window);
    const double u = all ? double(visible_keys(leaf.position, leaf.position + leaf.len, e.row[i], window)) / double(all) : 0.0;
    const double bound = std::min(double(session_.header.cap), std::max({double(theta_), factor_ * u, double(factor_) * e.habit[i]}));
    return double(e.mass[i]) > bound;
  }
  // Of a (leaf, layer, head) whose weakest events were dropped: exact at the recorded and at the display line.
  uint32_t dropped(size_t i) const {
    if (factor_ > 0 || theta_ >= turn_.dropped_most) return 0;
    if (theta_ <= session_.header.theta_rec) return turn_.dropped.count[i];
    return theta_ <= kDisplayTheta ? turn_.dropped.above_display[i] : 0;
  }

 private:
  const SessionData& session_;
  const TurnRecord& turn_;
  float theta_, factor_;
  std::vector<KeyRun> outside_;
  std::vector<uint32_t> column_;
};

bool dense_enough(std::vector<uint32_t>& rows, uint32_t least) {
  if (rows.size() < least) return false;
  std::sort(rows.begin(), rows.end());
  for (size_t i = 0; i + least <= rows.size(); ++i)
    if (rows[i + least - 1] - rows[i] < kWindowRows) return true;
  return false;
}

bool under(const SessionData& s, SpanId leaf, SpanId span) {
  if (leaf == span) return true;
  for (SpanId a : s.ledger.ancestors(leaf))
    if (a == span) return true;
  return false;
}

}  // namespace

TurnReads reads_of_turn(const SessionData& s, const TurnRecord& turn, const ReadSettings& settings) {
  TurnReads out;
  const size_t spans = s.ledger.spans.size();
  out.reads.assign(spans, -1);
  out.was_read.assign(spans, 0);
  out.spike.assign(spans, std::numeric_limits<float>::quiet_NaN());
  out.spike_layer.assign(spans, 0);
  out.spike_head.assign(spans, 0);
  out.spike_row.assign(spans, 0);
  out.answer_rows = turn.answer_rows();
  std::vector<std::vector<SpanId>> up(spans);
  for (size_t c = 0; c < turn.layout.size(); ++c) {
    const SpanId leaf = turn.layout[c].leaf;
    if (leaf >= spans) continue;
    out.reads[leaf] = 0;
    auto take_spike = [&](SpanId id) {
      if (c >= turn.spike.size() || std::isnan(turn.spike[c])) return;
      if (!std::isnan(out.spike[id]) && out.spike[id] >= turn.spike[c]) return;
      out.spike[id] = turn.spike[c];
      out.spike_layer[id] = turn.spike_layer[c];
      out.spike_head[id] = turn.spike_head[c];
      out.spike_row[id] = turn.spike_row[c];
    };
    take_spike(leaf);
    if (s.ledger[leaf].kind != SpanKind::content) continue;
    up[leaf] = s.ledger.ancestors(leaf);
    for (SpanId parent : up[leaf]) {
      out.reads[parent] = std::max(out.reads[parent], 0);
      take_spike(parent);
    }
  }
  const Counts counts(s, turn, settings);
  std::vector<std::vector<uint32_t>> rows(spans);
  for (size_t i = 0; i < turn.events.size(); ++i) {
    const SpanId leaf = turn.events.leaf[i];
    if (leaf >= spans || out.reads[leaf] < 0 || !counts(i)) continue;
    ++out.reads[leaf];
    ++out.total;
    rows[leaf].push_back(turn.events.row[i]);
    for (SpanId parent : up[leaf]) ++out.reads[parent];
  }
  for (size_t i = 0; i < turn.dropped.size(); ++i) {
    const SpanId leaf = turn.dropped.leaf[i];
    if (leaf >= spans || out.reads[leaf] < 0) continue;
    const auto n = int32_t(counts.dropped(i));
    out.reads[leaf] += n;
    out.total += n;
    for (SpanId parent : up[leaf]) out.reads[parent] += n;
  }
  const uint32_t least = read_min_of(s, settings);
  for (size_t leaf = 0; leaf < spans; ++leaf)
    if (!rows[leaf].empty() && dense_enough(rows[leaf], least)) {
      out.was_read[leaf] = 1;
      for (SpanId parent : up[leaf]) out.was_read[parent] = 1;
    }
  return out;
}

std::vector<Reader> readers_of(const SessionData& s, const TurnRecord& turn, SpanId span, const ReadSettings& settings) {
  std::map<std::pair<uint16_t, uint16_t>, uint32_t> by_head;
  const Counts counts(s, turn, settings);
  for (size_t i = 0; i < turn.events.size(); ++i)
    if (turn.events.leaf[i] < s.ledger.spans.size() && under(s, turn.events.leaf[i], span) && counts(i))
      ++by_head[{turn.events.layer[i], turn.events.head[i]}];
  for (size_t i = 0; i < turn.dropped.size(); ++i)
    if (const uint32_t n = counts.dropped(i); n > 0 && turn.dropped.leaf[i] < s.ledger.spans.size() && under(s, turn.dropped.leaf[i], span))
      by_head[{turn.dropped.layer[i], turn.dropped.head[i]}] += n;
  std::vector<Reader> out;
  for (const auto& [head, n] : by_head) out.push_back({head.first, head.second, n});
  std::stable_sort(out.begin(), out.end(), [](const Reader& a, const Reader& b) { return a.reads > b.reads; });
  return out;
}

ReadHistory read_history(const SessionData& s, const ReadSettings& settings) {
  ReadHistory out;
  const size_t spans = s.ledger.spans.size();
  out.total_reads.assign(spans, 0);
  out.first_read.assign(spans, 0);
  out.last_read.assign(spans, 0);
  for (const TurnRecord& turn : s.turns) {
    out.turns.push_back(reads_of_turn(s, turn, settings));
    const TurnReads& r = out.turns.back();
    for (size_t i = 0; i < spans; ++i) {
      if (r.reads[i] > 0) out.total_reads[i] += r.reads[i];
      if (!r.was_read[i]) continue;
      if (!out.first_read[i]) out.first_read[i] = turn.turn + 1;
      out.last_read[i] = turn.turn + 1;
    }
  }
  return out;
}

std::vector<SpanId> dead_weight(const SessionData& s, const ReadHistory& history, TurnId turn, bool parents) {
  std::vector<SpanId> out;
  size_t at = s.turns.size();
  for (size_t t = 0; t < s.turns.size(); ++t)
    if (s.turns[t].turn == turn) at = t;
  if (at == s.turns.size()) return out;
  for (const Span& span : s.ledger.spans) {
    if (span.kind != (parents ? SpanKind::parent : SpanKind::content)) continue;
    if (history.turns[at].reads[span.id] < 0 || uint64_t(span.birth) + 2 > turn) continue;
    bool read = false;
    for (size_t t = 0; t <= at && !read; ++t) read = s.turns[t].turn > span.birth && history.turns[t].was_read[span.id];
    if (!read) out.push_back(span.id);
  }
  const auto cumulative = replay_recurrence(s, RowSet::answer, 1.0, turn).cumulative;
  auto share = [&](SpanId id) { return cumulative[id].triples > 0 && !std::isnan(cumulative[id].n) ? cumulative[id].n / cumulative[id].triples : std::numeric_limits<double>::infinity(); };
  std::stable_sort(out.begin(), out.end(), [&](SpanId a, SpanId b) {
    if (s.ledger[a].tokens != s.ledger[b].tokens) return s.ledger[a].tokens > s.ledger[b].tokens;
    if (share(a) != share(b)) return share(a) < share(b);
    return a < b;
  });
  return out;
}

std::vector<SpanId> cold_for(const SessionData& s, const ReadHistory& history, TurnId turn, uint32_t k, bool parents) {
  std::vector<SpanId> out;
  size_t at = s.turns.size();
  for (size_t t = 0; t < s.turns.size(); ++t)
    if (s.turns[t].turn == turn) at = t;
  if (at == s.turns.size()) return out;
  for (const Span& span : s.ledger.spans) {
    if (span.kind != (parents ? SpanKind::parent : SpanKind::content) || history.turns[at].reads[span.id] < 0) continue;
    bool ever = false, lately = false;
    for (size_t t = 0; t <= at; ++t) {
      if (!history.turns[t].was_read[span.id]) continue;
      ever = true;
      lately = lately || uint64_t(s.turns[t].turn) + k > turn;
    }
    if (ever && !lately) out.push_back(span.id);
  }
  return out;
}

SpanId request_of(const SessionData& s, const TurnRecord& turn) {
  if (turn.answer_len == 0) return kNoSpan;
  SpanId last = kNoSpan;
  for (const LayoutEntry& e : turn.layout)
    if (e.slot < turn.answer_begin && e.leaf < s.ledger.spans.size() && s.ledger[e.leaf].kind == SpanKind::content) last = e.leaf;
  return last == kNoSpan ? kNoSpan : s.ledger.message_of(last);
}

}  // namespace spanscope
