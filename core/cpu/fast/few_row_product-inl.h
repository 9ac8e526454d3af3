// SPDX-License-Identifier: GPL-3.0-or-later
// What few-row products of all formats share: the loop, and pieces of formats; compiled once per instruction
// set.
//
// A row is run in groups of up to 16 stretches of 32 elements. A Format says how stored blocks become floats:
//   kBytes, kStretches           of one stored block
//   kUnit                        stretches made at once, because they share bytes
//   Prepare(d, p, count, scales) makes the scales of `count` stretches float together; p: the first block
//   Unit(d, p, scales, b, use)   calls use(element, weights) for stretches b to b + kUnit behind p, a vector
//   at
//                                a time
#if defined(SPANSCOPE_FAST_FEW_ROW_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SPANSCOPE_FAST_FEW_ROW_PRODUCT_INL_H_
#undef SPANSCOPE_FAST_FEW_ROW_PRODUCT_INL_H_
#else
#define SPANSCOPE_FAST_FEW_ROW_PRODUCT_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "core/base/half.h"
#include "core/model/weights.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

#include "core/cpu/fast/vector_math-inl.h"

// Loops over sums must be unrolled whole: sums that are indexed at run time live in memory, not in registers.
#ifndef SPANSCOPE_UNROLL
#if HWY_COMPILER_CLANG
#define SPANSCOPE_UNROLL _Pragma("unroll")
#else
#define SPANSCOPE_UNROLL _Pragma("GCC unroll 32")
#endif
#endif

HWY_BEFORE_NAMESPACE();
namespace spanscope {
namespace fast {
namespace HWY_NAMESPACE {

using U = hn::RebindToUnsigned<F>;
using I = hn::RebindToSigned<F>;

constexpr uint32_t kGroup = 16, kParts = 2;  // stretches of a group; scales of a stretch, at most
struct Scales {
  HWY_ALIGN float scale[kGroup * kParts], minimum[kGroup * kParts];
};

// f16 bits (low halves of the lanes) to float: the exponent is moved; subnormal numbers are whole multiples
// of 2^-24, and made that way because arithmetic on subnormal floats costs a hundred cycles. Infinities and
// NaN do not occur as block scales.
HWY_INLINE V FromHalf(F d, hn::Vec<U> bits) {
  const U du;
  const I di;
  const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(du, 0x8000u)));
  const auto magnitude = hn::And(bits, hn::Set(du, 0x7fffu));
  const auto normal = hn::Add(hn::ShiftLeft<13>(magnitude), hn::Set(du, 112u << 23));
  const V small = hn::Mul(hn::ConvertTo(d, hn::BitCast(di, magnitude)), hn::Set(d, 0x1p-24f));
  const auto is_small = hn::Lt(hn::BitCast(di, magnitude), hn::Set(di, 0x400));
  const V value = hn::IfThenElse(hn::RebindMask(d, is_small), small, hn::BitCast(d, normal));
  return hn::BitCast(d, hn::Or(hn::BitCast(du, value), sign));
}
HWY_INLINE float HalfAt(const uint8_t* p) {
  uint16_t bits;
  std::memcpy(&bits, p, sizeof bits);
  return f16_to_f32(bits);
}

HWY_INLINE hn::Vec<I> LoadBytes(const uint8_t* p) {
  const hn::Rebind<uint8_t, F> d8;
  const I di;
  return hn::PromoteTo(di, hn::LoadU(d8, p));
}
HWY_INLINE hn::Vec<I> LoadSignedBytes(const uint8_t* p) {
  const hn::Rebind<int8_t, F> d8;
  const I di;
  return hn::PromoteTo(di, hn::LoadU(d8, reinterpret_cast<const int8_t*>(p)));
}
// Bits [kFrom, kFrom + kCount) of each lane, moved to bit kTo.
template <int kFrom, int kCount, int kTo = 0>
HWY_INLINE hn::Vec<I> MoveBits(hn::Vec<I> v) {
  const I di;
  const auto mask = hn::Set(di, ((1 << kCount) - 1) << kTo);
  if constexpr (kFrom >= kTo)
    return hn::And(hn::ShiftRight<kFrom - kTo>(v), mask);
  else
    return hn::And(hn::ShiftLeft<kTo - kFrom>(v), mask);
}

// quant * scale + minimum, quant the low four bits of a lane, other bits anything. With 16 lanes the sixteen
// values are made once and looked up. Only debug builds of the library insist on the other bits being 0.
class FourBits {
 public:
  HWY_INLINE FourBits(F d, V scale, V minimum)
#if HWY_TARGET == HWY_AVX3
      : values_(hn::MulAdd(hn::Iota(d, 0.0f), scale, minimum)) {
  }
  HWY_INLINE V operator()(F d, hn::Vec<I> quant) const {
    const I di;
    if (HWY_IS_DEBUG_BUILD) quant = hn::And(quant, hn::Set(di, 15));
    return hn::TableLookupLanes(values_, hn::IndicesFromVec(d, quant));
  }

