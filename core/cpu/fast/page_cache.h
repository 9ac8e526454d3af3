// SPDX-License-Identifier: GPL-3.0-or-later
// Keys (rotated) and values in pages of 16 positions. A page is shared between forks until one of them writes
// to it. Inside a page, per layer and KV head: keys [dim][16] (a dimension's 16 keys side by side, so that a
// kernel either loads them as a vector or broadcasts neighbours), then values [16][dim]; f32 or f16. On request a page holds keys from before rotation
// too, behind all that, always as f32 [layer][kv head][16][dim]. Engine thread only.
#pragma once
#include <cstddef>
#include <memory>
#include <vector>

#include "core/model/backend.h"
#include "core/model/weights.h"

namespace spanscope::fast {

inline constexpr uint32_t kPageSlots = 16;

class PageCache final : public Cache {
 public:
  PageCache(std::shared_ptr<const Model> model, CacheType type, bool originals);

  uint32_t size() const override { return uint32_t(positions_.size()); }
  TokenPos position(Slot slot) const override { return positions_[slot]; }
  void truncate(uint32_t size) override;
  std::unique_ptr<Cache> select(std::span<const SlotRange> ranges) const override;
  bool has_originals() const override { return originals_; }
  Status move_to(std::span<const TokenPos> positions) override;
  Status read_keys(uint32_t layer, SlotRange slots, bool original, float* out) const override;
  Status read_values(uint32_t layer, SlotRange slots, float* out) const override;
  uint64_t bytes() const override;  // pages shared with another cache count in both

  bool fits(uint32_t layers, uint32_t kv_heads, uint32_t dim) const {
    return layers == layers_ && kv_heads == kv_heads_ && dim == dim_;
  }
  // Pages for `slots` slots, those from size() on not shared. Throws std::bad_alloc; what is stored stays as
  // it was.
  void make_room(uint32_t slots);
  // Writes to slots >= size() within the room made; they count from commit() on, so a failed pass leaves no
  // trace. original: the key before rotation, looked at only when keeps_original(layer).
  void write(uint32_t layer, uint32_t kv_head, Slot slot, const float* key, const float* value, const float* original);
  bool keeps_original(uint32_t layer) const { return raw_ && model_->recipe.rotary_of_layer[layer] >= 0; }
  void commit(std::span<const TokenPos> positions);

  std::span<const TokenPos> positions() const { return positions_; }
  CacheType type() const { return type_; }
  std::vector<const float*> pages() const;          // of an f32 cache
  std::vector<const uint16_t*> half_pages() const;  // of an f16 cache
  size_t key_offset(uint32_t layer, uint32_t kv_head) const {  // elements from a page's begin
    return (size_t(layer) * kv_heads_ + kv_head) * 2 * kPageSlots * dim_;
  }
  size_t value_offset(uint32_t layer, uint32_t kv_head) const {
    return key_offset(layer, kv_head) + size_t(kPageSlots) * dim_;
  }

 private:
  struct Page {
    explicit Page(size_t bytes);
    Page(const Page& other, size_t bytes);
    ~Page();
    Page& operator=(const Page&) = delete;
    std::byte* data;
    template <class T>
    T* as() const {
      return reinterpret_cast<T*>(data);
    }
  };
  size_t plain_bytes() const {
    return size_t(layers_) * kv_heads_ * 2 * kPageSlots * dim_ * (type_ == CacheType::f16 ? 2 : 4);
  }
  size_t page_bytes() const { return plain_bytes() + (raw_ ? size_t(layers_) * kv_heads_ * kPageSlots * dim_ * 4 : 0); }
  // A slot's key before rotation.  // [dim]
  float* raw_key(const Page& page, uint32_t layer, uint32_t kv_head, Slot slot) const {
    return reinterpret_cast<float*>(page.data + plain_bytes()) + ((size_t(layer) * kv_heads_ + kv_head) * kPageSlots + slot % kPageSlots) * dim_;
  }
  Status check_read(uint32_t layer, SlotRange slots) const;
  void write_key(const Page& page, uint32_t layer, uint32_t kv_head, Slot slot, const float* key);
  void own_page(size_t page);  // copies it when it is shared
  template <class T>
  void copy_slot(const PageCache& from, Slot source, Slot target);

  std::shared_ptr<const Model> model_;
  uint32_t layers_, kv_heads_, dim_;
  CacheType type_;
  bool originals_, raw_;  // keys from before rotation are known; pages hold them (some layer rotates)
  std::vector<std::shared_ptr<Page>> pages_;
  std::vector<TokenPos> positions_;  // [size], ascending
};

}  // namespace spanscope::fast
