// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cpu/fast/fold_kernels.h"

#include "core/cpu/fast/attention_kernels.h"

#include "core/cpu/fast/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/cpu/fast/fold_kernels.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "core/cpu/fast/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spanscope {
namespace fast {
namespace HWY_NAMESPACE {

using U32 = hn::RebindToUnsigned<F>;

// Sums of the lanes of four leaves at once: interleaving adds four vectors into one per 128 bits.
void MaskedSums(const float* HWY_RESTRICT mass, uint32_t count, const uint32_t* HWY_RESTRICT keep,
                uint32_t lane, uint32_t lanes, float* HWY_RESTRICT sums) {
  const F d;
  const U32 du;
  const size_t N = hn::Lanes(d);
  const size_t from = lane / N * N, to = lane + lanes;
  uint32_t s = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::Repartition<double, F> d2;
  for (; s + 4 <= count; s += 4) {
    V total[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
    for (size_t l = from; l < to; l += N) {
      const V mask = hn::BitCast(d, hn::LoadU(du, keep + l));
      for (uint32_t i = 0; i < 4; ++i)
        total[i] = hn::Add(total[i], hn::And(hn::Load(d, mass + size_t(s + i) * kTileRows + l), mask));
    }
    const V a = hn::Add(hn::InterleaveLower(d, total[0], total[1]),
                        hn::InterleaveUpper(d, total[0], total[1])),
            b = hn::Add(hn::InterleaveLower(d, total[2], total[3]),
                        hn::InterleaveUpper(d, total[2], total[3]));
    const V four = hn::Add(hn::BitCast(d, hn::InterleaveLower(d2, hn::BitCast(d2, a), hn::BitCast(d2, b))),
                           hn::BitCast(d, hn::InterleaveUpper(d2, hn::BitCast(d2, a), hn::BitCast(d2, b))));
#if HWY_MAX_BYTES >= 64
    const hn::Half<F> d8;
    const hn::Half<hn::Half<F>> d4;
    const auto eight = hn::Add(hn::LowerHalf(d8, four), hn::UpperHalf(d8, four));
    hn::StoreU(hn::Add(hn::LowerHalf(d4, eight), hn::UpperHalf(d4, eight)), d4, sums + s);
#elif HWY_MAX_BYTES >= 32
    const hn::Half<F> d4;
    hn::StoreU(hn::Add(hn::LowerHalf(d4, four), hn::UpperHalf(d4, four)), d4, sums + s);
#else
    hn::StoreU(four, d, sums + s);
#endif
  }
#endif
  for (; s < count; ++s) {
    V total = hn::Zero(d);
    for (size_t l = from; l < to; l += N)
      total = hn::Add(total, hn::And(hn::Load(d, mass + size_t(s) * kTileRows + l),
                                     hn::BitCast(d, hn::LoadU(du, keep + l))));
    sums[s] = Sum(d, total);
  }
}

void MaskedMaxima(const float* HWY_RESTRICT mass, uint32_t count, const uint32_t* HWY_RESTRICT keep,
                  float* HWY_RESTRICT largest) {
  const F d;
  const hn::RebindToUnsigned<F> du;
  const size_t N = hn::Lanes(d);
  for (uint32_t s = 0; s < count; ++s) {
    V best = hn::Zero(d);
    for (size_t lane = 0; lane < kTileRows; lane += N)
      best = hn::Max(best, hn::And(hn::Load(d, mass + size_t(s) * kTileRows + lane),
                                   hn::BitCast(d, hn::LoadU(du, keep + lane))));
    largest[s] = hn::GetLane(hn::MaxOfLanes(d, best));
  }
}

// 1.5 * 2^16: adding it to a number below 2^15 leaves 36 bits behind the point.
constexpr double kRound = 98304.0;

void AddFloats(double* HWY_RESTRICT total, const float* HWY_RESTRICT x, size_t n) {
  const hn::CappedTag<double, 8> d;
  const hn::Rebind<float, hn::CappedTag<double, 8>> df;
  const auto round = hn::Set(d, kRound);
  size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
    const auto rounded = hn::Sub(hn::Add(hn::PromoteTo(d, hn::LoadU(df, x + i)), round), round);
    hn::StoreU(hn::Add(hn::LoadU(d, total + i), rounded), d, total + i);
  }
  for (; i < n; ++i) total[i] += (double(x[i]) + kRound) - kRound;
}

}  // namespace HWY_NAMESPACE
}  // namespace fast
}  // namespace spanscope
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spanscope::fast {
HWY_EXPORT(MaskedSums);
HWY_EXPORT(MaskedMaxima);
HWY_EXPORT(AddFloats);

void masked_sums(const float* mass, uint32_t count, const uint32_t* keep, uint32_t lane, uint32_t lanes,
                 float* sums) {
  HWY_DYNAMIC_DISPATCH(MaskedSums)(mass, count, keep, lane, lanes, sums);
}
void masked_maxima(const float* mass, uint32_t count, const uint32_t* keep, float* largest) {
  HWY_DYNAMIC_DISPATCH(MaskedMaxima)(mass, count, keep, largest);
}
void add_exact(double* total, const float* x, size_t n) { HWY_DYNAMIC_DISPATCH(AddFloats)(total, x, n); }
}  // namespace spanscope::fast
#endif
