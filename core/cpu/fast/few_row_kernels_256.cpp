// SPDX-License-Identifier: GPL-3.0-or-later
// Formats with blocks of 256 elements: eight stretches of 32, with a scale each or one for each half
// (core/model/block_formats.h says what the bytes mean). Groups begin at a block, so stretch b of a group is
// stretch b % 8 of its block b / 8.
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

constexpr uint32_t kBlock = 8;  // stretches of a block

HWY_INLINE uint32_t Word(const uint8_t* p) {
  uint32_t word;
  std::memcpy(&word, p, sizeof word);
  return word;
}

// Scales of a block from `count` small numbers (8 or 16): to[i] = d * (small[i] + offset).
template <uint32_t kCount>
HWY_INLINE void ScaleAll(F f, const uint8_t* small, float d, float offset, float* to) {
  static_assert(kCount == 8 || kCount == 16);
  HWY_ALIGN float part[16];
  for (uint32_t i = 0; i < kCount; i += uint32_t(hn::Lanes(f)))
    hn::Store(hn::Mul(hn::Add(hn::ConvertTo(f, LoadBytes(small + i)), hn::Set(f, offset)), hn::Set(f, d)), f,
              part + i);
  std::memcpy(to, part, kCount * sizeof(float));
}

struct Q2K {
  static constexpr uint32_t kBytes = 84, kStretches = kBlock;
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
  static HWY_INLINE void Stretch(F d, const uint8_t* p, const Scales& s, uint32_t b, const Use& use) {
    const uint32_t in_block = b % kBlock;
    const uint8_t* q = p + size_t(b / kBlock) * kBytes + 16 + 32 * (in_block / 4);
    const int shift = int(2 * (in_block % 4));
    for (size_t part = 0; part < 2; ++part) {
      const V scale = hn::Set(d, s.scale[2 * b + part]), minimum = hn::Set(d, s.minimum[2 * b + part]);
      for (size_t j = 16 * part; j < 16 * part + 16; j += hn::Lanes(d))
        use(j, hn::MulAdd(hn::ConvertTo(d, BitsFrom(LoadBytes(q + j), shift, 2)), scale, minimum));
    }
  }
};

struct Q3K {
  static constexpr uint32_t kBytes = 110, kStretches = kBlock;
  static HWY_INLINE void Prepare(F d, const uint8_t* p, uint32_t count, Scales& s) {
    for (uint32_t b = 0; b < count; b += kBlock, p += kBytes) {
      // Sixteen 6-bit numbers: low four bits in two words' halves, high two bits in the third word.
      const uint32_t first = Word(p + 96), second = Word(p + 100), high = Word(p + 104);
      const uint32_t words[4] = {(first & 0x0f0f0f0fu) | (high & 0x03030303u) << 4,
                                 (second & 0x0f0f0f0fu) | (high >> 2 & 0x03030303u) << 4,
                                 (first >> 4 & 0x0f0f0f0fu) | (high >> 4 & 0x03030303u) << 4,
                                 (second >> 4 & 0x0f0f0f0fu) | (high >> 6 & 0x03030303u) << 4};
      uint8_t small[16];
      std::memcpy(small, words, sizeof small);
      ScaleAll<16>(d, small, HalfAt(p + 108), -32, s.scale + 2 * b);
    }
  }
  template <class Use>
  static HWY_INLINE void Stretch(F d, const uint8_t* p, const Scales& s, uint32_t b, const Use& use) {
    const uint32_t in_block = b % kBlock;
    const uint8_t *third = p + size_t(b / kBlock) * kBytes, *q = third + 32 + 32 * (in_block / 4);
    const int shift = int(2 * (in_block % 4));
    for (size_t part = 0; part < 2; ++part) {
      const V scale = hn::Set(d, s.scale[2 * b + part]), minimum = hn::Mul(scale, hn::Set(d, -4.0f));
      for (size_t j = 16 * part; j < 16 * part + 16; j += hn::Lanes(d)) {
        const auto quant = hn::Or(BitsFrom(LoadBytes(q + j), shift, 2),
                                  hn::ShiftLeft<2>(BitsFrom(LoadBytes(third + j), int(in_block), 1)));
        use(j, hn::MulAdd(hn::ConvertTo(d, quant), scale, minimum));
      }
    }
  }
};

// Q4_K and Q5_K: eight scales and eight minima of 6 bits in 12 bytes behind d and dmin. The first four of
// each lie in the low bits of the first two words; the high bits there belong to the others, whose low four
// bits are in the third word.
HWY_INLINE void PrepareSixBits(F d, const uint8_t* p, float* scale, float* minimum) {
  const uint32_t first = Word(p + 4), second = Word(p + 8), third = Word(p + 12);
  const uint32_t words[4] = {first & 0x3f3f3f3fu, (third & 0x0f0f0f0fu) | (first >> 6 & 0x03030303u) << 4,
                             second & 0x3f3f3f3fu,
                             (third >> 4 & 0x0f0f0f0fu) | (second >> 6 & 0x03030303u) << 4};
  uint8_t small[24] = {};  // minima are read as a vector of 16
  std::memcpy(small, words, sizeof words);
  ScaleAll<8>(d, small, HalfAt(p), 0, scale);
  ScaleAll<8>(d, small + 8, -HalfAt(p + 2), 0, minimum);
}

