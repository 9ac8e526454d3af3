// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cpu/fast/attention_kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/cpu/fast/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/cpu/fast/attention_kernels.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "core/cpu/fast/score_tiles-inl.h"
#include "core/cpu/fast/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spanscope {
namespace fast {
namespace HWY_NAMESPACE {

// out[c][lanes] = out[c][lanes] * factor + sum over keys of value[key][c] * p[key][lanes], for kCount
// dimensions.
template <uint32_t kCount>
HWY_INLINE void ValueBlock(F d, const KeyPages& keys, uint32_t first_key, uint32_t count, uint32_t dim,
                           uint32_t c, const float* HWY_RESTRICT p, V f0, V f1, float* HWY_RESTRICT out) {
  const size_t N = hn::Lanes(d);
  V a[kCount], b[kCount];
  for (uint32_t i = 0; i < kCount; ++i) {
    a[i] = hn::Mul(hn::Load(d, out + (c + i) * kTileRows), f0);
    b[i] = hn::Mul(hn::Load(d, out + (c + i) * kTileRows + N), f1);
  }
  for (uint32_t k = 0; k < count; ++k) {
    const float* value =
        keys.pages[(first_key + k) / kPage] + keys.value_offset + ((first_key + k) % kPage) * dim + c;
    const V p0 = hn::Load(d, p + k * kTileRows), p1 = hn::Load(d, p + k * kTileRows + N);
    for (uint32_t i = 0; i < kCount; ++i) {
      const V x = hn::Set(d, value[i]);
      a[i] = hn::MulAdd(x, p0, a[i]);
      b[i] = hn::MulAdd(x, p1, b[i]);
    }
  }
  for (uint32_t i = 0; i < kCount; ++i) {
    hn::Store(a[i], d, out + (c + i) * kTileRows);
    hn::Store(b[i], d, out + (c + i) * kTileRows + N);
  }
}

// to[lane][c] = from[c][lane]
void TransposeBack(const float* HWY_RESTRICT from, uint32_t rows, uint32_t dim, float* HWY_RESTRICT to,
                   size_t stride) {
  uint32_t row = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::CappedTag<float, 4> d;
  const hn::Repartition<double, hn::CappedTag<float, 4>> d2;
  for (; row + 4 <= rows && dim % 4 == 0; row += 4)
    for (uint32_t c = 0; c < dim; c += 4) {
      const float* p = from + c * kTileRows + row;
      const auto r0 = hn::LoadU(d, p), r1 = hn::LoadU(d, p + kTileRows), r2 = hn::LoadU(d, p + 2 * kTileRows),
                 r3 = hn::LoadU(d, p + 3 * kTileRows);
      const auto a = hn::BitCast(d2, hn::InterleaveLower(d, r0, r1)),
                 b = hn::BitCast(d2, hn::InterleaveLower(d, r2, r3)),
                 e = hn::BitCast(d2, hn::InterleaveUpper(d, r0, r1)),
                 f = hn::BitCast(d2, hn::InterleaveUpper(d, r2, r3));
      float* t = to + row * stride + c;
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d2, a, b)), d, t);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d2, a, b)), d, t + stride);
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d2, e, f)), d, t + 2 * stride);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d2, e, f)), d, t + 3 * stride);
    }
#endif
  for (; row < rows; ++row)
    for (uint32_t c = 0; c < dim; ++c) to[row * stride + c] = from[c * kTileRows + row];
}

