// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cpu/fast/few_row_kernels.h"

#include <algorithm>
#include <cstring>

#include "core/base/half.h"

#include "core/cpu/fast/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/cpu/fast/few_row_kernels.cpp"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "core/cpu/fast/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spanscope {
namespace fast {
namespace HWY_NAMESPACE {

using U = hn::RebindToUnsigned<F>;

// f16 bits (low halves of the lanes) to float: the exponent is moved by a product with 2^112, which is exact
// for subnormal numbers too. Infinities and NaN do not occur as block scales, and in F16 weights they have no
// meaning.
HWY_INLINE V FromHalf(F d, hn::Vec<U> bits) {
  const U du;
  const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(du, 0x8000u)));
  const V magnitude =
      hn::Mul(hn::BitCast(d, hn::ShiftLeft<13>(hn::And(bits, hn::Set(du, 0x7fffu)))), hn::Set(d, 0x1p112f));
  return hn::BitCast(d, hn::Or(hn::BitCast(du, magnitude), sign));
}

// Element formats. A row is run in groups of up to 16 blocks of 32 elements: first the scales of the group
// are made float together, then Block() calls use(element, weights) for the elements of each block, a vector
// at a time.
constexpr uint32_t kGroup = 16;
struct Scales {
  HWY_ALIGN float scale[kGroup], minimum[kGroup];
};
// The first 32 bits of blocks b, b + 1, ... (as many as lanes; the last block again behind the end).
HWY_INLINE hn::Vec<U> BlockHeads(F d, const uint8_t* p, uint32_t bytes, uint32_t blocks, uint32_t b) {
  const U du;
#if HWY_MAX_BYTES >= 32
  // Gathered: bringing them together by stores would make the load wait for all of them.
  const hn::RebindToSigned<F> di;
  const auto index = hn::Min(hn::Iota(di, int32_t(b)), hn::Set(di, int32_t(blocks - 1)));
  return hn::BitCast(du, hn::GatherOffset(di, reinterpret_cast<const int32_t*>(p),
                                          hn::Mul(index, hn::Set(di, int32_t(bytes)))));
#else
  HWY_ALIGN uint32_t heads[4];
  for (uint32_t i = 0; i < hn::Lanes(d); ++i)
    std::memcpy(heads + i, p + size_t(std::min(b + i, blocks - 1)) * bytes, sizeof *heads);
  return hn::Load(du, heads);
#endif
}

template <bool kMinimum>  // Q4_1: f16 scale and minimum; Q4_0: f16 scale, the minimum is -8 * scale
struct Q4 {
  static constexpr uint32_t kBytes = kMinimum ? 20 : 18;
  static HWY_INLINE void Prepare(F d, const uint8_t* p, uint32_t blocks, Scales& s) {
    for (uint32_t b = 0; b < blocks; b += uint32_t(hn::Lanes(d))) {
      const auto bits = BlockHeads(d, p, kBytes, blocks, b);
      const V scale = FromHalf(d, bits);
      hn::Store(scale, d, s.scale + b);
      hn::Store(kMinimum ? FromHalf(d, hn::ShiftRight<16>(bits)) : hn::Mul(scale, hn::Set(d, -8.0f)), d,
                s.minimum + b);
    }
  }
  template <class Use>
  static HWY_INLINE void Block(F d, const uint8_t* p, const Scales& s, uint32_t b, const Use& use) {
    const hn::Rebind<uint8_t, F> d8;
    const hn::RebindToSigned<F> di;
    const V scale = hn::Set(d, s.scale[b]), minimum = hn::Set(d, s.minimum[b]);
    const uint8_t* q = p + (kMinimum ? 4 : 2);
#if HWY_TARGET == HWY_AVX3
    // The block has 16 values: with 16 lanes they are made once and looked up by the low four bits of a lane.
    // Only debug builds of the library insist on the other bits being 0.
    const V values = hn::MulAdd(hn::Iota(d, 0.0f), scale, minimum);
    const auto pair = hn::PromoteTo(di, hn::LoadU(d8, q));
    const auto low = HWY_IS_DEBUG_BUILD ? hn::And(pair, hn::Set(di, 15)) : pair;
    use(0, hn::TableLookupLanes(values, hn::IndicesFromVec(d, low)));
    use(16, hn::TableLookupLanes(values, hn::IndicesFromVec(d, hn::ShiftRight<4>(pair))));
    return;
#endif
    for (size_t j = 0; j < 16; j += hn::Lanes(d)) {
      const auto both = hn::PromoteTo(di, hn::LoadU(d8, q + j));
      use(j, hn::MulAdd(hn::ConvertTo(d, hn::And(both, hn::Set(di, 15))), scale, minimum));
      use(j + 16, hn::MulAdd(hn::ConvertTo(d, hn::ShiftRight<4>(both)), scale, minimum));
    }
  }
};
struct Q8 {
  static constexpr uint32_t kBytes = 34;
  static HWY_INLINE void Prepare(F d, const uint8_t* p, uint32_t blocks, Scales& s) {
    for (uint32_t b = 0; b < blocks; b += uint32_t(hn::Lanes(d)))
      hn::Store(FromHalf(d, BlockHeads(d, p, kBytes, blocks, b)), d, s.scale + b);
  }
  template <class Use>
  static HWY_INLINE void Block(F d, const uint8_t* p, const Scales& s, uint32_t b, const Use& use) {
    const hn::Rebind<int8_t, F> d8;
    const hn::RebindToSigned<F> di;
    const V scale = hn::Set(d, s.scale[b]);
    const int8_t* q = reinterpret_cast<const int8_t*>(p + 2);
    for (size_t j = 0; j < 32; j += hn::Lanes(d))
      use(j, hn::Mul(hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(d8, q + j))), scale));
  }
};
// Formats without blocks, in steps of 32 elements; the caller does the tail of a row.
struct Plain32 {
  static constexpr uint32_t kBytes = 128;
  static HWY_INLINE void Prepare(F, const uint8_t*, uint32_t, Scales&) {}
  template <class Use>
  static HWY_INLINE void Block(F d, const uint8_t* p, const Scales&, uint32_t, const Use& use) {
    for (size_t j = 0; j < 32; j += hn::Lanes(d)) {
      HWY_ALIGN float part[16];
      std::memcpy(part, p + 4 * j, 4 * hn::Lanes(d));
      use(j, hn::Load(d, part));
    }
  }
};
template <bool kBrain>  // bf16 or f16
struct Plain16 {
  static constexpr uint32_t kBytes = 64;
  static HWY_INLINE void Prepare(F, const uint8_t*, uint32_t, Scales&) {}
  template <class Use>
  static HWY_INLINE void Block(F d, const uint8_t* p, const Scales&, uint32_t, const Use& use) {
    const hn::Rebind<uint16_t, F> d16;
    const U du;
    for (size_t j = 0; j < 32; j += hn::Lanes(d)) {
      HWY_ALIGN uint16_t part[16];
      std::memcpy(part, p + 2 * j, 2 * hn::Lanes(d));
      const auto bits = hn::PromoteTo(du, hn::Load(d16, part));
      use(j, kBrain ? hn::BitCast(d, hn::ShiftLeft<16>(bits)) : FromHalf(d, bits));
    }
  }
};

