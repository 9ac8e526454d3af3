// SPDX-License-Identifier: GPL-3.0-or-later
// Chooses and launches the attention kernels of one layer. Engine thread.
#pragma once
#include <algorithm>
#include <type_traits>

#include "gpu/cache.h"
#include "gpu/device_plan.h"

namespace spanscope::gpu {

inline constexpr uint32_t kDecodeRows = 4;  // passes of at most so many rows split their keys instead of their rows

// f(std::integral_constant<uint32_t, dim>) -> Status for a size of heads that there are kernels for; SPAN-GPU-HEADS for another.
template <class F>
Status with_head_dim(uint32_t dim, const F& f) {
  switch (dim) {
    case 16: return f(std::integral_constant<uint32_t, 16>());
    case 32: return f(std::integral_constant<uint32_t, 32>());
    case 64: return f(std::integral_constant<uint32_t, 64>());
    case 80: return f(std::integral_constant<uint32_t, 80>());
    case 96: return f(std::integral_constant<uint32_t, 96>());
    case 128: return f(std::integral_constant<uint32_t, 128>());
    case 256: return f(std::integral_constant<uint32_t, 256>());
    default: return make_error(ErrorCode::unsupported, "SPAN-GPU-HEADS", "no attention kernel for heads of " + std::to_string(dim));
  }
}
// Whether there is a kernel for heads of this size.
bool attention_has(uint32_t dim);
// What a block of them asks of a card, in bytes, leaves not counted (those go elsewhere when there is no room).
uint32_t attention_shared_bytes(uint32_t dim, Arithmetic arithmetic);

class Attention {
 public:
  explicit Attention(const Recipe& recipe) : recipe_(recipe) {}
  // positions of every slot, those of this pass included; tables: null without a plan.
  Status begin_pass(std::span<const TokenPos> positions, uint32_t first_slot, PlanTables* tables, DevicePlan* plan);
  // q, out [rows][heads][dim]; the pass's keys and values are in the cache. sinks: [heads] or none.
  Status run(uint32_t layer, GpuCache& cache, Global<const float> q, Global<const float> sinks, Global<float> out);

  // What rows of the layer see, and its sizes: everything of p but queries, cache and what is written.
  template <class E>
  void set_rows(uint32_t layer, AttentionParams<E>& p) const {
    const Ranges& ranges = of_layer(layer);
    p.row_first = ranges.first.view();
    p.row_end = ranges.end.view();
    p.tile = ranges.tile.view();
    p.rows = rows_;
    p.heads = recipe_.query_heads;
    p.kv_heads = recipe_.kv_heads;
    p.scale = recipe_.attention_scale;
    p.score_cap = recipe_.score_cap;
  }

 private:
  struct Ranges {  // of one window
    uint32_t window = 0, most_leaves = 0, key_end = 0;
    Array<uint32_t> first, end, tile;
  };
  Status make_ranges(uint32_t window, Ranges& out);
  const Ranges& of_layer(uint32_t layer) const {
    return *std::find_if(ranges_.begin(), ranges_.end(), [&](const Ranges& r) { return r.window == recipe_.window[layer]; });
  }
  template <class Mode>
  Status run_mode(uint32_t layer, AttentionParams<typename Mode::Element>& p, Global<const float> q, Global<const float> sinks, Global<float> out);
  template <class Mode, uint32_t kDim>
  Status launch_dim(AttentionParams<typename Mode::Element>& p);
  template <class Mode, uint32_t kDim, bool kPlanned>
  Status launch_planned(AttentionParams<typename Mode::Element>& p);

  const Recipe& recipe_;
  std::vector<TokenPos> positions_;
  uint32_t first_slot_ = 0, rows_ = 0;
  PlanTables* tables_ = nullptr;
  DevicePlan* plan_ = nullptr;
  std::vector<Ranges> ranges_;  // one for each window that occurs
  Array<float> part_max_, part_sum_, part_out_, part_segment_sum_, spill_;
};

}  // namespace spanscope::gpu
