// SPDX-License-Identifier: GPL-3.0-or-later
// Scores of 32 query rows of one head, side by side in vector lanes; compiled once per instruction set.
#if defined(SPANSCOPE_FAST_SCORE_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SPANSCOPE_FAST_SCORE_TILES_INL_H_
#undef SPANSCOPE_FAST_SCORE_TILES_INL_H_
#else
#define SPANSCOPE_FAST_SCORE_TILES_INL_H_
#endif

#include "core/cpu/fast/attention_kernels.h"
#include "core/cpu/fast/vector_math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace spanscope {
namespace fast {
namespace HWY_NAMESPACE {

constexpr uint32_t kPage = 16;
// Below every finite score, and finite: exp(-inf - kLowest) is 0 where exp(-inf - -inf) would not be a
// number.
constexpr float kLowest = -1e30f;
// Rows of the result that a product block keeps in registers, two vectors each.
constexpr uint32_t kBlock = HWY_MAX_BYTES >= 64 ? 8 : 4;

// Scores of kBlock neighbouring keys: sum over d of key[d][k] * q[d][lanes].
HWY_INLINE void ScoreBlock(F d, const float* HWY_RESTRICT key, const float* HWY_RESTRICT q, uint32_t dim,
                           float* HWY_RESTRICT scores) {
  const size_t N = hn::Lanes(d);
  V a[kBlock], b[kBlock];
  for (uint32_t k = 0; k < kBlock; ++k) a[k] = b[k] = hn::Zero(d);
  for (uint32_t c = 0; c < dim; ++c) {
    const V q0 = hn::Load(d, q + c * kTileRows), q1 = hn::Load(d, q + c * kTileRows + N);
    for (uint32_t k = 0; k < kBlock; ++k) {
      const V x = hn::Set(d, key[c * kPage + k]);
      a[k] = hn::MulAdd(x, q0, a[k]);
      b[k] = hn::MulAdd(x, q1, b[k]);
    }
  }
  for (uint32_t k = 0; k < kBlock; ++k) {
    hn::Store(a[k], d, scores + k * kTileRows);
    hn::Store(b[k], d, scores + k * kTileRows + N);
  }
}

// to[c][lane] = scale * from[lane][c]; lanes >= rows become 0.
HWY_INLINE void Transpose(const float* HWY_RESTRICT from, size_t stride, uint32_t rows, uint32_t dim, float scale,
               float* HWY_RESTRICT to) {
  uint32_t row = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::CappedTag<float, 4> d;
  const hn::Repartition<double, hn::CappedTag<float, 4>> d2;
  const auto factor = hn::Set(d, scale);
  for (; row + 4 <= rows && dim % 4 == 0; row += 4)
    for (uint32_t c = 0; c < dim; c += 4) {
      const float* p = from + row * stride + c;
      const auto r0 = hn::Mul(hn::LoadU(d, p), factor), r1 = hn::Mul(hn::LoadU(d, p + stride), factor),
                 r2 = hn::Mul(hn::LoadU(d, p + 2 * stride), factor),
                 r3 = hn::Mul(hn::LoadU(d, p + 3 * stride), factor);
      const auto a = hn::BitCast(d2, hn::InterleaveLower(d, r0, r1)),
                 b = hn::BitCast(d2, hn::InterleaveLower(d, r2, r3)),
                 e = hn::BitCast(d2, hn::InterleaveUpper(d, r0, r1)),
                 f = hn::BitCast(d2, hn::InterleaveUpper(d, r2, r3));
      float* t = to + c * kTileRows + row;
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d2, a, b)), d, t);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d2, a, b)), d, t + kTileRows);
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d2, e, f)), d, t + 2 * kTileRows);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d2, e, f)), d, t + 3 * kTileRows);
    }
#endif
  for (; row < kTileRows; ++row)
    for (uint32_t c = 0; c < dim; ++c)
      to[c * kTileRows + row] = row < rows ? scale * from[row * stride + c] : 0.0f;
}

HWY_INLINE V Capped(F d, V s, V cap) { return hn::Mul(cap, Tanh(d, hn::Div(s, cap))); }

}  // namespace HWY_NAMESPACE
}  // namespace fast
}  // namespace spanscope
HWY_AFTER_NAMESPACE();
#endif
