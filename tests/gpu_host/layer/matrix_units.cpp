// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/gpu_host/layer/matrix_units.h"

#include <bit>

#include "core/base/half.h"

namespace spanscope::gpu::layer {
namespace {

// d [16][8] += a [16][K] b [K][8], gathered from the lanes' fragments by At and Bt.
template <int K, class At, class Bt>
void multiply(void* const* lanes, At at, Bt bt) {
  float a[16][K], b[K][8];
  for (int l = 0; l < 32; ++l) {
    const MmaLane& lane = *static_cast<const MmaLane*>(lanes[l]);
    at(a, l / 4, l % 4, lane.a);
    bt(b, l / 4, l % 4, lane.b);
  }
  for (int l = 0; l < 32; ++l) {
    const MmaLane& lane = *static_cast<const MmaLane*>(lanes[l]);
    for (int e = 0; e < 4; ++e) {
      const int row = l / 4 + (e / 2) * 8, column = 2 * (l % 4) + e % 2;
      float sum = lane.d[e];
      for (int k = 0; k < K; ++k) sum += a[row][k] * b[k][column];
      lane.d[e] = sum;
    }
  }
}

// The unit looks at the upper 19 bits only.
float tf32(uint32_t x) { return std::bit_cast<float>(x & 0xffffe000u); }

template <class Widen>
void multiply_16(void* const* lanes, Widen widen) {
  auto pair = [widen](uint32_t v, float& low, float& high) {
    low = widen(uint16_t(v));
    high = widen(uint16_t(v >> 16));
  };
  multiply<16>(
      lanes,
      [pair](float (&a)[16][16], int g, int t, const uint32_t* v) {
        for (int r = 0; r < 4; ++r) pair(v[r], a[g + (r % 2) * 8][2 * t + (r / 2) * 8], a[g + (r % 2) * 8][2 * t + (r / 2) * 8 + 1]);
      },
      [pair](float (&b)[16][8], int g, int t, const uint32_t* v) {
        for (int r = 0; r < 2; ++r) pair(v[r], b[2 * t + r * 8][g], b[2 * t + r * 8 + 1][g]);
      });
}

}  // namespace

void mma_tf32_warp(void* const* lanes, uint32_t) {
  multiply<8>(
      lanes,
      [](float (&a)[16][8], int g, int t, const uint32_t* v) {
        for (int r = 0; r < 4; ++r) a[g + (r % 2) * 8][t + (r / 2) * 4] = tf32(v[r]);
      },
      [](float (&b)[8][8], int g, int t, const uint32_t* v) {
        for (int r = 0; r < 2; ++r) b[t + r * 4][g] = tf32(v[r]);
      });
}
void mma_f16_warp(void* const* lanes, uint32_t) {
  multiply_16(lanes, [](uint16_t x) { return widen_f16(x); });
}
void mma_bf16_warp(void* const* lanes, uint32_t) {
  multiply_16(lanes, [](uint16_t x) { return std::bit_cast<float>(uint32_t(x) << 16); });
}

void load_matrix_warp(void* const* lanes, uint32_t) {
  for (int l = 0; l < 32; ++l)
    for (int m = 0; m < 4; ++m) {
      const MatrixLane& from = *static_cast<const MatrixLane*>(lanes[m * 8 + l / 4]);
      static_cast<MatrixLane*>(lanes[l])->out[m] = uint32_t(from.row[2 * (l % 4)]) | uint32_t(from.row[2 * (l % 4) + 1]) << 16;
    }
}
void load_matrix_transposed_warp(void* const* lanes, uint32_t) {
  for (int l = 0; l < 32; ++l)
    for (int m = 0; m < 4; ++m) {
      const int row = 2 * (l % 4), column = l / 4;
      const auto at = [&](int r) { return uint32_t(static_cast<const MatrixLane*>(lanes[m * 8 + r])->row[column]); };
      static_cast<MatrixLane*>(lanes[l])->out[m] = at(row) | at(row + 1) << 16;
    }
}

uint32_t round_tf32(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if ((bits & 0x7f800000u) == 0x7f800000u) return bits;
  return (bits + 0x1000u) & 0xffffe000u;
}
uint16_t round_f16(float x) { return f32_to_f16(x); }
uint16_t round_bf16(float x) { return f32_to_bf16(x); }
float widen_f16(uint16_t x) { return f16_to_f32(x); }

}  // namespace spanscope::gpu::layer
