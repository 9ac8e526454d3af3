// SPDX-License-Identifier: GPL-3.0-or-later
// Chooses and launches the attention kernels of one layer. Engine thread.
#pragma once
#include "gpu/cache.h"
#include "gpu/device_plan.h"

namespace spanscope::gpu {

inline constexpr uint32_t kDecodeRows = 4;  // passes of at most so many rows split their keys instead of their rows

// Whether there is a kernel for heads of this size.
bool attention_has(uint32_t dim);
// What a block of them asks of a card, in bytes, leaves not counted (those go elsewhere when there is no room).
uint32_t attention_shared_bytes(uint32_t dim);

class Attention {
 public:
  explicit Attention(const Recipe& recipe) : recipe_(recipe) {}
  // positions of every slot, those of this pass included; tables: null without a plan.
  Status begin_pass(std::span<const TokenPos> positions, uint32_t first_slot, PlanTables* tables, DevicePlan* plan);
  // q, out [rows][heads][dim]; the pass's keys and values are in the cache. sinks: [heads] or none.
  Status run(uint32_t layer, GpuCache& cache, Global<const float> q, Global<const float> sinks, Global<float> out);

 private:
  struct Ranges {  // of one window
    uint32_t window = 0, most_leaves = 0, key_end = 0;
    Array<uint32_t> first, end, tile;
  };
  Status make_ranges(uint32_t window, Ranges& out);
  template <uint32_t kDim>
  Status launch_dim(AttentionParams<float>& p);
  template <uint32_t kDim, bool kPlanned>
  Status launch_planned(AttentionParams<float>& p);

  const Recipe& recipe_;
  std::vector<TokenPos> positions_;
  uint32_t first_slot_ = 0, rows_ = 0;
  PlanTables* tables_ = nullptr;
  DevicePlan* plan_ = nullptr;
  std::vector<Ranges> ranges_;  // one for each window that occurs
  Array<float> part_max_, part_sum_, part_out_, part_segment_sum_, spill_;
};

}  // namespace spanscope::gpu
