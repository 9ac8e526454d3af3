// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cpu/fast/page_cache.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace spanscope::fast {
namespace {
constexpr std::align_val_t kAlignment{64};
uint32_t pages_for(uint32_t slots) { return (slots + kPageSlots - 1) / kPageSlots; }
}  // namespace

// Zeroed: a kernel may read slots of a page that were never written (it masks them out afterwards).
PageCache::Page::Page(size_t floats)
    : data(static_cast<float*>(::operator new(floats * sizeof(float), kAlignment))) {
  std::memset(data, 0, floats * sizeof(float));
}
PageCache::Page::Page(const Page& other, size_t floats)
    : data(static_cast<float*>(::operator new(floats * sizeof(float), kAlignment))) {
  std::memcpy(data, other.data, floats * sizeof(float));
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
      pages_.push_back(std::make_shared<Page>(page_floats()));
    else if (pages_[p].use_count() > 1)
      pages_[p] = std::make_shared<Page>(*pages_[p], page_floats());
  }
}

void PageCache::write(uint32_t layer, uint32_t kv_head, Slot slot, const float* key, const float* value) {
  float* page = pages_[slot / kPageSlots]->data;
  const uint32_t in_page = slot % kPageSlots;
  float* keys = page + key_offset(layer, kv_head) + in_page;
  for (uint32_t d = 0; d < dim_; ++d) keys[size_t(d) * kPageSlots] = key[d];
  std::memcpy(page + value_offset(layer, kv_head) + size_t(in_page) * dim_, value, dim_ * sizeof(float));
}

void PageCache::commit(std::span<const TokenPos> positions) {
  positions_.insert(positions_.end(), positions.begin(), positions.end());
}

std::vector<const float*> PageCache::pages() const {
  std::vector<const float*> out(pages_.size());
  for (size_t p = 0; p < pages_.size(); ++p) out[p] = pages_[p]->data;
  return out;
}

void PageCache::copy_slot(const PageCache& from, Slot source, Slot target) {
  const float* in = from.pages_[source / kPageSlots]->data;
  float* out = pages_[target / kPageSlots]->data;
  const uint32_t i = source % kPageSlots, o = target % kPageSlots;
  for (uint32_t l = 0; l < layers_; ++l)
    for (uint32_t h = 0; h < kv_heads_; ++h) {
      const size_t keys = key_offset(l, h), values = value_offset(l, h);
      for (uint32_t d = 0; d < dim_; ++d)
        out[keys + size_t(d) * kPageSlots + o] = in[keys + size_t(d) * kPageSlots + i];
      std::memcpy(out + values + size_t(o) * dim_, in + values + size_t(i) * dim_, dim_ * sizeof(float));
    }
}

std::unique_ptr<Cache> PageCache::select(std::span<const SlotRange> ranges) const {
  auto out = std::make_unique<PageCache>(layers_, kv_heads_, dim_);
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
      if (target % kPageSlots == 0) out->pages_.push_back(std::make_shared<Page>(page_floats()));
      out->copy_slot(*this, source++, target++);
    }
    if (begin < end)
      out->positions_.insert(out->positions_.end(), positions_.begin() + begin, positions_.begin() + end);
  }
  return out;
}

uint64_t PageCache::bytes() const {
  return pages_.size() * page_floats() * sizeof(float) + positions_.capacity() * sizeof(TokenPos);
}

}  // namespace spanscope::fast
