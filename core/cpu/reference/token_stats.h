// SPDX-License-Identifier: GPL-3.0-or-later
// Token statistics of one pass (core/model/token_stats.h), plainly: head by head, row by row, in double. Every sum has a
// fixed order, whatever the number of threads. Engine thread only; it uses the pool inside.
#pragma once
#include <span>
#include <vector>

#include "core/cpu/reference/attention.h"
#include "core/model/token_stats.h"

namespace spanscope::reference {

class TokenStatsFold {
 public:
  TokenStatsFold(const TokenStatsPlan& plan, const Recipe& recipe, uint32_t rows, uint32_t slots, ThreadPool& pool);

  // R1-R6 of one layer: runs the scores of attention() again.
  void attention(const AttentionInput& in);
  // R8.  // v [rows][kv heads][dim]
  void values(const WeightMatrix& output, const float* v);
  // R9.  // [rows][hidden]
  void residual(const std::vector<float>& before, const std::vector<float>& after);
  TokenStats result(uint32_t layer) const;

 private:
  void head(const AttentionInput& in, uint32_t head, std::vector<float>& scores);

  const TokenStatsPlan& plan_;
  const Recipe& recipe_;
  ThreadPool& pool_;
  uint32_t rows_, slots_;
  std::vector<double> column_sum_, column_square_, window_sum_;
  std::vector<float> column_max_, last_row_, row_max_, row_lse_, row_entropy_, value_norm_, output_norm_, cosine_;
  std::vector<uint32_t> column_count_, window_count_, row_argmax_;
};

// index as ResidualStats has it.  // x [rows][hidden]
ResidualStats residual_stats(uint32_t index, std::span<const float> x, uint32_t hidden);

}  // namespace spanscope::reference
