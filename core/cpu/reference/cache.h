// SPDX-License-Identifier: GPL-3.0-or-later
// Keys (rotated) and values of the reference path: one contiguous run per layer and KV head; on request keys from before
// rotation too, always as f32. Engine thread only.
#pragma once
#include <memory>
#include <vector>

#include "core/model/backend.h"
#include "core/model/weights.h"

namespace spanscope::reference {

class ReferenceCache final : public Cache {
 public:
  ReferenceCache(std::shared_ptr<const Model> model, CacheType type, bool originals);

  uint32_t size() const override { return uint32_t(positions_.size()); }
  TokenPos position(Slot slot) const override { return positions_[slot]; }
  void truncate(uint32_t size) override;
  std::unique_ptr<Cache> select(std::span<const SlotRange> ranges) const override;
  uint64_t bytes() const override;
  bool has_originals() const override { return originals_; }
  Status move_to(std::span<const TokenPos> positions) override;
  Status read_keys(uint32_t layer, SlotRange slots, bool original, float* out) const override;
  Status read_values(uint32_t layer, SlotRange slots, float* out) const override;

  bool fits(uint32_t layers, uint32_t kv_heads, uint32_t dim) const {
    return layers == layers_ && kv_heads == kv_heads_ && dim == dim_;
  }
  // Room for `slots` slots. Throws std::bad_alloc and leaves everything as it was.
  void reserve(uint32_t slots);
  // Slots from size() on may be written before commit() makes them count, so a failed pass leaves no trace.
  float* key(uint32_t layer, uint32_t kv_head, Slot slot) { return keys_.data() + at(layer, kv_head, slot); }
  float* value(uint32_t layer, uint32_t kv_head, Slot slot) {
    return values_.data() + at(layer, kv_head, slot);
  }
  // key and value [dim] into their places, rounded to what the cache keeps. Plain: an f16 cache holds f16 values as f32.
  // original: the key before rotation, looked at only when keeps_original(layer).
  void write(uint32_t layer, uint32_t kv_head, Slot slot, const float* key, const float* value, const float* original);
  bool keeps_original(uint32_t layer) const;
  void commit(std::span<const TokenPos> positions);  // within reserved room
  std::span<const TokenPos> positions() const { return positions_; }

 private:
  size_t at(uint32_t layer, uint32_t kv_head, Slot slot) const {
    return ((size_t(layer) * kv_heads_ + kv_head) * capacity_ + slot) * dim_;
  }
  Status check_read(uint32_t layer, SlotRange slots) const;
  void write_key(uint32_t layer, uint32_t kv_head, Slot slot, const float* key);

  std::shared_ptr<const Model> model_;
  uint32_t layers_, kv_heads_, dim_, capacity_ = 0;
  CacheType type_;
  bool originals_;
  std::vector<float> keys_, values_;  // [layer][kv head][capacity][dim]
  std::vector<float> raw_keys_;       // likewise, of layers that rotate; empty: none kept
  std::vector<TokenPos> positions_;   // [size], ascending
};

}  // namespace spanscope::reference
