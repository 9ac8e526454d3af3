// SPDX-License-Identifier: GPL-3.0-or-later
// Token statistics of one pass (core/model/token_stats.h) on the fast path: heads in parallel, rows in tiles. Engine thread,
// inside Team::run.
#pragma once
#include <span>
#include <vector>

#include "core/cpu/fast/attention.h"
#include "core/cpu/fast/team.h"
#include "core/model/token_stats.h"
#include "core/model/weights.h"

namespace spanscope::fast {

class TokenStatsFold {
 public:
  TokenStatsFold(Team& team, const Recipe& recipe) : team_(team), recipe_(recipe) {}
  void begin_pass(const TokenStatsPlan& plan, std::span<const TokenPos> positions, uint32_t slots);

  // R1-R6 of the wanted heads of the layer that `attention` has just run.  // q [rows][query heads][dim], rotated
  void attend(uint32_t layer, Attention& attention, const float* q);
  // R8.  // v [rows][kv heads][dim]
  void values(uint32_t layer, const WeightMatrix& output, const float* v);
  // R9: keeps what the layer begins with, and compares it with what its attention made of it.  // x [rows][hidden]
  void keep(const float* x);
  void compare(const float* x);
  TokenStats result(uint32_t layer) const;
  // Of the rows that keep() saw last.
  ResidualStats residual(uint32_t index) const;

 private:
  const std::vector<double>& gram(uint32_t layer, const WeightMatrix& output);

  Team& team_;
  const Recipe& recipe_;
  const TokenStatsPlan* plan_ = nullptr;
  std::span<const TokenPos> positions_;
  uint32_t rows_ = 0, slots_ = 0;
  std::vector<std::vector<double>> grams_;  // [layers][heads][dim][dim], made when first needed
  std::vector<Buffer> scratch_;  // [thread]
  Buffer lanes_;                 // [row tiles][2 + windows][32]: bounds, counted, windows
  std::vector<double> column_sum_, column_square_, window_sum_;
  std::vector<float> column_max_, last_row_, row_max_, row_lse_, row_entropy_, value_norm_, output_norm_, cosine_, before_;
  std::vector<uint32_t> column_count_, window_count_, row_argmax_;
};

}  // namespace spanscope::fast
