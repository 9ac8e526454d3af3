// SPDX-License-Identifier: GPL-3.0-or-later
// The GPU's KV cache: per layer one pool of pages of 16 slots, keys rotated, in float32 or, in fast mode, f16; on request
// also keys from before rotation, always in float32. Engine thread.
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
  GpuCache(std::shared_ptr<const Model> model, int device, Arithmetic arithmetic, bool originals);

  uint32_t size() const override { return uint32_t(positions_.size()); }
  TokenPos position(Slot slot) const override { return positions_[slot]; }
  void truncate(uint32_t size) override;
  // nullptr-free by contract: when the card has no room the result is empty (size 0).
  std::unique_ptr<Cache> select(std::span<const SlotRange> ranges) const override;
  uint64_t bytes() const override;
  bool has_originals() const override { return originals_; }
  Status move_to(std::span<const TokenPos> positions) override;
  Status read_keys(uint32_t layer, SlotRange slots, bool original, float* out) const override;
  Status read_values(uint32_t layer, SlotRange slots, float* out) const override;

  bool of(const Model* model) const { return model_.get() == model; }
  std::span<const TokenPos> positions() const { return positions_; }
  Status reserve(uint32_t slots);  // slots behind size() may be written before commit() makes them count
  void commit(std::span<const TokenPos> positions) { positions_.insert(positions_.end(), positions.begin(), positions.end()); }
  bool half() const { return arithmetic_ == Arithmetic::fast; }
  Global<float> pool(uint32_t layer) { return pools_[layer].view(); }            // unless half()
  Global<uint16_t> half_pool(uint32_t layer) { return half_pools_[layer].view(); }  // if half()
  // Of a pass's new rows, before they are rotated; layers that keep some only.  // keys [rows][kv heads][dim]
  bool keeps_original(uint32_t layer) const { return raw_ && model_->recipe.rotary_of_layer[layer] >= 0; }
  Status keep_originals(uint32_t layer, Global<const float> keys, uint32_t rows);
  Global<const uint32_t> page_of() const { return page_of_.view(); }

 private:
  size_t page_numbers() const { return size_t(2) * kPage * kv_heads_ * dim_; }
  enum class Part : uint8_t { keys, values, originals };
  Status read(uint32_t layer, SlotRange slots, Part part, float* out) const;

  std::shared_ptr<const Model> model_;
  int device_;
  Arithmetic arithmetic_;
  bool originals_, raw_;  // keys from before rotation are known; some layer rotates, so they are kept
  uint32_t layers_, kv_heads_, dim_, pages_ = 0;
  uint64_t page_bytes() const { return page_numbers() * (half() ? 2 : 4) + (raw_ ? raw_numbers() * 4 : 0); }
  size_t raw_numbers() const { return page_numbers() / 2; }
  template <class E>
  Status grow(std::vector<Array<E>>& pools, size_t numbers);
  template <class E>
  bool copy_slots(const std::vector<Array<E>>& from, const std::vector<Slot>& slots, std::vector<Array<E>>& to, uint32_t to_pages,
                  uint32_t parts) const;  // parts: of a page and KV head
  template <class E>
  Status read_pool(const Array<E>& pool, SlotRange slots, uint32_t parts, uint32_t part, float* out) const;
  std::vector<Array<float>> pools_;  // [layers]: [pages][kv heads][key, value][16][dim]
  std::vector<Array<uint16_t>> half_pools_;
  std::vector<Array<float>> raw_pools_;  // [layers]: [pages][kv heads][16][dim], empty of layers without rotation
  Array<uint32_t> page_of_;
  std::vector<TokenPos> positions_;
};

}  // namespace spanscope::gpu
