// SPDX-License-Identifier: GPL-3.0-or-later
// What the recorder keeps beyond span and head detail: token statistics, each answer row's masses, span-to-span mass per
// layer, keys and values. Collected pass by pass, handed over when the turn closes. Inside core/record only; engine thread.
#pragma once
#include <cstdint>
#include <vector>

#include "core/model/backend.h"
#include "core/record/recorder.h"

namespace spanscope {

class DetailState final : public TokenStatsSink {
 public:
  DetailState(const Recipe& recipe, const RecorderOptions& options);

  bool keeps_head(uint32_t layer, uint32_t head) const { return options_.kept_heads.empty() || options_.kept_heads[size_t(layer) * heads_ + head]; }
  // [layers][query heads] -> index among the heads kept, in order; kNone32: not kept.
  uint32_t pair_index(uint32_t layer, uint32_t head) const { return pair_index_[size_t(layer) * heads_ + head]; }
  uint32_t pair_count() const { return pair_count_; }

  void begin_turn(const TurnPlan& plan, size_t columns, size_t queries);
  // Before the pass over slots [begin, begin + phases.size()): what it should reduce; sets the plan's wishes for rows.
  void plan_pass(Slot begin, const std::vector<RowPhase>& phases, RecordPlan& plan);
  // Null: no token statistics of this pass.
  const TokenStatsPlan* token_plan() const { return options_.tokens && pass_counts_ ? &token_plan_ : nullptr; }

  // Of the pass that was planned last.
  void take_rows(const LayerRecord& r, const std::vector<RowPhase>& phases);
  // query_of: the turn's query column of each query leaf of the pass.
  void take_pairs(const LayerRecord& r, const std::vector<uint32_t>& query_of);
  void on_tokens(const TokenStats& stats) override;
  void on_residual(const ResidualStats& stats) override;
  Status take_cache(const Cache& cache, const TurnPlan& plan);

  // column: [final layout] the turn's column of each leaf, -1: none. query: [Q] likewise, of the query leaves.
  void close(TurnRecord& turn, const std::vector<int64_t>& column, const std::vector<size_t>& query);

 private:
  struct Columns {  // of one layer; [H][capacity] each
    std::vector<double> sum, square, window_sum;  // windows: [windows][H][capacity]
    std::vector<float> max, last;
    std::vector<uint32_t> count, window_count;
    std::vector<uint32_t> argmax;                                       // [rows][H], as the passes come
    std::vector<float> row_max, row_lse, row_entropy, output_norm;      // [rows][H]
    std::vector<float> value_norm, cosine;                              // [rows][kv heads], [rows]
  };
  void reserve(Columns& c, uint32_t heads, uint32_t keys);
  void close_tokens(TurnRecord& turn);
  void close_rows(TurnRecord& turn, const std::vector<int64_t>& column);
  void close_pairs(TurnRecord& turn, const std::vector<int64_t>& column, const std::vector<size_t>& query);

  const RecorderOptions options_;
  uint32_t layers_, heads_, kv_heads_, dim_;
  std::vector<std::vector<uint16_t>> kept_;  // [layers] heads kept
  std::vector<uint32_t> pair_index_;
  uint32_t pair_count_ = 0;

  // The turn.
  size_t columns_count_ = 0, queries_ = 0;
  Slot window_end_ = 0;                      // behind the windows' last row
  uint32_t keys_ = 0, capacity_ = 0, rows_ = 0;
  std::vector<Columns> columns_;             // [layers]
  ResidualColumns residual_;
  std::vector<std::vector<float>> row_mass_;    // [layers] [answer rows][H or 1][columns]
  std::vector<std::vector<double>> pair_mass_;  // [layers][3][queries] of [columns]; empty until a row needs it
  std::vector<CacheLayer> cache_keys_, cache_values_;

  // The pass.
  TokenStatsPlan token_plan_;
  Slot pass_begin_ = 0;
  uint32_t pass_rows_ = 0;
  bool pass_counts_ = false;  // it has rows of the turn, not only rows that build a cache again
};

}  // namespace spanscope
