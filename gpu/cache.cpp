// SPDX-License-Identifier: GPL-3.0-or-later
#include "gpu/cache.h"

#include <algorithm>
#include <numeric>

namespace spanscope::gpu {

GpuCache::GpuCache(std::shared_ptr<const Model> model, int device)
    : model_(std::move(model)),
      device_(device),
      layers_(model_->recipe.layers),
      kv_heads_(model_->recipe.kv_heads),
      dim_(model_->recipe.head_dim),
      pools_(layers_) {}

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
  const uint64_t page = page_floats() * sizeof(float);
  auto more_bytes = [&](uint32_t pages) { return layers_ * (pages - pages_) * page + pages_ * page; };
  uint32_t pages = std::max({needed, pages_ + pages_ / 2, 4u});
  if (more_bytes(pages) > memory.free) pages = needed;
  if (more_bytes(pages) > memory.free)
    return out_of_device_memory(more_bytes(pages), memory,
                                "keys and values of " + std::to_string(slots) + " tokens (" + std::to_string(bytes()) + " bytes held so far)");
  std::vector<uint32_t> page_of(pages);
  std::iota(page_of.begin(), page_of.end(), 0u);
  for (auto& pool : pools_) SPANSCOPE_TRY(pool.grow(pages * page_floats()));
  SPANSCOPE_TRY(page_of_.resize(pages));
  SPANSCOPE_TRY(page_of_.upload(page_of.data(), pages));
  pages_ = pages;
  return {};
}

std::unique_ptr<Cache> GpuCache::select(std::span<const SlotRange> ranges) const {
  auto out = std::make_unique<GpuCache>(model_, device_);
  out->set_long_rotary(long_rotary());
  std::vector<TokenPos> kept;
  std::vector<Slot> from;
  for (const SlotRange& r : ranges)
    for (Slot s = r.begin; s < std::min<uint32_t>(r.end, size()); ++s) {
      kept.push_back(positions_[s]);
      from.push_back(s);
    }
  if (!use_device(device_) || !out->reserve(uint32_t(kept.size()))) return out;
  // Through the host, page by page: selections are rare, and whole layers need not fit twice.
  for (uint32_t l = 0; l < layers_; ++l) {
    std::vector<float> old(pages_ * page_floats()), made(out->pages_ * page_floats());
    if (!pools_[l].download(old.data(), old.size())) return out;
    for (size_t to = 0; to < from.size(); ++to)
      for (uint32_t part = 0; part < 2 * kv_heads_; ++part)
        std::copy_n(old.data() + ((size_t(from[to] / kPage) * kv_heads_ * 2 + part) * kPage + from[to] % kPage) * dim_, dim_,
                    made.data() + ((to / kPage * kv_heads_ * 2 + part) * kPage + to % kPage) * dim_);
    if (!out->pools_[l].upload(made.data(), made.size())) return out;
  }
  out->commit(kept);
  return out;
}

uint64_t GpuCache::bytes() const { return uint64_t(layers_) * pages_ * page_floats() * sizeof(float) + positions_.capacity() * sizeof(TokenPos); }

Status GpuCache::read(uint32_t layer, SlotRange slots, uint32_t value, float* out) const {
  if (layer >= layers_ || slots.begin > slots.end || slots.end > size())
    return make_error(ErrorCode::invalid, "SPAN-CACHE", "layer " + std::to_string(layer) + ", slots " + std::to_string(slots.begin) + " to " +
                                                            std::to_string(slots.end) + " of a cache of " + std::to_string(size()) + " slots");
  SPANSCOPE_TRY(use_device(device_));
  std::vector<float> pool(pages_ * page_floats());
  SPANSCOPE_TRY(pools_[layer].download(pool.data(), pool.size()));
  for (uint32_t h = 0; h < kv_heads_; ++h)
    for (Slot s = slots.begin; s < slots.end; ++s, out += dim_)
      std::copy_n(pool.data() + (((size_t(s / kPage) * kv_heads_ + h) * 2 + value) * kPage + s % kPage) * dim_, dim_, out);
  return {};
}

Status GpuCache::read_keys(uint32_t layer, SlotRange slots, bool original, float* out) const {
  if (original && !has_originals()) return Cache::read_keys(layer, slots, original, out);
  return read(layer, slots, 0, out);
}
Status GpuCache::read_values(uint32_t layer, SlotRange slots, float* out) const { return read(layer, slots, 1, out); }

}  // namespace spanscope::gpu
