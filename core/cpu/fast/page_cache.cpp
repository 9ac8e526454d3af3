// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cpu/fast/page_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "core/base/half.h"
#include "core/cpu/fast/vector_kernels.h"
#include "core/model/rotary.h"

namespace spanscope::fast {
namespace {
constexpr std::align_val_t kAlignment{64};
uint32_t pages_for(uint32_t slots) { return (slots + kPageSlots - 1) / kPageSlots; }
}  // namespace

// Zeroed: a kernel may read slots of a page that were never written (it masks them out afterwards).
PageCache::Page::Page(size_t bytes) : data(static_cast<std::byte*>(::operator new(bytes, kAlignment))) {
  std::memset(data, 0, bytes);
}
PageCache::Page::Page(const Page& other, size_t bytes)
    : data(static_cast<std::byte*>(::operator new(bytes, kAlignment))) {
  std::memcpy(data, other.data, bytes);
}
PageCache::Page::~Page() { ::operator delete(data, kAlignment); }

PageCache::PageCache(std::shared_ptr<const Model> model, CacheType type, bool originals)
    : model_(std::move(model)), layers_(model_->recipe.layers), kv_heads_(model_->recipe.kv_heads), dim_(model_->recipe.head_dim), type_(type),
      originals_(originals || model_->recipe.rotary_tables.empty()), raw_(originals_ && !model_->recipe.rotary_tables.empty()) {}

void PageCache::truncate(uint32_t size) {
  if (size >= positions_.size()) return;
  positions_.resize(size);
  pages_.resize(pages_for(size));
  if (size == 0) set_long_rotary(false);
}

void PageCache::make_room(uint32_t slots) {
  const uint32_t needed = pages_for(slots);
  for (uint32_t p = size() / kPageSlots; p < needed; ++p) {
    if (p >= pages_.size())
      pages_.push_back(std::make_shared<Page>(page_bytes()));
    else
      own_page(p);
  }
}

void PageCache::own_page(size_t page) {
  if (pages_[page].use_count() > 1) pages_[page] = std::make_shared<Page>(*pages_[page], page_bytes());
}

void PageCache::write_key(const Page& page, uint32_t layer, uint32_t kv_head, Slot slot, const float* key) {
  const size_t keys = key_offset(layer, kv_head) + slot % kPageSlots;
  if (type_ == CacheType::f16)
    for (uint32_t d = 0; d < dim_; ++d) page.as<uint16_t>()[keys + size_t(d) * kPageSlots] = f32_to_f16(key[d]);
  else
    for (uint32_t d = 0; d < dim_; ++d) page.as<float>()[keys + size_t(d) * kPageSlots] = key[d];
}

void PageCache::write(uint32_t layer, uint32_t kv_head, Slot slot, const float* key, const float* value, const float* original) {
  const Page& page = *pages_[slot / kPageSlots];
  write_key(page, layer, kv_head, slot, key);
  const size_t values = value_offset(layer, kv_head) + size_t(slot % kPageSlots) * dim_;
  if (type_ == CacheType::f16)
    for (uint32_t d = 0; d < dim_; ++d) page.as<uint16_t>()[values + d] = f32_to_f16(value[d]);
  else
    std::memcpy(page.as<float>() + values, value, dim_ * sizeof(float));
  if (keeps_original(layer)) std::memcpy(raw_key(page, layer, kv_head, slot), original, dim_ * sizeof(float));
}

Status PageCache::move_to(std::span<const TokenPos> positions) {
  const Recipe& r = model_->recipe;
  SPANSCOPE_TRY(check_move(r, *this, positions));
  for (Slot slot = 0; slot < size(); ++slot)  // before anything changes: out of memory leaves all as it was
    if (positions[slot] != positions_[slot]) own_page(slot / kPageSlots);
  std::vector<float> cosines(r.rotary_dims / 2), sines(cosines.size()), key(dim_);
  for (size_t table = 0; table < r.rotary_tables.size(); ++table)
    for (Slot slot = 0; slot < size(); ++slot) {
      if (positions[slot] == positions_[slot]) continue;
      rotary_angles(r.rotary_tables[table], long_rotary(), positions[slot], cosines.data(), sines.data());
      const Page& page = *pages_[slot / kPageSlots];
      for (uint32_t l = 0; l < layers_; ++l) {
        if (r.rotary_of_layer[l] != int(table)) continue;
        for (uint32_t h = 0; h < kv_heads_; ++h) {
          std::memcpy(key.data(), raw_key(page, l, h, slot), dim_ * sizeof(float));
          rotate(r.rotary, cosines.data(), sines.data(), uint32_t(cosines.size()), key.data());
          write_key(page, l, h, slot, key.data());
        }
      }
    }
  positions_.assign(positions.begin(), positions.end());
  return {};
}

Status PageCache::check_read(uint32_t layer, SlotRange slots) const {
  if (layer >= layers_ || slots.begin > slots.end || slots.end > size())
    return make_error(ErrorCode::invalid, "SPAN-CACHE", fmt::format("layer {}, slots {} to {} of a cache of {} layers and {} slots", layer, slots.begin,
                                                                    slots.end, layers_, size()));
  return {};
}

Status PageCache::read_keys(uint32_t layer, SlotRange slots, bool original, float* out) const {
  SPANSCOPE_TRY(check_read(layer, slots));
  if (original && !originals_) return Cache::read_keys(layer, slots, original, out);
  for (uint32_t h = 0; h < kv_heads_; ++h)
    for (Slot slot = slots.begin; slot < slots.end; ++slot, out += dim_) {
      const Page& page = *pages_[slot / kPageSlots];
      if (original && keeps_original(layer)) {
        std::memcpy(out, raw_key(page, layer, h, slot), dim_ * sizeof(float));
        continue;
      }
      const size_t keys = key_offset(layer, h) + slot % kPageSlots;
      for (uint32_t d = 0; d < dim_; ++d) {
        const size_t at = keys + size_t(d) * kPageSlots;
        out[d] = type_ == CacheType::f16 ? f16_to_f32(page.as<const uint16_t>()[at]) : page.as<const float>()[at];
      }
    }
  return {};
}

Status PageCache::read_values(uint32_t layer, SlotRange slots, float* out) const {
  SPANSCOPE_TRY(check_read(layer, slots));
  for (uint32_t h = 0; h < kv_heads_; ++h)
    for (Slot slot = slots.begin; slot < slots.end; ++slot, out += dim_) {
      const Page& page = *pages_[slot / kPageSlots];
      const size_t at = value_offset(layer, h) + size_t(slot % kPageSlots) * dim_;
      for (uint32_t d = 0; d < dim_; ++d) out[d] = type_ == CacheType::f16 ? f16_to_f32(page.as<const uint16_t>()[at + d]) : page.as<const float>()[at + d];
    }
  return {};
}

void PageCache::commit(std::span<const TokenPos> positions) {
  positions_.insert(positions_.end(), positions.begin(), positions.end());
}

std::vector<const float*> PageCache::pages() const {
  std::vector<const float*> out(pages_.size());
  for (size_t p = 0; p < pages_.size(); ++p) out[p] = pages_[p]->as<const float>();
  return out;
}
std::vector<const uint16_t*> PageCache::half_pages() const {
  std::vector<const uint16_t*> out(pages_.size());
  for (size_t p = 0; p < pages_.size(); ++p) out[p] = pages_[p]->as<const uint16_t>();
  return out;
}

template <class T>
void PageCache::copy_slot(const PageCache& from, Slot source, Slot target) {
  const T* in = from.pages_[source / kPageSlots]->as<const T>();
  T* out = pages_[target / kPageSlots]->as<T>();
  const uint32_t i = source % kPageSlots, o = target % kPageSlots;
  for (uint32_t l = 0; l < layers_; ++l)
    for (uint32_t h = 0; h < kv_heads_; ++h) {
      const size_t keys = key_offset(l, h), values = value_offset(l, h);
      for (uint32_t d = 0; d < dim_; ++d)
        out[keys + size_t(d) * kPageSlots + o] = in[keys + size_t(d) * kPageSlots + i];
      std::memcpy(out + values + size_t(o) * dim_, in + values + size_t(i) * dim_, dim_ * sizeof(T));
      if (keeps_original(l))
        std::memcpy(raw_key(*pages_[target / kPageSlots], l, h, target), from.raw_key(*from.pages_[source / kPageSlots], l, h, source), dim_ * sizeof(float));
    }
}

std::unique_ptr<Cache> PageCache::select(std::span<const SlotRange> ranges) const {
  auto out = std::make_unique<PageCache>(model_, type_, originals_);
  out->set_long_rotary(long_rotary());
  Slot target = 0;
  for (const SlotRange& r : ranges) {
    const Slot begin = std::min<uint32_t>(r.begin, size()), end = std::min<uint32_t>(r.end, size());
    for (Slot source = begin; source < end;) {
      const uint32_t left = end - source;
      // Pages that stay whole are shared; the last page of all is, too: writing to it copies it first.
      const bool aligned = source % kPageSlots == 0 && target % kPageSlots == 0;
      if (aligned && (left >= kPageSlots || end == size())) {
        const uint32_t count = std::min(left, kPageSlots);
        out->pages_.push_back(pages_[source / kPageSlots]);
        source += count;
        target += count;
        continue;
      }
      if (target % kPageSlots == 0) out->pages_.push_back(std::make_shared<Page>(page_bytes()));
      if (type_ == CacheType::f16)
        out->copy_slot<uint16_t>(*this, source++, target++);
      else
        out->copy_slot<float>(*this, source++, target++);
    }
    if (begin < end)
      out->positions_.insert(out->positions_.end(), positions_.begin() + begin, positions_.begin() + end);
  }
  return out;
}

uint64_t PageCache::bytes() const {
  return pages_.size() * page_bytes() + positions_.capacity() * sizeof(TokenPos);
}

}  // namespace spanscope::fast
