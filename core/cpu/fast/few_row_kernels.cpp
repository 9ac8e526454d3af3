// SPDX-License-Identifier: GPL-3.0-or-later
// Formats of single numbers and of blocks of 32 elements.
#include "core/cpu/fast/few_row_kernels.h"

#include "core/cpu/fast/few_row_kernels_256.h"

#include "core/cpu/fast/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/cpu/fast/few_row_kernels.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "core/cpu/fast/few_row_product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spanscope {
namespace fast {
namespace HWY_NAMESPACE {

// The first 32 bits of blocks b, b + 1, ... (as many as lanes; the last block again behind the end).
HWY_INLINE hn::Vec<U> BlockHeads([[maybe_unused]] F d, const uint8_t* p, uint32_t bytes, uint32_t blocks,
                                 uint32_t b) {
  const U du;
#if HWY_MAX_BYTES >= 32
  // Gathered: bringing them together by stores would make the load wait for all of them.
  const I di;
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

// f16 scale d at the begin of each block, then an f16 minimum, or the minimum is kOffset * d.
template <uint32_t kBytes, int kOffset, bool kMinimum>
HWY_INLINE void PrepareHalves(F d, const uint8_t* p, uint32_t blocks, Scales& s) {
  for (uint32_t b = 0; b < blocks; b += uint32_t(hn::Lanes(d))) {
    const auto bits = BlockHeads(d, p, kBytes, blocks, b);
    const V scale = FromHalf(d, bits);
    hn::Store(scale, d, s.scale + b);
    if (kMinimum)
      hn::Store(FromHalf(d, hn::ShiftRight<16>(bits)), d, s.minimum + b);
    else if (kOffset != 0)
      hn::Store(hn::Mul(scale, hn::Set(d, float(kOffset))), d, s.minimum + b);
  }
}

template <bool kMinimum>  // Q4_1; Q4_0
struct Q4 {
  static constexpr uint32_t kBytes = kMinimum ? 20 : 18, kStretches = 1, kUnit = 1;
  static HWY_INLINE void Prepare(F d, const uint8_t* p, uint32_t count, Scales& s) {
    PrepareHalves<kBytes, -8, kMinimum>(d, p, count, s);
  }
  template <class Use>
  static HWY_INLINE void Unit(F d, const uint8_t* p, const Scales& s, uint32_t b, const Use& use) {
    const uint8_t* q = p + size_t(b) * kBytes + (kMinimum ? 4 : 2);
    const FourBits weights(d, hn::Set(d, s.scale[b]), hn::Set(d, s.minimum[b]));
    SPANSCOPE_UNROLL for (size_t j = 0; j < 16; j += hn::Lanes(d)) {
      const auto both = LoadBytes(q + j);
      use(j, weights(d, both));
      use(j + 16, weights(d, hn::ShiftRight<4>(both)));
    }
  }
};

HWY_ALIGN constexpr int32_t kBitOfLane[16] = {1,       1 << 1,  1 << 2,  1 << 3, 1 << 4,  1 << 5,
                                              1 << 6,  1 << 7,  1 << 8,  1 << 9, 1 << 10, 1 << 11,
                                              1 << 12, 1 << 13, 1 << 14, 1 << 15};
template <bool kMinimum>  // Q5_1; Q5_0
struct Q5 {
  static constexpr uint32_t kBytes = kMinimum ? 24 : 22, kStretches = 1, kUnit = 1;
  static HWY_INLINE void Prepare(F d, const uint8_t* p, uint32_t count, Scales& s) {
    PrepareHalves<kBytes, -16, kMinimum>(d, p, count, s);
  }
  template <class Use>
  static HWY_INLINE void Unit(F d, const uint8_t* p, const Scales& s, uint32_t b, const Use& use) {
    const I di;
    const V scale = hn::Set(d, s.scale[b]), minimum = hn::Set(d, s.minimum[b]);
    const uint8_t* q = p + size_t(b) * kBytes + (kMinimum ? 8 : 6);
    uint32_t fifth;
    std::memcpy(&fifth, q - 4, sizeof fifth);
    const auto bits = hn::Load(di, kBitOfLane);
    const auto value = [&](hn::Vec<I> low, size_t element) HWY_ATTR {
      const auto set = hn::TestBit(hn::Set(di, int32_t(fifth >> element & 0xffffu)), bits);
      const auto high = hn::IfThenElseZero(set, hn::Set(di, 16));
      return hn::MulAdd(hn::ConvertTo(d, hn::Or(low, high)), scale, minimum);
    };
    SPANSCOPE_UNROLL for (size_t j = 0; j < 16; j += hn::Lanes(d)) {
      const auto both = LoadBytes(q + j);
      use(j, value(hn::And(both, hn::Set(di, 15)), j));
      use(j + 16, value(hn::ShiftRight<4>(both), j + 16));
    }
  }
};

struct Q8 {
  static constexpr uint32_t kBytes = 34, kStretches = 1, kUnit = 1;
  static HWY_INLINE void Prepare(F d, const uint8_t* p, uint32_t count, Scales& s) {
    PrepareHalves<kBytes, 0, false>(d, p, count, s);
  }
  template <class Use>
  static HWY_INLINE void Unit(F d, const uint8_t* p, const Scales& s, uint32_t b, const Use& use) {
    const V scale = hn::Set(d, s.scale[b]);
    const uint8_t* q = p + size_t(b) * kBytes + 2;
    SPANSCOPE_UNROLL for (size_t j = 0; j < 32; j += hn::Lanes(d))
        use(j, hn::Mul(hn::ConvertTo(d, LoadSignedBytes(q + j)), scale));
  }
};

HWY_ALIGN constexpr float kMxfp4Floats[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

template <bool kPower>  // MXFP4: the scale is a power of two; IQ4_NL
struct Looked {
  static constexpr uint32_t kBytes = kPower ? 17 : 18, kStretches = 1, kUnit = 1;
  static HWY_INLINE void Prepare(F d, const uint8_t* p, uint32_t count, Scales& s) {
    if (!kPower) return PrepareHalves<kBytes, 0, false>(d, p, count, s);
    const U du;
    for (uint32_t b = 0; b < count; b += uint32_t(hn::Lanes(d))) {
      // 2^(e - 128), subnormal for e < 2
      const auto e = hn::And(BlockHeads(d, p, kBytes, count, b), hn::Set(du, 255));
      const auto normal = hn::ShiftLeft<23>(hn::Sub(e, hn::Set(du, 1)));
      const auto small =
          hn::IfThenElse(hn::Eq(e, hn::Zero(du)), hn::Set(du, 0x00200000u), hn::Set(du, 0x00400000u));
      const auto tiny = hn::Eq(hn::ShiftRight<1>(e), hn::Zero(du));
      hn::Store(hn::BitCast(d, hn::IfThenElse(tiny, small, normal)), d, s.scale + b);
    }
  }
  template <class Use>
  static HWY_INLINE void Unit(F d, const uint8_t* p, const Scales& s, uint32_t b, const Use& use) {
    const SixteenValues weights(d, kPower ? kMxfp4Floats : kIq4Floats, hn::Set(d, s.scale[b]));
    const uint8_t* q = p + size_t(b) * kBytes + (kPower ? 1 : 2);
    SPANSCOPE_UNROLL for (size_t j = 0; j < 16; j += hn::Lanes(d)) {
      const auto both = LoadBytes(q + j);
      use(j, weights(d, both));
      use(j + 16, weights(d, hn::ShiftRight<4>(both)));
    }
  }
};

// Formats without blocks, in steps of 32 elements; the loop does the tail of a row.
struct Plain32 {
  static constexpr uint32_t kBytes = 128, kStretches = 1, kUnit = 1;
  static HWY_INLINE void Prepare(F, const uint8_t*, uint32_t, Scales&) {}
  template <class Use>
  static HWY_INLINE void Unit(F d, const uint8_t* p, const Scales&, uint32_t b, const Use& use) {
    p += size_t(b) * kBytes;
    SPANSCOPE_UNROLL for (size_t j = 0; j < 32; j += hn::Lanes(d)) {
      HWY_ALIGN float part[16];
      std::memcpy(part, p + 4 * j, 4 * hn::Lanes(d));
      use(j, hn::Load(d, part));
    }
  }
};
template <bool kBrain>  // bf16 or f16
struct Plain16 {
  static constexpr uint32_t kBytes = 64, kStretches = 1, kUnit = 1;
  static HWY_INLINE void Prepare(F, const uint8_t*, uint32_t, Scales&) {}
  template <class Use>
  static HWY_INLINE void Unit(F d, const uint8_t* p, const Scales&, uint32_t b, const Use& use) {
    const hn::Rebind<uint16_t, F> d16;
    p += size_t(b) * kBytes;
    SPANSCOPE_UNROLL for (size_t j = 0; j < 32; j += hn::Lanes(d)) {
      HWY_ALIGN uint16_t part[16];
      std::memcpy(part, p + 2 * j, 2 * hn::Lanes(d));
      const auto bits = hn::Load(d16, part);
      if constexpr (kBrain) {
        const U du;
        use(j, hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, bits))));
      } else {
        const hn::Rebind<hwy::float16_t, F> dh;
        use(j, hn::PromoteTo(d, hn::BitCast(dh, bits)));
      }
    }
  }
};

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
    case TensorType::q5_0:
      return Product<Q5<false>>(w, first, count, x, x_stride, rows, out, out_stride);
    case TensorType::q5_1:
      return Product<Q5<true>>(w, first, count, x, x_stride, rows, out, out_stride);
    case TensorType::iq4_nl:
      return Product<Looked<false>>(w, first, count, x, x_stride, rows, out, out_stride);
    case TensorType::mxfp4:
      return Product<Looked<true>>(w, first, count, x, x_stride, rows, out, out_stride);
    case TensorType::q2_k:
    case TensorType::q3_k:
    case TensorType::q4_k:
    case TensorType::q5_k:
    case TensorType::q6_k:
    case TensorType::iq4_xs:
      return;  // few_row_product() sends them to few_row_product_256()
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
  if (block_elements(w.type) == 256)
    few_row_product_256(w, first, count, x, x_stride, rows, out, out_stride);
  else
    HWY_DYNAMIC_DISPATCH(FewRowProduct)(w, first, count, x, x_stride, rows, out, out_stride);
}
}  // namespace spanscope::fast
#endif
