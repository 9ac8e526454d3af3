// SPDX-License-Identifier: GPL-3.0-or-later
// Token statistics (core/model/token_stats.h): the scores of a layer made again, twice. token_rows walks the keys of 64 rows
// and finishes each row (log-sum-exp, maximum, entropy); token_columns walks the rows of 64 keys, where every weight is known
// now, and finishes each key. A block owns what it writes, so sums have one order, and nothing of size n x n exists.
// Bytes of a layer and head, n rows and keys, causal: 2 x (n / 64 tiles x n / 2) x dim numbers in, 8 + 6 windows numbers a key
// out; 4 n^2 dim operations (two score products of 2 n^2 / 2 dim, each x 3 in TF32).
#pragma once
#include "gpu/kernels/prefill_attention.cuh"

namespace spanscope::gpu {

inline constexpr uint32_t kStatWindows = 8;  // core/model/token_stats.h: kMaxStatWindows

template <class E>
struct TokenStatParams {
  AttentionParams<E> in;              // q, the cache, ranges, sinks
  Global<const uint8_t> wanted;       // [heads]
  Global<const float> bound;          // [rows] 1 / (position + 1)
  Global<const uint8_t> counted, row_windows;  // [rows]
  uint32_t keys = 0, windows = 0;
  Global<uint32_t> row_argmax;        // [heads][rows]
  Global<float> row_max, row_lse, row_entropy;
  Global<double> column_sum, column_square;    // [heads][keys]
  Global<float> column_max, last_row;
  Global<uint32_t> column_count;
  Global<double> window_sum;          // [windows][heads][keys]
  Global<uint32_t> window_count;
};

template <class Element, uint32_t kDim>
struct TokenStatShared {
  static constexpr uint32_t kTile = kTileKeys * kRowStride<Element, kDim>;
  static constexpr uint32_t kQ = 0, kK = kTile * uint32_t(sizeof(Element)), kWeights = 2 * kK;  // [64 rows][65]
  static constexpr uint32_t kStride = kTileKeys + 1;
  static constexpr uint32_t kFacts = kWeights + kTileRows * kStride * 4;  // lse, bound [64]; counted, windows [64]
  static constexpr uint32_t kBytes = kFacts + 4 * kTileRows * 4;
};

// Rows of one head into shared memory, as the mode multiplies them; rows behind the last are zeros.
template <class Mode, uint32_t kDim>
SPANSCOPE_DEVICE void fetch_queries(const AttentionParams<typename Mode::Element>& p, const Shared<typename Mode::Element>& q, uint32_t row0, uint32_t head) {
  for (uint32_t i = thread_x(); i < kTileRows * kDim / 2; i += kPrefillThreads) {  // pairs: no two threads share a word
    const uint32_t row = i / (kDim / 2), column = i % (kDim / 2) * 2;
    const uint64_t from = (uint64_t(row0 + row) * p.heads + head) * kDim + column;
    const bool real = row0 + row < p.rows;
    q.set(row * kRowStride<typename Mode::Element, kDim> + column, Mode::element(real ? p.q.load(from) : 0.0f));
    q.set(row * kRowStride<typename Mode::Element, kDim> + column + 1, Mode::element(real ? p.q.load(from + 1) : 0.0f));
  }
}

template <class P>
SPANSCOPE_DEVICE float score_of(const P& p, float product) {
  const float x = product * p.scale;
  return p.score_cap != 0 ? p.score_cap * tangent_hyperbolic(x / p.score_cap) : x;
}

// What a lane knows of a row: sums relative to its maximum, of the columns that it saw.
struct RowSoFar {
  float max = -infinity(), sum = 0, weighted = 0;  // weighted: of (score - max) * exp(score - max)
  uint32_t at = 0;                                 // the lowest slot with that maximum