// Masks, caps and finds the maximum of a key tile; scores [count][32] in place. Returns the new maxima.
template <bool kMasked>
HWY_INLINE void TileMaximum(F d, const WideTile& t, uint32_t first_key, uint32_t count, size_t lane,
                            float* HWY_RESTRICT s, V& m0, V& m1) {
  const hn::RebindToSigned<F> di;
  const size_t N = hn::Lanes(d);
  const auto f0 = hn::LoadU(di, t.first + lane), f1 = hn::LoadU(di, t.first + lane + N),
             e0 = hn::LoadU(di, t.end + lane), e1 = hn::LoadU(di, t.end + lane + N);
  const V hidden = hn::Set(d, -std::numeric_limits<float>::infinity()), cap = hn::Set(d, t.rule.cap);
  for (uint32_t k = 0; k < count; ++k) {
    float* at = s + k * kTileRows;
    V a = hn::Load(d, at), b = hn::Load(d, at + N);
    if (t.rule.cap != 0) {
      a = Capped(d, a, cap);
      b = Capped(d, b, cap);
    }
    if (kMasked) {
      const auto slot = hn::Set(di, int32_t(first_key + k));
      const auto see0 =
          hn::AndNot(hn::VecFromMask(di, hn::Lt(slot, f0)), hn::VecFromMask(di, hn::Lt(slot, e0)));
      const auto see1 =
          hn::AndNot(hn::VecFromMask(di, hn::Lt(slot, f1)), hn::VecFromMask(di, hn::Lt(slot, e1)));
      a = hn::IfThenElse(hn::MaskFromVec(hn::BitCast(d, see0)), a, hidden);
      b = hn::IfThenElse(hn::MaskFromVec(hn::BitCast(d, see1)), b, hidden);
    }
    if (kMasked || t.rule.cap != 0) {
      hn::Store(a, d, at);
      hn::Store(b, d, at + N);
    }
    m0 = hn::Max(m0, a);
    m1 = hn::Max(m1, b);
  }
}

