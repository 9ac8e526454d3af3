// SPDX-License-Identifier: GPL-3.0-or-later
// The matrix instructions of a warp as their defined arithmetic. Products are exact, sums are float32 in ascending k;
// hardware may add in another order and with a wider or truncated intermediate: tests must not depend on it.
#pragma once
#include <cstdint>

namespace spanscope::gpu::layer {

struct MmaLane {
  float* d;           // [4]
  const uint32_t* a;  // [4]
  const uint32_t* b;  // [2]
};
void mma_tf32_warp(void* const* lanes, uint32_t mask);
void mma_f16_warp(void* const* lanes, uint32_t mask);
void mma_bf16_warp(void* const* lanes, uint32_t mask);

struct MatrixLane {
  uint16_t row[8];
  uint32_t* out;  // [4]
};
void load_matrix_warp(void* const* lanes, uint32_t mask);
void load_matrix_transposed_warp(void* const* lanes, uint32_t mask);

uint32_t round_tf32(float x);  // nearest, ties away from zero, as cvt.rna does
uint16_t round_f16(float x);   // nearest even
uint16_t round_bf16(float x);
float widen_f16(uint16_t x);

}  // namespace spanscope::gpu::layer
