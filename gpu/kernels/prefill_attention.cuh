// SPDX-License-Identifier: GPL-3.0-or-later
// Prefill attention with fused span mass. A block has 64 query rows of one head and walks the keys in tiles of 64: scores,
// online softmax, values (FlashAttention-2, arXiv 2307.08691). With a plan each lane also adds the exponentials of its
// columns per leaf while they are in registers: one more addition per key, no second product, no second exponential.
//
// A leaf's sum is kept relative to the row's running maximum and leaves the registers once, when its last tile is done, as
// the log-sum-exp of the leaf: one float per (row, leaf), whose meaning no later maximum changes. At row end
// mass = exp(leaf - row), folded by fold.cuh. Leaf sums that do not fit in shared memory go to global memory and come back
// once (spill).
//
// Leaves never decide the order in which anything else is added, so outputs are the same bits with and without a plan.
#pragma once
#include "gpu/kernels/fold.cuh"
#include "gpu/kernels/score_units.cuh"

namespace spanscope::gpu {

inline constexpr uint32_t kPrefillThreads = 128;

template <class Element, uint32_t kDim>
struct PrefillShared {
  static constexpr uint32_t kTile = kTileKeys * kRowStride<Element, kDim>;  // elements
  static constexpr uint32_t kBytes = kTile * uint32_t(sizeof(Element));
  static constexpr uint32_t kQ = 0, kK = kBytes, kV = 2 * kBytes, kRows = 3 * kBytes;
  static constexpr uint32_t kBorders = kRows + RowFacts<kTileRows>::kWords * 4;
  static constexpr uint32_t kLeaves = kBorders + 2 * kLeafChunk * 4;
  static constexpr uint32_t bytes(uint32_t shared_leaves) { return kLeaves + shared_leaves * kTileRows * 4; }
};

// One tile of keys or values into shared memory; slots at or behind `end` become zeros.
template <class Element, uint32_t kDim>
SPANSCOPE_DEVICE void fetch_tile(const AttentionParams<Element>& p, const Shared<Element>& to, uint32_t tile, uint32_t end, uint32_t kv_head,
                                 uint32_t value) {
  constexpr uint32_t kPiece = 16 / sizeof(Element), kPieces = kDim / kPiece;
  for (uint32_t i = thread_x(); i < kTileKeys * kPieces; i += kPrefillThreads) {
    const uint32_t row = i / kPieces, column = i % kPieces * kPiece, slot = tile * kTileKeys + row;
    const bool valid = slot < end;
    const uint64_t page = valid ? p.page_of.load(slot / kPage) : 0;
    const uint64_t from = (((page * p.kv_heads + kv_head) * 2 + value) * kPage + slot % kPage) * kDim + column;
    copy_async(to, row * kRowStride<Element, kDim> + column, p.pool, from, valid);
  }
}

SPANSCOPE_DEVICE float quad_sum(float x) {
  x += shuffle_xor(x, 1);
  return x + shuffle_xor(x, kMutant<2> ? 1 : 2);
}
SPANSCOPE_DEVICE float quad_max(float x) {
  const float y = shuffle_xor(x, 1);
  x = y > x ? y : x;
  const float z = shuffle_xor(x, 2);
  return z > x ? z : x;
}
// The log-sum-exp of a sum relative to a maximum; -infinity of nothing.
SPANSCOPE_DEVICE float lse_of(float sum, float max) { return sum > 0 ? max + logarithm(sum) : -infinity(); }

// The leaf sums of one warp's rows while it walks the keys.
struct OpenLeaf {
  float sum[2], gap[2];  // relative to the rows' running maxima; this lane's columns only
  uint32_t leaf;         // the leaf that the walk is in or that comes next
};

template <class Mode, uint32_t kDim, bool kPlanned>
SPANSCOPE_KERNEL(kPrefillThreads)
prefill_attention(const AttentionParams<typename Mode::Element> p) {
  using Element = typename Mode::Element;
  using Layout = PrefillShared<Element, kDim>;
  const uint32_t tile = block_x(), head = block_y(), row0 = tile * kTileRows, kv_head = head / (p.heads / p.kv_heads);
  const uint32_t thread = thread_x(), warp = thread / 32, lane = thread % 32, g = lane / 4, t = lane % 4;
  const Shared<Element> q = shared_array<Element>(Layout::kQ, Layout::kTile), k = shared_array<Element>(Layout::kK, Layout::kTile),
                        v = shared_array<Element>(Layout::kV, Layout::kTile);
  const RowFacts<kTileRows> rows(Layout::kRows);
  const Shared<uint32_t> border = shared_array<uint32_t>(Layout::kBorders, 2 * kLeafChunk);
  const Shared<float> leaf_lse = shared_array<float>(Layout::kLeaves, kPlanned ? p.shared_leaves * kTileRows : 0);
  const uint32_t key_first = p.tile.load(tile * 4), key_end = p.tile.load(tile * 4 + 1);
  const uint32_t leaf_first = kPlanned ? p.tile.load(tile * 4 + 2) : 0, leaf_last = kPlanned ? p.tile.load(tile * 4 + 3) : 0;
  const bool spilled = kPlanned && leaf_last > leaf_first + p.shared_leaves;
  const uint64_t spill_at = (uint64_t(head) * ((p.rows + kTileRows - 1) / kTileRows) + tile) * p.spill_leaves * kTileRows;

  const uint32_t first_tile = key_first / kTileKeys, last_tile = (key_end + kTileKeys - 1) / kTileKeys;
  fetch_tile<Element, kDim>(p, k, first_tile, key_end, kv_head, 0);
  copy_commit();
  if (thread < kTileRows) rows.template load<kPlanned>(p, thread, row0 + thread);
  for (uint32_t i = thread; i < kTileRows * kDim / 2; i += kPrefillThreads) {  // pairs: no two threads share a word
    const uint32_t row = i / (kDim / 2), column = i % (kDim / 2) * 2;
    const uint64_t from = (uint64_t(row0 + row) * p.heads + head) * kDim + column;
    const bool real = row0 + row < p.rows;
    const float x = real ? p.q.load(from) : 0.0f, y = real ? p.q.load(from + 1) : 0.0f;
    q.set(row * kRowStride<Element, kDim> + column, Mode::element(x));
    q.set(row * kRowStride<Element, kDim> + column + 1, Mode::element(y));
  }
  sync_block();

  const uint32_t mine[2] = {warp * 16 + g, warp * 16 + g + 8};  // rows in the block
  const uint32_t first[2] = {rows.first.get(mine[0]), rows.first.get(mine[1])}, end[2] = {rows.end.get(mine[0]), rows.end.get(mine[1])};
  float max[2] = {-infinity(), -infinity()}, sum[2] = {0, 0}, o[kDim / 8][4];
  SPANSCOPE_UNROLL
  for (uint32_t d = 0; d < kDim / 8; ++d)
    for (uint32_t e = 0; e < 4; ++e) o[d][e] = 0;
  OpenLeaf open{{0, 0}, {0, 0}, leaf_first};
  uint32_t chunk = leaf_first, chunk_end = leaf_first;  // leaves whose borders are in shared memory

  auto close_leaf = [&] {
    SPANSCOPE_UNROLL
    for (uint32_t r = 0; r < 2; ++r) {
      const float value = lse_of(quad_sum(open.sum[r]), max[r]);
      open.sum[r] = 0;
      if (t != 0) continue;
      const uint32_t at = (open.leaf - leaf_first) * kTileRows + mine[r];
      if (spilled) p.spill.store(spill_at + at, value);
      else leaf_lse.set(at, value);
    }
    ++open.leaf;
  };

  for (uint32_t j = first_tile; j < last_tile; ++j) {
    fetch_tile<Element, kDim>(p, v, j, key_end, kv_head, 1);
    copy_commit();
    if (kPlanned && chunk_end < leaf_last && open.leaf + kTileKeys + 1 > chunk_end) {
      chunk = open.leaf;
      chunk_end = leaf_last - chunk < kLeafChunk ? leaf_last : chunk + kLeafChunk;
      for (uint32_t i = thread; i < chunk_end - chunk; i += kPrefillThreads) {
        border.set(2 * i, p.plan.leaf_begin.load(chunk + i));
        border.set(2 * i + 1, p.plan.leaf_end.load(chunk + i));
      }
    }
    copy_wait<1>();
    if (!kMutant<1>) sync_block();  // keys are here
    float s[8][4];
    scores<Mode, kDim>(s, q, k, warp * 16, lane);

    // Scores become exponentials relative to the new running maximum.
    float now[2] = {max[0], max[1]};
    SPANSCOPE_UNROLL
    for (uint32_t n = 0; n < 8; ++n)
      for (uint32_t e = 0; e < 4; ++e) {
        const uint32_t slot = j * kTileKeys + n * 8 + 2 * t + e % 2, r = e / 2;
        float x = s[n][e] * p.scale;
        if (p.score_cap != 0) x = p.score_cap * tangent_hyperbolic(x / p.score_cap);
        s[n][e] = slot >= first[r] && slot < end[r] ? x : -infinity();
        now[r] = s[n][e] > now[r] ? s[n][e] : now[r];
      }
    float rescale[2], base[2];
    SPANSCOPE_UNROLL
    for (uint32_t r = 0; r < 2; ++r) {
      now[r] = quad_max(now[r]);
      // A row that has seen nothing yet: all differences are taken to 0, nothing is not a number.
      base[r] = now[r] == -infinity() ? 0.0f : now[r];
      rescale[r] = exponential(max[r] - base[r]);
      max[r] = now[r];
      sum[r] *= rescale[r];
    }
    SPANSCOPE_UNROLL
    for (uint32_t n = 0; n < 8; ++n)
      for (uint32_t e = 0; e < 4; ++e) {
        s[n][e] = exponential(s[n][e] - base[e / 2]);
        sum[e / 2] += s[n][e];
      }
    SPANSCOPE_UNROLL
    for (uint32_t d = 0; d < kDim / 8; ++d)
      for (uint32_t e = 0; e < 4; ++e) o[d][e] *= rescale[e / 2];

    if constexpr (kPlanned) {
      SPANSCOPE_UNROLL
      for (uint32_t r = 0; r < 2; ++r) {
        if (!kMutant<3>) open.sum[r] *= rescale[r];
        open.gap[r] *= rescale[r];
      }
      const uint32_t tile_end = (j + 1) * kTileKeys;
      for (uint32_t at = j * kTileKeys; at < tile_end;) {
        const bool more = open.leaf < leaf_last;
        const uint32_t begin = more ? border.get(2 * (open.leaf - chunk)) : tile_end;
        const uint32_t finish = more ? border.get(2 * (open.leaf - chunk) + 1) + (kMutant<4> ? 1 : 0) : tile_end;
        const bool inside = begin <= at;
        uint32_t to = inside ? finish : begin;
        to = to > tile_end ? tile_end : to < at ? at : to;
        float piece[2] = {0, 0};
        SPANSCOPE_UNROLL
        for (uint32_t n = 0; n < 8; ++n)
          for (uint32_t e = 0; e < 4; ++e) {
            const uint32_t slot = j * kTileKeys + n * 8 + 2 * t + e % 2;
            piece[e / 2] += slot >= at && slot < to ? s[n][e] : 0.0f;
          }
        SPANSCOPE_UNROLL
        for (uint32_t r = 0; r < 2; ++r) (inside ? open.sum[r] : open.gap[r]) += piece[r];
        if (more && inside && finish <= tile_end) close_leaf();
        at = to;
      }
    }
    copy_wait<0>();
    sync_block();  // values are here, and all warps are done with the keys
    if (j + 1 < last_tile) {
      fetch_tile<Element, kDim>(p, k, j + 1, key_end, kv_head, 0);
      copy_commit();
    }
    weigh_values<Mode, kDim>(o, s, v, lane);
    sync_block();  // values are read
  }

  float lse[2];
  SPANSCOPE_UNROLL
  for (uint32_t r = 0; r < 2; ++r) {
    const float total = quad_sum(sum[r]);
    lse[r] = lse_of(total, max[r]);
    float scale = total > 0 ? 1.0f / total : 0.0f;
    if (p.sinks) {  // a learned sink takes its share of the row and gives no value
      const float sink = p.sinks.load(head), high = sink > lse[r] ? sink : lse[r], low = sink > lse[r] ? lse[r] : sink;
      const float with = high + logarithm(1.0f + exponential(low - high));
      scale *= exponential(lse[r] - with);
      lse[r] = with;
    }
    const uint32_t row = row0 + mine[r];
    SPANSCOPE_UNROLL
    for (uint32_t d = 0; d < kDim / 8; ++d)
      for (uint32_t e = 0; e < 2; ++e)
        if (row < p.rows) p.out.store((uint64_t(row) * p.heads + head) * kDim + d * 8 + 2 * t + e, o[d][2 * r + e] * scale);
  }
  if constexpr (kPlanned) {
    while (open.leaf < leaf_last) close_leaf();  // it goes on behind the keys that this block sees
    SPANSCOPE_UNROLL
    for (uint32_t r = 0; r < 2; ++r) {
      const float gap = lse_of(quad_sum(open.gap[r]), max[r]);
      if (t == 0) {
        rows.lse.set(mine[r], lse[r]);
        rows.gap.set(mine[r], gap);
      }
    }
    if (!kMutant<5>) sync_block();
    const uint32_t count = p.rows - row0 < kTileRows ? p.rows - row0 : kTileRows;
    if (thread < count) fold_row(p.plan, rows, p.sinks, thread, row0 + thread, p.heads, head);
    if (spilled)
      fold_leaves<kTileRows, kPrefillThreads>(p.plan, rows, p.rows, row0, count, p.heads, head, leaf_first, leaf_last,
                                              [&](uint32_t s, uint32_t i) { return p.spill.load(spill_at + s * kTileRows + i); });
    else
      fold_leaves<kTileRows, kPrefillThreads>(p.plan, rows, p.rows, row0, count, p.heads, head, leaf_first, leaf_last,
                                              [&](uint32_t s, uint32_t i) { return leaf_lse.get(s * kTileRows + i); });
  }
}

}  // namespace spanscope::gpu