 private:
  V values_;
#else
      : scale_(scale), minimum_(minimum) {
    (void)d;
  }
  HWY_INLINE V operator()(F d, hn::Vec<I> quant) const {
    const I di;
    return hn::MulAdd(hn::ConvertTo(d, hn::And(quant, hn::Set(di, 15))), scale_, minimum_);
  }

 private:
  V scale_, minimum_;
#endif
};

// values[quant] * scale, quant the low four bits of a lane, other bits anything.  // values [16], aligned
class SixteenValues {
 public:
#if HWY_TARGET == HWY_AVX3
  HWY_INLINE SixteenValues(F d, const float* values, V scale)
      : values_(hn::Mul(hn::Load(d, values), scale)) {}
  HWY_INLINE V operator()(F d, hn::Vec<I> quant) const {
    const I di;
    if (HWY_IS_DEBUG_BUILD) quant = hn::And(quant, hn::Set(di, 15));
    return hn::TableLookupLanes(values_, hn::IndicesFromVec(d, quant));
  }

 private:
  V values_;
#elif HWY_TARGET == HWY_AVX2
  HWY_INLINE SixteenValues(F d, const float* values, V scale)
      : low_(hn::Mul(hn::Load(d, values), scale)), high_(hn::Mul(hn::Load(d, values + 8), scale)) {}
  HWY_INLINE V operator()(F d, hn::Vec<I> quant) const {
    const I di;
    const auto index = hn::IndicesFromVec(d, hn::And(quant, hn::Set(di, 7)));
    const auto fourth = hn::BitCast(d, hn::ShiftLeft<28>(quant));  // bit 3 where a float has its sign
    return hn::IfNegativeThenElse(fourth, hn::TableLookupLanes(high_, index),
                                  hn::TableLookupLanes(low_, index));
  }

 private:
  V low_, high_;
#else
  HWY_INLINE SixteenValues(F d, const float* values, V scale) : values_(values), scale_(scale) { (void)d; }
  HWY_INLINE V operator()(F d, hn::Vec<I> quant) const {
    const I di;
    return hn::Mul(hn::GatherIndex(d, values_, hn::And(quant, hn::Set(di, 15))), scale_);
  }

