// SPDX-License-Identifier: GPL-3.0-or-later
// y = W x for few rows: weights are read once, as they are stored, and become float32 in registers. One warp an output, or a
// few one after another; a lane takes every 32nd block of 32 weights. x lies in shared memory with one gap after 32 numbers, so that lanes that read
// the same place of their blocks read different banks.
#pragma once
#include "gpu/kernels/params.h"

namespace spanscope::gpu {

inline constexpr uint32_t kVectorThreads = 128;

// A stored format: how many words of `Word` a block of 32 weights has, and its weights.  // out [32]
struct FormatF32 {
  using Word = uint32_t;
  static constexpr uint32_t kWords = 32;
  template <class Load>
  static SPANSCOPE_DEVICE void widen(Load load, float* out) {
    SPANSCOPE_UNROLL
    for (uint32_t i = 0; i < 32; ++i) out[i] = float_of(load(i));
  }
};
struct FormatF16 {
  using Word = uint16_t;
  static constexpr uint32_t kWords = 32;
  template <class Load>
  static SPANSCOPE_DEVICE void widen(Load load, float* out) {
    SPANSCOPE_UNROLL
    for (uint32_t i = 0; i < 32; ++i) out[i] = from_f16(load(i));
  }
};
struct FormatBf16 {
  using Word = uint16_t;
  static constexpr uint32_t kWords = 32;
  template <class Load>
  static SPANSCOPE_DEVICE void widen(Load load, float* out) {
    SPANSCOPE_UNROLL
    for (uint32_t i = 0; i < 32; ++i) out[i] = from_bf16(load(i));
  }
};
struct FormatQ8_0 {  // f16 scale, 32 signed bytes
  using Word = uint16_t;
  static constexpr uint32_t kWords = 17;
  template <class Load>
  static SPANSCOPE_DEVICE void widen(Load load, float* out) {
    const float d = from_f16(load(0));
    SPANSCOPE_UNROLL
    for (uint32_t i = 0; i < 16; ++i) {
      const uint32_t pair = load(1 + i);
      out[2 * i] = d * float(int8_t(pair & 0xff));
      out[2 * i + 1] = d * float(int8_t(pair >> 8));
    }
  }
};
struct FormatQ4_1 {  // f16 scale and minimum, 32 numbers of 4 bits: low halves first
  using Word = uint32_t;
  static constexpr uint32_t kWords = 5;
  template <class Load>
  static SPANSCOPE_DEVICE void widen(Load load, float* out) {
    const uint32_t head = load(0);
    const float d = from_f16(uint16_t(head)), m = from_f16(uint16_t(head >> 16));
    SPANSCOPE_UNROLL
    for (uint32_t i = 0; i < 16; ++i) {
      const uint32_t byte = load(1 + i / 4) >> (i % 4 * 8) & 0xff;
      out[i] = d * float(byte & 15) + m;
      out[i + 16] = d * float(byte >> 4) + m;
    }
  }
};

template <class Word>
struct VectorParams {
  Global<const Word> weights;  // [outputs][cols / 32 blocks][words]; formats of single numbers: cols words a row
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
    const uint32_t blocks = p.cols / 32;
    const uint64_t stride = Format::kWords == 32 ? uint64_t(p.cols) : uint64_t(blocks) * Format::kWords, first = output * stride;
    for (uint32_t b = lane; b < blocks; b += 32) {
      float w[32];
      const uint64_t at = first + uint64_t(b) * Format::kWords;
      Format::widen([&](uint32_t i) { return p.weights.load(at + i); }, w);
      SPANSCOPE_UNROLL
      for (uint32_t i = 0; i < 32; ++i) sum += w[i] * x.get(b * 33 + i);
    }
    if constexpr (Format::kWords == 32) {  // numbers behind the last whole block
      for (uint32_t i = blocks * 32 + lane; i < p.cols; i += 32) {
        const typename Format::Word word = p.weights.load(first + i);
        float w[32];
        Format::widen([&](uint32_t) { return word; }, w);
        sum += w[0] * x.get(i + i / 32);
      }
    }
    for (uint32_t bits = 16; bits > 0; bits /= 2) sum += shuffle_xor(sum, bits);
    if (lane == 0) p.out.store(uint64_t(row) * p.outputs + output, p.bias ? sum + p.bias.load(output) : sum);
  }
}

}  // namespace spanscope::gpu
