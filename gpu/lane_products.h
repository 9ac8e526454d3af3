// SPDX-License-Identifier: GPL-3.0-or-later
// The products of TF32 and bf16 fragments (gpu/device.h) by lanes that pass their operands round and multiply in float32, for
// cards without matrix instructions of these numbers. The layer of tests/gpu_host compares them with the instructions.
#pragma once
#include "gpu/device.h"

namespace spanscope::gpu {

struct LaneOperands {
  float d[4];
  uint32_t a[4], b[2];
};

// d += A B, operand k of a row or column in register `reg(k)` of the lane `at(k)` of its group of four; value() makes a number
// of a register.
template <uint32_t kDepth, class At, class Reg, class Value>
SPANSCOPE_DEVICE void lane_multiply(LaneOperands& o, At at, Reg reg, Value value) {
  const uint32_t lane = thread_x() % 32, g = lane / 4, t = lane % 4;
  SPANSCOPE_UNROLL
  for (uint32_t k = 0; k < kDepth; ++k) {
    const float low = value(shuffle(o.a[2 * reg(k)], 4 * g + at(k)), k), high = value(shuffle(o.a[2 * reg(k) + 1], 4 * g + at(k)), k);
    const float left = value(shuffle(o.b[reg(k)], 8 * t + at(k)), k), right = value(shuffle(o.b[reg(k)], 8 * t + 4 + at(k)), k);
    o.d[0] += low * left;
    o.d[1] += low * right;
    o.d[2] += high * left;
    o.d[3] += high * right;
  }
}
// Functions of their own, called: a kernel has hundreds of these products, and inlined they take minutes to compile.
SPANSCOPE_CALLED LaneOperands lane_product_tf32(LaneOperands o) {
  lane_multiply<8>(
      o, [](uint32_t k) { return k % 4; }, [](uint32_t k) { return k / 4; }, [](uint32_t v, uint32_t) { return float_of(v); });
  return o;
}
SPANSCOPE_CALLED LaneOperands lane_product_bf16(LaneOperands o) {
  lane_multiply<16>(
      o, [](uint32_t k) { return k % 8 / 2; }, [](uint32_t k) { return k / 8; },
      [](uint32_t v, uint32_t k) { return float_of(k % 2 ? v & 0xffff0000u : v << 16); });
  return o;
}

template <class Product>
SPANSCOPE_DEVICE void lane_mma(Product product, float* d, const uint32_t* a, const uint32_t* b) {
  const LaneOperands o = product({{d[0], d[1], d[2], d[3]}, {a[0], a[1], a[2], a[3]}, {b[0], b[1]}});
  for (uint32_t i = 0; i < 4; ++i) d[i] = o.d[i];
}
SPANSCOPE_DEVICE void lane_mma_tf32(float* d, const uint32_t* a, const uint32_t* b) { lane_mma([](const LaneOperands& o) { return lane_product_tf32(o); }, d, a, b); }
SPANSCOPE_DEVICE void lane_mma_bf16(float* d, const uint32_t* a, const uint32_t* b) { lane_mma([](const LaneOperands& o) { return lane_product_bf16(o); }, d, a, b); }

}  // namespace spanscope::gpu
