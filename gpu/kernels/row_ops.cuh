// SPDX-License-Identifier: GPL-3.0-or-later
// What happens to rows between products: norms, rotation, activation, residuals, biases, the cache's writes. All of them move
// each number once in and once out; none needs more than 64 registers.
#pragma once
#include "gpu/kernels/params.h"

namespace spanscope::gpu {

inline constexpr uint32_t kRowThreads = 128;

// Sum over the block, the same in every thread. scratch [4]
SPANSCOPE_DEVICE float block_sum(float x, const Shared<float>& scratch) {
  for (uint32_t bits = 16; bits > 0; bits /= 2) x += shuffle_xor(x, bits);
  sync_block();  // the last sum has been read
  if (thread_x() % 32 == 0) scratch.set(thread_x() / 32, x);
  sync_block();
  return (scratch.get(0) + scratch.get(1)) + (scratch.get(2) + scratch.get(3));
}

struct NormParams {
  Global<const float> in, weight, bias;  // [rows][width], [width], [width] or none
  Global<float> out;                     // may be `in`
  uint32_t width = 0;
  float eps = 0;
  bool centre = false;  // layer norm: the mean is taken off; else RMS norm
};
// Grid: rows. Shared: 16 bytes.
SPANSCOPE_KERNEL(kRowThreads) norm_rows(const NormParams p) {
  const Shared<float> scratch = shared_array<float>(0, 4);
  const uint64_t row = uint64_t(block_x()) * p.width;
  float mean = 0;
  if (p.centre) {
    float sum = 0;
    for (uint32_t i = thread_x(); i < p.width; i += kRowThreads) sum += p.in.load(row + i);
    mean = block_sum(sum, scratch) / float(p.width);
  }
  float squares = 0;
  for (uint32_t i = thread_x(); i < p.width; i += kRowThreads) {
    const float x = p.in.load(row + i) - mean;
    squares += x * x;
  }
  const float inverse = 1.0f / square_root(block_sum(squares, scratch) / float(p.width) + p.eps);
  for (uint32_t i = thread_x(); i < p.width; i += kRowThreads) {
    const float x = p.weight.load(i) * ((p.in.load(row + i) - mean) * inverse);
    p.out.store(row + i, p.bias ? x + p.bias.load(i) : x);
  }
}

struct RotateParams {
  Global<const float> cosines, sines;  // [rows][pairs]
  Global<float> x;                     // [rows][heads][dim]
  uint32_t rows = 0, heads = 0, dim = 0, pairs = 0;
  bool interleaved = false;  // pairs (2i, 2i+1), else (i, i + pairs)
};
// Grid: enough threads for rows x heads x pairs.
SPANSCOPE_KERNEL(kRowThreads) rotate_rows(const RotateParams p) {
  const uint32_t i = block_x() * kRowThreads + thread_x();
  if (i >= p.rows * p.heads * p.pairs) return;
  const uint32_t pair = i % p.pairs, head = i / p.pairs % p.heads, row = i / p.pairs / p.heads;
  const uint64_t at = (uint64_t(row) * p.heads + head) * p.dim + (p.interleaved ? 2 * pair : pair), apart = p.interleaved ? 1 : p.pairs;
  const float c = p.cosines.load(uint64_t(row) * p.pairs + pair), s = p.sines.load(uint64_t(row) * p.pairs + pair);
  const float a = p.x.load(at), b = p.x.load(at + apart);
  p.x.store(at, a * c - b * s);
  p.x.store(at + apart, a * s + b * c);
}

struct StoreParams {
  Global<const float> keys, values;  // [rows][kv heads][dim]
  Global<float> pool;
  Global<uint16_t> half_pool;        // instead of pool: f16
  Global<const uint32_t> page_of;
  uint32_t rows = 0, kv_heads = 0, dim = 0, first_slot = 0;
};
// New keys and values into their pages. Grid: enough threads for rows x kv heads x dim.
SPANSCOPE_KERNEL(kRowThreads) store_rows(const StoreParams p) {
  const uint32_t i = block_x() * kRowThreads + thread_x();
  if (i >= p.rows * p.kv_heads * p.dim) return;
  const uint32_t d = i % p.dim, head = i / p.dim % p.kv_heads, slot = p.first_slot + i / p.dim / p.kv_heads;
  const uint64_t page = p.page_of.load(slot / kPage), at = ((page * p.kv_heads + head) * 2 * kPage + slot % kPage) * p.dim + d;
  if (p.half_pool) {
    p.half_pool.store(at, to_f16(p.keys.load(i)));
    p.half_pool.store(at + uint64_t(kPage) * p.dim, to_f16(p.values.load(i)));
    return;
  }
  p.pool.store(at, p.keys.load(i));
  p.pool.store(at + uint64_t(kPage) * p.dim, p.values.load(i));
}

enum class Act : uint8_t { silu, gelu_tanh, gelu_erf, swiglu_clamped };
SPANSCOPE_DEVICE float activated(Act kind, float x) {
  if (kind == Act::silu) return x / (1.0f + exponential(-x));
  if (kind == Act::gelu_tanh) return 0.5f * x * (1.0f + tangent_hyperbolic(0.7978845608028654f * (x + 0.044715f * x * x * x)));
  return 0.5f * x * (1.0f + error_function(x * 0.7071067811865476f));
}
struct ActivateParams {
  Global<const float> gate;  // none: not gated
  Global<float> up;          // in and out
  uint32_t count = 0;
  Act kind = Act::silu;
  float limit = 0, alpha = 0;  // of swiglu_clamped
};
SPANSCOPE_KERNEL(kRowThreads) activate_rows(const ActivateParams p) {
  const uint32_t i = block_x() * kRowThreads + thread_x();
  if (i >= p.count) return;
  const float u = p.up.load(i);
  if (p.kind == Act::swiglu_clamped) {
    const float x = p.gate.load(i), g = x < p.limit ? x : p.limit, v = u < -p.limit ? -p.limit : u > p.limit ? p.limit : u;
    p.up.store(i, (v + 1.0f) * (g / (1.0f + exponential(-p.alpha * g))));
  } else {
    p.up.store(i, p.gate ? u * activated(p.kind, p.gate.load(i)) : activated(p.kind, u));
  }
}

struct AddParams {
  Global<const float> from;  // [count], or [width] repeated
  Global<float> to;
  uint32_t count = 0, width = 0;  // width 0: from has `count`
  float scale = 1;
};
SPANSCOPE_KERNEL(kRowThreads) add_rows(const AddParams p) {
  const uint32_t i = block_x() * kRowThreads + thread_x();
  if (i < p.count) p.to.store(i, p.to.load(i) + p.scale * p.from.load(p.width ? i % p.width : i));
}

struct CapParams {
  Global<float> x;
  uint32_t count = 0;
  float scale = 1, cap = 0;  // cap 0: none
};
SPANSCOPE_KERNEL(kRowThreads) cap_logits(const CapParams p) {
  const uint32_t i = block_x() * kRowThreads + thread_x();
  if (i >= p.count) return;
  const float x = p.x.load(i) * p.scale;
  p.x.store(i, p.cap != 0 ? p.cap * tangent_hyperbolic(x / p.cap) : x);
}

struct MoveParams {
  Global<const float> from, weight;  // [chosen or rows][width], [chosen] or none
  Global<float> to;
  Global<const uint32_t> row_of;  // [chosen]
  uint32_t chosen = 0, width = 0;
};
SPANSCOPE_KERNEL(kRowThreads) gather_rows(const MoveParams p) {
  const uint32_t i = block_x() * kRowThreads + thread_x();
  if (i < p.chosen * p.width) p.to.store(i, p.from.load(uint64_t(p.row_of.load(i / p.width)) * p.width + i % p.width));
}
// to[row_of[c]] += weight[c] * from[c]; a row is chosen once at most.
SPANSCOPE_KERNEL(kRowThreads) scatter_rows(const MoveParams p) {
  const uint32_t i = block_x() * kRowThreads + thread_x();
  if (i >= p.chosen * p.width) return;
  const uint64_t at = uint64_t(p.row_of.load(i / p.width)) * p.width + i % p.width;
  p.to.store(at, p.to.load(at) + p.weight.load(i / p.width) * p.from.load(i));
}

}  // namespace spanscope::gpu
