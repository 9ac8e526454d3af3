// SPDX-License-Identifier: GPL-3.0-or-later
// Formats with blocks of 256 elements: eight stretches of 32, with a scale each or one for each half
// (core/model/block_formats.h says what the bytes mean). Half a block, four stretches, is made at once: there
// the same bytes hold several stretches.
#include "core/cpu/fast/few_row_kernels_256.h"

#include "core/cpu/fast/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/cpu/fast/few_row_kernels_256.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "core/cpu/fast/few_row_product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spanscope {
namespace fast {
namespace HWY_NAMESPACE {

constexpr uint32_t kBlock = 8, kHalf = 4;  // stretches of a block, and of its half

HWY_INLINE uint32_t Word(const uint8_t* p) {
  uint32_t word;
  std::memcpy(&word, p, sizeof word);
  return word;
}

// Small numbers in packed words become scales four at a time, in registers: put together in memory byte by
// byte and read back as a vector they would make the load wait.
using F4 = hn::CappedTag<float, 4>;
using I4 = hn::RebindToSigned<F4>;
HWY_INLINE hn::Vec<I4> FourBytes(const uint8_t* p) {
  const hn::Rebind<uint8_t, F4> d8;
  const I4 di;
  return hn::PromoteTo(di, hn::LoadU(d8, p));
}
// Bits [kFrom, kFrom + kCount) of low, and two bits of high from bit kHigh on above them.
template <int kFrom, int kCount, int kHigh>
HWY_INLINE hn::Vec<I4> Joined(hn::Vec<I4> low, hn::Vec<I4> high) {
  const I4 di;
  const auto below = hn::And(hn::ShiftRight<kFrom>(low), hn::Set(di, (1 << kCount) - 1));
  const auto above = hn::And(hn::ShiftRight<kHigh>(high), hn::Set(di, 3));
  return hn::Or(below, hn::ShiftLeft<kCount>(above));
}
// to[0..3] = d * (small + offset)
HWY_INLINE void StoreScales(hn::Vec<I4> small, float offset, float d, float* to) {
  const F4 f;
  hn::StoreU(hn::Mul(hn::Add(hn::ConvertTo(f, small), hn::Set(f, offset)), hn::Set(f, d)), f, to);
}

// Of eight bits that lie side by side, one for each stretch of a block, the four of the half that begins at
// stretch b.
HWY_INLINE hn::Vec<I> BitsOfHalf(hn::Vec<I> bits, uint32_t b) {
  const I di;
  const U du;
  return hn::BitCast(di, hn::ShiftRightSame(hn::BitCast(du, bits), int(b % kBlock)));
}

struct Q2K {
  static constexpr uint32_t kBytes = 84, kStretches = kBlock, kUnit = kHalf;
  static HWY_INLINE void Prepare(F d, const uint8_t* p, uint32_t count, Scales& s) {
    const I di;
    for (uint32_t b = 0; b < count; b += kBlock, p += kBytes) {
      const V scale = hn::Set(d, HalfAt(p + 80)), minimum = hn::Set(d, -HalfAt(p + 82));
      for (uint32_t i = 0; i < 16; i += uint32_t(hn::Lanes(d))) {
        const auto both = LoadBytes(p + i);
        hn::Store(hn::Mul(hn::ConvertTo(d, hn::And(both, hn::Set(di, 15))), scale), d, s.scale + 2 * b + i);
        hn::Store(hn::Mul(hn::ConvertTo(d, hn::ShiftRight<4>(both)), minimum), d, s.minimum + 2 * b + i);
      }
    }
  }
  template <class Use>
  static HWY_INLINE void Unit(F d, const uint8_t* p, const Scales& s, uint32_t b, const Use& use) {
    const uint8_t* q = p + size_t(b / kBlock) * kBytes + 16 + 8 * (b % kBlock);
    SPANSCOPE_UNROLL for (size_t part = 0; part < 2; ++part) {
      const float *scale = s.scale + 2 * b + part, *minimum = s.minimum + 2 * b + part;
      SPANSCOPE_UNROLL for (size_t j = 16 * part; j < 16 * part + 16; j += hn::Lanes(d)) {
        const auto four = LoadBytes(q + j);
        const auto stretch = [&](uint32_t k, hn::Vec<I> quant) HWY_ATTR {
          use(32 * k + j,
              hn::MulAdd(hn::ConvertTo(d, quant), hn::Set(d, scale[2 * k]), hn::Set(d, minimum[2 * k])));
        };
        stretch(0, MoveBits<0, 2>(four));
        stretch(1, MoveBits<2, 2>(four));
        stretch(2, MoveBits<4, 2>(four));
        stretch(3, MoveBits<6, 2>(four));
      }
    }
  }
};

struct Q3K {
  static constexpr uint32_t kBytes = 110, kStretches = kBlock, kUnit = kHalf;
  static HWY_INLINE void Prepare(F, const uint8_t* p, uint32_t count, Scales& s) {
    for (uint32_t b = 0; b < count; b += kBlock, p += kBytes) {
      // Sixteen 6-bit numbers: their low four bits in the halves of two words, their high two in the third.
      const float scale = HalfAt(p + 108);
      float* to = s.scale + 2 * b;
      for (uint32_t i = 0; i < 4; i += uint32_t(hn::Lanes(F4()))) {
        const auto first = FourBytes(p + 96 + i), second = FourBytes(p + 100 + i),
                   high = FourBytes(p + 104 + i);
        StoreScales(Joined<0, 4, 0>(first, high), -32, scale, to + i);
        StoreScales(Joined<0, 4, 2>(second, high), -32, scale, to + 4 + i);
        StoreScales(Joined<4, 4, 4>(first, high), -32, scale, to + 8 + i);
        StoreScales(Joined<4, 4, 6>(second, high), -32, scale, to + 12 + i);
      }
    }
  }
  template <class Use>
  static HWY_INLINE void Unit(F d, const uint8_t* p, const Scales& s, uint32_t b, const Use& use) {
    const I di;
    const uint8_t *third = p + size_t(b / kBlock) * kBytes, *q = third + 32 + 8 * (b % kBlock);
    SPANSCOPE_UNROLL for (size_t part = 0; part < 2; ++part) {
      const float* scale = s.scale + 2 * b + part;
      SPANSCOPE_UNROLL for (size_t j = 16 * part; j < 16 * part + 16; j += hn::Lanes(d)) {
        const auto four = LoadBytes(q + j), high = BitsOfHalf(LoadBytes(third + j), b);
        const auto stretch = [&](uint32_t k, hn::Vec<I> low, hn::Vec<I> bit) HWY_ATTR {
          // third bit set: q, not set: q - 4
          const auto quant = hn::Sub(hn::Or(low, bit), hn::Set(di, 4));
          use(32 * k + j, hn::Mul(hn::ConvertTo(d, quant), hn::Set(d, scale[2 * k])));
        };
        stretch(0, MoveBits<0, 2>(four), MoveBits<0, 1, 2>(high));
        stretch(1, MoveBits<2, 2>(four), MoveBits<1, 1, 2>(high));
        stretch(2, MoveBits<4, 2>(four), MoveBits<2, 1, 2>(high));
        stretch(3, MoveBits<6, 2>(four), MoveBits<3, 1, 2>(high));
      }
    }
  }
};

// Q4_K and Q5_K: eight scales and eight minima of 6 bits in 12 bytes behind d and dmin. The first four of
// each lie in the low bits of the first two words; the high bits there belong to the others, whose low four
// bits are in the third word.
HWY_INLINE void PrepareSixBits(const uint8_t* p, float* scale, float* minimum) {
  const I4 di;
  const float d = HalfAt(p), dmin = -HalfAt(p + 2);
  for (uint32_t i = 0; i < 4; i += uint32_t(hn::Lanes(di))) {
    const auto first = FourBytes(p + 4 + i), second = FourBytes(p + 8 + i), third = FourBytes(p + 12 + i);
    StoreScales(hn::And(first, hn::Set(di, 63)), 0, d, scale + i);
    StoreScales(Joined<0, 4, 6>(third, first), 0, d, scale + 4 + i);
    StoreScales(hn::And(second, hn::Set(di, 63)), 0, dmin, minimum + i);
    StoreScales(Joined<4, 4, 6>(third, second), 0, dmin, minimum + 4 + i);
  }
}

struct Q4K {
  static constexpr uint32_t kBytes = 144, kStretches = kBlock, kUnit = kHalf;
  static HWY_INLINE void Prepare(F, const uint8_t* p, uint32_t count, Scales& s) {
    for (uint32_t b = 0; b < count; b += kBlock, p += kBytes) PrepareSixBits(p, s.scale + b, s.minimum + b);
  }
  template <class Use>
  static HWY_INLINE void Unit(F d, const uint8_t* p, const Scales& s, uint32_t b, const Use& use) {
    const uint8_t* q = p + size_t(b / kBlock) * kBytes + 16 + 16 * (b % kBlock);
    SPANSCOPE_UNROLL for (uint32_t k = 0; k < kHalf; k += 2, q += 32) {
      const FourBits low(d, hn::Set(d, s.scale[b + k]), hn::Set(d, s.minimum[b + k])),
          high(d, hn::Set(d, s.scale[b + k + 1]), hn::Set(d, s.minimum[b + k + 1]));
      SPANSCOPE_UNROLL for (size_t j = 0; j < 32; j += hn::Lanes(d)) {
        const auto both = LoadBytes(q + j);
        use(32 * k + j, low(d, both));
        use(32 * k + 32 + j, high(d, hn::ShiftRight<4>(both)));
      }
    }
  }
};

struct Q5K {
  static constexpr uint32_t kBytes = 176, kStretches = kBlock, kUnit = kHalf;
  static HWY_INLINE void Prepare(F, const uint8_t* p, uint32_t count, Scales& s) {
    for (uint32_t b = 0; b < count; b += kBlock, p += kBytes) PrepareSixBits(p, s.scale + b, s.minimum + b);
  }
  template <class Use>
  static HWY_INLINE void Unit(F d, const uint8_t* p, const Scales& s, uint32_t b, const Use& use) {
    const uint8_t *fifth = p + size_t(b / kBlock) * kBytes + 16, *q = fifth + 32 + 16 * (b % kBlock);
    SPANSCOPE_UNROLL for (size_t j = 0; j < 32; j += hn::Lanes(d)) {
      const auto high = BitsOfHalf(LoadBytes(fifth + j), b), first = LoadBytes(q + j),
                 second = LoadBytes(q + 32 + j);
      const auto stretch = [&](uint32_t k, hn::Vec<I> low, hn::Vec<I> bit) HWY_ATTR {
        use(32 * k + j, hn::MulAdd(hn::ConvertTo(d, hn::Or(low, bit)), hn::Set(d, s.scale[b + k]),
                                   hn::Set(d, s.minimum[b + k])));
      };
      stretch(0, MoveBits<0, 4>(first), MoveBits<0, 1, 4>(high));
      stretch(1, MoveBits<4, 4>(first), MoveBits<1, 1, 4>(high));
      stretch(2, MoveBits<0, 4>(second), MoveBits<2, 1, 4>(high));
      stretch(3, MoveBits<4, 4>(second), MoveBits<3, 1, 4>(high));
    }
  }
};

struct Q6K {
  static constexpr uint32_t kBytes = 210, kStretches = kBlock, kUnit = kHalf;
  static HWY_INLINE void Prepare(F d, const uint8_t* p, uint32_t count, Scales& s) {
    for (uint32_t b = 0; b < count; b += kBlock, p += kBytes) {
      const V scale = hn::Set(d, HalfAt(p + 208));
      for (uint32_t i = 0; i < 16; i += uint32_t(hn::Lanes(d))) {
        const V scaled = hn::Mul(hn::ConvertTo(d, LoadSignedBytes(p + 192 + i)), scale);
        hn::Store(scaled, d, s.scale + 2 * b + i);
      }
    }
  }
  template <class Use>
  static HWY_INLINE void Unit(F d, const uint8_t* p, const Scales& s, uint32_t b, const Use& use) {
    const I di;
    const uint8_t* block = p + size_t(b / kBlock) * kBytes;
    const uint8_t *low = block + 16 * (b % kBlock), *high = block + 128 + 8 * (b % kBlock);
    SPANSCOPE_UNROLL for (size_t part = 0; part < 2; ++part) {
      const float* scale = s.scale + 2 * b + part;
      SPANSCOPE_UNROLL for (size_t j = 16 * part; j < 16 * part + 16; j += hn::Lanes(d)) {
        const auto first = LoadBytes(low + j), second = LoadBytes(low + 32 + j), two = LoadBytes(high + j);
        const auto stretch = [&](uint32_t k, hn::Vec<I> four, hn::Vec<I> above) HWY_ATTR {
          const auto quant = hn::Sub(hn::Or(four, above), hn::Set(di, 32));
          use(32 * k + j, hn::Mul(hn::ConvertTo(d, quant), hn::Set(d, scale[2 * k])));
        };
        stretch(0, MoveBits<0, 4>(first), MoveBits<0, 2, 4>(two));
        stretch(1, MoveBits<0, 4>(second), MoveBits<2, 2, 4>(two));
        stretch(2, MoveBits<4, 4>(first), MoveBits<4, 2, 4>(two));
        stretch(3, MoveBits<4, 4>(second), MoveBits<6, 2, 4>(two));
      }
    }
  }
};

struct Iq4Xs {
  static constexpr uint32_t kBytes = 136, kStretches = kBlock, kUnit = kHalf;
  static HWY_INLINE void Prepare(F, const uint8_t* p, uint32_t count, Scales& s) {
    for (uint32_t b = 0; b < count; b += kBlock, p += kBytes) {
      // Eight 6-bit numbers: their low four bits side by side in a word, their high two in a half of one.
      const I4 di;
      const hn::RebindToUnsigned<F4> du;
      const float scale = HalfAt(p);
      const uint32_t high = uint32_t(p[2]) | uint32_t(p[3]) << 8, low = Word(p + 4);
      for (uint32_t i = 0; i < kBlock; i += uint32_t(hn::Lanes(di))) {
        const auto place = hn::Iota(du, i), two = hn::Add(place, place);
        const auto below = hn::And(hn::Shr(hn::Set(du, low), hn::Add(two, two)), hn::Set(du, 15));
        const auto above = hn::And(hn::Shr(hn::Set(du, high), two), hn::Set(du, 3));
        StoreScales(hn::BitCast(di, hn::Or(below, hn::ShiftLeft<4>(above))), -32, scale, s.scale + b + i);
      }
    }
  }
  template <class Use>
  static HWY_INLINE void Unit(F d, const uint8_t* p, const Scales& s, uint32_t b, const Use& use) {
    const uint8_t* q = p + size_t(b / kBlock) * kBytes + 8 + 16 * (b % kBlock);
    SPANSCOPE_UNROLL for (uint32_t k = 0; k < kHalf; ++k, q += 16) {
      const SixteenValues weights(d, kIq4Floats, hn::Set(d, s.scale[b + k]));
      SPANSCOPE_UNROLL for (size_t j = 0; j < 16; j += hn::Lanes(d)) {
        const auto both = LoadBytes(q + j);
        use(32 * k + j, weights(d, both));
        use(32 * k + 16 + j, weights(d, hn::ShiftRight<4>(both)));
      }
    }
  }
};

void FewRowProduct256(const WeightMatrix& w, uint32_t first, uint32_t count, const float* x, size_t x_stride,
                      uint32_t rows, float* out, size_t out_stride) {
  switch (w.type) {
    case TensorType::q2_k:
      return Product<Q2K>(w, first, count, x, x_stride, rows, out, out_stride);
    case TensorType::q3_k:
      return Product<Q3K>(w, first, count, x, x_stride, rows, out, out_stride);
    case TensorType::q4_k:
      return Product<Q4K>(w, first, count, x, x_stride, rows, out, out_stride);
    case TensorType::q5_k:
      return Product<Q5K>(w, first, count, x, x_stride, rows, out, out_stride);
    case TensorType::q6_k:
      return Product<Q6K>(w, first, count, x, x_stride, rows, out, out_stride);
    case TensorType::iq4_xs:
      return Product<Iq4Xs>(w, first, count, x, x_stride, rows, out, out_stride);
    default:
      return;  // few_row_product() sends no other
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace fast
}  // namespace spanscope
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spanscope::fast {
HWY_EXPORT(FewRowProduct256);

void few_row_product_256(const WeightMatrix& w, uint32_t first, uint32_t count, const float* x,
                         size_t x_stride, uint32_t rows, float* out, size_t out_stride) {
  HWY_DYNAMIC_DISPATCH(FewRowProduct256)(w, first, count, x, x_stride, rows, out, out_stride);
}
}  // namespace spanscope::fast
#endif