template <bool kPlanned>
void Wide(WideTile& t) {
  const F d;
  const size_t N = hn::Lanes(d);
  float* q = t.scratch;                    // [dim][32]
  float* o = q + t.dim * kTileRows;        // [dim][32]
  float* s = o + t.dim * kTileRows;        // [64][32]
  float* max = s + kTileKeys * kTileRows;  // [32]
  float* sum = max + kTileRows;            // [32]
  Transpose(t.q, t.q_stride, t.rows, t.dim, t.rule.scale, q);
  std::fill(o, o + t.dim * kTileRows, 0.0f);
  // A learned sink is a key that comes first and has no value.
  std::fill(max, max + kTileRows, t.sink ? *t.sink : kLowest);
  std::fill(sum, sum + kTileRows, t.sink ? 1.0f : 0.0f);

  // Rows ascend, so the first row sees the earliest key and the last row the latest.
  const uint32_t begin = uint32_t(t.first[0]) / kTileKeys,
                 end = (uint32_t(t.end[kTileRows - 1]) + kTileKeys - 1) / kTileKeys;
  const uint32_t last_slot = uint32_t(t.end[kTileRows - 1]);
  const uint32_t all_from = uint32_t(t.first[kTileRows - 1]),
                 all_to = uint32_t(t.end[0]);  // seen by every row
  for (uint32_t tile = begin; tile < end; ++tile) {
    const uint32_t key0 = tile * kTileKeys, count = std::min(kTileKeys, last_slot - key0);
    for (size_t lane = 0; lane < kTileRows; lane += 2 * N) {
      float* sl = s + lane;
      for (uint32_t k = 0; k < count; k += kBlock)
        ScoreBlock(d, t.keys.pages[(key0 + k) / kPage] + t.keys.key_offset + (key0 + k) % kPage, q + lane,
                   t.dim, sl + k * kTileRows);
      const V old0 = hn::Load(d, max + lane), old1 = hn::Load(d, max + lane + N);
      V m0 = old0, m1 = old1;
      if (key0 >= all_from && key0 + count <= all_to)
        TileMaximum<false>(d, t, key0, count, lane, sl, m0, m1);
      else
        TileMaximum<true>(d, t, key0, count, lane, sl, m0, m1);
      hn::Store(m0, d, max + lane);
      hn::Store(m1, d, max + lane + N);
      const V f0 = Exp(d, hn::Sub(old0, m0)), f1 = Exp(d, hn::Sub(old1, m1));

      V sum0 = hn::Zero(d), sum1 = hn::Zero(d);
      const auto exponentials = [&](uint32_t k, V& p0, V& p1) HWY_ATTR {
        float* at = sl + k * kTileRows;
        p0 = Exp(d, hn::Sub(hn::Load(d, at), m0));
        p1 = Exp(d, hn::Sub(hn::Load(d, at + N), m1));
        hn::Store(p0, d, at);
        hn::Store(p1, d, at + N);
        sum0 = hn::Add(sum0, p0);
        sum1 = hn::Add(sum1, p1);
      };
      if constexpr (kPlanned) {
        float* tile_max = t.tile_max + (tile - begin) * kTileRows + lane;
        hn::Store(m0, d, tile_max);
        hn::Store(m1, d, tile_max + N);
        for (uint32_t g = t.tile_segment[tile]; g < t.tile_segment[tile + 1]; ++g) {
          const uint32_t to = std::min(t.segments[g].end - key0, count);
          V piece0 = hn::Zero(d), piece1 = hn::Zero(d);
          for (uint32_t k = std::min(t.segments[g].begin - key0, count); k < to; ++k) {
            V p0, p1;
            exponentials(k, p0, p1);
            piece0 = hn::Add(piece0, p0);
            piece1 = hn::Add(piece1, p1);
          }
          float* sums = t.segment_sums + size_t(g - t.tile_segment[begin]) * kTileRows + lane;
          hn::Store(piece0, d, sums);
          hn::Store(piece1, d, sums + N);
        }
      } else {
        for (uint32_t k = 0; k < count; ++k) {
          V p0, p1;
          exponentials(k, p0, p1);
        }
      }
      hn::Store(hn::MulAdd(hn::Load(d, sum + lane), f0, sum0), d, sum + lane);
      hn::Store(hn::MulAdd(hn::Load(d, sum + lane + N), f1, sum1), d, sum + lane + N);
      uint32_t c = 0;
      for (; c + kBlock <= t.dim; c += kBlock)
        ValueBlock<kBlock>(d, t.keys, key0, count, t.dim, c, sl, f0, f1, o + lane);
      for (; c < t.dim; ++c) ValueBlock<1>(d, t.keys, key0, count, t.dim, c, sl, f0, f1, o + lane);
    }
  }
  for (size_t lane = 0; lane < kTileRows; lane += N) {
    const V inverse = hn::Div(hn::Set(d, 1.0f), hn::Load(d, sum + lane));
    for (uint32_t c = 0; c < t.dim; ++c)
      hn::Store(hn::Mul(hn::Load(d, o + c * kTileRows + lane), inverse), d, o + c * kTileRows + lane);
  }
  TransposeBack(o, t.rows, t.dim, t.out, t.out_stride);

  if constexpr (kPlanned) {
    if (t.lse)
      for (uint32_t row = 0; row < t.rows; ++row) t.lse[row * t.lse_stride] = max[row] + std::log(sum[row]);
    // mass = partial * exp(max of its tile - max of the row) / sum of the row.
    const uint32_t g0 = t.tile_segment[begin], g1 = t.tile_segment[end];
    t.leaf_first = t.leaves;
    t.leaf_end = 0;
    for (uint32_t g = g0; g < g1; ++g)
      if (t.segments[g].leaf < t.leaves) {
        t.leaf_first = std::min(t.leaf_first, t.segments[g].leaf);
        t.leaf_end = std::max(t.leaf_end, t.segments[g].leaf + 1);
      }
    if (t.leaf_first > t.leaf_end) t.leaf_first = t.leaf_end;
    std::fill(t.mass + size_t(t.leaf_first) * kTileRows, t.mass + size_t(t.leaf_end) * kTileRows, 0.0f);
    std::fill(t.mass + size_t(t.leaves) * kTileRows, t.mass + size_t(t.leaves + 2) * kTileRows, 0.0f);
    for (size_t lane = 0; lane < kTileRows; lane += N) {
      const V inverse = hn::Div(hn::Set(d, 1.0f), hn::Load(d, sum + lane)), m = hn::Load(d, max + lane);
      if (t.sink)
        hn::Store(hn::Mul(Exp(d, hn::Sub(hn::Set(d, *t.sink), m)), inverse), d,
                  t.mass + size_t(t.leaves + 1) * kTileRows + lane);
      for (uint32_t tile = begin; tile < end; ++tile) {
        const V factor =
            hn::Mul(Exp(d, hn::Sub(hn::Load(d, t.tile_max + (tile - begin) * kTileRows + lane), m)), inverse);
        for (uint32_t g = t.tile_segment[tile]; g < t.tile_segment[tile + 1]; ++g) {
          float* mass = t.mass + size_t(t.segments[g].leaf) * kTileRows + lane;
          const V piece = hn::Load(d, t.segment_sums + size_t(g - g0) * kTileRows + lane);
          hn::Store(hn::MulAdd(piece, factor, hn::Load(d, mass)), d, mass);
        }
      }
    }
  }
}

