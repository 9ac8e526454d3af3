// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cpu/fast/page_cache.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "core/base/half.h"

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
    else if (pages_[p].use_count() > 1)
      pages_[p] = std::make_shared<Page>(*pages_[p], page_bytes());
  }
}

void PageCache::write(uint32_t layer, uint32_t kv_head, Slot slot, const float* key, const float* value) {
  const Page& page = *pages_[slot / kPageSlots];
  const uint32_t in_page = slot % kPageSlots;
  const size_t keys = key_offset(layer, kv_head) + in_page,
               values = value_offset(layer, kv_head) + size_t(in_page) * dim_;
  if (type_ == CacheType::f16) {
    uint16_t* to = page.as<uint16_t>();
    for (uint32_t d = 0; d < dim_; ++d) to[keys + size_t(d) * kPageSlots] = f32_to_f16(key[d]);
    for (uint32_t d = 0; d < dim_; ++d) to[values + d] = f32_to_f16(value[d]);
    return;
  }
  float* to = page.as<float>();
  for (uint32_t d = 0; d < dim_; ++d) to[keys + size_t(d) * kPageSlots] = key[d];
  std::memcpy(to + values, value, dim_ * sizeof(float));
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
    }
}

std::unique_ptr<Cache> PageCache::select(std::span<const SlotRange> ranges) const {
  auto out = std::make_unique<PageCache>(layers_, kv_heads_, dim_, type_);
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