float TailElement(TensorType type, const uint8_t* p) {
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
  const F d;
  const uint32_t blocks = w.cols / 32, tail = w.cols % 32;
  Scales scales[O];
  V sum[O][kSums][R];
  for (uint32_t o = 0; o < O; ++o)
    for (uint32_t k = 0; k < kSums; ++k)
      for (uint32_t r = 0; r < R; ++r) sum[o][k][r] = hn::Zero(d);
  const uint8_t* p = rows;
  for (uint32_t group = 0; group < blocks; group += kGroup) {
    const uint32_t count = std::min(kGroup, blocks - group);
    for (uint32_t o = 0; o < O; ++o) {
      // The same stretch of the rows that come next: a token reads its weights once, from far away.
      const uint8_t* ahead = p + (O + o) * stride;
      for (uint32_t byte = 0; byte < count * Format::kBytes; byte += 64) hwy::Prefetch(ahead + byte);
      Format::Prepare(d, p + o * stride, count, scales[o]);
    }
    for (uint32_t b = 0; b < count; ++b, p += Format::kBytes) {
      const float* at = x + size_t(group + b) * 32;
      for (uint32_t o = 0; o < O; ++o)
        Format::Block(d, p + o * stride, scales[o], b, [&](size_t j, V weights) HWY_ATTR {
          V* to = sum[o][kSums == 2 ? j / 16 : j % kSums];
          for (uint32_t r = 0; r < R; ++r)
            to[r] = hn::MulAdd(weights, hn::LoadU(d, at + r * x_stride + j), to[r]);
        });
    }
  }
  const uint32_t element = block_bytes(w.type);
  for (uint32_t o = 0; o < O; ++o)
    for (uint32_t r = 0; r < R; ++r) {
      for (uint32_t half = kSums / 2; half > 0; half /= 2)
        for (uint32_t k = 0; k < half; ++k) sum[o][k][r] = hn::Add(sum[o][k][r], sum[o][k + half][r]);
      float total = Sum(d, sum[o][0][r]);
      for (uint32_t t = 0; t < tail; ++t)  // formats without blocks only: blocks of 32 divide their rows
        total += TailElement(w.type, p + o * stride + size_t(t) * element) *
                 x[r * x_stride + size_t(blocks) * 32 + t];
      out[r * out_stride + o] = total;
    }
}

template <class Format, uint32_t R>
void ProductRows(const WeightMatrix& w, uint32_t first, uint32_t count, const float* x, size_t x_stride,
                 float* out, size_t out_stride) {
  const size_t stride = row_bytes(w.type, w.cols);
  const uint8_t* rows = w.data + first * stride;
  // Several weight rows share what is loaded of x and hide each other's waiting, as far as registers reach.
  constexpr uint32_t O = R == 1 && HWY_MAX_BYTES >= 64 ? 4 : R <= 2 ? 2 : 1;
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

void FewRowProduct(const WeightMatrix& w, uint32_t first, uint32_t count, const float* x, size_t x_stride,
                   uint32_t rows, float* out, size_t out_stride) {
  switch (w.type) {
    case TensorType::f32:
      return Product<Plain32>(w, first, count, x, x_stride, rows, out, out_stride);
    case TensorType::f16:
      return Product<Plain16<false>>(w, first, count, x, x_stride, rows, out, out_stride);
    case TensorType::bf16:
      return Product<Plain16<true>>(w, first, count, x, x_stride, rows, out, out_stride);
    case TensorType::q8_0:
      return Product<Q8>(w, first, count, x, x_stride, rows, out, out_stride);
    case TensorType::q4_0:
      return Product<Q4<false>>(w, first, count, x, x_stride, rows, out, out_stride);
    case TensorType::q4_1:
      return Product<Q4<true>>(w, first, count, x, x_stride, rows, out, out_stride);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace fast
}  // namespace spanscope
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spanscope::fast {
HWY_EXPORT(FewRowProduct);

void few_row_product(const WeightMatrix& w, uint32_t first, uint32_t count, const float* x, size_t x_stride,
                     uint32_t rows, float* out, size_t out_stride) {
  HWY_DYNAMIC_DISPATCH(FewRowProduct)(w, first, count, x, x_stride, rows, out, out_stride);
}
}  // namespace spanscope::fast
#endif
