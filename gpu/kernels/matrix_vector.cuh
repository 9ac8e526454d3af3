// SPDX-License-Identifier: GPL-3.0-or-later
// y = W x for few rows: weights are read once, as they are stored, and become float32 in registers. One warp an output, or a
// few one after another; a lane takes every 32nd stretch of 32 weights. x lies in shared memory with one gap after 32 numbers, so that lanes that read
// the same place of their blocks read different banks.
#pragma once
#include "gpu/kernels/weight_formats.cuh"

namespace spanscope::gpu {

inline constexpr uint32_t kVectorThreads = 128;

template <class Word>
struct VectorParams {
  Global<const Word> weights;  // [outputs][cols / block elements][words of a block]
  Global<const float> x;       // [rows][cols]
  Global<const float> bias;    // [outputs] or none
  Global<float> out;           // [rows][outputs]
  uint32_t outputs = 0, cols = 0;
  uint32_t each = 1;  // outputs of a warp
};
inline uint32_t vector_shared_bytes(uint32_t cols) { return (cols + cols / 32 + 1) * 4; }

// Grid: (outputs / (4 each), rows).
template <class Format>
SPANSCOPE_KERNEL(kVectorThreads)
matrix_vector(const VectorParams<typename Format::Word> p) {
  const Shared<float> x = shared_array<float>(0, p.cols + p.cols / 32 + 1);
  const uint32_t lane = thread_x() % 32, warp = block_x() * (kVectorThreads / 32) + thread_x() / 32, row = block_y();
  for (uint32_t i = thread_x(); i < p.cols; i += kVectorThreads) x.set(i + i / 32, p.x.load(uint64_t(row) * p.cols + i));
  sync_block();
  for (uint32_t output = warp * p.each; output < p.outputs && output < (warp + 1) * p.each; ++output) {
    float sum = 0;
    const uint32_t stretches = p.cols / 32;
    const uint64_t first = output * (uint64_t(p.cols / Format::kElements) * Format::kWords);
    for (uint32_t b = lane; b < stretches; b += 32) {
      if constexpr (Format::kElements == 1) {
        SPANSCOPE_UNROLL
        for (uint32_t i = 0; i < 32; ++i) sum += Format::number(p.weights.load(first + b * 32 + i)) * x.get(b * 33 + i);
      } else {
        constexpr uint32_t kStretches = Format::kElements / 32;
        float w[32];
        const uint64_t at = first + uint64_t(b / kStretches) * Format::kWords;
        Format::widen([&](uint32_t i) { return p.weights.load(at + i); }, b % kStretches, w);
        SPANSCOPE_UNROLL
        for (uint32_t i = 0; i < 32; ++i) sum += w[i] * x.get(b * 33 + i);
      }
    }
    if constexpr (Format::kElements == 1)  // numbers behind the last whole stretch
      for (uint32_t i = stretches * 32 + lane; i < p.cols; i += 32) sum += Format::number(p.weights.load(first + i)) * x.get(i + i / 32);
    for (uint32_t bits = 16; bits > 0; bits /= 2) sum += shuffle_xor(sum, bits);
    if (lane == 0) p.out.store(uint64_t(row) * p.outputs + output, p.bias ? sum + p.bias.load(output) : sum);
  }
}

}  // namespace spanscope::gpu
