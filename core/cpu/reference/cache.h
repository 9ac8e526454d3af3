// SPDX-License-Identifier: GPL-3.0-or-later
// Keys (rotated) and values of the reference path: one contiguous run per layer and KV head. Engine thread
// only.
#pragma once
#include <memory>
#include <vector>

#include "core/model/backend.h"

namespace spanscope::reference {

class ReferenceCache final : public Cache {
 public:
  ReferenceCache(uint32_t layers, uint32_t kv_heads, uint32_t dim, CacheType type = CacheType::f32)
      : layers_(layers), kv_heads_(kv_heads), dim_(dim), type_(type) {}

  uint32_t size() const override { return uint32_t(positions_.size()); }
  TokenPos position(Slot slot) const override { return positions_[slot]; }
  void truncate(uint32_t size) override;
  std::unique_ptr<Cache> select(std::span<const SlotRange> ranges) const override;
  uint64_t bytes() const override;

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
  void write(uint32_t layer, uint32_t kv_head, Slot slot, const float* key, const float* value);
  void commit(std::span<const TokenPos> positions);  // within reserved room
  std::span<const TokenPos> positions() const { return positions_; }

 private:
  size_t at(uint32_t layer, uint32_t kv_head, Slot slot) const {
    return ((size_t(layer) * kv_heads_ + kv_head) * capacity_ + slot) * dim_;
  }
  uint32_t layers_, kv_heads_, dim_, capacity_ = 0;
  CacheType type_;
  std::vector<float> keys_, values_;  // [layer][kv head][capacity][dim]
  std::vector<TokenPos> positions_;   // [size], ascending
};

}  // namespace spanscope::reference
