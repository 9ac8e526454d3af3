// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cpu/fast/attention.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "core/cpu/fast/vector_kernels.h"

namespace spanscope::fast {
namespace {
constexpr uint32_t kNarrowRows = 8;  // passes of at most this many rows run narrow
uint32_t tiles_of(uint32_t rows) { return (rows + kTileRows - 1) / kTileRows; }
}  // namespace

Attention::Attention(Team& team, const Recipe& recipe)
    : team_(team), recipe_(recipe), scratch_(team.threads()) {}

void Attention::begin_pass(const PageCache& cache, std::span<const TokenPos> positions, uint32_t rows,
                           MassFold* fold) {
  cache_ = &cache;
  const bool half = cache.type() == CacheType::f16;
  pages_ = half ? std::vector<const float*>() : cache.pages();
  half_pages_ = half ? cache.half_pages() : std::vector<const uint16_t*>();
  positions_ = positions;
  rows_ = rows;
  fold_ = fold;
  windows_known_ = false;
  const uint32_t padded = tiles_of(rows) * kTileRows, slots = uint32_t(positions.size());
  first_.resize(padded);
  end_.resize(padded);
  const uint32_t dim = recipe_.head_dim, heads = recipe_.query_heads;
  const uint32_t key_tiles = (slots + kTileKeys - 1) / kTileKeys;
  for (Scratch& s : scratch_) {
    s.kernel.need(std::max(wide_scratch_floats(dim), narrow_scratch_floats()));
    if (!fold) continue;
    if (rows > kNarrowRows) {
      s.segment_sums.need(size_t(fold->segment_count()) * kTileRows);
      s.tile_max.need(size_t(key_tiles) * kTileRows);
      s.mass.need(size_t(fold->leaves() + 2) * kTileRows);
    } else {
      s.mass.need(fold->leaves() + 2);
    }
  }
  if (rows > kNarrowRows) return;
  parts_ = (slots + kPartKeys - 1) / kPartKeys;
  part_max_.resize(size_t(rows) * heads * parts_);
  part_sum_.resize(part_max_.size());
  part_out_.resize(part_max_.size() * dim);
  if (fold) {
    part_segments_ = fold->segment_count();
    part_segment_sums_.resize(size_t(rows) * heads * part_segments_);
  }
}

void Attention::begin_layer(uint32_t layer, const float* sinks) {
  layer_ = layer;
  sinks_ = sinks;
  if (windows_known_ && recipe_.window[layer] == window_) return;
  windows_known_ = true;
  window_ = recipe_.window[layer];
  const uint32_t base = uint32_t(positions_.size()) - rows_;
  for (uint32_t i = 0; i < first_.size(); ++i) {
    if (i >= rows_) {
      first_[i] = first_[rows_ - 1];
      end_[i] = end_[rows_ - 1];
      continue;
    }
    // Key j is visible to row i when j <= i and pos(i) - pos(j) < window; positions ascend, so that is one
    // run.
    const Slot slot = base + i;
    const TokenPos at = positions_[slot];
    auto from = positions_.begin();
    if (window_ && at >= window_)
      from = std::upper_bound(positions_.begin(), positions_.begin() + slot, at - window_);
    first_[i] = int32_t(from - positions_.begin());
    end_[i] = int32_t(slot + 1);
  }
}

KeyPages Attention::keys_of(unsigned thread, uint32_t kv_head, uint32_t first, uint32_t end) {
  const size_t keys = cache_->key_offset(layer_, kv_head), values = cache_->value_offset(layer_, kv_head);
  if (half_pages_.empty()) return {pages_.data(), keys, values};
  // Kernels read whole key tiles, whose pages may reach beyond both ends.
  const uint32_t tile_pages = kTileKeys / kPageSlots, all = uint32_t(half_pages_.size());
  const uint32_t from = first / kPageSlots / tile_pages * tile_pages, to = std::min(all, (end + kPageSlots - 1) / kPageSlots);
  const size_t elements = size_t(2) * kPageSlots * recipe_.head_dim;
  Scratch& s = scratch_[thread];
  float* out = s.widened.need((to - from) * elements);
  s.pages.assign(all, nullptr);
  for (uint32_t page = from; page < to; ++page, out += elements) {
    widen_halves(half_pages_[page] + keys, out, elements);  // values lie behind the keys
    s.pages[page] = out;
  }
  return {s.pages.data(), 0, values - keys};
}

bool Attention::run(const float* q, float* out, const std::stop_token& stop) {
  return rows_ > kNarrowRows ? run_wide(q, out, stop) : run_narrow(q, out, stop);
}

bool Attention::run_wide(const float* q, float* out, const std::stop_token& stop) {
  const uint32_t heads = recipe_.query_heads, dim = recipe_.head_dim, group = heads / recipe_.kv_heads;
  const uint32_t tiles = tiles_of(rows_);
  const size_t stride = size_t(heads) * dim;
  std::atomic<bool> stopped{false};
  // Late tiles see the most keys: they go first, so that no thread is left with a long one. Heads that share
  // keys follow each other.
  team_.for_each(size_t(tiles) * heads, [&](size_t item, unsigned thread) {
    if (stop.stop_requested()) {
      stopped.store(true, std::memory_order_relaxed);
      return;
    }
    const uint32_t tile = tiles - 1 - uint32_t(item / heads), head = uint32_t(item % heads);
    const uint32_t row = tile * kTileRows;
    Scratch& s = scratch_[thread];
    WideTile t;
    t.keys = keys_of(thread, head / group, uint32_t(first_[row]), uint32_t(end_[row + kTileRows - 1]));
    t.rule = {recipe_.attention_scale, recipe_.score_cap};
    t.sink = sinks_ ? sinks_ + head : nullptr;
    t.dim = dim;
    t.rows = std::min(kTileRows, rows_ - row);
    t.q = q + row * stride + size_t(head) * dim;
    t.q_stride = stride;
    t.first = first_.data() + row;
    t.end = end_.data() + row;
    t.out = out + row * stride + size_t(head) * dim;
    t.out_stride = stride;
    t.scratch = s.kernel.data();
    if (fold_) {
      t.segments = fold_->segments();
      t.tile_segment = fold_->tile_segment();
      t.segment_sums = s.segment_sums.data();
      t.tile_max = s.tile_max.data();
      t.leaves = fold_->leaves();
      if (float* lse = fold_->row_lse()) t.lse = lse + size_t(row) * heads + head, t.lse_stride = heads;
      t.mass = s.mass.data();
    }
    wide_attention(t);
    if (fold_) fold_->fold_tile(thread, tile, head, t.mass, t.leaf_first, t.leaf_end);
  });
  return !stopped.load();
}

bool Attention::run_narrow(const float* q, float* out, const std::stop_token& stop) {
  const uint32_t heads = recipe_.query_heads, dim = recipe_.head_dim, group = heads / recipe_.kv_heads;
  const uint32_t calls = (group + kGroupHeads - 1) / kGroupHeads;  // of one KV head and row
  std::atomic<bool> stopped{false};
  const size_t per_row = size_t(recipe_.kv_heads) * calls * parts_;
  team_.for_each(rows_ * per_row, [&](size_t item, unsigned thread) {
    if (stop.stop_requested()) {
      stopped.store(true, std::memory_order_relaxed);
      return;
    }
    const uint32_t row = uint32_t(item / per_row), part = uint32_t(item % parts_);
    const uint32_t call = uint32_t(item / parts_ % calls),
                   kv_head = uint32_t(item / parts_ / calls % recipe_.kv_heads);
    const uint32_t head = kv_head * group + call * kGroupHeads;
    NarrowPart p;
    p.first = std::max(uint32_t(first_[row]), part * kPartKeys);
    p.end = std::min(uint32_t(end_[row]), (part + 1) * kPartKeys);
    if (p.first >= p.end) return;
    p.keys = keys_of(thread, kv_head, p.first, p.end);
    p.rule = {recipe_.attention_scale, recipe_.score_cap};
    p.dim = dim;
    p.heads = std::min(kGroupHeads, group - call * kGroupHeads);
    p.q = q + (size_t(row) * heads + head) * dim;
    p.scratch = scratch_[thread].kernel.data();
    // [row][part][head], so that the heads of a call are neighbours.
    const size_t at = (size_t(row) * parts_ + part) * heads + head;
    p.max = part_max_.data() + at;
    p.sum = part_sum_.data() + at;
    p.out = part_out_.data() + at * dim;
    if (fold_) {
      const uint32_t from = fold_->tile_segment()[part * (kPartKeys / kTileKeys)];
      const uint32_t last_tile = std::min((part + 1) * (kPartKeys / kTileKeys),
                                          uint32_t(positions_.size() + kTileKeys - 1) / kTileKeys);
      p.segments = fold_->segments() + from;
      p.segment_count = fold_->tile_segment()[last_tile] - from;
      p.segment_sums = part_segment_sums_.data() + (size_t(row) * heads + head) * part_segments_ + from;
      p.segment_stride = part_segments_;
    }
    narrow_attention(p);
  });
  if (stopped.load()) return false;
  team_.for_each(size_t(rows_) * heads, [&](size_t item, unsigned thread) {
    const uint32_t row = uint32_t(item / heads), head = uint32_t(item % heads);
    join(thread, row, head, out + (size_t(row) * heads + head) * dim);
  });
  return true;
}

// Brings the partitions of one row and head under one maximum.
void Attention::join(unsigned thread, uint32_t row, uint32_t head, float* out) {
  const uint32_t heads = recipe_.query_heads, dim = recipe_.head_dim;
  const uint32_t from = uint32_t(first_[row]) / kPartKeys,
                 to = (uint32_t(end_[row]) + kPartKeys - 1) / kPartKeys;
  const auto at = [&](uint32_t part) { return (size_t(row) * parts_ + part) * heads + head; };
  float top = part_max_[at(from)];
  for (uint32_t part = from + 1; part < to; ++part) top = std::max(top, part_max_[at(part)]);
  if (sinks_) top = std::max(top, sinks_[head]);
  float total = sinks_ ? std::exp(sinks_[head] - top) : 0.0f;
  for (uint32_t part = from; part < to; ++part)
    total += part_sum_[at(part)] * std::exp(part_max_[at(part)] - top);
  std::fill_n(out, dim, 0.0f);
  for (uint32_t part = from; part < to; ++part) {
    const float factor = std::exp(part_max_[at(part)] - top) / total;
    const float* piece = part_out_.data() + at(part) * dim;
    for (uint32_t d = 0; d < dim; ++d) out[d] += piece[d] * factor;
  }
  if (!fold_) return;
  if (float* lse = fold_->row_lse()) lse[size_t(row) * heads + head] = top + std::log(total);
  float* mass = scratch_[thread].mass.data();
  std::fill_n(mass, fold_->leaves() + 2, 0.0f);
  if (sinks_) mass[fold_->leaves() + 1] = std::exp(sinks_[head] - top) / total;
  const float* sums = part_segment_sums_.data() + (size_t(row) * heads + head) * part_segments_;
  const uint32_t key_tiles = uint32_t(positions_.size() + kTileKeys - 1) / kTileKeys;
  for (uint32_t part = from; part < to; ++part) {
    const float factor = std::exp(part_max_[at(part)] - top) / total;
    const uint32_t first_tile = part * (kPartKeys / kTileKeys),
                   last_tile = std::min((part + 1) * (kPartKeys / kTileKeys), key_tiles);
    for (uint32_t g = fold_->tile_segment()[first_tile]; g < fold_->tile_segment()[last_tile]; ++g)
      mass[fold_->segments()[g].leaf] += sums[g] * factor;
  }
  fold_->fold_row(thread, row, head, mass);
}

}  // namespace spanscope::fast