void WideAny(WideTile& t) { t.segments ? Wide<true>(t) : Wide<false>(t); }

// Scores of kHeads heads for two pages of 16 keys, written to scores[head][512].
template <uint32_t kHeads>
HWY_INLINE void NarrowScores(F d, const NarrowPart& part, const float* const* keys, size_t offset,
                             uint32_t vectors, float* HWY_RESTRICT scores) {
  // One or two vectors of keys at a time, so that kHeads sums each stay in registers.
  const size_t N = hn::Lanes(d);
  const V scale = hn::Set(d, part.rule.scale);
  for (uint32_t v = 0; v < vectors; v += 2) {
    const size_t at0 = v * N, at1 = at0 + N;
    const float* k0 = keys[at0 / kPage] + offset + at0 % kPage;
    const float* k1 = keys[at1 / kPage] + offset + at1 % kPage;
    V a[kHeads], b[kHeads];
    for (uint32_t h = 0; h < kHeads; ++h) a[h] = b[h] = hn::Zero(d);
    for (uint32_t c = 0; c < part.dim; ++c) {
      const V x0 = hn::LoadU(d, k0 + c * kPage), x1 = hn::LoadU(d, k1 + c * kPage);
      for (uint32_t h = 0; h < kHeads; ++h) {
        const V q = hn::Set(d, part.q[h * part.dim + c]);
        a[h] = hn::MulAdd(x0, q, a[h]);
        b[h] = hn::MulAdd(x1, q, b[h]);
      }
    }
    for (uint32_t h = 0; h < kHeads; ++h) {
      hn::Store(hn::Mul(a[h], scale), d, scores + h * kPartKeys + at0);
      hn::Store(hn::Mul(b[h], scale), d, scores + h * kPartKeys + at1);
    }
  }
}

