// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cpu/reference/cache.h"

#include <algorithm>

#include "core/base/half.h"

namespace spanscope::reference {

void ReferenceCache::truncate(uint32_t size) {
  if (size < positions_.size()) positions_.resize(size);
  if (positions_.empty()) set_long_rotary(false);
}

void ReferenceCache::reserve(uint32_t slots) {
  if (slots <= capacity_) return;
  const uint32_t capacity = std::max<uint32_t>({slots, capacity_ + capacity_ / 2, 32});
  const size_t elements = size_t(layers_) * kv_heads_ * capacity * dim_;
  positions_.reserve(capacity);
  std::vector<float> keys(elements), values(elements);
  for (size_t run = 0; run < size_t(layers_) * kv_heads_; ++run) {
    const size_t from = run * capacity_ * dim_, to = run * capacity * dim_, count = positions_.size() * dim_;
    std::copy_n(keys_.data() + from, count, keys.data() + to);
    std::copy_n(values_.data() + from, count, values.data() + to);
  }
  keys_ = std::move(keys);
  values_ = std::move(values);
  capacity_ = capacity;
}

void ReferenceCache::write(uint32_t layer, uint32_t kv_head, Slot slot, const float* key, const float* value) {
  float *k = this->key(layer, kv_head, slot), *v = this->value(layer, kv_head, slot);
  for (uint32_t d = 0; d < dim_; ++d) {
    k[d] = type_ == CacheType::f16 ? f16_to_f32(f32_to_f16(key[d])) : key[d];
    v[d] = type_ == CacheType::f16 ? f16_to_f32(f32_to_f16(value[d])) : value[d];
  }
}

void ReferenceCache::commit(std::span<const TokenPos> positions) {
  positions_.insert(positions_.end(), positions.begin(), positions.end());
}

std::unique_ptr<Cache> ReferenceCache::select(std::span<const SlotRange> ranges) const {
  auto out = std::make_unique<ReferenceCache>(layers_, kv_heads_, dim_, type_);
  out->set_long_rotary(long_rotary());
  uint32_t total = 0;
  for (const SlotRange& r : ranges)
    total += std::min<uint32_t>(r.end, size()) - std::min<uint32_t>(r.begin, size());
  out->reserve(total);
  Slot to = 0;
  for (const SlotRange& r : ranges) {
    const Slot begin = std::min<uint32_t>(r.begin, size()), count = std::min<uint32_t>(r.end, size()) - begin;
    for (uint32_t l = 0; l < layers_; ++l)
      for (uint32_t h = 0; h < kv_heads_; ++h) {
        std::copy_n(keys_.data() + at(l, h, begin), size_t(count) * dim_, out->key(l, h, to));
        std::copy_n(values_.data() + at(l, h, begin), size_t(count) * dim_, out->value(l, h, to));
      }
    out->commit(positions().subspan(begin, count));
    to += count;
  }
  return out;
}

uint64_t ReferenceCache::bytes() const {
  return (keys_.capacity() + values_.capacity()) * sizeof(float) + positions_.capacity() * sizeof(TokenPos);
}

}  // namespace spanscope::reference
