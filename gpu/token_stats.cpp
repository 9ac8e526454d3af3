// SPDX-License-Identifier: GPL-3.0-or-later
#include "gpu/token_stats.h"

#include <algorithm>
#include <cmath>

#include "gpu/kernels/token_stats.cuh"
#include "gpu/kernels/token_values.cuh"

namespace spanscope::gpu {
namespace {

static_assert(kStatWindows == kMaxStatWindows);
Grid over(uint64_t elements) { return {uint32_t((elements + kValueThreads - 1) / kValueThreads)}; }
template <class T>
Status put(Array<T>& to, const std::vector<T>& from) {
  SPANSCOPE_TRY(to.resize(from.size()));
  return from.empty() ? Status{} : to.upload(from.data(), from.size());
}

// x [rows][hidden]
ResidualStats residual_of(uint32_t index, const std::vector<float>& x, uint32_t hidden) {
  ResidualStats out;
  out.index = index;
  std::vector<float> sizes(x.size());
  std::transform(x.begin(), x.end(), sizes.begin(), [](float v) { return std::abs(v); });
  std::vector<uint32_t> order(x.size());
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  const size_t peaks = std::min(out.peaks.size(), order.size());
  std::partial_sort(order.begin(), order.begin() + ptrdiff_t(peaks), order.end(),
                    [&](uint32_t a, uint32_t b) { return sizes[a] != sizes[b] ? sizes[a] > sizes[b] : a < b; });
  for (size_t i = 0; i < peaks; ++i)
    if (sizes[order[i]] > 0) out.peaks[i] = {sizes[order[i]], order[i] / hidden, order[i] % hidden};
  // Of an even count the mean of the middle two: the upper one is the smallest of those behind the lower.
  const auto lower = sizes.begin() + ptrdiff_t((sizes.size() - 1) / 2);
  std::nth_element(sizes.begin(), lower, sizes.end());
  double median = *lower;
  if (sizes.size() % 2 == 0) median = (median + double(*std::min_element(lower + 1, sizes.end()))) / 2;
  out.median = float(median);
  out.massive = uint32_t(std::count_if(sizes.begin(), sizes.end(), [&](float s) { return s > 100.0f && double(s) >= 1000.0 * median; }));
  return out;
}

}  // namespace

uint32_t token_stats_shared_bytes(uint32_t dim, Arithmetic arithmetic) {
  uint32_t bytes = 0;
  (void)with_head_dim(dim, [&](auto d) {
    bytes = arithmetic == Arithmetic::fast ? TokenStatShared<uint16_t, d()>::kBytes : TokenStatShared<float, d()>::kBytes;
    return Status{};
  });
  return bytes;
}

Status TokenStatsFold::begin_pass(const TokenStatsPlan& plan, std::span<const TokenPos> positions, uint32_t slots) {
  plan_ = &plan;
  rows_ = uint32_t(positions.size());
  slots_ = slots;
  const size_t heads = recipe_.query_heads, columns = heads * slots, per_row = heads * rows_;
  std::vector<float> bound(rows_);
  for (uint32_t i = 0; i < rows_; ++i) bound[i] = 1.0f / (float(positions[i]) + 1.0f);
  SPANSCOPE_TRY(put(bound_, bound));
  SPANSCOPE_TRY(put(counted_, plan.counted.empty() ? std::vector<uint8_t>(rows_, 1) : plan.counted));
  SPANSCOPE_TRY(put(row_windows_, plan.row_windows));
  for (auto* sums : {&column_sum_, &column_square_}) SPANSCOPE_TRY(sums->device.resize(columns));
  for (auto* maxima : {&column_max_, &last_row_}) SPANSCOPE_TRY(maxima->device.resize(columns));
  SPANSCOPE_TRY(column_count_.device.resize(columns));
  SPANSCOPE_TRY(window_sum_.device.resize(plan.windows * columns));
  SPANSCOPE_TRY(window_count_.device.resize(plan.windows * columns));
  for (auto* of_rows : {&row_max_, &row_lse_, &row_entropy_, &output_norm_}) SPANSCOPE_TRY(of_rows->device.resize(per_row));
  SPANSCOPE_TRY(row_argmax_.device.resize(per_row));
  SPANSCOPE_TRY(value_norm_.device.resize(size_t(recipe_.kv_heads) * rows_));
  return cosine_.device.resize(rows_);
}

Status TokenStatsFold::begin_layer(uint32_t index, const Array<float>& x, TokenStatsSink& sink) {
  std::vector<float> host(size_t(rows_) * recipe_.hidden);
  SPANSCOPE_TRY(x.download(host.data(), host.size()));
  sink.on_residual(residual_of(index, host, recipe_.hidden));
  SPANSCOPE_TRY(before_.resize(host.size()));
  CopyParams p;
  p.from = x.view();
  p.to = before_.view();
  p.count = uint32_t(host.size());
  return launch(copy_numbers, over(p.count), kValueThreads, 0, p);
}

Status TokenStatsFold::attend(uint32_t layer, const Attention& attention, GpuCache& cache, Global<const float> q, Global<const float> sinks) {
  std::vector<uint8_t> wanted(recipe_.query_heads);
  for (uint32_t h = 0; h < wanted.size(); ++h) wanted[h] = plan_->wants_head(layer, h, recipe_.query_heads);
  SPANSCOPE_TRY(put(wanted_, wanted));
  if (cache.half()) {
    AttentionParams<uint16_t> in;
    const Global<uint16_t> pool = cache.half_pool(layer);
    in.pool = {pool.data, pool.size};
    in.page_of = cache.page_of();
    in.q = q;
    in.sinks = sinks;
    return launch_scores<HalfF16>(layer, attention, in);
  }
  AttentionParams<float> in;
  const Global<float> pool = cache.pool(layer);
  in.pool = {pool.data, pool.size};
  in.page_of = cache.page_of();
  in.q = q;
  in.sinks = sinks;
  return launch_scores<Exact>(layer, attention, in);
}

template <class Mode>
Status TokenStatsFold::launch_scores(uint32_t layer, const Attention& attention, AttentionParams<typename Mode::Element>& in) {
  attention.set_rows(layer, in);
  TokenStatParams<typename Mode::Element> p;
  p.in = in;
  p.wanted = std::as_const(wanted_).view();
  p.bound = std::as_const(bound_).view();
  p.counted = std::as_const(counted_).view();
  p.row_windows = std::as_const(row_windows_).view();
  p.keys = slots_;
  p.windows = plan_->windows;
  p.row_argmax = row_argmax_.device.view();
  p.row_max = row_max_.device.view();
  p.row_lse = row_lse_.device.view();
  p.row_entropy = row_entropy_.device.view();
  p.column_sum = column_sum_.device.view();
  p.column_square = column_square_.device.view();
  p.column_max = column_max_.device.view();
  p.last_row = last_row_.device.view();
  p.column_count = column_count_.device.view();
  p.window_sum = window_sum_.device.view();
  p.window_count = window_count_.device.view();
  return with_head_dim(recipe_.head_dim, [&](auto dim) -> Status {
    constexpr uint32_t kDim = dim();
    constexpr uint32_t kBytes = TokenStatShared<typename Mode::Element, kDim>::kBytes;
    SPANSCOPE_TRY(launch(token_rows<Mode, kDim>, {(rows_ + kTileRows - 1) / kTileRows, recipe_.query_heads}, kPrefillThreads, kBytes, p));
    return launch(token_columns<Mode, kDim>, {(slots_ + kTileKeys - 1) / kTileKeys, recipe_.query_heads}, kPrefillThreads, kBytes, p);
  });
}

// The output matrix as numbers, some rows at a time, through the host: once a layer and model.
Status TokenStatsFold::make_gram(uint32_t layer) {
  grams_.resize(recipe_.layers);
  Array<double>& gram = grams_[layer];
  if (gram.size()) return {};
  const WeightMatrix& w = model_.layers[layer].o;
  const uint32_t dim = recipe_.head_dim;
  Array<double> made;
  SPANSCOPE_TRY(made.resize(size_t(recipe_.query_heads) * dim * dim));
  constexpr uint32_t kRows = 128;
  std::vector<float> weights(size_t(kRows) * w.cols);
  SPANSCOPE_TRY(weights_.resize(weights.size()));
  for (uint32_t first = 0; first < w.rows; first += kRows) {
    GramParams p;
    p.count = std::min(kRows, w.rows - first);
    for (uint32_t i = 0; i < p.count; ++i) dequantise_row(w, first + i, weights.data() + size_t(i) * w.cols);
    SPANSCOPE_TRY(weights_.upload(weights.data(), size_t(p.count) * w.cols));
    p.weights = std::as_const(weights_).view();
    p.gram = made.view();
    p.cols = w.cols;
    p.dim = dim;
    SPANSCOPE_TRY(launch(add_gram, {over(uint64_t(dim) * dim).x, recipe_.query_heads}, kValueThreads, 0, p));
  }
  gram = std::move(made);
  return {};
}

Status TokenStatsFold::values(uint32_t layer, const Array<float>& v) {
  SPANSCOPE_TRY(make_gram(layer));
  ValueNormParams p;
  p.v = v.view();
  p.gram = std::as_const(grams_[layer]).view();
  p.wanted = std::as_const(wanted_).view();
  p.value_norm = value_norm_.device.view();
  p.output_norm = output_norm_.device.view();
  p.rows = rows_;
  p.heads = recipe_.query_heads;
  p.kv_heads = recipe_.kv_heads;
  p.dim = recipe_.head_dim;
  SPANSCOPE_TRY(launch(value_norms, {rows_, p.kv_heads}, 32, 0, p));
  return launch(output_norms, {rows_, p.heads}, 32, p.dim * 4, p);
}

Status TokenStatsFold::compare(const Array<float>& x) {
  CosineParams p;
  p.before = std::as_const(before_).view();
  p.after = x.view();
  p.out = cosine_.device.view();
  p.width = recipe_.hidden;
  return launch(residual_cosines, {rows_}, 32, 0, p);
}

Result<TokenStats> TokenStatsFold::result(uint32_t layer) {
  for (auto* doubles : {&column_sum_, &column_square_, &window_sum_}) SPANSCOPE_TRY(doubles->fetch());
  for (auto* floats : {&column_max_, &last_row_, &row_max_, &row_lse_, &row_entropy_, &value_norm_, &output_norm_, &cosine_})
    SPANSCOPE_TRY(floats->fetch());
  for (auto* counts : {&column_count_, &window_count_, &row_argmax_}) SPANSCOPE_TRY(counts->fetch());
  TokenStats s;
  s.layer = layer;
  s.rows = rows_;
  s.keys = slots_;
  s.query_heads = recipe_.query_heads;
  s.kv_heads = recipe_.kv_heads;
  s.windows = plan_->windows;
  s.column_sum = column_sum_.host.data();
  s.column_square = column_square_.host.data();
  s.column_max = column_max_.host.data();
  s.column_count = column_count_.host.data();
  s.window_sum = window_sum_.host.data();
  s.window_count = window_count_.host.data();
  s.last_row = last_row_.host.data();
  s.row_argmax = row_argmax_.host.data();
  s.row_max = row_max_.host.data();
  s.row_lse = row_lse_.host.data();
  s.row_entropy = row_entropy_.host.data();
  s.value_norm = value_norm_.host.data();
  s.output_norm = output_norm_.host.data();
  s.residual_cosine = cosine_.host.data();
  return s;
}

}  // namespace spanscope::gpu
