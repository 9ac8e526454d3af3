// SPDX-License-Identifier: GPL-3.0-or-later
// Folds the leaf masses of finished rows into the sums of a LayerRecord (contract: core/model/record_plan.h).
// Every thread has sums of its own; numbers are rounded to multiples of 2^-36 before they are added, which
// makes the additions exact and the result the same bits whatever thread folded what. Memory: heads x leaves
// and query leaves x leaves a thread, nothing that grows with rows x keys. One MassFold serves many passes
// and keeps its buffers.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "core/cpu/fast/attention_kernels.h"
#include "core/model/recipe.h"
#include "core/model/record_plan.h"

namespace spanscope::fast {

class MassFold {
 public:
  // Before a pass. positions, first, end: [rows] absolute position and visible slots (of the layer about to
  // run; set again by begin_layer where windows differ).
  void begin_pass(const RecordPlan& plan, const Recipe& recipe, uint32_t slots,
                  std::span<const TokenPos> positions, unsigned threads);
  void begin_layer(uint32_t layer, const int32_t* first, const int32_t* end);

  // Segments of every slot, cut at leaf borders and at multiples of kTileKeys.
  const Segment* segments() const { return segments_.data(); }
  const uint32_t* tile_segment() const { return tile_segment_.data(); }  // [key tiles + 1]
  uint32_t segment_count() const { return uint32_t(segments_.size()); }
  uint32_t leaves() const { return leaves_; }

  // Rows [tile * kTileRows, ...) of one head.  // mass [leaves + 2][kTileRows], rows [leaf_first, leaf_end),
  // `leaves` (the gaps) and `leaves` + 1 (the learned sink)
  void fold_tile(unsigned thread, uint32_t tile, uint32_t head, const float* mass, uint32_t leaf_first,
                 uint32_t leaf_end);
  // One row of one head.  // mass [leaves + 2]
  void fold_row(unsigned thread, uint32_t row, uint32_t head, const float* mass);

  // Where the rows' log-sum-exp goes, or null when nobody asked.  // [rows][heads]
  float* row_lse() { return row_lse_.empty() ? nullptr : row_lse_.data(); }

  // Joins the threads' sums. Valid until the next begin_layer. Routing is left to the caller.
  LayerRecord finish_layer();

 private:
  // Neighbouring rows of one tile with the same phase, query leaf and groups.
  struct Run {
    uint32_t row = 0, lane = 0, count = 0;
    RowPhase phase = RowPhase::unrecorded;
    uint32_t sums = 0;     // index of its (phase, query leaf) in query_sums_
    uint32_t members = 0;  // index into run_members_: first of `levels` lists
  };
  struct Members {
    uint32_t begin = 0, count = 0;  // of member_leaf_
  };
  struct Spike {
    float mass;
    uint32_t head, row;
  };
  struct Worker {
    std::vector<double> head_mass;  // [heads][used phases][leaves + 2], the last ones unattributed and learned sink
    std::vector<double> inside;     // [heads][levels][leaves]
    std::vector<double> query;      // [query sums][leaves]
    std::vector<Spike> spike;       // [leaves]
    std::vector<ReadEvent> events;
    std::vector<float> run_sums;  // [leaves + 2]
    std::vector<float> maxima;    // [leaves]
  };
  void make_segments(uint32_t slots);
  void make_runs();
  void add_run(Worker& worker, const Run& run, uint32_t head, const float* sums, uint32_t leaf_first,
               uint32_t leaf_end);
  void look_at_answers(Worker& worker, const Run& run, uint32_t head, const float* mass, uint32_t leaf_first,
                       uint32_t leaf_end);
  void look_at(Worker& worker, uint32_t row, uint32_t head, uint32_t leaf, float mass);
  void keep_rows(uint32_t first_row, uint32_t rows, uint32_t head, const float* mass, uint32_t leaf_first,
                 uint32_t leaf_end);

  const RecordPlan* plan_ = nullptr;
  uint32_t heads_ = 0, leaves_ = 0, rows_ = 0, levels_ = 0, layer_ = 0, phases_ = 0;
  int32_t phase_slot_[4] = {-1, -1, -1, -1};  // index of a phase among those that occur
  std::span<const TokenPos> positions_;
  const int32_t *first_ = nullptr, *end_ = nullptr;
  std::vector<Segment> segments_;
  std::vector<uint32_t> tile_segment_;
  std::vector<Run> runs_;
  std::vector<uint32_t> tile_run_;  // [row tiles + 1]
  std::vector<uint32_t> row_run_;   // [rows] index of the row's run, kNone32: unrecorded
  std::vector<uint32_t> keep_;      // [runs][kTileRows] all bits set in the run's lanes
  std::vector<Members> run_members_;
  std::vector<uint32_t> member_leaf_;
  std::vector<std::pair<uint32_t, uint32_t>> query_sums_;  // (phase, query leaf)
  std::vector<Spike> no_spike_;                            // [leaves] what a leaf begins a layer with
  std::vector<Worker> workers_;
  // The record.
  std::vector<double> head_mass_, inside_, query_leaf_, learned_sink_, unattributed_;
  std::vector<std::pair<uint32_t, uint32_t>> stale_queries_;  // rows of query_leaf_ that hold numbers
  uint32_t stale_query_leaves_ = 0, stale_leaves_ = 0;
  bool rows_wanted_ = false;  // of this layer
  std::vector<float> spike_mass_, row_mass_, row_lse_;
  std::vector<uint16_t> spike_head_;
  std::vector<uint32_t> spike_row_;
  std::vector<ReadEvent> events_;
};

}  // namespace spanscope::fast