struct Q4K {
  static constexpr uint32_t kBytes = 144, kStretches = kBlock;
  static HWY_INLINE void Prepare(F d, const uint8_t* p, uint32_t count, Scales& s) {
    for (uint32_t b = 0; b < count; b += kBlock, p += kBytes)
      PrepareSixBits(d, p, s.scale + b, s.minimum + b);
  }
  template <class Use>
  static HWY_INLINE void Stretch(F d, const uint8_t* p, const Scales& s, uint32_t b, const Use& use) {
    const uint32_t in_block = b % kBlock;
    const uint8_t* q = p + size_t(b / kBlock) * kBytes + 16 + 32 * (in_block / 2);
    const int shift = int(4 * (in_block % 2));
    const FourBits weights(d, hn::Set(d, s.scale[b]), hn::Set(d, s.minimum[b]));
    const I di;
    const U du;
    for (size_t j = 0; j < 32; j += hn::Lanes(d)) {
      const auto both = hn::BitCast(du, LoadBytes(q + j));
      use(j, weights(d, hn::BitCast(di, hn::ShiftRightSame(both, shift))));
    }
  }
};

struct Q5K {
  static constexpr uint32_t kBytes = 176, kStretches = kBlock;
  static HWY_INLINE void Prepare(F d, const uint8_t* p, uint32_t count, Scales& s) {
    for (uint32_t b = 0; b < count; b += kBlock, p += kBytes)
      PrepareSixBits(d, p, s.scale + b, s.minimum + b);
  }
  template <class Use>
  static HWY_INLINE void Stretch(F d, const uint8_t* p, const Scales& s, uint32_t b, const Use& use) {
    const uint32_t in_block = b % kBlock;
    const uint8_t *fifth = p + size_t(b / kBlock) * kBytes + 16, *q = fifth + 32 + 32 * (in_block / 2);
    const int shift = int(4 * (in_block % 2));
    const V scale = hn::Set(d, s.scale[b]), minimum = hn::Set(d, s.minimum[b]);
    for (size_t j = 0; j < 32; j += hn::Lanes(d)) {
      const auto quant = hn::Or(BitsFrom(LoadBytes(q + j), shift, 4),
                                hn::ShiftLeft<4>(BitsFrom(LoadBytes(fifth + j), int(in_block), 1)));
      use(j, hn::MulAdd(hn::ConvertTo(d, quant), scale, minimum));
    }
  }
};

struct Q6K {
  static constexpr uint32_t kBytes = 210, kStretches = kBlock;
  static HWY_INLINE void Prepare(F d, const uint8_t* p, uint32_t count, Scales& s) {
    for (uint32_t b = 0; b < count; b += kBlock, p += kBytes) {
      const V scale = hn::Set(d, HalfAt(p + 208));
      for (uint32_t i = 0; i < 16; i += uint32_t(hn::Lanes(d)))
        hn::Store(hn::Mul(hn::ConvertTo(d, LoadSignedBytes(p + 192 + i)), scale), d, s.scale + 2 * b + i);
    }
  }
  template <class Use>
  static HWY_INLINE void Stretch(F d, const uint8_t* p, const Scales& s, uint32_t b, const Use& use) {
    const uint32_t in_block = b % kBlock, half = in_block / 4, quarter = in_block % 4;
    const uint8_t* block = p + size_t(b / kBlock) * kBytes;
    const uint8_t *low = block + 64 * half + 32 * (quarter % 2), *high = block + 128 + 32 * half;
    for (size_t part = 0; part < 2; ++part) {
      const V scale = hn::Set(d, s.scale[2 * b + part]), minimum = hn::Mul(scale, hn::Set(d, -32.0f));
      for (size_t j = 16 * part; j < 16 * part + 16; j += hn::Lanes(d)) {
        const auto quant = hn::Or(BitsFrom(LoadBytes(low + j), int(4 * (quarter / 2)), 4),
                                  hn::ShiftLeft<4>(BitsFrom(LoadBytes(high + j), int(2 * quarter), 2)));
        use(j, hn::MulAdd(hn::ConvertTo(d, quant), scale, minimum));
      }
    }
  }
};

struct Iq4Xs {
  static constexpr uint32_t kBytes = 136, kStretches = kBlock;
  static HWY_INLINE void Prepare(F d, const uint8_t* p, uint32_t count, Scales& s) {
    for (uint32_t b = 0; b < count; b += kBlock, p += kBytes) {
      const uint32_t high = uint32_t(p[2]) | uint32_t(p[3]) << 8, low = Word(p + 4);
      uint8_t small[16] = {};
      for (uint32_t i = 0; i < kBlock; ++i)
        small[i] = uint8_t((low >> 4 * i & 15) | (high >> 2 * i & 3) << 4);
      ScaleAll<8>(d, small, HalfAt(p), -32, s.scale + b);
    }
  }
  template <class Use>
  static HWY_INLINE void Stretch(F d, const uint8_t* p, const Scales& s, uint32_t b, const Use& use) {
    const uint8_t* q = p + size_t(b / kBlock) * kBytes + 8 + 16 * (b % kBlock);
    const SixteenValues weights(d, kIq4Floats, hn::Set(d, s.scale[b]));
    for (size_t j = 0; j < 16; j += hn::Lanes(d)) {
      const auto both = LoadBytes(q + j);
      use(j, weights(d, both));
      use(j + 16, weights(d, hn::ShiftRight<4>(both)));
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
