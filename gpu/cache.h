// SPDX-License-Identifier: GPL-3.0-or-later
// The GPU's KV cache: per layer one pool of pages of 16 slots, float32, keys rotated. Keys from before rotation are not kept:
// move_to() says so. Engine thread.
#pragma once
#include <memory>
#include <vector>

#include "core/model/backend.h"
#include "core/model/weights.h"
#include "gpu/kernels/params.h"
#include "gpu/runtime.h"

namespace spanscope::gpu {

class GpuCache final : public Cache {
 public:
  GpuCache(std::shared_ptr<const Model> model, int device);

  uint32_t size() const override { return uint32_t(positions_.size()); }
  TokenPos position(Slot slot) const override { return positions_[slot]; }
  void truncate(uint32_t size) override;
  // nullptr-free by contract: when the card has no room the result is empty (size 0).
  std::unique_ptr<Cache> select(std::span<const SlotRange> ranges) const override;
  uint64_t bytes() const override;
  Status read_keys(uint32_t layer, SlotRange slots, bool original, float* out) const override;
  Status read_values(uint32_t layer, SlotRange slots, float* out) const override;

  bool of(const Model* model) const { return model_.get() == model; }
  std::span<const TokenPos> positions() const { return positions_; }
  Status reserve(uint32_t slots);  // slots behind size() may be written before commit() makes them count
  void commit(std::span<const TokenPos> positions) { positions_.insert(positions_.end(), positions.begin(), positions.end()); }
  Global<float> pool(uint32_t layer) { return pools_[layer].view(); }
  Global<const uint32_t> page_of() const { return page_of_.view(); }

 private:
  size_t page_floats() const { return size_t(2) * kPage * kv_heads_ * dim_; }
  Status read(uint32_t layer, SlotRange slots, uint32_t value, float* out) const;

  std::shared_ptr<const Model> model_;
  int device_;
  uint32_t layers_, kv_heads_, dim_, pages_ = 0;
  std::vector<Array<float>> pools_;  // [layers]: [pages][kv heads][key, value][16][dim]
  Array<uint32_t> page_of_;
  std::vector<TokenPos> positions_;
};

}  // namespace spanscope::gpu
