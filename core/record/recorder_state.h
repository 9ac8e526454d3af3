// SPDX-License-Identifier: GPL-3.0-or-later
// What the recorder holds. Inside core/record only: recorder.cpp fills it pass by pass, turn_close.cpp sums it up.
//
// Sums are doubles. Per turn [layers][levels + 2][S] + [layers][heads][S] + [S] for every phase and query leaf that has
// rows; per session [spans][layers][heads] for the habit. Nothing is allocated per row, and per pass only while a pass reaches further leaves.
#pragma once
#include <cstdint>
#include <tuple>
#include <vector>

#include "core/record/detail_state.h"
#include "core/record/recorder.h"
#include "core/record/turn_shape.h"

namespace spanscope {

// How hard each (layer, head) rests on each span, over all consumer rows so far (D5). Kept across turns.
struct HabitStore {
  size_t pairs = 0;            // layers x heads
  std::vector<double> sum;     // [spans][layers][heads]
  std::vector<uint64_t> rows;  // [spans] consumer rows
  void grow(size_t spans) {
    if (rows.size() >= spans) return;
    rows.resize(spans, 0);
    sum.resize(spans * pairs, 0.0);
  }
  // b: 0 before `least` rows.
  float value(SpanId span, size_t pair, uint64_t least) const {
    if (span >= rows.size() || rows[span] < least || rows[span] == 0) return 0;
    return float(sum[size_t(span) * pairs + pair] / double(rows[span]));
  }
};

struct SpikeSum {
  float mass = -1;
  uint16_t layer = 0, head = 0;
  uint32_t row = 0;
  // Larger mass; ties go to the lowest (layer, head, row).
  bool yields_to(float m, uint16_t l, uint16_t h, uint32_t r) const {
    if (m != mass) return m > mass;
    return std::tie(l, h, r) < std::tie(layer, head, row);
  }
};

struct EventRow {
  uint32_t row, column;
  uint16_t layer, head;
  float mass, habit;
};

struct DroppedEvents {  // index (column * layers + layer) * heads + head; empty until something is dropped
  std::vector<uint32_t> count, above_display;
  uint64_t total = 0;
  float most = 0;
};

struct Recorder::State {
  State(const Recipe& recipe, const RecorderOptions& o) : options(o), details(recipe, o) {}

  uint32_t layers = 0, heads = 0;
  std::vector<uint32_t> window;    // [layers]
  std::vector<uint8_t> moe_layer;  // [layers]
  bool learned_sink = false, routing = false;
  RecorderOptions options;
  HabitStore habit;
  DetailState details;

  // --- the turn
  TurnShape shape;
  uint32_t first_query = 0, queries = 0;      // query columns [first_query, first_query + queries)
  std::vector<double> prompt, answer;         // [layers][S] by phase of the rows, over heads
  std::vector<double> inside;                 // [layers][levels][S] of both, rows that lie in the same group
  // Head detail, else empty, of the heads kept: by phase of the rows, and rows of both phases that lie in the same group.
  std::vector<double> head_prompt, head_answer;  // [pairs kept][S]
  std::vector<double> head_inside;               // [pairs kept][levels][S]
  std::vector<double> consumer;               // [layers][heads][S] since the habit last took it in
  std::vector<uint64_t> consumer_rows;        // [S] likewise
  std::vector<std::vector<double>> query_mass;  // [3][queries] of [S]; empty until a row needs it
  std::vector<uint32_t> query_rows;           // [3][queries]
  std::vector<double> query_learned;          // [3][queries]
  std::vector<double> learned, unattributed;  // [3][layers]
  std::vector<double> conserved;              // [layers][heads][3]
  uint64_t phase_rows[kPhases] = {};
  std::vector<SpikeSum> spikes;               // [S]
  std::vector<EventRow> events;
  DroppedEvents dropped;
  bool answer_begun = false;
  std::vector<float> frozen;                  // [layers][heads][S] habit as used in this turn
  uint32_t experts_used = 0;
  std::vector<std::vector<uint16_t>> route_ids;               // [layers]
  std::vector<std::vector<float>> route_weights, route_margin;  // [layers]

  // --- the pass
  RecordPlan plan;
  std::vector<TokenPos> row_position;         // [rows]
  std::vector<uint32_t> pass_query;           // plan's query leaf -> column
  std::vector<uint32_t> pass_query_rows;      // [3][pass queries]
  bool pass_has[kPhases] = {};
  std::vector<std::vector<uint32_t>> inside_columns;  // [levels] leaves that share a group with a row of the pass
  size_t habit_columns = 0;                   // columns for which plan.habit was made

  size_t columns() const { return shape.leaves.size(); }
  void take_habit();
  void freeze_habit();
  void plan_leaves(Slot end);
  void plan_rows(Slot begin, Slot end, const std::vector<RowPhase>& phases);
  void count_consumers();
  void take_masses(const LayerRecord& r);
  void take_queries(const LayerRecord& r);
  void take_events(const LayerRecord& r);
  void take_routing(const LayerRecord& r);
  void drop_weakest();

  Status check_rows(const TurnPlan& plan) const;
  Status check_conservation(TurnId turn) const;
  Result<std::vector<int64_t>> final_columns(const TurnPlan& plan);
  std::vector<size_t> close_queries(TurnRecord& t, const Ledger& ledger, const std::vector<int64_t>& column) const;
  void close_profile(TurnRecord& t, const Ledger& ledger, const std::vector<int64_t>& column) const;
  void close_spikes(TurnRecord& t, const std::vector<int64_t>& column) const;
  void close_events(TurnRecord& t);
  void close_routing(TurnRecord& t) const;
};

}  // namespace spanscope
