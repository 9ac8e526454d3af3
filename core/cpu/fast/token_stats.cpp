// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cpu/fast/token_stats.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/cpu/fast/token_stats_kernels.h"

namespace spanscope::fast {

void TokenStatsFold::begin_pass(const TokenStatsPlan& plan, std::span<const TokenPos> positions, uint32_t slots) {
  plan_ = &plan;
  positions_ = positions;
  rows_ = uint32_t(positions.size());
  slots_ = slots;
  const size_t columns = size_t(recipe_.query_heads) * slots, per_row = size_t(recipe_.query_heads) * rows_;
  for (auto* sums : {&column_sum_, &column_square_}) sums->resize(columns);
  for (auto* maxima : {&column_max_, &last_row_}) maxima->resize(columns);
  column_count_.resize(columns);
  window_sum_.resize(plan.windows * columns);
  window_count_.resize(plan.windows * columns);
  for (auto* of_rows : {&row_max_, &row_lse_, &row_entropy_, &output_norm_}) of_rows->resize(per_row);
  row_argmax_.resize(per_row);
  value_norm_.resize(size_t(recipe_.kv_heads) * rows_);
  cosine_.resize(rows_);
  scratch_.resize(team_.threads());
  for (Buffer& s : scratch_) s.need(stat_scratch_floats(recipe_.head_dim, slots));

  const uint32_t tiles = (rows_ + kTileRows - 1) / kTileRows;
  const size_t lines = 2 + plan.windows;
  float* lanes = lanes_.need(tiles * lines * kTileRows);
  std::fill_n(lanes, tiles * lines * kTileRows, 0.0f);
  for (uint32_t row = 0; row < rows_; ++row) {
    float* at = lanes + size_t(row / kTileRows) * lines * kTileRows + row % kTileRows;
    at[0] = 1.0f / (float(positions[row]) + 1.0f);
    at[kTileRows] = plan.counted.empty() || plan.counted[row] ? 1.0f : 0.0f;
    for (uint32_t w = 0; w < plan.windows; ++w) at[(2 + w) * kTileRows] = plan.row_windows[row] >> w & 1 ? 1.0f : 0.0f;
  }
}

void TokenStatsFold::attend(uint32_t layer, Attention& attention, const float* q) {
  const uint32_t heads = recipe_.query_heads, dim = recipe_.head_dim, tiles = (rows_ + kTileRows - 1) / kTileRows;
  const size_t stride = size_t(heads) * dim, lines = 2 + plan_->windows;
  for (auto* sums : {&column_sum_, &column_square_, &window_sum_}) std::fill(sums->begin(), sums->end(), 0.0);
  for (auto* maxima : {&column_max_, &last_row_}) std::fill(maxima->begin(), maxima->end(), 0.0f);
  for (auto* counts : {&column_count_, &window_count_}) std::fill(counts->begin(), counts->end(), 0u);
  team_.for_each(heads, [&](size_t head, unsigned thread) {
    if (!plan_->wants_head(layer, uint32_t(head), heads)) return;
    for (uint32_t tile = 0; tile < tiles; ++tile) {
      const uint32_t row = tile * kTileRows;
      StatTile t;
      t.rows = std::min(kTileRows, rows_ - row);
      t.first = attention.first() + row;
      t.end = attention.end() + row;
      t.keys = attention.keys_of(thread, uint32_t(head) / (heads / recipe_.kv_heads), uint32_t(t.first[0]),
                                 uint32_t(t.end[kTileRows - 1]));
      t.rule = {recipe_.attention_scale, recipe_.score_cap};
      t.sink = attention.sinks() ? attention.sinks() + head : nullptr;
      t.dim = dim;
      t.q = q + row * stride + head * dim;
      t.q_stride = stride;
      const float* lanes = lanes_.data() + size_t(tile) * lines * kTileRows;
      t.bound = lanes;
      t.counted = lanes + kTileRows;
      t.window = lanes + 2 * kTileRows;
      t.windows = plan_->windows;
      t.scratch = scratch_[thread].data();
      const size_t column = head * slots_, of_row = head * rows_ + row;
      t.column_sum = column_sum_.data() + column;
      t.column_square = column_square_.data() + column;
      t.column_max = column_max_.data() + column;
      t.column_count = column_count_.data() + column;
      if (plan_->windows) {
        t.window_sum = window_sum_.data() + column;
        t.window_count = window_count_.data() + column;
      }
      t.window_stride = size_t(heads) * slots_;
      t.last_row = tile + 1 == tiles ? last_row_.data() + column : nullptr;
      t.row_argmax = row_argmax_.data() + of_row;
      t.row_max = row_max_.data() + of_row;
      t.row_lse = row_lse_.data() + of_row;
      t.row_entropy = row_entropy_.data() + of_row;
      stat_tile(t);
    }
  });
}

// |W_h v|^2 = v^T (W_h^T W_h) v: the product in the middle is made once per layer and head, so that a row costs dim x dim
// instead of hidden x dim.
const std::vector<double>& TokenStatsFold::gram(uint32_t layer, const WeightMatrix& output) {
  grams_.resize(recipe_.layers);
  std::vector<double>& out = grams_[layer];
  if (!out.empty()) return out;
  const uint32_t dim = recipe_.head_dim, heads = recipe_.query_heads;
  out.assign(size_t(heads) * dim * dim, 0.0);
  constexpr uint32_t kTile = 128;  // output rows as f32 at a time
  std::vector<float> weights(size_t(kTile) * output.cols);
  for (uint32_t first = 0; first < output.rows; first += kTile) {
    const uint32_t count = std::min(kTile, output.rows - first);
    team_.for_each(count, [&](size_t o, unsigned) { dequantise_row(output, first + o, weights.data() + o * output.cols); });
    team_.for_each(heads, [&](size_t head, unsigned) {
      double* g = out.data() + head * dim * dim;
      for (uint32_t o = 0; o < count; ++o) {
        const float* w = weights.data() + size_t(o) * output.cols + head * dim;
        for (uint32_t i = 0; i < dim; ++i) {
          const double wi = w[i];
          for (uint32_t j = 0; j < dim; ++j) g[i * dim + j] += wi * double(w[j]);
        }
      }
    });
  }
  return out;
}

void TokenStatsFold::values(uint32_t layer, const WeightMatrix& output, const float* v) {
  const uint32_t dim = recipe_.head_dim, heads = recipe_.query_heads, kv_heads = recipe_.kv_heads, group = heads / kv_heads;
  const std::vector<double>& gram = this->gram(layer, output);
  team_.for_each(heads, [&](size_t head, unsigned) {
    if (!plan_->wants_head(layer, uint32_t(head), heads)) return;
    const double* g = gram.data() + head * dim * dim;
    for (uint32_t row = 0; row < rows_; ++row)
      output_norm_[head * rows_ + row] =
          float(std::sqrt(std::max(0.0, quadratic_form(g, v + (size_t(row) * kv_heads + head / group) * dim, dim))));
  });
  for (uint32_t row = 0; row < rows_; ++row)
    for (uint32_t g = 0; g < kv_heads; ++g) {
      const float* value = v + (size_t(row) * kv_heads + g) * dim;
      value_norm_[size_t(g) * rows_ + row] = float(std::sqrt(std::inner_product(value, value + dim, value, 0.0)));
    }
}

void TokenStatsFold::keep(const float* x) { before_.assign(x, x + size_t(rows_) * recipe_.hidden); }

void TokenStatsFold::compare(const float* x) {
  const size_t width = recipe_.hidden;
  team_.for_each(rows_, [&](size_t row, unsigned) {
    const float *a = before_.data() + row * width, *b = x + row * width;
    const double ab = std::inner_product(a, a + width, b, 0.0), aa = std::inner_product(a, a + width, a, 0.0),
                 bb = std::inner_product(b, b + width, b, 0.0);
    cosine_[row] = float(ab / std::sqrt(aa * bb));
  });
}

TokenStats TokenStatsFold::result(uint32_t layer) const {
  return {layer,
          rows_,
          slots_,
          recipe_.query_heads,
          recipe_.kv_heads,
          plan_->windows,
          column_sum_.data(),
          column_square_.data(),
          column_max_.data(),
          column_count_.data(),
          window_sum_.data(),
          window_count_.data(),
          last_row_.data(),
          row_argmax_.data(),
          row_max_.data(),
          row_lse_.data(),
          row_entropy_.data(),
          value_norm_.data(),
          output_norm_.data(),
          cosine_.data()};
}

ResidualStats TokenStatsFold::residual(uint32_t index) const {
  ResidualStats out;
  out.index = index;
  const size_t n = before_.size();
  for (uint32_t i = 0; i < n; ++i) {  // in order: of equals the earlier one stays before
    ResidualStats::Peak peak{std::abs(before_[i]), i / recipe_.hidden, i % recipe_.hidden};
    if (!(peak.size > out.peaks.back().size)) continue;
    bool placed = false;
    for (ResidualStats::Peak& at : out.peaks)
      if (placed || peak.size > at.size) std::swap(peak, at), placed = true;  // the ones behind move down
  }
  std::vector<float> sizes(n);
  for (size_t i = 0; i < n; ++i) sizes[i] = std::abs(before_[i]);
  const size_t lower = (n - 1) / 2;
  std::nth_element(sizes.begin(), sizes.begin() + ptrdiff_t(lower), sizes.end());
  double median = sizes[lower];
  if (n % 2 == 0) median = (median + double(*std::min_element(sizes.begin() + ptrdiff_t(lower) + 1, sizes.end()))) / 2;
  out.median = float(median);
  out.massive = uint32_t(std::count_if(before_.begin(), before_.end(), [&](float x) {
    return std::abs(x) > 100.0f && double(std::abs(x)) >= 1000.0 * median;
  }));
  return out;
}

}  // namespace spanscope::fast
