// SPDX-License-Identifier: GPL-3.0-or-later
// Keys from before rotation: kept beside the cache's pages, and rotated again when a key gets another position. Rotation is
// the one of row_ops.cuh, so a moved key has the bits of a key that was made there.
#pragma once
#include "gpu/kernels/params.h"

namespace spanscope::gpu {

inline constexpr uint32_t kMoveThreads = 128;

struct KeepParams {
  Global<const float> keys;  // [rows][kv heads][dim], not rotated
  Global<float> originals;   // [pages][kv heads][16][dim]
  Global<const uint32_t> page_of;
  uint32_t rows = 0, kv_heads = 0, dim = 0, first_slot = 0;
};
// Grid: enough threads for rows x kv heads x dim.
SPANSCOPE_KERNEL(kMoveThreads) keep_originals(const KeepParams p) {
  const uint32_t i = block_x() * kMoveThreads + thread_x();
  if (i >= p.rows * p.kv_heads * p.dim) return;
  const uint32_t d = i % p.dim, head = i / p.dim % p.kv_heads, slot = p.first_slot + i / p.dim / p.kv_heads;
  const uint64_t page = p.page_of.load(slot / kPage);
  p.originals.store(((page * p.kv_heads + head) * kPage + slot % kPage) * p.dim + d, p.keys.load(i));
}

struct MoveKeysParams {
  Global<const float> originals;        // [pages][kv heads][16][dim]
  Global<float> pool;                   // [pages][kv heads][key, value][16][dim]
  Global<uint16_t> half_pool;           // instead of pool: f16
  Global<const uint32_t> page_of, slots;  // slots: [moved]
  Global<const float> cosines, sines;   // [moved][pairs], of the new positions
  uint32_t moved = 0, kv_heads = 0, dim = 0, pairs = 0;
  bool interleaved = false;
};
// Grid: enough threads for moved x kv heads x pairs. Dimensions that do not rotate are in place already.
SPANSCOPE_KERNEL(kMoveThreads) move_keys(const MoveKeysParams p) {
  const uint32_t i = block_x() * kMoveThreads + thread_x();
  if (i >= p.moved * p.kv_heads * p.pairs) return;
  const uint32_t pair = i % p.pairs, head = i / p.pairs % p.kv_heads, which = i / p.pairs / p.kv_heads, slot = p.slots.load(which);
  const uint64_t page = p.page_of.load(slot / kPage) * uint64_t(p.kv_heads) + head;
  const uint32_t first = p.interleaved ? 2 * pair : pair, second = first + (p.interleaved ? 1 : p.pairs);
  const uint64_t from = (page * kPage + slot % kPage) * p.dim, to = (page * 2 * kPage + slot % kPage) * p.dim;
  const float c = p.cosines.load(uint64_t(which) * p.pairs + pair), s = p.sines.load(uint64_t(which) * p.pairs + pair);
  const float a = p.originals.load(from + first), b = p.originals.load(from + second);
  const float x = a * c - b * s, y = a * s + b * c;
  if (p.half_pool) {
    p.half_pool.store(to + first, to_f16(x));
    p.half_pool.store(to + second, to_f16(y));
    return;
  }
  p.pool.store(to + first, x);
  p.pool.store(to + second, y);
}

}  // namespace spanscope::gpu
