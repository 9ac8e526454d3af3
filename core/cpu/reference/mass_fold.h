// SPDX-License-Identifier: GPL-3.0-or-later
// Folds the span masses of finished rows into the sums of a LayerRecord (the contract of
// core/model/record_plan.h). Rows come in tiles of a bounded size and are forgotten after folding. Every sum
// has a fixed order, whatever the number of threads. Engine thread only; it uses the pool inside.
#pragma once
#include <vector>

#include "core/base/thread_pool.h"
#include "core/model/recipe.h"
#include "core/model/record_plan.h"

namespace spanscope::reference {

// Which slots a row sees: [first, end).
struct VisibleRange {
  Slot first = 0, end = 0;
};

class MassFold {
 public:
  MassFold(const RecordPlan& plan, const Recipe& recipe, uint32_t rows, ThreadPool& pool);

  // Rows that a tile may have, so that its masses stay within a few MiB.
  uint32_t tile_rows() const { return tile_rows_; }
  uint32_t columns() const { return leaves_ + 2; }
  // The row's masses, to be filled before fold().  // [leaves]: leaves, unattributed, learned sink
  double* mass(uint32_t row_in_tile, uint32_t head) {
    return tile_.data() + (size_t(row_in_tile) * heads_ + head) * columns();
  }

  // Where the row's log-sum-exp goes, or null when nobody asked.
  float* lse(uint32_t row, uint32_t head) {
    return row_lse_.empty() ? nullptr : row_lse_.data() + size_t(row) * heads_ + head;
  }

  void begin_layer(uint32_t layer);
  // positions and visible of the tile's rows.
  void fold(uint32_t first_row, uint32_t rows, const TokenPos* positions, const VisibleRange* visible);
  LayerRecord record() const;  // without routing; valid until the next begin_layer

 private:
  void fold_head(uint32_t head, uint32_t first_row, uint32_t rows, const TokenPos* positions);
  void fold_queries(uint32_t first_leaf, uint32_t end_leaf, uint32_t first_row, uint32_t rows);
  void find_events(uint32_t first_row, uint32_t rows, const TokenPos* positions, const VisibleRange* visible);

  const RecordPlan& plan_;
  ThreadPool& pool_;
  uint32_t layer_ = 0, rows_, heads_, leaves_, tile_rows_;
  std::vector<double> tile_;  // [tile rows][heads][leaves + 2]
  // Leaves of the row's group, per level: members_[begin_[k * rows + i] .. + count_) are leaf indices.
  std::vector<uint32_t> members_, member_begin_, member_count_;
  std::vector<double> head_mass_, inside_, query_leaf_, learned_sink_, unattributed_;
  std::vector<double> head_spike_;        // [heads][leaves], -1: none
  std::vector<uint32_t> head_spike_row_;  // [heads][leaves]
  mutable std::vector<float> spike_;
  mutable std::vector<uint16_t> spike_head_;
  mutable std::vector<uint32_t> spike_row_;
  std::vector<ReadEvent> events_;
  bool rows_wanted_ = false;  // of this layer
  std::vector<float> row_mass_, row_lse_;
};

}  // namespace spanscope::reference
