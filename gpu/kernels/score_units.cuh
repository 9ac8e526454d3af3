// SPDX-License-Identifier: GPL-3.0-or-later
// The two matrix products of attention for one warp (16 query rows x 64 keys), in the precisions that there are:
//   Exact  float32 operands as three TF32 products (big x big + big x small + small x big), error near float32's;
//   Half   f16 or bf16 operands, sums in float32.
// Scores come as fragments s[8][4]: of key block n (8 keys) row g: s[n][0..1] (keys 2t, 2t+1), row g+8: s[n][2..3].
#pragma once
#include "gpu/kernels/params.h"

namespace spanscope::gpu {

struct Exact {
  using Element = float;
  static SPANSCOPE_DEVICE float element(float x) { return x; }
  static SPANSCOPE_DEVICE float widen(float x) { return x; }
};
struct HalfF16 {
  using Element = uint16_t;
  static SPANSCOPE_DEVICE uint16_t element(float x) { return to_f16(x); }
  static SPANSCOPE_DEVICE float widen(uint16_t x) { return from_f16(x); }
  static SPANSCOPE_DEVICE void mma(float* d, const uint32_t* a, const uint32_t* b) { mma_f16(d, a, b); }
};
struct HalfBf16 {
  using Element = uint16_t;
  static SPANSCOPE_DEVICE uint16_t element(float x) { return to_bf16(x); }
  static SPANSCOPE_DEVICE float widen(uint16_t x) { return from_bf16(x); }
  static SPANSCOPE_DEVICE void mma(float* d, const uint32_t* a, const uint32_t* b) { mma_bf16(d, a, b); }
};

// Rows are padded by 16 bytes: the lanes of a fragment then read 32 different banks.
template <class Element, uint32_t kDim>
inline constexpr uint32_t kRowStride = kDim + 16 / uint32_t(sizeof(Element));

struct Split {
  uint32_t big, small;
};
SPANSCOPE_DEVICE Split split(float x) {
  const uint32_t big = to_tf32(x);
  return {big, to_tf32(x - float_of(big))};
}
// d += a b to nearly float32.
SPANSCOPE_DEVICE void mma_split(float* d, const Split* a, const Split* b) {
  const uint32_t ab[4] = {a[0].big, a[1].big, a[2].big, a[3].big}, as[4] = {a[0].small, a[1].small, a[2].small, a[3].small};
  const uint32_t bb[2] = {b[0].big, b[1].big}, bs[2] = {b[0].small, b[1].small};
  mma_tf32(d, as, bb);
  mma_tf32(d, ab, bs);
  mma_tf32(d, ab, bb);
}

// s += Q K^T of the warp's rows [row0, row0 + 16) of q and the 64 rows of k, both kDim wide and padded.
template <class Mode, uint32_t kDim>
SPANSCOPE_DEVICE void add_products(float (*s)[4], const Shared<typename Mode::Element>& q, const Shared<typename Mode::Element>& k, uint32_t row0,
                                   uint32_t lane) {
  constexpr uint32_t kStride = kRowStride<typename Mode::Element, kDim>;
  const uint32_t g = lane / 4, t = lane % 4;
  if constexpr (sizeof(typename Mode::Element) == 4) {
    for (uint32_t c = 0; c < kDim; c += 8) {
      const Split a[4] = {split(q.get((row0 + g) * kStride + c + t)), split(q.get((row0 + g + 8) * kStride + c + t)),
                          split(q.get((row0 + g) * kStride + c + t + 4)), split(q.get((row0 + g + 8) * kStride + c + t + 4))};
      SPANSCOPE_UNROLL
      for (uint32_t n = 0; n < 8; ++n) {
        const Split b[2] = {split(k.get((n * 8 + g) * kStride + c + t)), split(k.get((n * 8 + g) * kStride + c + t + 4))};
        mma_split(s[n], a, b);
      }
    }
  } else {
    for (uint32_t c = 0; c < kDim; c += 16) {
      uint32_t a[4];
      load_matrix_x4(a, q, (row0 + lane % 16) * kStride + c + lane / 16 * 8);
      SPANSCOPE_UNROLL
      for (uint32_t n = 0; n < 8; n += 2) {
        // Matrices: keys n*8.. at c, at c + 8; keys (n+1)*8.. at c, at c + 8.
        uint32_t b[4];
        load_matrix_x4(b, k, (n * 8 + lane / 16 * 8 + lane % 8) * kStride + c + lane / 8 % 2 * 8);
        Mode::mma(s[n], a, b);
        Mode::mma(s[n + 1], a, b + 2);
      }
    }
  }
}

template <class Mode, uint32_t kDim>
SPANSCOPE_DEVICE void scores(float (*s)[4], const Shared<typename Mode::Element>& q, const Shared<typename Mode::Element>& k, uint32_t row0,
                             uint32_t lane) {
  SPANSCOPE_UNROLL
  for (uint32_t n = 0; n < 8; ++n)
    for (uint32_t e = 0; e < 4; ++e) s[n][e] = 0;
  add_products<Mode, kDim>(s, q, k, row0, lane);
}

// o[kDim / 8][4] += P V with P the fragments s. P never leaves registers: for TF32 the keys of a block are taken in the order
// 0 2 4 6 1 3 5 7, in which a score fragment is an operand fragment already.
template <class Mode, uint32_t kDim>
SPANSCOPE_DEVICE void weigh_values(float (*o)[4], const float (*s)[4], const Shared<typename Mode::Element>& v, uint32_t lane) {
  constexpr uint32_t kStride = kRowStride<typename Mode::Element, kDim>;
  const uint32_t g = lane / 4, t = lane % 4;
  if constexpr (sizeof(typename Mode::Element) == 4) {
    SPANSCOPE_UNROLL
    for (uint32_t n = 0; n < 8; ++n) {
      const Split a[4] = {split(s[n][0]), split(s[n][2]), split(s[n][1]), split(s[n][3])};
      SPANSCOPE_UNROLL
      for (uint32_t d = 0; d < kDim / 8; ++d) {
        const Split b[2] = {split(v.get((n * 8 + 2 * t) * kStride + d * 8 + g)), split(v.get((n * 8 + 2 * t + 1) * kStride + d * 8 + g))};
        mma_split(o[d], a, b);
      }
    }
  } else {
    auto pair = [](float low, float high) { return uint32_t(Mode::element(low)) | uint32_t(Mode::element(high)) << 16; };
    SPANSCOPE_UNROLL
    for (uint32_t n = 0; n < 8; n += 2) {
      const uint32_t a[4] = {pair(s[n][0], s[n][1]), pair(s[n][2], s[n][3]), pair(s[n + 1][0], s[n + 1][1]), pair(s[n + 1][2], s[n + 1][3])};
      SPANSCOPE_UNROLL
      for (uint32_t d = 0; d < kDim / 8; d += 2) {
        // Matrices: keys n*8.., n*8+8.. at d*8; the same at d*8 + 8. Transposed: keys run along the operand's k.
        uint32_t b[4];
        load_matrix_x4_transposed(b, v, (n * 8 + lane % 16) * kStride + d * 8 + lane / 16 * 8);
        Mode::mma(o[d], a, b);
        Mode::mma(o[d + 1], a, b + 2);
      }
    }
  }
}

}  // namespace spanscope::gpu