  SPANSCOPE_DEVICE void rescale(float to) {
    if (!(max < to)) return;
    const float f = sum > 0 ? exponential(max - to) : 0.0f;
    weighted = sum > 0 ? f * (weighted + sum * (max - to)) : 0.0f;
    sum *= f;
    max = to;
  }
  SPANSCOPE_DEVICE void add(float score, uint32_t slot) {
    if (score > max) {
      rescale(score);
      at = slot;
    }
    const float e = exponential(score - max);
    sum += e;
    weighted += e * (score - max);
  }
  SPANSCOPE_DEVICE void join(uint32_t bits) {
    RowSoFar other;
    other.max = shuffle_xor(max, bits);
    other.sum = shuffle_xor(sum, bits);
    other.weighted = shuffle_xor(weighted, bits);
    other.at = shuffle_xor(at, bits);
    if (other.max > max || (other.max == max && other.at < at)) at = other.at;
    if (other.max > max) rescale(other.max);
    else other.rescale(max);
    sum += other.sum;
    weighted += other.weighted;
  }
};

// Grid: (row tiles, heads).
template <class Mode, uint32_t kDim>
SPANSCOPE_KERNEL(kPrefillThreads)
token_rows(const TokenStatParams<typename Mode::Element> p) {
  using Element = typename Mode::Element;
  using Layout = TokenStatShared<Element, kDim>;
  const uint32_t tile = block_x(), head = block_y(), row0 = tile * kTileRows, kv_head = head / (p.in.heads / p.in.kv_heads);
  if (!p.wanted.load(head)) return;
  const uint32_t thread = thread_x(), warp = thread / 32, lane = thread % 32, g = lane / 4, t = lane % 4;
  const Shared<Element> q = shared_array<Element>(Layout::kQ, Layout::kTile), k = shared_array<Element>(Layout::kK, Layout::kTile);
  const uint32_t key_first = p.in.tile.load(tile * 4), key_end = p.in.tile.load(tile * 4 + 1);
  fetch_queries<Mode, kDim>(p.in, q, row0, head);
  uint32_t first[2], end[2];
  RowSoFar of[2];
  SPANSCOPE_UNROLL
  for (uint32_t r = 0; r < 2; ++r) {
    const uint32_t row = row0 + warp * 16 + g + 8 * r;
    first[r] = row < p.in.rows ? p.in.row_first.load(row) : 0;
    end[r] = row < p.in.rows ? p.in.row_end.load(row) : 0;
  }
  for (uint32_t j = key_first / kTileKeys; j * kTileKeys < key_end; ++j) {
    sync_block();  // the last keys have been read
    fetch_tile<Element, kDim>(p.in, k, j, key_end, kv_head, 0);
    copy_commit();
    copy_wait<0>();
    sync_block();
    float s[8][4];
    scores<Mode, kDim>(s, q, k, warp * 16, lane);
    SPANSCOPE_UNROLL
    for (uint32_t n = 0; n < 8; ++n)
      for (uint32_t e = 0; e < 4; ++e) {
        const uint32_t slot = j * kTileKeys + n * 8 + 2 * t + e % 2, r = e / 2;
        if (slot >= first[r] && slot < end[r]) of[r].add(score_of(p.in, s[n][e]), slot);
      }
  }
  SPANSCOPE_UNROLL
  for (uint32_t r = 0; r < 2; ++r) {
    of[r].join(1);
    of[r].join(2);
    const uint32_t row = row0 + warp * 16 + g + 8 * r;
    if (t != 0 || row >= p.in.rows) continue;
    const RowSoFar& x = of[r];
    float over = logarithm(x.sum), share = 1;  // lse - max; what the row gives to keys that have a value
    if (p.in.sinks) {
      const float sink = p.in.sinks.load(head) - x.max, high = sink > over ? sink : over, low = sink > over ? over : sink;
      const float with = high + logarithm(1.0f + exponential(low - high));
      share = exponential(over - with);
      over = with;
    }
    const uint64_t at = uint64_t(head) * p.in.rows + row;
    p.row_argmax.store(at, x.at);
    p.row_lse.store(at, x.max + over);
    p.row_max.store(at, exponential(-over));
    // lse - sum of A * score, and the sum is share * (max + weighted / sum).
    p.row_entropy.store(at, over + (1 - share) * x.max - share * (x.weighted / x.sum));
  }
}

// Grid: (key tiles, heads). Threads 0 .. 63 sum up their key over all rows, threads 64 .. 127 over the rows of each window.
template <class Mode, uint32_t kDim>
SPANSCOPE_KERNEL(kPrefillThreads)
token_columns(const TokenStatParams<typename Mode::Element> p) {
  using Element = typename Mode::Element;
  using Layout = TokenStatShared<Element, kDim>;
  const uint32_t tile = block_x(), head = block_y(), kv_head = head / (p.in.heads / p.in.kv_heads);
  if (!p.wanted.load(head)) return;
  const uint32_t thread = thread_x(), warp = thread / 32, lane = thread % 32, g = lane / 4, t = lane % 4;
  const Shared<Element> q = shared_array<Element>(Layout::kQ, Layout::kTile), k = shared_array<Element>(Layout::kK, Layout::kTile);
  const Shared<float> weight = shared_array<float>(Layout::kWeights, kTileRows * Layout::kStride), lse = shared_array<float>(Layout::kFacts, kTileRows),
                      bound = shared_array<float>(Layout::kFacts + 4 * kTileRows, kTileRows);
  const Shared<uint32_t> counted = shared_array<uint32_t>(Layout::kFacts + 8 * kTileRows, kTileRows),
                         windows = shared_array<uint32_t>(Layout::kFacts + 12 * kTileRows, kTileRows);
  const uint32_t key0 = tile * kTileKeys, row_tiles = (p.in.rows + kTileRows - 1) / kTileRows;
  const uint32_t key = thread % kTileKeys, slot = key0 + key;
  const bool sums = thread < kTileKeys;
  double sum = 0, square = 0, window_sum[kStatWindows];
  uint32_t count = 0, window_count[kStatWindows];
  float most = 0, last = 0;
  SPANSCOPE_UNROLL
  for (uint32_t w = 0; w < kStatWindows; ++w) {
    window_sum[w] = 0;
    window_count[w] = 0;
  }
  fetch_tile<Element, kDim>(p.in, k, tile, p.keys, kv_head, 0);
  copy_commit();
  for (uint32_t i = 0; i < row_tiles; ++i) {
    if (p.in.tile.load(i * 4) >= key0 + kTileKeys || p.in.tile.load(i * 4 + 1) <= key0) continue;  // no row of it sees these keys
    const uint32_t row0 = i * kTileRows, rows = p.in.rows - row0 < kTileRows ? p.in.rows - row0 : kTileRows;
    sync_block();  // the last rows have been read
    fetch_queries<Mode, kDim>(p.in, q, row0, head);
    if (thread < rows) {
      lse.set(thread, p.row_lse.load(uint64_t(head) * p.in.rows + row0 + thread));
      bound.set(thread, p.bound.load(row0 + thread));
      counted.set(thread, p.counted.load(row0 + thread));
      windows.set(thread, p.windows ? p.row_windows.load(row0 + thread) : 0);
    }
    copy_wait<0>();
    sync_block();
    float s[8][4];
    scores<Mode, kDim>(s, q, k, warp * 16, lane);
    SPANSCOPE_UNROLL
    for (uint32_t r = 0; r < 2; ++r) {
      const uint32_t mine = warp * 16 + g + 8 * r;
      if (mine >= rows) continue;
      const uint32_t first = p.in.row_first.load(row0 + mine), end = p.in.row_end.load(row0 + mine);
      const float of_row = lse.get(mine);
      SPANSCOPE_UNROLL
      for (uint32_t n = 0; n < 8; ++n)
        for (uint32_t e = 0; e < 2; ++e) {
          const uint32_t column = n * 8 + 2 * t + e, at = key0 + column;
          const bool seen = at >= first && at < end;
          weight.set(mine * Layout::kStride + column, seen ? exponential(score_of(p.in, s[n][2 * r + e]) - of_row) : 0.0f);
        }
    }
    sync_block();
    // Sums of 64 rows in float32, those of all rows in double.
    if (sums) {
      float a = 0, b = 0;
      for (uint32_t r = 0; r < rows; ++r) {
        if (!counted.get(r)) continue;
        const float x = weight.get(r * Layout::kStride + key);
        a += x;
        b += x * x;
        most = x > most ? x : most;
        count += x > bound.get(r);
      }
      sum += double(a);
      square += double(b);
      if (row0 + rows == p.in.rows) last = weight.get((rows - 1) * Layout::kStride + key);
    } else if (p.windows) {
      float part[kStatWindows];
      SPANSCOPE_UNROLL
      for (uint32_t w = 0; w < kStatWindows; ++w) part[w] = 0;
      for (uint32_t r = 0; r < rows; ++r) {
        const uint32_t in = counted.get(r) ? windows.get(r) : 0;
        if (in == 0) continue;
        const float x = weight.get(r * Layout::kStride + key);
        const uint32_t high = x > bound.get(r);
        SPANSCOPE_UNROLL
        for (uint32_t w = 0; w < kStatWindows; ++w) {
          part[w] += in >> w & 1 ? x : 0.0f;
          window_count[w] += in >> w & high;
        }
      }
      SPANSCOPE_UNROLL
      for (uint32_t w = 0; w < kStatWindows; ++w) window_sum[w] += double(part[w]);
    }
  }
  copy_wait<0>();  // no row saw these keys: the copy is still under way
  if (slot >= p.keys) return;
  const uint64_t at = uint64_t(head) * p.keys + slot;
  if (sums) {
    p.column_sum.store(at, sum);
    p.column_square.store(at, square);
    p.column_max.store(at, most);
    p.column_count.store(at, count);
    p.last_row.store(at, last);
    return;
  }
  SPANSCOPE_UNROLL
  for (uint32_t w = 0; w < kStatWindows; ++w)
    if (w < p.windows) {
      p.window_sum.store(uint64_t(w) * p.in.heads * p.keys + at, window_sum[w]);
      p.window_count.store(uint64_t(w) * p.in.heads * p.keys + at, window_count[w]);
    }
}

}  // namespace spanscope::gpu
