// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/record/detail_state.h"

#include <algorithm>
#include <cmath>

#include "core/base/half.h"

namespace spanscope {
namespace {

// Lines of `before` values each become lines of `after` values, the new ones zero.
template <class T>
void widen(std::vector<T>& values, size_t lines, uint32_t before, uint32_t after) {
  std::vector<T> wide(lines * after, T(0));
  if (!values.empty())
    for (size_t i = 0; i < lines; ++i) std::copy_n(values.begin() + ptrdiff_t(i * before), before, wide.begin() + ptrdiff_t(i * after));
  values = std::move(wide);
}

// The first `used` of each line of `stride` values.
template <class To, class From>
std::vector<To> narrow(const std::vector<From>& values, size_t lines, uint32_t stride, uint32_t used) {
  std::vector<To> out;
  out.reserve(lines * used);
  for (size_t i = 0; i < lines; ++i)
    for (uint32_t k = 0; k < used; ++k) out.push_back(To(values[i * stride + k]));
  return out;
}

// [rows][n] -> [n][rows]
template <class T>
std::vector<T> turned(const std::vector<T>& values, size_t rows, size_t n) {
  std::vector<T> out(values.size());
  for (size_t r = 0; r < rows; ++r)
    for (size_t i = 0; i < n; ++i) out[i * rows + r] = values[r * n + i];
  return out;
}

CacheLayer packed(uint32_t layer, const std::vector<float>& values) {
  CacheLayer out;
  out.layer = layer;
  constexpr float kLargestF16 = 65504;
  for (float v : values) out.bf16 = out.bf16 || std::fabs(v) > kLargestF16;
  out.data.reserve(values.size());
  for (float v : values) out.data.push_back(out.bf16 ? f32_to_bf16(v) : f32_to_f16(v));
  return out;
}

}  // namespace

DetailState::DetailState(const Recipe& recipe, const RecorderOptions& options)
    : options_(options), layers_(recipe.layers), heads_(recipe.query_heads), kv_heads_(recipe.kv_heads), dim_(recipe.head_dim) {
  kept_.resize(layers_);
  pair_index_.assign(size_t(layers_) * heads_, kNone32);
  for (uint32_t l = 0; l < layers_; ++l)
    for (uint32_t h = 0; h < heads_; ++h) {
      if (!keeps_head(l, h)) continue;
      kept_[l].push_back(uint16_t(h));
      pair_index_[size_t(l) * heads_ + h] = pair_count_++;
    }
  if (!options_.tokens) return;
  token_plan_.windows = uint32_t(options_.stat_windows.size());
  if (options_.kept_heads.empty()) return;
  token_plan_.heads = options_.kept_heads;
  for (uint32_t l = 0; l < layers_; ++l) token_plan_.layers.push_back(!kept_[l].empty());
}

void DetailState::begin_turn(const TurnPlan& plan, size_t columns, size_t queries) {
  columns_count_ = columns;
  queries_ = queries;
  const bool answered = plan.answer_len > 0 || plan.generated;
  window_end_ = answered ? plan.first_answer_row() + 1 : plan.executed_end;
  keys_ = capacity_ = rows_ = 0;
  columns_.assign(layers_, {});
  residual_ = {};
  row_mass_.assign(layers_, {});
  pair_mass_.assign(options_.pairs ? size_t(layers_) * kPhases * queries : 0, {});
  cache_keys_.clear();
  cache_values_.clear();
}

void DetailState::plan_pass(Slot begin, const std::vector<RowPhase>& phases, RecordPlan& plan) {
  pass_begin_ = begin;
  pass_rows_ = uint32_t(phases.size());
  const auto counts = [](RowPhase p) { return p == RowPhase::prompt || p == RowPhase::answer; };
  const bool answers = std::find(phases.begin(), phases.end(), RowPhase::answer) != phases.end();
  pass_counts_ = std::any_of(phases.begin(), phases.end(), [](RowPhase p) { return p != RowPhase::unrecorded; });
  plan.want_row_masses = options_.rows != RowDetail::none && answers;
  if (plan.want_row_masses && plan.row_mass_layers.empty() && !options_.kept_heads.empty())
    for (uint32_t l = 0; l < layers_; ++l) plan.row_mass_layers.push_back(!kept_[l].empty());
  if (!options_.tokens) return;
  token_plan_.counted.clear();
  token_plan_.row_windows.clear();
  for (size_t i = 0; i < phases.size(); ++i) {
    const Slot slot = begin + Slot(i);
    token_plan_.counted.push_back(counts(phases[i]));
    uint8_t windows = 0;
    if (slot < window_end_)
      for (size_t w = 0; w < options_.stat_windows.size(); ++w)
        if (window_end_ - slot <= options_.stat_windows[w]) windows |= uint8_t(1u << w);
    if (token_plan_.windows) token_plan_.row_windows.push_back(windows);
  }
}

void DetailState::take_rows(const LayerRecord& r, const std::vector<RowPhase>& phases) {
  if (options_.rows == RowDetail::none || !r.row_mass || kept_[r.layer].empty()) return;
  std::vector<float>& out = row_mass_[r.layer];
  const size_t width = size_t(r.leaves) + 2;
  for (uint32_t row = 0; row < r.rows; ++row) {
    if (phases[row] != RowPhase::answer) continue;
    const float* of_row = r.row_mass + size_t(row) * r.query_heads * width;
    if (options_.rows == RowDetail::heads) {
      for (uint16_t head : kept_[r.layer]) {
        out.insert(out.end(), of_row + head * width, of_row + head * width + r.leaves);
        out.resize(out.size() + columns_count_ - r.leaves, 0.0f);
      }
      continue;
    }
    const size_t at = out.size();
    out.resize(at + columns_count_, 0.0f);
    for (size_t k = 0; k < r.leaves; ++k) {
      double sum = 0;
      for (uint32_t head = 0; head < r.query_heads; ++head) sum += double(of_row[head * width + k]);
      out[at + k] = float(sum);
    }
  }
}

void DetailState::take_pairs(const LayerRecord& r, const std::vector<uint32_t>& query_of) {
  if (!options_.pairs || kept_[r.layer].empty()) return;
  const size_t count = query_of.size();
  for (size_t p = 0; p < kPhases; ++p)
    for (size_t q = 0; q < count; ++q) {
      const double* in = r.query_leaf + (p * count + q) * r.leaves;
      if (std::all_of(in, in + r.leaves, [](double x) { return x == 0; })) continue;
      std::vector<double>& out = pair_mass_[(r.layer * kPhases + p) * queries_ + query_of[q]];
      if (out.empty()) out.assign(columns_count_, 0.0);
      for (size_t k = 0; k < r.leaves; ++k) out[k] += in[k];
    }
}

// Room for `keys` keys in each head's line; generated answers grow, so a little more.
void DetailState::reserve(Columns& c, uint32_t heads, uint32_t keys) {
  const size_t windows = options_.stat_windows.size();
  const size_t stride = c.sum.size() / heads;
  if (keys <= stride) return;
  for (auto* v : {&c.sum, &c.square}) widen(*v, heads, uint32_t(stride), capacity_);
  for (auto* v : {&c.max, &c.last}) widen(*v, heads, uint32_t(stride), capacity_);
  widen(c.count, heads, uint32_t(stride), capacity_);
  widen(c.window_sum, windows * heads, uint32_t(stride), capacity_);
  widen(c.window_count, windows * heads, uint32_t(stride), capacity_);
}

void DetailState::on_tokens(const TokenStats& s) {
  const std::vector<uint16_t>& kept = kept_[s.layer];
  if (kept.empty()) return;
  if (s.keys > capacity_) capacity_ = s.keys + s.keys / 8 + 16;
  keys_ = std::max(keys_, s.keys);
  Columns& c = columns_[s.layer];
  const uint32_t heads = uint32_t(kept.size());
  reserve(c, heads, s.keys);
  const size_t stride = c.sum.size() / heads;
  const size_t windows = options_.stat_windows.size();
  for (uint32_t i = 0; i < heads; ++i) {
    const size_t from = size_t(kept[i]) * s.keys, to = i * stride;
    for (size_t k = 0; k < s.keys; ++k) {
      c.sum[to + k] += s.column_sum[from + k];
      c.square[to + k] += s.column_square[from + k];
      c.max[to + k] = std::max(c.max[to + k], s.column_max[from + k]);
      c.count[to + k] += s.column_count[from + k];
      c.last[to + k] = s.last_row[from + k];
    }
    for (size_t w = 0; w < windows; ++w) {
      const size_t from_w = (w * s.query_heads + kept[i]) * s.keys, to_w = (w * heads + i) * stride;
      for (size_t k = 0; k < s.keys; ++k) {
        c.window_sum[to_w + k] += s.window_sum[from_w + k];
        c.window_count[to_w + k] += s.window_count[from_w + k];
      }
    }
  }
  for (uint32_t row = 0; row < s.rows; ++row) {
    for (uint16_t head : kept) {
      const size_t at = size_t(head) * s.rows + row;
      c.argmax.push_back(s.row_argmax[at]);
      c.row_max.push_back(s.row_max[at]);
      c.row_lse.push_back(s.row_lse[at]);
      c.row_entropy.push_back(s.row_entropy[at]);
      c.output_norm.push_back(s.output_norm[at]);
    }
    for (uint32_t g = 0; g < s.kv_heads; ++g) c.value_norm.push_back(s.value_norm[size_t(g) * s.rows + row]);
    c.cosine.push_back(s.residual_cosine[row]);
  }
}

void DetailState::on_residual(const ResidualStats& s) {
  if (s.index == 0) {
    residual_.pass_begin.push_back(pass_begin_);
    residual_.pass_rows.push_back(pass_rows_);
    rows_ += pass_rows_;
  }
  residual_.median.push_back(s.median);
  residual_.massive.push_back(s.massive);
  for (const ResidualStats::Peak& p : s.peaks) {
    residual_.peak.push_back(p.size);
    residual_.peak_slot.push_back(pass_begin_ + p.row);
    residual_.peak_dimension.push_back(p.dimension);
  }
}

Status DetailState::take_cache(const Cache& cache, const TurnPlan& plan) {
  const uint32_t rows = plan.executed_end - plan.cached;
  std::vector<float> buffer(size_t(kv_heads_) * rows * dim_);
  for (uint32_t l = 0; l < layers_; ++l) {
    if (options_.keys == KeyDetail::all ? !kept_[l].empty() : options_.keys == KeyDetail::first_layer && l == 0) {
      SPANSCOPE_TRY(cache.read_keys(l, {plan.cached, plan.executed_end}, true, buffer.data()));
      cache_keys_.push_back(packed(l, buffer));
    }
    if (options_.values && !kept_[l].empty()) {
      SPANSCOPE_TRY(cache.read_values(l, {plan.cached, plan.executed_end}, buffer.data()));
      cache_values_.push_back(packed(l, buffer));
    }
  }
  return {};
}

void DetailState::close(TurnRecord& turn, const std::vector<int64_t>& column, const std::vector<size_t>& query) {
  if (options_.tokens) close_tokens(turn);
  if (options_.rows != RowDetail::none) close_rows(turn, column);
  if (options_.pairs) close_pairs(turn, column, query);
  turn.keys = std::move(cache_keys_);
  turn.values = std::move(cache_values_);
  cache_keys_.clear(), cache_values_.clear();
}

void DetailState::close_tokens(TurnRecord& turn) {
  turn.residual = std::move(residual_);
  for (uint32_t l = 0; l < layers_; ++l) {
    if (kept_[l].empty()) continue;
    Columns& c = columns_[l];
    const size_t heads = kept_[l].size(), windows = options_.stat_windows.size();
    const uint32_t stride = uint32_t(c.sum.size() / heads);
    TokenStatLayer out;
    out.layer = l;
    out.keys = keys_;
    out.rows = rows_;
    out.heads = kept_[l];
    out.column_sum = narrow<float>(c.sum, heads, stride, keys_);
    out.column_square = narrow<float>(c.square, heads, stride, keys_);
    out.column_max = narrow<float>(c.max, heads, stride, keys_);
    out.column_count = narrow<uint32_t>(c.count, heads, stride, keys_);
    out.last_row = narrow<float>(c.last, heads, stride, keys_);
    out.window_sum = narrow<float>(c.window_sum, windows * heads, stride, keys_);
    out.window_count = narrow<uint32_t>(c.window_count, windows * heads, stride, keys_);
    out.row_argmax = turned(c.argmax, rows_, heads);
    out.row_max = turned(c.row_max, rows_, heads);
    out.row_lse = turned(c.row_lse, rows_, heads);
    out.row_entropy = turned(c.row_entropy, rows_, heads);
    out.output_norm = turned(c.output_norm, rows_, heads);
    out.value_norm = turned(c.value_norm, rows_, kv_heads_);
    out.residual_cosine = std::move(c.cosine);
    turn.token_stats.push_back(std::move(out));
    c = {};
  }
}

void DetailState::close_rows(TurnRecord& turn, const std::vector<int64_t>& column) {
  for (uint32_t l = 0; l < layers_; ++l) {
    if (kept_[l].empty()) continue;
    const size_t lines = columns_count_ ? row_mass_[l].size() / columns_count_ : 0;
    RowMassLayer out;
    out.layer = l;
    out.mass.assign(lines * column.size(), 0.0f);
    for (size_t i = 0; i < lines; ++i)
      for (size_t c = 0; c < column.size(); ++c)
        if (column[c] >= 0) out.mass[i * column.size() + c] = row_mass_[l][i * columns_count_ + size_t(column[c])];
    turn.row_mass.push_back(std::move(out));
    row_mass_[l] = {};
  }
}

void DetailState::close_pairs(TurnRecord& turn, const std::vector<int64_t>& column, const std::vector<size_t>& query) {
  const size_t leaves = column.size();
  for (uint32_t l = 0; l < layers_; ++l) {
    if (kept_[l].empty()) continue;
    PairLayer out;
    out.layer = l;
    out.mass.assign(kPhases * query.size() * leaves, 0.0f);
    for (size_t p = 0; p < kPhases; ++p)
      for (size_t q = 0; q < query.size(); ++q) {
        const std::vector<double>& in = pair_mass_[(l * kPhases + p) * queries_ + query[q]];
        if (in.empty()) continue;
        for (size_t c = 0; c < leaves; ++c)
          if (column[c] >= 0) out.mass[(p * query.size() + q) * leaves + c] = float(in[size_t(column[c])]);
      }
    turn.pair_mass.push_back(std::move(out));
  }
}

}  // namespace spanscope
