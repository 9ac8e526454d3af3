// SPDX-License-Identifier: GPL-3.0-or-later
// Decode attention: few rows, so the keys are split into partitions of 512 (split-K over the paged cache). A block has one
// row, one partition and up to 8 query heads that share its keys: all scores of the partition fit in shared memory, so its
// maximum is known before anything is added up, and each key and value is read once for all heads. Partial sums, outputs
// and, with a plan, one sum per segment (a piece of a leaf inside the partition) are relative to the partition's maximum;
// join_partitions puts them under a common one and folds the masses.
#pragma once
#include "gpu/kernels/fold.cuh"
#include "gpu/kernels/score_units.cuh"

namespace spanscope::gpu {

inline constexpr uint32_t kDecodeThreads = 128, kDecodeHeads = 8;

template <class Element, uint32_t kDim>
struct DecodeShared {
  static constexpr uint32_t kTile = kTileKeys * kRowStride<Element, kDim>;
  static constexpr uint32_t kKeys = 0, kQ = 2 * kTile * uint32_t(sizeof(Element));  // two tiles in turn
  static constexpr uint32_t kP = kQ + kDecodeHeads * kDim * 4;
  static constexpr uint32_t kBytes = kP + kDecodeHeads * kPartKeys * 4;
};

template <class Element, uint32_t kDim>
SPANSCOPE_DEVICE void fetch_part(const AttentionParams<Element>& p, const Shared<Element>& to, uint32_t tile, uint32_t end, uint32_t kv_head,
                                 uint32_t value) {
  constexpr uint32_t kPiece = 16 / sizeof(Element), kPieces = kDim / kPiece;
  const uint32_t buffer = tile % 2 * kTileKeys;
  for (uint32_t i = thread_x(); i < kTileKeys * kPieces; i += kDecodeThreads) {
    const uint32_t row = i / kPieces, column = i % kPieces * kPiece, slot = tile * kTileKeys + row;
    const bool valid = slot < end;
    const uint64_t page = valid ? p.page_of.load(slot / kPage) : 0;
    const uint64_t from = (((page * p.kv_heads + kv_head) * 2 + value) * kPage + slot % kPage) * kDim + column;
    copy_async(to, (buffer + row) * kRowStride<Element, kDim> + column, p.pool, from, valid);
  }
}

// Grid: (partitions, KV heads, rows * head chunks).
template <class Mode, uint32_t kDim, bool kPlanned>
SPANSCOPE_KERNEL(kDecodeThreads)
decode_attention(const AttentionParams<typename Mode::Element> p) {
  using Element = typename Mode::Element;
  using Layout = DecodeShared<Element, kDim>;
  constexpr uint32_t kStride = kRowStride<Element, kDim>, kOwn = kDecodeHeads * kDim / kDecodeThreads;
  const uint32_t part = block_x(), kv_head = block_y(), group = p.heads / p.kv_heads, chunks = (group + kDecodeHeads - 1) / kDecodeHeads;
  const uint32_t row = block_z() / chunks, chunk = block_z() % chunks, thread = thread_x(), lane = thread % 32;
  const uint32_t head0 = kv_head * group + chunk * kDecodeHeads;
  const uint32_t heads = group - chunk * kDecodeHeads < kDecodeHeads ? group - chunk * kDecodeHeads : kDecodeHeads;
  const uint32_t row_first = p.row_first.load(row), row_end = p.row_end.load(row), part_first = part * kPartKeys;
  const uint32_t first = row_first > part_first ? row_first : part_first;
  const uint32_t end = row_end < part_first + kPartKeys ? row_end : part_first + kPartKeys;
  const Shared<Element> keys = shared_array<Element>(Layout::kKeys, 2 * Layout::kTile);
  const Shared<float> q = shared_array<float>(Layout::kQ, kDecodeHeads * kDim), weight = shared_array<float>(Layout::kP, kDecodeHeads * kPartKeys);
  const uint64_t cell0 = (uint64_t(row) * p.heads + head0) * p.parts + part;  // of head h: + h * parts

  if (first >= end) {  // nothing visible here: the partition weighs nothing
    if (thread < heads) {
      p.part_max.store(cell0 + thread * p.parts, -infinity());
      p.part_sum.store(cell0 + thread * p.parts, 0.0f);
    }
    return;
  }
  const uint32_t first_tile = first / kTileKeys, last_tile = (end + kTileKeys - 1) / kTileKeys;
  fetch_part<Element, kDim>(p, keys, first_tile, end, kv_head, 0);
  copy_commit();
  for (uint32_t i = thread; i < heads * kDim; i += kDecodeThreads)
    q.set(i, p.q.load((uint64_t(row) * p.heads + head0) * kDim + i));
  for (uint32_t tile = first_tile; tile < last_tile; ++tile) {
    if (tile + 1 < last_tile) fetch_part<Element, kDim>(p, keys, tile + 1, end, kv_head, 0);
    copy_commit();
    if (!kMutant<8>) copy_wait<1>();
    sync_block();
    const uint32_t key = thread % kTileKeys, slot = tile * kTileKeys + key, base = (tile % 2 * kTileKeys + key) * kStride;
    for (uint32_t h = thread / kTileKeys; h < heads; h += kDecodeThreads / kTileKeys) {
      float x = 0;
      for (uint32_t d = 0; d < kDim; ++d) x += q.get(h * kDim + d) * Mode::widen(keys.get(base + d));
      x *= p.scale;
      if (p.score_cap != 0) x = p.score_cap * tangent_hyperbolic(x / p.score_cap);
      weight.set(h * kPartKeys + slot - part_first, slot >= first && slot < end ? x : -infinity());
    }
    sync_block();
  }
  fetch_part<Element, kDim>(p, keys, first_tile, end, kv_head, 1);
  copy_commit();

  // One warp a head: the partition's maximum, exponentials, their sum.
  const uint32_t from = first_tile * kTileKeys - part_first, to = last_tile * kTileKeys - part_first;
  for (uint32_t h = thread / 32; h < heads; h += kDecodeThreads / 32) {
    float max = -infinity(), sum = 0;
    for (uint32_t i = from + lane; i < to; i += 32) {
      const float x = weight.get(h * kPartKeys + i);
      max = x > max ? x : max;
    }
    for (uint32_t bits = 16; bits > 0; bits /= 2) {
      const float other = shuffle_xor(max, bits);
      max = other > max ? other : max;
    }
    for (uint32_t i = from + lane; i < to; i += 32) {
      const float e = exponential(weight.get(h * kPartKeys + i) - max);
      weight.set(h * kPartKeys + i, e);
      sum += e;
    }
    for (uint32_t bits = 16; bits > 0; bits /= 2) sum += shuffle_xor(sum, bits);
    if (lane == 0) {
      p.part_max.store(cell0 + h * p.parts, max);
      p.part_sum.store(cell0 + h * p.parts, sum);
    }
  }
  sync_block();

  if constexpr (kPlanned) {
    const uint32_t segment = p.part_segment.load(part), count = p.part_segment.load(part + 1) - segment;
    for (uint32_t i = thread; i < count * heads; i += kDecodeThreads) {
      const uint32_t s = segment + i % count, h = i / count;
      const uint32_t begin = p.segment_begin.load(s), finish = p.segment_end.load(s) + (kMutant<7> ? 1 : 0);
      float total = 0;
      for (uint32_t slot = begin > first ? begin : first; slot < (finish < end ? finish : end); ++slot)
        total += weight.get(h * kPartKeys + slot - part_first);
      p.part_segment_sum.store((uint64_t(row) * p.heads + head0 + h) * p.segments + s, total);
    }
  }

  float out[kOwn];
  SPANSCOPE_UNROLL
  for (uint32_t i = 0; i < kOwn; ++i) out[i] = 0;
  for (uint32_t tile = first_tile; tile < last_tile; ++tile) {
    if (tile + 1 < last_tile) fetch_part<Element, kDim>(p, keys, tile + 1, end, kv_head, 1);
    copy_commit();
    copy_wait<1>();
    sync_block();
    for (uint32_t key = 0; key < kTileKeys; ++key) {
      const uint32_t at = tile * kTileKeys + key - part_first, base = (tile % 2 * kTileKeys + key) * kStride;
      SPANSCOPE_UNROLL
      for (uint32_t i = 0; i < kOwn; ++i) {
        const uint32_t h = (i * kDecodeThreads + thread) / kDim, d = (i * kDecodeThreads + thread) % kDim;
        if (h < heads) out[i] += weight.get(h * kPartKeys + at) * Mode::widen(keys.get(base + d));
      }
    }
    sync_block();
  }
  SPANSCOPE_UNROLL
  for (uint32_t i = 0; i < kOwn; ++i) {
    const uint32_t h = (i * kDecodeThreads + thread) / kDim, d = (i * kDecodeThreads + thread) % kDim;
    if (h < heads) p.part_out.store((cell0 + h * p.parts) * kDim + d, out[i]);
  }
}

struct JoinShared {
  static constexpr uint32_t kFacts = 0, kSums = RowFacts<1>::kWords * 4, kTotals = kSums + kDecodeThreads * 4, kFactors = kTotals + 16;
  static constexpr uint32_t bytes(uint32_t parts) { return kFactors + parts * 4; }
};

// Grid: (heads, rows).
template <class Mode, uint32_t kDim, bool kPlanned>
SPANSCOPE_KERNEL(kDecodeThreads)
join_partitions(const AttentionParams<typename Mode::Element> p) {
  const uint32_t head = block_x(), row = block_y(), thread = thread_x();
  const uint64_t cell = (uint64_t(row) * p.heads + head) * p.parts;
  const RowFacts<1> facts(JoinShared::kFacts);
  const Shared<float> sums = shared_array<float>(JoinShared::kSums, kDecodeThreads), totals = shared_array<float>(JoinShared::kTotals, 4),
                      factor = shared_array<float>(JoinShared::kFactors, p.parts);
  if (thread < 32) {
    float max = -infinity(), sum = 0;
    for (uint32_t i = thread; i < p.parts; i += 32) {
      const float x = p.part_max.load(cell + i);
      max = x > max ? x : max;
    }
    for (uint32_t bits = 16; bits > 0; bits /= 2) {
      const float other = shuffle_xor(max, bits);
      max = other > max ? other : max;
    }
    for (uint32_t i = thread; i < p.parts; i += 32) {
      const float f = kMutant<6> ? 1.0f : exponential(p.part_max.load(cell + i) - max);
      factor.set(i, f);
      sum += p.part_sum.load(cell + i) * f;
    }
    for (uint32_t bits = 16; bits > 0; bits /= 2) sum += shuffle_xor(sum, bits);
    if (thread == 0) {
      float lse = max + logarithm(sum), scale = 1.0f / sum;
      if (p.sinks) {
        const float sink = p.sinks.load(head), high = sink > lse ? sink : lse, low = sink > lse ? lse : sink;
        const float with = high + logarithm(1.0f + exponential(low - high));
        scale *= exponential(lse - with);
        lse = with;
      }
      totals.set(0, max);
      totals.set(1, scale);
      totals.set(2, lse);
    }
  }
  sync_block();
  const float max = totals.get(0), scale = totals.get(1);
  for (uint32_t d = thread; d < kDim; d += kDecodeThreads) {
    float x = 0;
    for (uint32_t i = 0; i < p.parts; ++i)
      if (factor.get(i) != 0) x += p.part_out.load((cell + i) * kDim + d) * factor.get(i);
    p.out.store((uint64_t(row) * p.heads + head) * kDim + d, x * scale);
  }
  if constexpr (kPlanned) {
    const uint64_t segments = (uint64_t(row) * p.heads + head) * p.segments;
    auto weighed = [&](uint32_t s) {
      const float f = factor.get(p.segment_begin.load(s) / kPartKeys);
      return f != 0 ? f * p.part_segment_sum.load(segments + s) : 0.0f;  // an invisible partition has written no sums
    };
    float gap = 0;
    for (uint32_t s = thread; s < p.segments; s += kDecodeThreads)
      if (p.segment_leaf.load(s) == p.plan.leaves) gap += weighed(s);
    sums.set(thread, gap);
    if (thread == 0) facts.template load<true>(p, 0, row);
    sync_block();
    if (thread == 0) {
      gap = 0;
      for (uint32_t i = 0; i < kDecodeThreads; ++i) gap += sums.get(i);
      facts.lse.set(0, totals.get(2));
      facts.gap.set(0, gap > 0 ? max + logarithm(gap) : -infinity());
      fold_row(p.plan, facts, p.sinks, 0, row, p.heads, head);
    }
    sync_block();
    fold_leaves<1, kDecodeThreads>(p.plan, facts, p.rows, row, 1, p.heads, head, 0, p.plan.leaves, [&](uint32_t leaf, uint32_t) {
      float total = 0;
      const uint32_t stop = p.leaf_segment.load(leaf + 1);
      for (uint32_t s = p.leaf_segment.load(leaf); s < stop; ++s)
        if (p.segment_leaf.load(s) == leaf) total += weighed(s);
      return total > 0 ? max + logarithm(total) : -infinity();
    });
  }
}

}  // namespace spanscope::gpu
