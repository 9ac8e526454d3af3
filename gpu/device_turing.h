// SPDX-License-Identifier: GPL-3.0-or-later
// What cards of compute capability 7.5 lack, with what they have: included by gpu/device_cuda.h only. They copy at once where
// later ones copy asynchronously, and have no products of TF32 and bf16 numbers: lanes pass their operands round and multiply
// in float32, which gives the same numbers (products of such operands are exact there) many times slower.
#pragma once
#include "gpu/lane_products.h"

namespace spanscope::gpu {

template <class T>
SPANSCOPE_DEVICE void copy_async(const Shared<T>& to, uint32_t i, const Global<const T>& from, uint64_t j, bool valid) {
  const uint4 zero = {0, 0, 0, 0};
  *reinterpret_cast<uint4*>(to.data + i) = valid ? *reinterpret_cast<const uint4*>(from.data + j) : zero;
}
SPANSCOPE_DEVICE void copy_commit() {}
template <int kOpen>
SPANSCOPE_DEVICE void copy_wait() {}

// Nearest, ties away from zero, to 10 bits behind the point.
SPANSCOPE_DEVICE uint32_t to_tf32(float x) {
  const uint32_t bits = __float_as_uint(x);
  return (bits & 0x7f800000u) == 0x7f800000u ? bits : (bits + 0x1000u) & ~0x1fffu;
}

SPANSCOPE_DEVICE void mma_tf32(float* d, const uint32_t* a, const uint32_t* b) { lane_mma_tf32(d, a, b); }
SPANSCOPE_DEVICE void mma_bf16(float* d, const uint32_t* a, const uint32_t* b) { lane_mma_bf16(d, a, b); }
// Half as deep as the later cards': twice.
SPANSCOPE_DEVICE void mma_f16(float* d, const uint32_t* a, const uint32_t* b) {
  SPANSCOPE_UNROLL
  for (uint32_t half = 0; half < 2; ++half)
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[2 * half]), "r"(a[2 * half + 1]), "r"(b[half]));
}

}  // namespace spanscope::gpu