 private:
  const float* values_;
  V scale_;
#endif
};

HWY_ALIGN constexpr float kIq4Floats[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                            1,    13,   25,  38,  53,  69,  89,  113};

HWY_INLINE float TailElement(TensorType type, const uint8_t* p) {
  uint16_t h = 0;
  float f = 0;
  if (type == TensorType::f32)
    std::memcpy(&f, p, sizeof f);
  else
    std::memcpy(&h, p, sizeof h);
  return type == TensorType::f32 ? f : type == TensorType::f16 ? f16_to_f32(h) : bf16_to_f32(h);
}

// Sums kept apart until the end of a row. Two, so that neighbouring products need not wait for each other;
// with a single lane 16, because one long sum would round worse than the other instruction sets do.
constexpr uint32_t kSums = HWY_TARGET == HWY_SCALAR ? 16 : 2;

// R rows of x times O rows of weights. How they are grouped changes no sum.
template <class Format, uint32_t R, uint32_t O>
HWY_INLINE void ProductBlock(const WeightMatrix& w, const uint8_t* HWY_RESTRICT rows, size_t stride,
                             const float* HWY_RESTRICT x, size_t x_stride, float* HWY_RESTRICT out,
                             size_t out_stride) {
  static_assert(kGroup % Format::kStretches == 0 && Format::kStretches % Format::kUnit == 0);
  const F d;
  const uint32_t stretches = w.cols / 32, tail = w.cols % 32;
  Scales scales[O];
  V sum[O][kSums][R];
  for (uint32_t o = 0; o < O; ++o)
    for (uint32_t k = 0; k < kSums; ++k)
      for (uint32_t r = 0; r < R; ++r) sum[o][k][r] = hn::Zero(d);
  const uint8_t* p = rows;
  for (uint32_t group = 0; group < stretches; group += kGroup) {
    const uint32_t count = std::min(kGroup, stretches - group);
    const size_t bytes = size_t(count / Format::kStretches) * Format::kBytes;
    for (uint32_t o = 0; o < O; ++o) {
      // The same part of the rows that come next: a token reads its weights once, from far away.
      const uint8_t* ahead = p + (O + o) * stride;
      for (size_t byte = 0; byte < bytes; byte += 64) hwy::Prefetch(ahead + byte);
      Format::Prepare(d, p + o * stride, count, scales[o]);
    }
    for (uint32_t b = 0; b < count; b += Format::kUnit) {
      const float* at = x + size_t(group + b) * 32;
      SPANSCOPE_UNROLL for (uint32_t o = 0; o < O; ++o)
          Format::Unit(d, p + o * stride, scales[o], b, [&](size_t j, V weights) HWY_ATTR {
            V* to = sum[o][kSums == 2 ? j / 16 % 2 : j % kSums];
            SPANSCOPE_UNROLL for (uint32_t r = 0; r < R; ++r) to[r] =
                hn::MulAdd(weights, hn::LoadU(d, at + r * x_stride + j), to[r]);
          });
    }
    p += bytes;
  }
  const uint32_t element = block_bytes(w.type);
  for (uint32_t o = 0; o < O; ++o)
    for (uint32_t r = 0; r < R; ++r) {
      for (uint32_t half = kSums / 2; half > 0; half /= 2)
        for (uint32_t k = 0; k < half; ++k) sum[o][k][r] = hn::Add(sum[o][k][r], sum[o][k + half][r]);
      float total = Sum(d, sum[o][0][r]);
      for (uint32_t t = 0; t < tail; ++t)  // formats without blocks only: blocks of 32 divide their rows
        total += TailElement(w.type, p + o * stride + size_t(t) * element) *
                 x[r * x_stride + size_t(stretches) * 32 + t];
      out[r * out_stride + o] = total;
    }
}

template <class Format, uint32_t R>
void ProductRows(const WeightMatrix& w, uint32_t first, uint32_t count, const float* x, size_t x_stride,
                 float* out, size_t out_stride) {
  const size_t stride = row_bytes(w.type, w.cols);
  const uint8_t* rows = w.data + first * stride;
  // Several weight rows share what is loaded of x and hide each other's waiting, as far as registers reach.
  constexpr uint32_t O = HWY_MAX_BYTES >= 64 ? (R == 1 ? 4 : 2) : R <= 2 ? 2 : 1;
  uint32_t o = 0;
  for (; o + O <= count; o += O)
    ProductBlock<Format, R, O>(w, rows + o * stride, stride, x, x_stride, out + o, out_stride);
  for (; o < count; ++o)
    ProductBlock<Format, R, 1>(w, rows + o * stride, stride, x, x_stride, out + o, out_stride);
}

template <class Format>
void Product(const WeightMatrix& w, uint32_t first, uint32_t count, const float* x, size_t x_stride,
             uint32_t rows, float* out, size_t out_stride) {
  switch (rows) {
    case 1:
      return ProductRows<Format, 1>(w, first, count, x, x_stride, out, out_stride);
    case 2:
      return ProductRows<Format, 2>(w, first, count, x, x_stride, out, out_stride);
    case 3:
      return ProductRows<Format, 3>(w, first, count, x, x_stride, out, out_stride);
    case 4:
      return ProductRows<Format, 4>(w, first, count, x, x_stride, out, out_stride);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace fast
}  // namespace spanscope
HWY_AFTER_NAMESPACE();
#endif
