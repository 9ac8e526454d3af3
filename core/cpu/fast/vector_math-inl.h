// SPDX-License-Identifier: GPL-3.0-or-later
// Vector functions that several kernel files use; compiled once per instruction set.
#if defined(SPANSCOPE_FAST_VECTOR_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SPANSCOPE_FAST_VECTOR_MATH_INL_H_
#undef SPANSCOPE_FAST_VECTOR_MATH_INL_H_
#else
#define SPANSCOPE_FAST_VECTOR_MATH_INL_H_
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace spanscope {
namespace fast {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// At most 16 lanes: a page of the cache holds 16 positions.
using F = hn::CappedTag<float, 16>;
using V = hn::Vec<F>;

// e^x within 2 units in the last place for x in [-87, 88]; exactly 0 below -87.7, so that a masked score
// (-inf) has no weight at all. Range reduction by ln 2 in two parts, then the power series: |r| <= ln2/2
// makes the term of order 8 smaller than 6e-9.
HWY_INLINE V Exp(F d, V x) {
  const hn::RebindToSigned<F> di;
  x = hn::Min(hn::Max(x, hn::Set(d, -88.0f)), hn::Set(d, 88.0f));
  const V n = hn::Round(hn::Mul(x, hn::Set(d, 1.44269504f)));
  V r = hn::NegMulAdd(n, hn::Set(d, 0.693145752f), x);  // 15 bits of ln 2: n times it is exact
  r = hn::NegMulAdd(n, hn::Set(d, 1.42860677e-6f), r);
  V y = hn::Set(d, 1.0f / 5040);
  y = hn::MulAdd(y, r, hn::Set(d, 1.0f / 720));
  y = hn::MulAdd(y, r, hn::Set(d, 1.0f / 120));
  y = hn::MulAdd(y, r, hn::Set(d, 1.0f / 24));
  y = hn::MulAdd(y, r, hn::Set(d, 1.0f / 6));
  y = hn::MulAdd(y, r, hn::Set(d, 0.5f));
  y = hn::MulAdd(y, r, hn::Set(d, 1.0f));
  y = hn::MulAdd(y, r, hn::Set(d, 1.0f));
  const auto power = hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(di, n), hn::Set(di, 127)));
  return hn::Mul(y, hn::BitCast(d, power));
}

// tanh by 1 - 2 / (e^2x + 1); absolute error below 2e-7.
HWY_INLINE V Tanh(F d, V x) {
  const V one = hn::Set(d, 1.0f);
  return hn::Sub(one, hn::Div(hn::Set(d, 2.0f), hn::Add(Exp(d, hn::Add(x, x)), one)));
}

// First n lanes, the others 0. Reads nothing behind p + n.
HWY_INLINE V LoadFirst(F d, const float* p, size_t n) {
  if (n >= hn::Lanes(d)) return hn::LoadU(d, p);
  HWY_ALIGN float part[16] = {};
  for (size_t i = 0; i < n; ++i) part[i] = p[i];
  return hn::Load(d, part);
}
HWY_INLINE float Sum(F d, V v) { return hn::GetLane(hn::SumOfLanes(d, v)); }

}  // namespace HWY_NAMESPACE
}  // namespace fast
}  // namespace spanscope
HWY_AFTER_NAMESPACE();
#endif