template <uint32_t kHeads>
void Narrow(const NarrowPart& part) {
  const F d;
  const size_t N = hn::Lanes(d);
  float* p = part.scratch;  // [heads][512], then room for a vector that reads over the end
  const uint32_t base = part.first / kPartKeys * kPartKeys;
  const uint32_t from = part.first - base, to = part.end - base;
  // Whole pages in pairs; what lies outside of [from, to) is masked out below. A pair may reach one page
  // beyond the last: it is then read from the last page again.
  const uint32_t page_from = from / kPage & ~1u, page_to = (to + kPage - 1) / kPage;
  for (uint32_t page = page_from; page < page_to; page += 2) {
    const float* pair[2] = {part.keys.pages[base / kPage + page],
                            part.keys.pages[base / kPage + std::min(page + 1, page_to - 1)]};
    NarrowScores<kHeads>(d, part, pair, part.keys.key_offset, uint32_t(2 * kPage / N), p + page * kPage);
  }
  const V cap = hn::Set(d, part.rule.cap);
  const uint32_t vector_to = (to + uint32_t(N) - 1) / uint32_t(N) * uint32_t(N),
                 vector_from = from / uint32_t(N) * uint32_t(N);
  for (uint32_t h = 0; h < kHeads; ++h) {
    float* s = p + h * kPartKeys;
    for (uint32_t k = vector_from; k < from; ++k) s[k] = -std::numeric_limits<float>::infinity();
    for (uint32_t k = to; k < vector_to; ++k) s[k] = -std::numeric_limits<float>::infinity();
    V m = hn::Set(d, kLowest);
    for (uint32_t k = vector_from; k < vector_to; k += uint32_t(N)) {
      V x = hn::Load(d, s + k);
      if (part.rule.cap != 0) {
        // tanh would lift the hidden scores to -cap.
        const auto hidden = hn::Eq(x, hn::Set(d, -std::numeric_limits<float>::infinity()));
        x = hn::IfThenElse(hidden, x, Capped(d, x, cap));
        hn::Store(x, d, s + k);
      }
      m = hn::Max(m, x);
    }
    m = hn::MaxOfLanes(d, m);
    V sum = hn::Zero(d);
    for (uint32_t k = vector_from; k < vector_to; k += uint32_t(N)) {
      const V e = Exp(d, hn::Sub(hn::Load(d, s + k), m));
      hn::Store(e, d, s + k);
      sum = hn::Add(sum, e);
    }
    part.max[h] = hn::GetLane(m);
    part.sum[h] = Sum(d, sum);
    if (part.segments) {
      float* sums = part.segment_sums + h * part.segment_stride;
      for (uint32_t g = 0; g < part.segment_count; ++g) {
        const uint32_t a = std::max(part.segments[g].begin, part.first),
                       b = std::min(part.segments[g].end, part.end);
        uint32_t k = a - base;
        const uint32_t stop = b > a ? b - base : k;
        V piece = hn::Zero(d);
        for (; k + N <= stop; k += uint32_t(N)) piece = hn::Add(piece, hn::LoadU(d, s + k));
        if (k < stop)
          piece = hn::Add(piece, hn::IfThenElseZero(hn::FirstN(d, stop - k), hn::LoadU(d, s + k)));
        sums[g] = Sum(d, piece);
      }
    }
  }
  // Values: a few vectors of the dimension at a time.
  constexpr uint32_t kVectors = HWY_MAX_BYTES >= 64 ? 4 : 2;
  uint32_t c = 0;
  for (; c + kVectors * N <= part.dim; c += uint32_t(kVectors * N)) {
    V o[kHeads][kVectors];
    for (uint32_t h = 0; h < kHeads; ++h)
      for (uint32_t v = 0; v < kVectors; ++v) o[h][v] = hn::Zero(d);
    for (uint32_t k = from; k < to; ++k) {
      const float* value =
          part.keys.pages[(base + k) / kPage] + part.keys.value_offset + ((base + k) % kPage) * part.dim + c;
      for (uint32_t v = 0; v < kVectors; ++v) {
        const V x = hn::LoadU(d, value + v * N);
        for (uint32_t h = 0; h < kHeads; ++h)
          o[h][v] = hn::MulAdd(hn::Set(d, p[h * kPartKeys + k]), x, o[h][v]);
      }
    }
    for (uint32_t h = 0; h < kHeads; ++h)
      for (uint32_t v = 0; v < kVectors; ++v) hn::StoreU(o[h][v], d, part.out + h * part.dim + c + v * N);
  }
  for (; c < part.dim; ++c) {
    float o[kHeads] = {};
    for (uint32_t k = from; k < to; ++k) {
      const float x =
          part.keys.pages[(base + k) / kPage][part.keys.value_offset + ((base + k) % kPage) * part.dim + c];
      for (uint32_t h = 0; h < kHeads; ++h) o[h] += p[h * kPartKeys + k] * x;
    }
    for (uint32_t h = 0; h < kHeads; ++h) part.out[h * part.dim + c] = o[h];
  }
}

void NarrowAny(const NarrowPart& part) {
  switch (part.heads) {
    case 1:
      return Narrow<1>(part);
    case 2:
      return Narrow<2>(part);
    case 3:
      return Narrow<3>(part);
    case 4:
      return Narrow<4>(part);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace fast
}  // namespace spanscope
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spanscope::fast {
HWY_EXPORT(WideAny);
HWY_EXPORT(NarrowAny);

size_t wide_scratch_floats(uint32_t dim) { return size_t(2 * dim + kTileKeys + 2) * kTileRows; }
size_t narrow_scratch_floats() { return size_t(kGroupHeads) * kPartKeys + 64; }
void wide_attention(WideTile& tile) { HWY_DYNAMIC_DISPATCH(WideAny)(tile); }
void narrow_attention(const NarrowPart& part) { HWY_DYNAMIC_DISPATCH(NarrowAny)(part); }
}  // namespace spanscope::fast
#endif
