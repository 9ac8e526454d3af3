// SPDX-License-Identifier: GPL-3.0-or-later
// Attention of one layer over the paged cache: cuts a pass into kernel calls, joins key partitions, and hands
// the span masses of finished rows to the fold. The cut depends on the number of rows and on positions, never
// on the plan. Engine thread only.
#pragma once
#include <stop_token>
#include <vector>

#include "core/cpu/fast/buffer.h"
#include "core/cpu/fast/mass_fold.h"
#include "core/cpu/fast/page_cache.h"
#include "core/cpu/fast/team.h"

namespace spanscope::fast {

class Attention {
 public:
  Attention(Team& team, const Recipe& recipe);

  // positions: of every slot, this pass's rows included; its rows are the last ones. fold: null without a
  // plan.
  void begin_pass(const PageCache& cache, std::span<const TokenPos> positions, uint32_t rows, MassFold* fold);
  // The first and one past the last slot that each row sees in this layer.  // [rows padded to kTileRows]
  // sinks: learned scores of a key without a value, one per query head, or null.
  void begin_layer(uint32_t layer, const float* sinks);
  const int32_t* first() const { return first_.data(); }
  const int32_t* end() const { return end_.data(); }
  const float* sinks() const { return sinks_; }
  // Keys and values of slots [first, end) of a KV head, made f32 if they are kept as f16; valid until the thread asks again.
  KeyPages keys_of(unsigned thread, uint32_t kv_head, uint32_t first, uint32_t end);

  // q, out [rows][query heads][dim]; q is rotated, keys and values of the rows are in the cache. False:
  // stopped.
  bool run(const float* q, float* out, const std::stop_token& stop);

 private:
  struct Scratch {
    Buffer kernel, segment_sums, tile_max, mass;
    Buffer widened;                    // of an f16 cache: the pages of one KV head as f32
    std::vector<const float*> pages;   // where they lie; pages that were not asked for are null
  };
  bool run_wide(const float* q, float* out, const std::stop_token& stop);
  bool run_narrow(const float* q, float* out, const std::stop_token& stop);
  void join(unsigned thread, uint32_t row, uint32_t head, float* out);

  Team& team_;
  const Recipe& recipe_;
  const PageCache* cache_ = nullptr;
  MassFold* fold_ = nullptr;
  const float* sinks_ = nullptr;
  std::vector<const float*> pages_;
  std::vector<const uint16_t*> half_pages_;  // instead, of an f16 cache
  std::span<const TokenPos> positions_;
  uint32_t rows_ = 0, layer_ = 0, window_ = 0;
  bool windows_known_ = false;
  std::vector<int32_t> first_, end_;
  std::vector<Scratch> scratch_;  // [thread]
  // Narrow: results of the partitions.
  uint32_t parts_ = 0, part_segments_ = 0;  // most partitions and segments of a row
  std::vector<float> part_max_, part_sum_, part_out_, part_segment_sums_;
};

}  // namespace spanscope::fast
