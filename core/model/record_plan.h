// SPDX-License-Identifier: GPL-3.0-or-later
// The contract between recorder and engine: what a pass should reduce while it runs (RecordPlan) and what it gives
// back (LayerRecord, one per layer, already reduced). Nothing here is of size n x n, nor rows x leaves unless
// want_row_masses asks for it.
//
// What a backend does with a plan, per layer l, query head h and row i (all visible keys, softmax with cap, window and
// learned sink in the denominator):
//   mass(i,s)   = sum of weights over the keys of leaf s                                (definitions D3)
//   head_mass[h][phase(i)][s]          += mass(i,s)
//   query_leaf[phase(i)][query(i)][s]  += mass(i,s)                       (summed over heads)
//   inside[h][k][s] += mass(i,s)  for phases prompt and answer, for every nesting level k for which
//                      group_of_row[k][i] >= 0 and group_of_leaf[k][s] == group_of_row[k][i].
//     Consumer mass of a span at level k = prompt + answer total - inside, by causality: a row that lies before the
//     span's end and sees it lies inside it. Level 0 holds the leaves themselves.
//   spike[s] = max of mass(i,s) over answer rows with position(i) >= end_position[s]; ties: lowest (head, row).
//   a read event, for answer rows and leaves with readable[s] and position(i) >= end_position[s], when
//     mass(i,s) > min(cap, max(theta_rec, factor*u, factor*habit[l][h][s]))             (definitions D5)
//     u = visible keys of s / visible keys of the row in this layer.
// Accumulate in double. Rows with phase `unrecorded` add to nothing. Row masses are f32.
#pragma once
#include <cstdint>
#include <vector>

#include "core/base/ids.h"

namespace spanscope {

enum class RowPhase : uint8_t { prompt = 0, answer = 1, recompute = 2, unrecorded = 3 };
inline constexpr uint32_t kPhases = 3;
inline constexpr uint32_t kMaxPlannedRows = 1024;  // rows of one planned pass

struct PlanLeaf {
  Slot slot = 0;          // first key in the cache
  uint32_t len = 0;       // keys
  TokenPos end_position = 0;  // absolute position behind the last key
  bool readable = false;  // content leaf: events are looked for
};

struct RecordPlan {
  std::vector<PlanLeaf> leaves;            // ascending slot, disjoint; keys in no leaf are unattributed
  uint32_t levels = 1;                     // nesting levels, level 0 = the leaf itself
  std::vector<int32_t> group_of_leaf;      // [levels][leaves], -1: none
  std::vector<int32_t> group_of_row;       // [levels][rows], -1: none
  std::vector<RowPhase> row_phase;         // [rows]
  std::vector<uint32_t> row_query;         // [rows] index of the row's query leaf, < query_leaves
  uint32_t query_leaves = 0;
  float theta_rec = 0.20f, factor = 3.0f, cap = 0.90f;
  std::vector<float> habit;                // [layers][query heads][leaves]; empty = all 0
  bool want_routing = false;
  bool want_row_masses = false;
  std::vector<uint8_t> row_mass_layers;    // [layers] 1: with want_row_masses, this layer's are wanted; empty: all
  bool want_row_lse = false;

  bool wants_rows(uint32_t layer) const { return want_row_masses && (row_mass_layers.empty() || row_mass_layers[layer]); }
};

struct ReadEvent {
  uint32_t row = 0;   // index into the batch (the recorder turns it into an absolute position)
  uint32_t leaf = 0;  // index into plan.leaves
  uint16_t layer = 0, head = 0;
  float mass = 0, habit = 0;
};

// Pointers stay valid during RecordSink::on_layer only.
struct LayerRecord {
  uint32_t layer = 0;
  uint32_t rows = 0, query_heads = 0, leaves = 0;
  const double* head_mass = nullptr;     // [query heads][3 phases][leaves]
  const double* inside = nullptr;        // [query heads][levels][leaves]
  const double* query_leaf = nullptr;    // [3 phases][query_leaves][leaves]
  const double* learned_sink = nullptr;  // [query heads][3]
  const double* unattributed = nullptr;  // [query heads][3]
  const float* spike = nullptr;          // [leaves], -1: no answer row behind the leaf in this pass
  const uint16_t* spike_head = nullptr;  // [leaves]
  const uint32_t* spike_row = nullptr;   // [leaves] batch row
  const ReadEvent* events = nullptr;     // [event_count], sorted by (row, leaf, head)
  uint64_t event_count = 0;
  const float* row_mass = nullptr;       // [rows][query heads][leaves + 2]: leaves, unattributed, learned sink; or null
  // [rows][query heads] natural log of the sum of exp(score) over visible keys and learned sink, scores as the softmax
  // sees them (scaled, capped); or null
  const float* row_lse = nullptr;
  // Mixture-of-experts layers only, when want_routing:
  uint32_t experts_used = 0;
  const int32_t* expert_ids = nullptr;   // [rows][K] selection order
  const float* expert_weights = nullptr; // [rows][K] combine weights
  const float* expert_margin = nullptr;  // [rows] selection score K minus score K+1
};

class RecordSink {
 public:
  virtual ~RecordSink() = default;
  virtual void on_layer(const LayerRecord& record) = 0;  // layers in order, on the thread that called forward()
};

}  // namespace spanscope
