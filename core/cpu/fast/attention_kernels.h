// SPDX-License-Identifier: GPL-3.0-or-later
// Attention kernels: online softmax over key tiles, scores never larger than one tile. Two shapes:
//   wide   - 32 query rows of one head side by side in vector lanes (prefill): maxima, sums and the sums per
//   segment are
//            vertical, so a recorded pass costs one more addition per key and vector;
//   narrow - one row of a group of heads that share keys, over a partition of 512 keys, lanes are keys
//   (decode);
//            partitions are joined under a common maximum afterwards.
// With segments the exponentials of a key tile are also added up per segment while they are at hand; nothing
// else changes, so the outputs are the same bits. Any thread.
#pragma once
#include <cstddef>
#include <cstdint>

namespace spanscope::fast {

inline constexpr uint32_t kTileRows = 32;   // query rows of a wide tile
inline constexpr uint32_t kTileKeys = 64;   // keys of a tile: 4 pages
inline constexpr uint32_t kPartKeys = 512;  // keys of a narrow partition
inline constexpr uint32_t kGroupHeads = 4;  // heads of a narrow call

// A piece of a leaf (or of a gap between leaves) inside one key tile. Segments cover every slot of the pass.
struct Segment {
  uint32_t begin = 0, end = 0;  // slots
  uint32_t leaf = 0;            // index into the plan's leaves; their number for a gap
};

// Where keys and values of one layer and KV head lie.
struct KeyPages {
  const float* const* pages = nullptr;      // 16 slots each
  size_t key_offset = 0, value_offset = 0;  // floats from a page's begin: keys [dim][16], values [16][dim]
};

struct ScoreRule {
  float scale = 1, cap = 0;  // cap 0: none
};

struct WideTile {
  KeyPages keys;
  ScoreRule rule;
  const float* sink = nullptr;  // this head's learned score of a key without a value, or null
  uint32_t dim = 0, rows = 0;   // rows <= 32
  const float* q = nullptr;    // first row, this head; rows lie q_stride apart
  size_t q_stride = 0;
  const int32_t* first =
      nullptr;  // [32] visible slots of a row are [first, end); lanes >= rows repeat the last row
  const int32_t* end = nullptr;  // [32]
  float* out = nullptr;          // as q
  size_t out_stride = 0;
  float* scratch = nullptr;  // wide_scratch_floats(dim), aligned to 64 bytes
  // With a plan, else null:
  const Segment* segments = nullptr;
  const uint32_t* tile_segment = nullptr;  // [key tiles + 1] first segment of each key tile
  float* segment_sums = nullptr;           // [segments that the tile sees][32]
  float* tile_max = nullptr;               // [key tiles that it sees][32]
  uint32_t leaves = 0;
  // [leaves + 2][32]; out: rows [leaf_first, leaf_end), `leaves` (the gaps) and `leaves` + 1 (the learned sink)
  float* mass = nullptr;
  float* lse = nullptr;  // first row, this head; rows lie lse_stride apart; or null
  size_t lse_stride = 0;
  uint32_t leaf_first = 0, leaf_end = 0;
};
size_t wide_scratch_floats(uint32_t dim);
void wide_attention(WideTile& tile);

struct NarrowPart {
  KeyPages keys;
  ScoreRule rule;
  uint32_t dim = 0, heads = 0;  // heads <= kGroupHeads, all with these keys
  const float* q = nullptr;     // [heads][dim]
  uint32_t first = 0, end = 0;  // visible slots inside the partition, first < end
  float* scratch = nullptr;     // narrow_scratch_floats(), aligned to 64 bytes
  // Results, relative to the maximum of each head:
  float* max = nullptr;  // [heads]
  float* sum = nullptr;  // [heads]
  float* out = nullptr;  // [heads][dim]
  // With a plan, else null: segments that touch the partition, and their sums.
  const Segment* segments = nullptr;
  uint32_t segment_count = 0;
  float* segment_sums = nullptr;  // [heads][segment_stride]
  size_t segment_stride = 0;
};
size_t narrow_scratch_floats();
void narrow_attention(const NarrowPart& part);

}  // namespace spanscope::fast
