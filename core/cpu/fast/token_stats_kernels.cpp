// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cpu/fast/token_stats_kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/cpu/fast/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/cpu/fast/token_stats_kernels.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "core/cpu/fast/score_tiles-inl.h"
#include "core/cpu/fast/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spanscope {
namespace fast {
namespace HWY_NAMESPACE {

// 1.0 where `slot` is visible to the lane, else 0.
HWY_INLINE auto Visible(F d, const StatTile& t, uint32_t slot, size_t lane) {
  const hn::RebindToSigned<F> di;
  const auto s = hn::Set(di, int32_t(slot));
  return hn::AndNot(hn::VecFromMask(di, hn::Lt(s, hn::LoadU(di, t.first + lane))),
                    hn::VecFromMask(di, hn::Lt(s, hn::LoadU(di, t.end + lane))));
}

// One row: keys side by side in the lanes.
void StatsOfRow(const StatTile& t) {
  const F d;
  const size_t N = hn::Lanes(d);
  const uint32_t begin = uint32_t(t.first[0]), end = uint32_t(t.end[0]), base = begin / kPage * kPage;
  float* s = t.scratch;  // [end - base, to whole pages]
  const V cap = hn::Set(d, t.rule.cap);
  float largest = t.sink ? *t.sink : -1e30f;
  for (uint32_t page = base; page < end; page += kPage)
    for (size_t lane = 0; lane < kPage; lane += N) {
      const float* key = t.keys.pages[page / kPage] + t.keys.key_offset + lane;
      V x = hn::Zero(d);
      for (uint32_t c = 0; c < t.dim; ++c) x = hn::MulAdd(hn::Set(d, t.q[c] * t.rule.scale), hn::LoadU(d, key + c * kPage), x);
      if (t.rule.cap != 0) x = Capped(d, x, cap);
      hn::StoreU(x, d, s + (page - base) + lane);
    }
  for (uint32_t k = begin; k < end; ++k) largest = std::max(largest, s[k - base]);
  double total = t.sink ? std::exp(double(*t.sink) - double(largest)) : 0.0;
  float* a = s + (end - base + kPage - 1) / kPage * kPage;  // weights, likewise
  for (uint32_t k = base; k < end; k += uint32_t(N))
    hn::StoreU(Exp(d, hn::Sub(hn::LoadU(d, s + (k - base)), hn::Set(d, largest))), d, a + (k - base));
  for (uint32_t k = begin; k < end; ++k) total += double(a[k - base]);
  const float inverse = float(1 / total);
  const bool counted = t.counted[0] != 0;
  double weighted = 0;
  float best = -1;
  for (uint32_t k = begin; k < end; ++k) {
    const float w = a[k - base] * inverse;
    a[k - base] = w;
    weighted += double(w) * double(s[k - base]);
    if (w > best) best = w, t.row_argmax[0] = k;
    if (t.last_row) t.last_row[k] = w;
  }
  if (counted) {
    const float bound = t.bound[0];
    for (uint32_t k = begin; k < end; ++k) {
      const float w = a[k - base];
      t.column_sum[k] += double(w);
      t.column_square[k] += double(w) * double(w);
      t.column_max[k] = std::max(t.column_max[k], w);
      t.column_count[k] += w > bound;
    }
    for (uint32_t i = 0; i < t.windows; ++i) {
      if (t.window[i * kTileRows] == 0) continue;
      double* sum = t.window_sum + i * t.window_stride;
      uint32_t* count = t.window_count + i * t.window_stride;
      for (uint32_t k = begin; k < end; ++k) {
        sum[k] += double(a[k - base]);
        count[k] += a[k - base] > bound;
      }
    }
  }
  t.row_max[0] = best;
  t.row_lse[0] = float(double(largest) + std::log(total));
  t.row_entropy[0] = float(double(largest) + std::log(total) - weighted);
}

void Stats(const StatTile& t) {
  if (t.rows == 1) return StatsOfRow(t);
  const F d;
  const size_t N = hn::Lanes(d);
  const uint32_t begin = uint32_t(t.first[0]), end = uint32_t(t.end[kTileRows - 1]);
  const uint32_t base = begin / kPage * kPage;  // scores begin at a page
  float* q = t.scratch;                          // [dim][32]
  float* s = q + t.dim * kTileRows;              // [end - base, padded][32]
  Transpose(t.q, t.q_stride, t.rows, t.dim, t.rule.scale, q);
  const V hidden = hn::Set(d, -std::numeric_limits<float>::infinity()), cap = hn::Set(d, t.rule.cap);
  HWY_ALIGN float max[kTileRows], inverse[kTileRows], lse[kTileRows], best[kTileRows], weighted[kTileRows];
  HWY_ALIGN int32_t at[kTileRows] = {};
  for (size_t lane = 0; lane < kTileRows; lane += 2 * N)
    for (uint32_t k = base; k < end; k += kBlock)
      ScoreBlock(d, t.keys.pages[k / kPage] + t.keys.key_offset + k % kPage, q + lane, t.dim,
                 s + size_t(k - base) * kTileRows + lane);
  for (size_t lane = 0; lane < kTileRows; lane += N) {
    V m = t.sink ? hn::Set(d, *t.sink) : hn::Set(d, -1e30f);
    for (uint32_t k = begin; k < end; ++k) {
      float* at = s + size_t(k - base) * kTileRows + lane;
      V x = hn::Load(d, at);
      if (t.rule.cap != 0) x = Capped(d, x, cap);
      x = hn::IfThenElse(hn::MaskFromVec(hn::BitCast(d, Visible(d, t, k, lane))), x, hidden);
      hn::Store(x, d, at);
      m = hn::Max(m, x);
    }
    V total = t.sink ? Exp(d, hn::Sub(hn::Set(d, *t.sink), m)) : hn::Zero(d);
    for (uint32_t k = begin; k < end; ++k)
      total = hn::Add(total, Exp(d, hn::Sub(hn::Load(d, s + size_t(k - base) * kTileRows + lane), m)));
    hn::Store(m, d, max + lane);
    hn::Store(hn::Div(hn::Set(d, 1.0f), total), d, inverse + lane);
    hn::Store(total, d, lse + lane);
    hn::Store(hn::Zero(d), d, best + lane);
    hn::Store(hn::Zero(d), d, weighted + lane);
  }
  for (uint32_t i = 0; i < kTileRows; ++i) lse[i] = max[i] + std::log(lse[i]);
  // Columns: one key at a time, all rows of the tile together.
  for (uint32_t k = begin; k < end; ++k) {
    V sum = hn::Zero(d), square = hn::Zero(d), top = hn::Zero(d), high = hn::Zero(d);
    float* scores = s + size_t(k - base) * kTileRows;
    for (size_t lane = 0; lane < kTileRows; lane += N) {
      const V score = hn::Load(d, scores + lane);
      const V a = hn::Mul(Exp(d, hn::Sub(score, hn::Load(d, max + lane))), hn::Load(d, inverse + lane));
      // 0 x -inf is no number: a hidden score adds nothing.
      const V part = hn::IfThenZeroElse(hn::Eq(a, hn::Zero(d)), hn::Mul(a, score));
      hn::Store(hn::Add(hn::Load(d, weighted + lane), part), d, weighted + lane);
      hn::Store(a, d, scores + lane);  // weights from here on
      const V c = hn::Mul(a, hn::Load(d, t.counted + lane));
      sum = hn::Add(sum, c);
      square = hn::MulAdd(c, c, square);
      top = hn::Max(top, c);
      high = hn::Add(high, hn::IfThenElseZero(hn::Gt(c, hn::Load(d, t.bound + lane)), hn::Set(d, 1.0f)));
    }
    t.column_sum[k] += double(Sum(d, sum));
    t.column_square[k] += double(Sum(d, square));
    t.column_max[k] = std::max(t.column_max[k], hn::GetLane(hn::MaxOfLanes(d, top)));
    t.column_count[k] += uint32_t(Sum(d, high));
    for (uint32_t w = 0; w < t.windows; ++w) {
      V in = hn::Zero(d), above = hn::Zero(d);
      for (size_t lane = 0; lane < kTileRows; lane += N) {
        const V c = hn::Mul(hn::Mul(hn::Load(d, scores + lane), hn::Load(d, t.counted + lane)),
                            hn::Load(d, t.window + w * kTileRows + lane));
        in = hn::Add(in, c);
        above = hn::Add(above, hn::IfThenElseZero(hn::Gt(c, hn::Load(d, t.bound + lane)), hn::Set(d, 1.0f)));
      }
      t.window_sum[w * t.window_stride + k] += double(Sum(d, in));
      t.window_count[w * t.window_stride + k] += uint32_t(Sum(d, above));
    }
    if (t.last_row) t.last_row[k] = scores[t.rows - 1];
    // A hidden key has no weight, and every row sees a key: strictly larger keeps the lowest of equals.
    for (size_t lane = 0; lane < kTileRows; lane += N) {
      const V a = hn::Load(d, scores + lane), before = hn::Load(d, best + lane);
      const auto larger = hn::Gt(a, before);
      hn::Store(hn::IfThenElse(larger, a, before), d, best + lane);
      const hn::RebindToSigned<F> di;
      hn::Store(hn::IfThenElse(hn::RebindMask(di, larger), hn::Set(di, int32_t(k)), hn::Load(di, at + lane)), di, at + lane);
    }
  }
  for (uint32_t i = 0; i < t.rows; ++i) {
    t.row_argmax[i] = uint32_t(std::max(at[i], t.first[i]));
    t.row_max[i] = best[i];
    t.row_lse[i] = lse[i];
    t.row_entropy[i] = lse[i] - weighted[i];
  }
}

double Quadratic(const double* gram, const float* v, uint32_t dim) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> df;
  const size_t N = hn::Lanes(d), whole = dim / N * N;
  auto sum = hn::Zero(d);
  double rest = 0;
  for (uint32_t j = 0; j < dim; ++j) {
    const double* row = gram + size_t(j) * dim;
    auto line = hn::Zero(d);
    for (size_t i = 0; i < whole; i += N) line = hn::MulAdd(hn::LoadU(d, row + i), hn::PromoteTo(d, hn::LoadU(df, v + i)), line);
    sum = hn::MulAdd(line, hn::Set(d, double(v[j])), sum);
    for (size_t i = whole; i < dim; ++i) rest += row[i] * double(v[i]) * double(v[j]);
  }
  return hn::GetLane(hn::SumOfLanes(d, sum)) + rest;
}

}  // namespace HWY_NAMESPACE
}  // namespace fast
}  // namespace spanscope
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spanscope::fast {
HWY_EXPORT(Stats);
HWY_EXPORT(Quadratic);
double quadratic_form(const double* gram, const float* v, uint32_t dim) { return HWY_DYNAMIC_DISPATCH(Quadratic)(gram, v, dim); }
size_t stat_scratch_floats(uint32_t dim, uint32_t slots) {
  return (size_t(dim) + slots + 3 * 16) * kTileRows;  // one row needs 2 x (slots + 2 x 16) of it
}
void stat_tile(const StatTile& tile) { HWY_DYNAMIC_DISPATCH(Stats)(tile); }
}  // namespace spanscope::fast
#endif
