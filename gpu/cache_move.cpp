// SPDX-License-Identifier: GPL-3.0-or-later
// Keys from before rotation, and moving them.
#include <algorithm>

#include "core/model/rotary.h"
#include "gpu/cache.h"
#include "gpu/kernels/move_keys.cuh"

namespace spanscope::gpu {
namespace {
Grid over(uint64_t elements) { return {uint32_t((elements + kMoveThreads - 1) / kMoveThreads)}; }
template <class T>
Status put(Array<T>& to, const std::vector<T>& from) {
  SPANSCOPE_TRY(to.resize(from.size()));
  return to.upload(from.data(), from.size());
}
constexpr size_t kMovedAtOnce = 4096;
}  // namespace

Status GpuCache::keep_originals(uint32_t layer, Global<const float> keys, uint32_t rows) {
  KeepParams p;
  p.keys = keys;
  p.originals = raw_pools_[layer].view();
  p.page_of = page_of();
  p.rows = rows;
  p.kv_heads = kv_heads_;
  p.dim = dim_;
  p.first_slot = size();
  return launch(spanscope::gpu::keep_originals, over(uint64_t(rows) * kv_heads_ * dim_), kMoveThreads, 0, p);
}

Status GpuCache::move_to(std::span<const TokenPos> positions) {
  const Recipe& r = model_->recipe;
  SPANSCOPE_TRY(check_move(r, *this, positions));
  SPANSCOPE_TRY(use_device(device_));
  std::vector<uint32_t> moved;
  for (Slot slot = 0; slot < size(); ++slot)
    if (positions[slot] != positions_[slot]) moved.push_back(slot);
  if (!r.rotary_tables.empty() && !moved.empty()) {
    const size_t pairs = r.rotary_dims / 2;
    Array<uint32_t> slots;
    Array<float> cosines, sines;
    // Room first: what fails then leaves the cache as it was.
    const size_t most = std::min(moved.size(), kMovedAtOnce);
    SPANSCOPE_TRY(slots.resize(most));
    SPANSCOPE_TRY(cosines.resize(most * pairs));
    SPANSCOPE_TRY(sines.resize(most * pairs));
    std::vector<float> host_cosines, host_sines;
    for (size_t first = 0; first < moved.size(); first += kMovedAtOnce) {
      const std::vector<uint32_t> part(moved.begin() + ptrdiff_t(first), moved.begin() + ptrdiff_t(std::min(first + kMovedAtOnce, moved.size())));
      SPANSCOPE_TRY(put(slots, part));
      for (size_t table = 0; table < r.rotary_tables.size(); ++table) {
        host_cosines.resize(part.size() * pairs);
        host_sines.resize(host_cosines.size());
        for (size_t i = 0; i < part.size(); ++i)
          rotary_angles(r.rotary_tables[table], long_rotary(), positions[part[i]], host_cosines.data() + i * pairs, host_sines.data() + i * pairs);
        SPANSCOPE_TRY(put(cosines, host_cosines));
        SPANSCOPE_TRY(put(sines, host_sines));
        for (uint32_t l = 0; l < layers_; ++l) {
          if (r.rotary_of_layer[l] != int(table)) continue;
          MoveKeysParams p;
          p.originals = std::as_const(raw_pools_[l]).view();
          if (half()) p.half_pool = half_pool(l);
          else p.pool = pool(l);
          p.page_of = page_of();
          p.slots = std::as_const(slots).view();
          p.cosines = std::as_const(cosines).view();
          p.sines = std::as_const(sines).view();
          p.moved = uint32_t(part.size());
          p.kv_heads = kv_heads_;
          p.dim = dim_;
          p.pairs = uint32_t(pairs);
          p.interleaved = r.rotary == RotaryLayout::interleaved;
          SPANSCOPE_TRY(launch(move_keys, over(uint64_t(p.moved) * kv_heads_ * pairs), kMoveThreads, 0, p));
        }
      }
    }
  }
  positions_.assign(positions.begin(), positions.end());
  return {};
}

}  // namespace spanscope::gpu
