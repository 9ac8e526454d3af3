// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cpu/reference/token_stats.h"

#include <algorithm>
#include <cmath>

namespace spanscope::reference {

TokenStatsFold::TokenStatsFold(const TokenStatsPlan& plan, const Recipe& recipe, uint32_t rows, uint32_t slots,
                               ThreadPool& pool)
    : plan_(plan), recipe_(recipe), pool_(pool), rows_(rows), slots_(slots) {
  const size_t columns = size_t(recipe.query_heads) * slots, per_row = size_t(recipe.query_heads) * rows;
  column_sum_.resize(columns);
  column_square_.resize(columns);
  column_max_.resize(columns);
  column_count_.resize(columns);
  last_row_.resize(columns);
  window_sum_.resize(plan.windows * columns);
  window_count_.resize(plan.windows * columns);
  row_argmax_.resize(per_row);
  row_max_.resize(per_row);
  row_lse_.resize(per_row);
  row_entropy_.resize(per_row);
  value_norm_.resize(size_t(recipe.kv_heads) * rows);
  output_norm_.resize(per_row);
  cosine_.resize(rows);
}

void TokenStatsFold::attention(const AttentionInput& in) {
  std::fill(column_sum_.begin(), column_sum_.end(), 0.0);
  std::fill(column_square_.begin(), column_square_.end(), 0.0);
  std::fill(column_max_.begin(), column_max_.end(), 0.0f);
  std::fill(column_count_.begin(), column_count_.end(), 0u);
  std::fill(last_row_.begin(), last_row_.end(), 0.0f);
  std::fill(window_sum_.begin(), window_sum_.end(), 0.0);
  std::fill(window_count_.begin(), window_count_.end(), 0u);
  std::vector<std::vector<float>> scores(pool_.threads(), std::vector<float>(slots_));
  pool_.parallel_for(recipe_.query_heads,
                     [&](size_t h, unsigned thread) {
                       if (plan_.wants_head(in.layer, uint32_t(h), recipe_.query_heads)) head(in, uint32_t(h), scores[thread]);
                     });
}

void TokenStatsFold::head(const AttentionInput& in, uint32_t head, std::vector<float>& scores) {
  const uint32_t dim = recipe_.head_dim, kv_head = head / (recipe_.query_heads / recipe_.kv_heads);
  const size_t base = size_t(head) * slots_, all = size_t(recipe_.query_heads) * slots_;
  for (uint32_t row = 0; row < rows_; ++row) {
    const VisibleRange visible = visible_slots(in.positions, in.first_slot + row, recipe_.window[in.layer]);
    const uint32_t count = visible.end - visible.first;
    const float* q = in.q + (size_t(row) * recipe_.query_heads + head) * dim;
    kernels().scores(q, in.cache.key(in.layer, kv_head, visible.first), count, dim, recipe_.attention_scale,
                     scores.data());
    if (recipe_.score_cap != 0)
      for (uint32_t j = 0; j < count; ++j)
        scores[j] = recipe_.score_cap * std::tanh(scores[j] / recipe_.score_cap);
    float largest = *std::max_element(scores.begin(), scores.begin() + count);
    if (in.sinks) largest = std::max(largest, in.sinks[head]);
    double total = in.sinks ? std::exp(double(in.sinks[head]) - double(largest)) : 0.0;
    for (uint32_t j = 0; j < count; ++j) total += std::exp(double(scores[j]) - double(largest));
    const double lse = double(largest) + std::log(total);

    const bool counted = plan_.counted.empty() || plan_.counted[row], last = row + 1 == rows_;
    const uint8_t windows = counted && plan_.windows ? plan_.row_windows[row] : 0;
    const double bound = 1.0 / (double(in.positions[in.first_slot + row]) + 1.0);
    double weighted = 0, best = -1;
    uint32_t at = visible.first;
    for (uint32_t j = 0; j < count; ++j) {
      const double a = std::exp(double(scores[j]) - lse);
      const uint32_t slot = visible.first + j;
      weighted += a * double(scores[j]);
      if (a > best) best = a, at = slot;
      if (last) last_row_[base + slot] = float(a);
      if (!counted) continue;
      column_sum_[base + slot] += a;
      column_square_[base + slot] += a * a;
      column_max_[base + slot] = std::max(column_max_[base + slot], float(a));
      const bool high = a > bound;
      column_count_[base + slot] += high;
      for (uint32_t w = 0; w < plan_.windows; ++w)
        if (windows >> w & 1) {
          window_sum_[w * all + base + slot] += a;
          window_count_[w * all + base + slot] += high;
        }
    }
    const size_t r = size_t(head) * rows_ + row;
    row_argmax_[r] = at;
    row_max_[r] = float(best);
    row_lse_[r] = float(lse);
    row_entropy_[r] = float(lse - weighted);
  }
}

void TokenStatsFold::values(const WeightMatrix& output, const float* v) {
  const uint32_t dim = recipe_.head_dim, heads = recipe_.query_heads, kv_heads = recipe_.kv_heads;
  for (uint32_t row = 0; row < rows_; ++row)
    for (uint32_t g = 0; g < kv_heads; ++g) {
      double squares = 0;
      for (uint32_t d = 0; d < dim; ++d) {
        const double x = v[(size_t(row) * kv_heads + g) * dim + d];
        squares += x * x;
      }
      value_norm_[size_t(g) * rows_ + row] = float(std::sqrt(squares));
    }
  // |W v|: a few rows of the output matrix at a time, each head with its own columns of them.
  constexpr uint32_t kTile = 64;
  std::vector<float> weights(size_t(kTile) * output.cols);
  std::vector<double> squares(size_t(heads) * rows_, 0.0);
  for (uint32_t first = 0; first < output.rows; first += kTile) {
    const uint32_t count = std::min(kTile, output.rows - first);
    pool_.parallel_for(count, [&](size_t o, unsigned) {
      dequantise_row(output, first + o, weights.data() + o * output.cols);
    });
    pool_.parallel_for(heads, [&](size_t h, unsigned) {
      for (uint32_t row = 0; row < rows_; ++row) {
        const float* value = v + (size_t(row) * kv_heads + h / (heads / kv_heads)) * dim;
        double& sum = squares[h * rows_ + row];
        for (uint32_t o = 0; o < count; ++o) {
          const float* w = weights.data() + size_t(o) * output.cols + h * dim;
          double y = 0;
          for (uint32_t d = 0; d < dim; ++d) y += double(w[d]) * double(value[d]);
          sum += y * y;
        }
      }
    });
  }
  for (size_t i = 0; i < squares.size(); ++i) output_norm_[i] = float(std::sqrt(squares[i]));
}

void TokenStatsFold::residual(const std::vector<float>& before, const std::vector<float>& after) {
  const size_t width = recipe_.hidden;
  for (uint32_t row = 0; row < rows_; ++row) {
    const float *x = before.data() + row * width, *y = after.data() + row * width;
    double xy = 0, xx = 0, yy = 0;
    for (size_t d = 0; d < width; ++d)
      xy += double(x[d]) * double(y[d]), xx += double(x[d]) * double(x[d]), yy += double(y[d]) * double(y[d]);
    cosine_[row] = float(xy / (std::sqrt(xx) * std::sqrt(yy)));
  }
}

TokenStats TokenStatsFold::result(uint32_t layer) const {
  TokenStats s;
  s.layer = layer;
  s.rows = rows_;
  s.keys = slots_;
  s.query_heads = recipe_.query_heads;
  s.kv_heads = recipe_.kv_heads;
  s.windows = plan_.windows;
  s.column_sum = column_sum_.data();
  s.column_square = column_square_.data();
  s.column_max = column_max_.data();
  s.column_count = column_count_.data();
  s.window_sum = window_sum_.data();
  s.window_count = window_count_.data();
  s.last_row = last_row_.data();
  s.row_argmax = row_argmax_.data();
  s.row_max = row_max_.data();
  s.row_lse = row_lse_.data();
  s.row_entropy = row_entropy_.data();
  s.value_norm = value_norm_.data();
  s.output_norm = output_norm_.data();
  s.residual_cosine = cosine_.data();
  return s;
}

ResidualStats residual_stats(uint32_t index, std::span<const float> x, uint32_t hidden) {
  ResidualStats out;
  out.index = index;
  std::vector<float> sizes(x.size());
  for (size_t i = 0; i < x.size(); ++i) sizes[i] = std::abs(x[i]);
  for (size_t i = 0; i < sizes.size(); ++i)  // a later equal never moves an earlier one
    for (size_t p = 0; p < out.peaks.size(); ++p)
      if (sizes[i] > out.peaks[p].size) {
        for (size_t down = out.peaks.size() - 1; down > p; --down) out.peaks[down] = out.peaks[down - 1];
        out.peaks[p] = {sizes[i], uint32_t(i / hidden), uint32_t(i % hidden)};
        break;
      }
  std::vector<float> sorted = sizes;
  const size_t middle = sorted.size() / 2;
  std::nth_element(sorted.begin(), sorted.begin() + ptrdiff_t(middle), sorted.end());
  double median = sorted[middle];
  if (sorted.size() % 2 == 0)
    median = (median + double(*std::max_element(sorted.begin(), sorted.begin() + ptrdiff_t(middle)))) / 2;
  out.median = float(median);
  for (float s : sizes) out.massive += s > 100.0f && double(s) >= 1000.0 * median;
  return out;
}

}  // namespace spanscope::reference
