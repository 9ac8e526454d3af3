// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cpu/reference/cache.h"

#include <algorithm>

#include "core/base/half.h"
#include "core/cpu/reference/kernels.h"
#include "core/model/rotary.h"

namespace spanscope::reference {

ReferenceCache::ReferenceCache(std::shared_ptr<const Model> model, CacheType type, bool originals)
    : model_(std::move(model)), layers_(model_->recipe.layers), kv_heads_(model_->recipe.kv_heads), dim_(model_->recipe.head_dim), type_(type),
      originals_(originals || model_->recipe.rotary_tables.empty()) {}

bool ReferenceCache::keeps_original(uint32_t layer) const { return originals_ && model_->recipe.rotary_of_layer[layer] >= 0; }

void ReferenceCache::truncate(uint32_t size) {
  if (size < positions_.size()) positions_.resize(size);
  if (positions_.empty()) set_long_rotary(false);
}

void ReferenceCache::reserve(uint32_t slots) {
  if (slots <= capacity_) return;
  const uint32_t capacity = std::max<uint32_t>({slots, capacity_ + capacity_ / 2, 32});
  const size_t elements = size_t(layers_) * kv_heads_ * capacity * dim_;
  positions_.reserve(capacity);
  const bool raw = originals_ && !model_->recipe.rotary_tables.empty();
  std::vector<float> keys(elements), values(elements), raw_keys(raw ? elements : 0);
  for (size_t run = 0; run < size_t(layers_) * kv_heads_; ++run) {
    const size_t from = run * capacity_ * dim_, to = run * capacity * dim_, count = positions_.size() * dim_;
    std::copy_n(keys_.data() + from, count, keys.data() + to);
    std::copy_n(values_.data() + from, count, values.data() + to);
    if (raw && capacity_) std::copy_n(raw_keys_.data() + from, count, raw_keys.data() + to);
  }
  keys_ = std::move(keys);
  raw_keys_ = std::move(raw_keys);
  values_ = std::move(values);
  capacity_ = capacity;
}

void ReferenceCache::write_key(uint32_t layer, uint32_t kv_head, Slot slot, const float* key) {
  float* k = this->key(layer, kv_head, slot);
  for (uint32_t d = 0; d < dim_; ++d) k[d] = type_ == CacheType::f16 ? f16_to_f32(f32_to_f16(key[d])) : key[d];
}

void ReferenceCache::write(uint32_t layer, uint32_t kv_head, Slot slot, const float* key, const float* value, const float* original) {
  write_key(layer, kv_head, slot, key);
  float* v = this->value(layer, kv_head, slot);
  for (uint32_t d = 0; d < dim_; ++d) v[d] = type_ == CacheType::f16 ? f16_to_f32(f32_to_f16(value[d])) : value[d];
  if (keeps_original(layer)) std::copy_n(original, dim_, raw_keys_.data() + at(layer, kv_head, slot));
}

Status ReferenceCache::move_to(std::span<const TokenPos> positions) {
  SPANSCOPE_TRY(check_move(model_->recipe, *this, positions));
  const Recipe& r = model_->recipe;
  std::vector<float> cosines(r.rotary_dims / 2), sines(cosines.size()), key(dim_);
  for (uint32_t l = 0; l < layers_; ++l) {
    if (r.rotary_of_layer[l] < 0) continue;
    for (Slot slot = 0; slot < size(); ++slot) {
      if (positions[slot] == positions_[slot]) continue;
      rotary_angles(r.rotary_tables[size_t(r.rotary_of_layer[l])], long_rotary(), positions[slot], cosines.data(), sines.data());
      for (uint32_t h = 0; h < kv_heads_; ++h) {
        std::copy_n(raw_keys_.data() + at(l, h, slot), dim_, key.data());
        rotate_pairs(r, cosines.data(), sines.data(), key.data());
        write_key(l, h, slot, key.data());
      }
    }
  }
  positions_.assign(positions.begin(), positions.end());
  return {};
}

Status ReferenceCache::check_read(uint32_t layer, SlotRange slots) const {
  if (layer >= layers_ || slots.begin > slots.end || slots.end > size())
    return make_error(ErrorCode::invalid, "SPAN-CACHE", "layer " + std::to_string(layer) + ", slots " + std::to_string(slots.begin) + " to " +
                                                            std::to_string(slots.end) + " of a cache of " + std::to_string(layers_) + " layers and " +
                                                            std::to_string(size()) + " slots");
  return {};
}

Status ReferenceCache::read_keys(uint32_t layer, SlotRange slots, bool original, float* out) const {
  SPANSCOPE_TRY(check_read(layer, slots));
  if (original && !originals_) return Cache::read_keys(layer, slots, original, out);
  const std::vector<float>& from = original && keeps_original(layer) ? raw_keys_ : keys_;
  const size_t count = size_t(slots.end - slots.begin) * dim_;
  for (uint32_t h = 0; h < kv_heads_; ++h, out += count) std::copy_n(from.data() + at(layer, h, slots.begin), count, out);
  return {};
}

Status ReferenceCache::read_values(uint32_t layer, SlotRange slots, float* out) const {
  SPANSCOPE_TRY(check_read(layer, slots));
  const size_t count = size_t(slots.end - slots.begin) * dim_;
  for (uint32_t h = 0; h < kv_heads_; ++h, out += count) std::copy_n(values_.data() + at(layer, h, slots.begin), count, out);
  return {};
}

void ReferenceCache::commit(std::span<const TokenPos> positions) {
  positions_.insert(positions_.end(), positions.begin(), positions.end());
}

std::unique_ptr<Cache> ReferenceCache::select(std::span<const SlotRange> ranges) const {
  auto out = std::make_unique<ReferenceCache>(model_, type_, originals_);
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
        if (keeps_original(l)) std::copy_n(raw_keys_.data() + at(l, h, begin), size_t(count) * dim_, out->raw_keys_.data() + out->at(l, h, to));
      }
    out->commit(positions().subspan(begin, count));
    to += count;
  }
  return out;
}

uint64_t ReferenceCache::bytes() const {
  return (keys_.capacity() + values_.capacity() + raw_keys_.capacity()) * sizeof(float) + positions_.capacity() * sizeof(TokenPos);
}

}  // namespace spanscope::reference
