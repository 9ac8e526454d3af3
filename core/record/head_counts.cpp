// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/record/head_counts.h"

#include <algorithm>
#include <cstdio>

#include "core/record/reads.h"

namespace spanscope {
namespace {

// Absolute position of a slot of the turn's context, and the leaf it lies in (index in the layout).
struct Place {
  TokenPos position = 0;
  uint32_t entry = kNone32;
};

std::vector<Place> places_of(const TurnRecord& turn) {
  std::vector<Place> out(turn.context);
  for (uint32_t e = 0; e < turn.layout.size(); ++e)
    for (uint32_t i = 0; i < turn.layout[e].len && turn.layout[e].slot + i < out.size(); ++i) out[turn.layout[e].slot + i] = {turn.layout[e].position + i, e};
  return out;
}

std::string decimal(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", x);
  return text;
}

}  // namespace

HeadCounter::HeadCounter(const SessionData& session, float theta, uint32_t recent)
    : session_(session), header_(session.header), theta_(theta), recent_(recent) {
  const size_t n = size_t(header_.layers) * header_.query_heads;
  for (auto* v : {&reads_, &copies_, &sink_, &streaming_, &retrieval_}) v->assign(n, 0);
}

void HeadCounter::add(const TurnRecord& turn) {
  ++turns_;
  answer_rows_ += turn.answer_rows();
  if (header_.has_text) take_tokens(turn);
  if (turn.answer_rows() == 0) return;
  add_reads(turn);
  if (header_.has_text) add_copies(turn);
  add_profile(turn);
}

// What stands in each slot. Tokens that were run in an earlier turn are those of their leaf, wherever it stands now; leaves
// that are new without having run (an answer cut into pieces) stand where their tokens stood.
void HeadCounter::take_tokens(const TurnRecord& turn) {
  std::vector<TokenId> now(turn.context, -1);
  for (const LayoutEntry& e : turn.layout) {
    const auto known = leaf_tokens_.find(e.leaf);
    for (uint32_t i = 0; i < e.len; ++i) {
      const Slot slot = e.slot + i;
      if (slot >= turn.executed_begin && slot - turn.executed_begin < turn.new_ids.size()) now[slot] = turn.new_ids[slot - turn.executed_begin];
      else if (known != leaf_tokens_.end() && i < known->second.size()) now[slot] = known->second[i];
      else if (slot < context_.size()) now[slot] = context_[slot];
    }
    if (known == leaf_tokens_.end() || known->second.size() != e.len)
      leaf_tokens_[e.leaf].assign(now.begin() + e.slot, now.begin() + e.slot + e.len), leaf_words_.erase(e.leaf);
  }
  context_ = std::move(now);
}

void HeadCounter::add_reads(const TurnRecord& turn) {
  const SpanId request = request_of(session_, turn);
  const auto of_request = [&](SpanId leaf) { return request != kNoSpan && session_.ledger.message_of(leaf) == request; };
  const EventColumns& e = turn.events;
  for (size_t i = 0; i < e.size(); ++i)
    if (e.mass[i] > theta_ && !of_request(e.leaf[i])) reads_[size_t(e.layer[i]) * header_.query_heads + e.head[i]] += 1;
  // Of what was too much to be stored the counts are known at the display line only.
  if (theta_ == kDisplayTheta)
    for (size_t i = 0; i < turn.dropped.size(); ++i)
      if (!of_request(turn.dropped.leaf[i])) reads_[size_t(turn.dropped.layer[i]) * header_.query_heads + turn.dropped.head[i]] += turn.dropped.above_display[i];
}

void HeadCounter::add_copies(const TurnRecord& turn) {
  const uint32_t heads = header_.query_heads;
  const std::vector<Place> places = places_of(turn);
  const SpanId request = request_of(session_, turn);
  const auto behind = [&](uint32_t entry, TokenPos row) {
    const LayoutEntry& e = turn.layout[entry];
    return session_.ledger[e.leaf].kind == SpanKind::content && e.position + e.len <= row && (request == kNoSpan || session_.ledger.message_of(e.leaf) != request);
  };
  const auto holds = [&](uint32_t entry, TokenId token) {
    const SpanId leaf = turn.layout[entry].leaf;
    auto [it, fresh] = leaf_words_.try_emplace(leaf);
    if (fresh) it->second.insert(leaf_tokens_[leaf].begin(), leaf_tokens_[leaf].end());
    return it->second.count(token) != 0;
  };
  std::vector<uint32_t> entry_of(session_.ledger.spans.size(), kNone32);
  for (uint32_t e = 0; e < turn.layout.size(); ++e) entry_of[turn.layout[e].leaf] = e;

  struct Row {
    Slot slot = 0;
    TokenPos position = 0;
    TokenId next = -1;
  };
  std::vector<Row> rows;  // ascending positions
  std::set<TokenId> words;
  for (uint32_t i = 0; i < turn.phase.size(); ++i) {
    const Slot slot = turn.executed_begin + i;
    if (turn.phase[i] != uint8_t(RowPhase::answer) || slot + 1 >= turn.context || places[slot].entry == kNone32) continue;
    const Row row{slot, places[slot].position, context_[slot + 1]};
    bool somewhere = false;
    for (uint32_t e = 0; e < turn.layout.size() && !somewhere; ++e) somewhere = behind(e, row.position) && holds(e, row.next);
    if (!somewhere) continue;
    rows.push_back(row);
    words.insert(row.next);
  }
  if (words.empty()) return;
  ++copy_turns_;
  copy_tokens_ += words.size();

  std::vector<std::set<TokenId>> copied(copies_.size());
  const bool by_argmax = header_.kept_heads.empty() && turn.token_stats.size() == header_.layers;
  turns_with_argmax_ += by_argmax;
  if (by_argmax) {
    for (const TokenStatLayer& layer : turn.token_stats)
      for (size_t h = 0; h < layer.heads.size(); ++h)
        for (const Row& row : rows) {
          const Slot key = layer.row_argmax[h * layer.rows + (row.slot - turn.executed_begin)];
          if (key < turn.context && places[key].entry != kNone32 && behind(places[key].entry, row.position) && context_[key] == row.next)
            copied[size_t(layer.layer) * heads + layer.heads[h]].insert(row.next);
        }
  } else {
    const EventColumns& events = turn.events;
    for (size_t i = 0; i < events.size(); ++i) {
      if (!(events.mass[i] > theta_)) continue;
      const auto row = std::lower_bound(rows.begin(), rows.end(), events.row[i], [](const Row& r, TokenPos p) { return r.position < p; });
      const uint32_t entry = entry_of[events.leaf[i]];
      if (row == rows.end() || row->position != events.row[i] || entry == kNone32 || !behind(entry, row->position) || !holds(entry, row->next)) continue;
      copied[size_t(events.layer[i]) * heads + events.head[i]].insert(row->next);
    }
  }
  for (size_t i = 0; i < copied.size(); ++i) copies_[i] += double(copied[i].size()) / double(words.size());
}

void HeadCounter::add_profile(const TurnRecord& turn) {
  const size_t spans = turn.profile_spans.size();
  if (!header_.kept_heads.empty() || spans == 0 || turn.head_mass.size() != sink_.size() * 2 * spans) return;
  std::vector<uint32_t> entry_of(session_.ledger.spans.size(), kNone32);
  for (uint32_t e = 0; e < turn.layout.size(); ++e) entry_of[turn.layout[e].leaf] = e;
  const std::vector<Place> places = places_of(turn);
  uint32_t first = 0;
  while (first < turn.phase.size() && turn.phase[first] != uint8_t(RowPhase::answer)) ++first;
  const TokenPos row = places[turn.executed_begin + first].position;
  const bool learned = std::any_of(turn.learned_sink.begin(), turn.learned_sink.end(), [](float x) { return x != 0; });
  const SpanId request = request_of(session_, turn);
  profile_rows_ += turn.answer_rows();
  for (size_t i = 0; i < sink_.size(); ++i) {
    const float* mass = turn.head_mass.data() + i * 2 * spans;  // of answer rows
    double sink = 0, recent = 0, all = 0, retrieval = 0;
    for (size_t s = 0; s < spans; ++s) {
      const uint32_t entry = entry_of[turn.profile_spans[s]];
      if (entry == kNone32) continue;  // a parent
      all += mass[s];
      const Span& leaf = session_.ledger[turn.profile_spans[s]];
      const LayoutEntry& place = turn.layout[entry];
      if (leaf.kind == SpanKind::content && place.position + place.len <= row && (request == kNoSpan || session_.ledger.message_of(leaf.id) != request)) retrieval += mass[s];
      if (leaf.kind == SpanKind::sink) sink += mass[s];
      else if (place.position + recent_ > row) recent += mass[s];
    }
    if (learned) sink += std::max(0.0, double(turn.answer_rows()) - all);  // what went to no key
    sink_[i] += sink;
    streaming_[i] += sink + recent;
    retrieval_[i] += retrieval;
  }
}

HeadMap HeadCounter::finish() const {
  HeadMap map = empty_head_map(header_);
  const std::string from = "a session of " + std::to_string(turns_) + " turns, " + std::to_string(answer_rows_) + " answer rows: ";
  const auto table = [&](HeadMeasure measure, const std::vector<double>& sums, double by, const std::string& what) {
    HeadTable& t = map[measure];
    t.source = from + what;
    for (double x : sums) t.value.push_back(float(x / by));
  };
  if (answer_rows_) table(HeadMeasure::session_reads, reads_, 1, "reads above " + decimal(theta_) + ", requests left out");
  if (copy_turns_) {
    const bool argmax = turns_with_argmax_ == copy_turns_;
    const std::string how = argmax ? "the largest weight on the predicted token" : turns_with_argmax_ ? "the largest weight on the predicted token, where token statistics were kept, else a read of a leaf that holds it"
                                                                                                     : "a read of a leaf that holds the predicted token";
    table(HeadMeasure::session_copy, copies_, double(copy_turns_), std::to_string(copy_tokens_) + " tokens in " + std::to_string(copy_turns_) + " answers that could be copied, requests left out; " + how);
  }
  if (profile_rows_) {
    table(HeadMeasure::sink, sink_, double(profile_rows_), "head profiles");
    table(HeadMeasure::streaming, streaming_, double(profile_rows_), "head profiles, leaves within " + std::to_string(recent_) + " positions");
  }
  return map;
}

HeadMap count_heads(const SessionData& session, float theta, uint32_t recent) {
  HeadCounter counter(session, theta, recent);
  for (const TurnRecord& turn : session.turns) counter.add(turn);
  return counter.finish();
}

}  // namespace spanscope
