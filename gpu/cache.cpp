// SPDX-License-Identifier: GPL-3.0-or-later
#include "gpu/cache.h"

#include <algorithm>
#include <numeric>

#include "core/base/half.h"

namespace spanscope::gpu {

GpuCache::GpuCache(std::shared_ptr<const Model> model, int device, Arithmetic arithmetic, bool originals)
    : model_(std::move(model)),
      device_(device),
      arithmetic_(arithmetic),
      originals_(originals || model_->recipe.rotary_tables.empty()),
      raw_(originals && !model_->recipe.rotary_tables.empty()),
      layers_(model_->recipe.layers),
      kv_heads_(model_->recipe.kv_heads),
      dim_(model_->recipe.head_dim),
      pools_(half() ? 0 : layers_),
      half_pools_(half() ? layers_ : 0),
      raw_pools_(raw_ ? layers_ : 0) {}

void GpuCache::truncate(uint32_t size) {
  if (size < positions_.size()) positions_.resize(size);
  if (positions_.empty()) set_long_rotary(false);
}

Status GpuCache::reserve(uint32_t slots) {
  const uint32_t needed = (slots + kPage - 1) / kPage;
  if (needed <= pages_) return {};
  SPANSCOPE_TRY(use_device(device_));
  // A pool that grows is there twice for a moment. Room for half as many again when there is so much, else for what is asked.
  const DeviceMemory memory = device_memory();
  const uint64_t page = page_bytes();
  auto more_bytes = [&](uint32_t pages) { return layers_ * (pages - pages_) * page + pages_ * page; };
  uint32_t pages = std::max({needed, pages_ + pages_ / 2, 4u});
  if (more_bytes(pages) > memory.free) pages = needed;
  if (more_bytes(pages) > memory.free)
    return out_of_device_memory(more_bytes(pages), memory,
                                "keys and values of " + std::to_string(slots) + " tokens (" + std::to_string(bytes()) + " bytes held so far)");
  std::vector<uint32_t> page_of(pages);
  std::iota(page_of.begin(), page_of.end(), 0u);
  SPANSCOPE_TRY(grow(pools_, pages * page_numbers()));
  SPANSCOPE_TRY(grow(half_pools_, pages * page_numbers()));
  for (uint32_t l = 0; l < layers_; ++l)
    if (keeps_original(l)) SPANSCOPE_TRY(raw_pools_[l].grow(pages * raw_numbers()));
  SPANSCOPE_TRY(page_of_.resize(pages));
  SPANSCOPE_TRY(page_of_.upload(page_of.data(), pages));
  pages_ = pages;
  return {};
}

template <class E>
Status GpuCache::grow(std::vector<Array<E>>& pools, size_t numbers) {
  for (auto& pool : pools) SPANSCOPE_TRY(pool.grow(numbers));
  return {};
}

// Through the host, layer by layer: selections are rare, and whole layers need not fit twice.
template <class E>
bool GpuCache::copy_slots(const std::vector<Array<E>>& from, const std::vector<Slot>& slots, std::vector<Array<E>>& to, uint32_t to_pages,
                          uint32_t parts) const {
  const size_t heads = size_t(kv_heads_) * parts, numbers = heads * kPage * dim_;
  for (size_t l = 0; l < from.size(); ++l) {
    if (from[l].size() == 0) continue;
    std::vector<E> old(pages_ * numbers), made(to_pages * numbers);
    if (!from[l].download(old.data(), old.size())) return false;
    for (size_t i = 0; i < slots.size(); ++i)
      for (size_t part = 0; part < heads; ++part)
        std::copy_n(old.data() + ((slots[i] / kPage * heads + part) * kPage + slots[i] % kPage) * dim_, dim_,
                    made.data() + ((i / kPage * heads + part) * kPage + i % kPage) * dim_);
    if (!to[l].upload(made.data(), made.size())) return false;
  }
  return true;
}

std::unique_ptr<Cache> GpuCache::select(std::span<const SlotRange> ranges) const {
  auto out = std::make_unique<GpuCache>(model_, device_, arithmetic_, originals_);
  out->set_long_rotary(long_rotary());
  std::vector<TokenPos> kept;
  std::vector<Slot> from;
  for (const SlotRange& r : ranges)
    for (Slot s = r.begin; s < std::min<uint32_t>(r.end, size()); ++s) {
      kept.push_back(positions_[s]);
      from.push_back(s);
    }
  if (!use_device(device_) || !out->reserve(uint32_t(kept.size()))) return out;
  if (!copy_slots(pools_, from, out->pools_, out->pages_, 2) || !copy_slots(half_pools_, from, out->half_pools_, out->pages_, 2) ||
      !copy_slots(raw_pools_, from, out->raw_pools_, out->pages_, 1))
    return out;
  out->commit(kept);
  return out;
}

uint64_t GpuCache::bytes() const { return uint64_t(layers_) * pages_ * page_bytes() + positions_.capacity() * sizeof(TokenPos); }

Status GpuCache::read(uint32_t layer, SlotRange slots, Part part, float* out) const {
  if (layer >= layers_ || slots.begin > slots.end || slots.end > size())
    return make_error(ErrorCode::invalid, "SPAN-CACHE", "layer " + std::to_string(layer) + ", slots " + std::to_string(slots.begin) + " to " +
                                                            std::to_string(slots.end) + " of a cache of " + std::to_string(size()) + " slots");
  SPANSCOPE_TRY(use_device(device_));
  if (part == Part::originals && keeps_original(layer)) return read_pool(raw_pools_[layer], slots, 1, 0, out);
  const uint32_t value = part == Part::values;
  return half() ? read_pool(half_pools_[layer], slots, 2, value, out) : read_pool(pools_[layer], slots, 2, value, out);
}

template <class E>
Status GpuCache::read_pool(const Array<E>& from, SlotRange slots, uint32_t parts, uint32_t part, float* out) const {
  std::vector<E> pool(from.size());
  SPANSCOPE_TRY(from.download(pool.data(), pool.size()));
  for (uint32_t h = 0; h < kv_heads_; ++h)
    for (Slot s = slots.begin; s < slots.end; ++s)
      for (uint32_t d = 0; d < dim_; ++d) {
        const E x = pool[(((size_t(s / kPage) * kv_heads_ + h) * parts + part) * kPage + s % kPage) * dim_ + d];
        if constexpr (sizeof(E) == 2) *out++ = f16_to_f32(x);
        else *out++ = x;
      }
  return {};
}

Status GpuCache::read_keys(uint32_t layer, SlotRange slots, bool original, float* out) const {
  if (original && !has_originals()) return Cache::read_keys(layer, slots, original, out);
  return read(layer, slots, original ? Part::originals : Part::keys, out);
}
Status GpuCache::read_values(uint32_t layer, SlotRange slots, float* out) const { return read(layer, slots, Part::values, out); }

}  // namespace spanscope::gpu
