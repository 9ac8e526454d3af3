// SPDX-License-Identifier: GPL-3.0-or-later
// Turn close: checks, then from the turn's sums to what the file holds (definitions D3-D6).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/record/recorder_state.h"
#include "core/record/visible.h"

namespace spanscope {
namespace {

constexpr const char* kPhaseNames[] = {"prompt", "answer", "recompute"};

void take_text(TurnRecord& t, const TurnPlan& plan) {
  t.new_ids.assign(plan.ids.begin() + plan.cached, plan.ids.end());
  if (plan.token_bytes.size() == plan.ids.size()) {
    t.new_token_bytes.assign(plan.token_bytes.begin() + plan.cached, plan.token_bytes.end());
    uint64_t before = 0;
    for (uint32_t i = 0; i < plan.cached; ++i) before += plan.token_bytes[i];
    t.new_text = plan.text.substr(size_t(std::min<uint64_t>(before, plan.text.size())));
  } else {
    t.new_token_bytes.assign(t.new_ids.size(), 0);  // ids without a text
  }
  t.index_text();
}

Error mismatch(TurnId turn, const std::string& what) {
  return make_error(ErrorCode::invalid, "SPAN-RECORDER", fmt::format("turn {}: {}", turn + 1, what));
}

}  // namespace

Result<TurnRecord> Recorder::close_turn(const TurnPlan& plan, const Ledger& ledger) {
  State& s = *state_;
  SPANSCOPE_TRY(s.check_rows(plan));
  SPANSCOPE_TRY(s.check_conservation(plan.turn));
  s.habit.grow(ledger.spans.size());
  auto column = s.final_columns(plan);
  if (!column) return std::move(column).error();
  s.take_habit();

  TurnRecord t;
  t.turn = plan.turn;
  t.message = plan.message;
  t.open = plan.open;
  t.cut = plan.cut;
  t.generated = plan.generated;
  t.context = uint32_t(plan.ids.size());
  t.executed_begin = plan.cached;
  t.executed_end = plan.executed_end;
  t.answer_begin = plan.answer_begin;
  t.answer_len = plan.answer_len;
  for (RowPhase p : plan.phase) t.phase.push_back(uint8_t(p));
  t.layout = plan.layout;
  t.kept = plan.kept;
  t.evicted = plan.evicted;
  if (s.options.text) take_text(t, plan);
  const std::vector<size_t> query = s.close_queries(t, ledger, *column);
  s.close_profile(t, ledger, *column);
  s.close_spikes(t, *column);
  s.close_events(t);
  s.close_routing(t);
  s.details.close(t, *column, query);
  return t;
}

// The rows that ran are the rows of the final plan.
Status Recorder::State::check_rows(const TurnPlan& plan) const {
  uint64_t expected[kPhases] = {};
  for (RowPhase p : plan.phase)
    if (size_t(p) < kPhases) ++expected[size_t(p)];
  for (size_t p = 0; p < kPhases; ++p)
    if (expected[p] != phase_rows[p])
      return mismatch(plan.turn, fmt::format("{} {} rows were planned, {} were run", expected[p], kPhaseNames[p], phase_rows[p]));
  return {};
}

// What every head's rows handed out is as many as there were rows (D3).
Status Recorder::State::check_conservation(TurnId turn) const {
  for (uint32_t l = 0; l < layers; ++l)
    for (uint32_t h = 0; h < heads; ++h)
      for (size_t p = 0; p < kPhases; ++p) {
        const double rows = double(phase_rows[p]), sum = conserved[(size_t(l) * heads + h) * kPhases + p];
        if (!(std::fabs(sum - rows) <= options.conservation * rows))
          return make_error(ErrorCode::conservation, "SPAN-CONSERVATION",
                            fmt::format("turn {}, layer {}, head {}: the attention of {} {} rows adds up to {:.6f}", turn + 1, l, h,
                                        phase_rows[p], kPhaseNames[p], sum));
      }
  return {};
}

// [final layout] the column that was recorded for each leaf, -1: none (the end marker of a generated answer: it never ran).
// Keys that ran are what counts: a generated answer's leaf was planned longer than it became, and an empty answer makes one
// template leaf of the generation prompt and the end marker. A leaf that is another one now takes over the column.
Result<std::vector<int64_t>> Recorder::State::final_columns(const TurnPlan& plan) {
  std::vector<int64_t> out(plan.layout.size(), -1);
  std::vector<uint8_t> used(columns(), 0);
  const auto ran_end = [&](const LayoutEntry& e) { return std::min(e.slot + e.len, plan.executed_end); };
  for (size_t c = 0; c < plan.layout.size(); ++c) {
    const LayoutEntry& e = plan.layout[c];
    if (e.slot >= plan.executed_end) continue;
    const uint32_t k = columns() ? shape.column_of(e.slot) : kNone32;
    if (k == kNone32 || shape.leaves[k].slot != e.slot || shape.leaves[k].position != e.position || ran_end(shape.leaves[k]) != ran_end(e))
      return mismatch(plan.turn, fmt::format("leaf {} at slot {} has rows but was not recorded", e.leaf, e.slot));
    out[c] = k;
    used[k] = 1;
    shape.leaves[k].leaf = e.leaf;
  }
  for (size_t k = 0; k < columns(); ++k)
    if (!used[k] && shape.leaves[k].slot < plan.executed_end)
      return mismatch(plan.turn, fmt::format("leaf {} was recorded and is not in the final layout", shape.leaves[k].leaf));
  return out;
}

// Returns the query column of every query leaf.
std::vector<size_t> Recorder::State::close_queries(TurnRecord& t, const Ledger& ledger, const std::vector<int64_t>& column) const {
  const size_t leaves = t.layout.size();
  std::vector<uint32_t> query;  // final layout index
  for (uint32_t c = 0; c < leaves; ++c) {
    if (column[c] < int64_t(first_query)) continue;
    uint64_t rows = 0;
    for (size_t p = 0; p < kPhases; ++p) rows += query_rows[p * queries + size_t(column[c]) - first_query];
    if (rows == 0) continue;
    query.push_back(c);
    t.query_leaves.push_back(t.layout[c].leaf);
  }
  const size_t count = query.size();
  t.rows_q.assign(kPhases * count, 0);
  t.mass_qk.assign(kPhases * count * leaves, 0);
  if (learned_sink) t.learned_sink_q.assign(kPhases * count, 0);
  for (size_t p = 0; p < kPhases; ++p)
    for (size_t q = 0; q < count; ++q) {
      const size_t from = p * queries + size_t(column[query[q]]) - first_query, to = p * count + q;
      t.rows_q[to] = query_rows[from];
      if (learned_sink) t.learned_sink_q[to] = float(query_learned[from]);
      if (query_mass[from].empty()) continue;
      for (size_t c = 0; c < leaves; ++c)
        if (column[c] >= 0) t.mass_qk[to * leaves + c] = float(query_mass[from][size_t(column[c])]);
    }
  t.learned_sink.assign(learned.begin(), learned.end());
  t.unattributed.assign(unattributed.begin(), unattributed.end());

  UniformInput in;
  in.layout = &t.layout;
  in.ledger = &ledger;
  in.context = t.context;
  in.heads = heads;
  in.window = &window;
  in.executed_begin = t.executed_begin;
  in.executed_end = t.executed_end;
  in.phase = &t.phase;
  in.query = &query;
  const std::vector<double> uniform = uniform_expectation(in);
  t.uniform_qk.assign(uniform.begin(), uniform.end());

  std::vector<size_t> columns_of;
  for (uint32_t c : query) columns_of.push_back(size_t(column[c]) - first_query);
  return columns_of;
}

// Per layer, over heads: answer rows, and consumer rows = prompt and answer rows minus those that lie inside the span.
void Recorder::State::close_profile(TurnRecord& t, const Ledger& ledger, const std::vector<int64_t>& column) const {
  const size_t leaves = t.layout.size(), all = columns();
  std::vector<int64_t> level_of(ledger.spans.size(), -1);
  for (const ParentExtent& parent : shape.parents) level_of[parent.span] = parent.level;
  struct Item {
    uint32_t level;
    std::vector<size_t> columns;
  };
  std::vector<Item> items;
  for (size_t c = 0; c < leaves; ++c) {
    t.profile_spans.push_back(t.layout[c].leaf);
    items.push_back({0, column[c] >= 0 ? std::vector<size_t>{size_t(column[c])} : std::vector<size_t>{}});
  }
  std::vector<int64_t> item_of(ledger.spans.size(), -1);
  for (size_t c = 0; c < leaves; ++c) {
    if (ledger[t.layout[c].leaf].kind != SpanKind::content) continue;
    for (SpanId id : ledger.ancestors(t.layout[c].leaf)) {
      if (item_of[id] < 0) {
        item_of[id] = int64_t(items.size());
        t.profile_spans.push_back(id);
        // A parent that came with the answer has only leaves of the answer: no row lies behind its end.
        items.push_back({uint32_t(std::max<int64_t>(level_of[id], 0)), {}});
      }
      if (column[c] >= 0) items[size_t(item_of[id])].columns.push_back(size_t(column[c]));
    }
  }
  const size_t profiles = items.size();
  t.layer_mass.assign(size_t(layers) * 2 * profiles, 0);
  for (size_t l = 0; l < layers; ++l)
    for (size_t i = 0; i < profiles; ++i) {
      double answered = 0, consumed = 0;
      for (size_t k : items[i].columns) {
        answered += answer[l * all + k];
        consumed += prompt[l * all + k] + answer[l * all + k] - inside[(l * shape.levels + items[i].level) * all + k];
      }
      t.layer_mass[(l * 2) * profiles + i] = float(answered);
      t.layer_mass[(l * 2 + 1) * profiles + i] = float(std::max(consumed, 0.0));  // a difference of sums: rounding only
    }
  if (!options.heads) return;
  t.head_mass.assign(size_t(details.pair_count()) * 2 * profiles, 0);
  for (size_t pair = 0; pair < details.pair_count(); ++pair)
    for (size_t i = 0; i < profiles; ++i) {
      double answered = 0, consumed = 0;
      for (size_t k : items[i].columns) {
        answered += head_answer[pair * all + k];
        consumed += head_prompt[pair * all + k] + head_answer[pair * all + k] -
                    head_inside[(pair * shape.levels + items[i].level) * all + k];
      }
      t.head_mass[pair * 2 * profiles + i] = float(answered);
      t.head_mass[(pair * 2 + 1) * profiles + i] = float(std::max(consumed, 0.0));
    }
}

void Recorder::State::close_spikes(TurnRecord& t, const std::vector<int64_t>& column) const {
  const size_t leaves = t.layout.size();
  t.spike.assign(leaves, std::numeric_limits<float>::quiet_NaN());
  t.spike_layer.assign(leaves, 0);
  t.spike_head.assign(leaves, 0);
  t.spike_row.assign(leaves, 0);
  for (size_t c = 0; c < leaves; ++c) {
    if (column[c] < 0 || spikes[size_t(column[c])].mass < 0) continue;
    const SpikeSum& spike = spikes[size_t(column[c])];
    t.spike[c] = spike.mass;
    t.spike_layer[c] = spike.layer;
    t.spike_head[c] = spike.head;
    t.spike_row[c] = spike.row;
  }
}

void Recorder::State::close_events(TurnRecord& t) {
  drop_weakest();
  t.events_dropped = dropped.total;
  t.dropped_most = dropped.most;
  if (dropped.total) {
    std::vector<uint32_t> by_leaf(columns());
    for (uint32_t k = 0; k < columns(); ++k) by_leaf[k] = k;
    std::sort(by_leaf.begin(), by_leaf.end(), [&](uint32_t a, uint32_t b) { return shape.leaves[a].leaf < shape.leaves[b].leaf; });
    for (uint32_t k : by_leaf)
      for (size_t pair = 0; pair < habit.pairs; ++pair) {
        const size_t at = size_t(k) * habit.pairs + pair;
        if (!dropped.count[at]) continue;
        t.dropped.leaf.push_back(shape.leaves[k].leaf);
        t.dropped.layer.push_back(uint16_t(pair / heads));
        t.dropped.head.push_back(uint16_t(pair % heads));
        t.dropped.count.push_back(dropped.count[at]);
        t.dropped.above_display.push_back(dropped.above_display[at]);
      }
  }
  std::sort(events.begin(), events.end(), [&](const EventRow& a, const EventRow& b) {
    return std::tuple(a.row, shape.leaves[a.column].leaf, a.layer, a.head) < std::tuple(b.row, shape.leaves[b.column].leaf, b.layer, b.head);
  });
  for (const EventRow& e : events) {
    t.events.row.push_back(e.row);
    t.events.leaf.push_back(shape.leaves[e.column].leaf);
    t.events.layer.push_back(e.layer);
    t.events.head.push_back(e.head);
    t.events.mass.push_back(e.mass);
    t.events.habit.push_back(e.habit);
  }
}

void Recorder::State::close_routing(TurnRecord& t) const {
  if (!routing) return;
  RoutingColumns& out = t.routing;
  out.experts_used = experts_used;
  for (size_t l = 0; l < layers; ++l) {
    if (!moe_layer[l]) continue;
    ++out.layers;
    out.ids.insert(out.ids.end(), route_ids[l].begin(), route_ids[l].end());
    out.weights.insert(out.weights.end(), route_weights[l].begin(), route_weights[l].end());
    out.margin.insert(out.margin.end(), route_margin[l].begin(), route_margin[l].end());
  }
}

}  // namespace spanscope
