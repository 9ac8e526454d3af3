// SPDX-License-Identifier: GPL-3.0-or-later
#include "gpu/attention.h"

#include <algorithm>

#include "gpu/kernels/decode_attention.cuh"
#include "gpu/kernels/prefill_attention.cuh"

namespace spanscope::gpu {
namespace {
// What a block may use so that it runs on every card from sm_80 on (sm_86 and sm_89 have the least).
constexpr uint32_t kSharedLimit = 99u << 10;
}  // namespace

bool attention_has(uint32_t dim) {
  return bool(with_head_dim(dim, [](auto) { return Status{}; }));
}

uint32_t attention_shared_bytes(uint32_t dim, Arithmetic arithmetic) {
  uint32_t bytes = 0;
  (void)with_head_dim(dim, [&](auto d) {
    bytes = arithmetic == Arithmetic::fast ? std::max(PrefillShared<uint16_t, d()>::bytes(0), DecodeShared<uint16_t, d()>::kBytes)
                                           : std::max(PrefillShared<float, d()>::bytes(0), DecodeShared<float, d()>::kBytes);
    return Status{};
  });
  return bytes;
}

Status Attention::begin_pass(std::span<const TokenPos> positions, uint32_t first_slot, PlanTables* tables, DevicePlan* plan) {
  positions_.assign(positions.begin(), positions.end());
  first_slot_ = first_slot;
  rows_ = uint32_t(positions.size()) - first_slot;
  tables_ = tables;
  plan_ = plan;
  ranges_.clear();
  for (uint32_t window : recipe_.window) {
    if (std::any_of(ranges_.begin(), ranges_.end(), [&](const Ranges& r) { return r.window == window; })) continue;
    ranges_.emplace_back();
    SPANSCOPE_TRY(make_ranges(window, ranges_.back()));
  }
  return {};
}

// Positions ascend with slots, so what a row sees is one run of slots.
Status Attention::make_ranges(uint32_t window, Ranges& out) {
  std::vector<uint32_t> first(rows_), end(rows_), tile;
  for (uint32_t i = 0; i < rows_; ++i) {
    const uint32_t slot = first_slot_ + i;
    end[i] = slot + 1;
    if (window && positions_[slot] >= window)
      first[i] = uint32_t(std::upper_bound(positions_.begin(), positions_.begin() + slot, positions_[slot] - window) - positions_.begin());
  }
  out.window = window;
  out.key_end = end.back();
  for (uint32_t i = 0; i < rows_; i += kTileRows) {
    const uint32_t last = std::min(rows_, i + kTileRows) - 1;
    const auto leaves = tables_ ? tables_->leaves_in(first[i], end[last]) : std::pair{0u, 0u};
    tile.insert(tile.end(), {first[i], end[last], leaves.first, leaves.second});
    out.most_leaves = std::max(out.most_leaves, leaves.second - leaves.first);
  }
  SPANSCOPE_TRY(out.first.resize(rows_));
  SPANSCOPE_TRY(out.end.resize(rows_));
  SPANSCOPE_TRY(out.tile.resize(tile.size()));
  SPANSCOPE_TRY(out.first.upload(first.data(), rows_));
  SPANSCOPE_TRY(out.end.upload(end.data(), rows_));
  return out.tile.upload(tile.data(), tile.size());
}

Status Attention::run(uint32_t layer, GpuCache& cache, Global<const float> q, Global<const float> sinks, Global<float> out) {
  if (cache.half()) {
    AttentionParams<uint16_t> p;
    const Global<uint16_t> pool = cache.half_pool(layer);
    p.pool = {pool.data, pool.size};
    p.page_of = cache.page_of();
    return run_mode<HalfF16>(layer, p, q, sinks, out);
  }
  AttentionParams<float> p;
  const Global<float> pool = cache.pool(layer);
  p.pool = {pool.data, pool.size};
  p.page_of = cache.page_of();
  return run_mode<Exact>(layer, p, q, sinks, out);
}

template <class Mode>
Status Attention::run_mode(uint32_t layer, AttentionParams<typename Mode::Element>& p, Global<const float> q, Global<const float> sinks,
                           Global<float> out) {
  const Ranges& ranges = of_layer(layer);
  set_rows(layer, p);
  p.q = q;
  p.out = out;
  p.sinks = sinks;
  p.shared_leaves = ranges.most_leaves;  // as many as there are; launch_planned says how many fit
  if (rows_ <= kDecodeRows) {
    const size_t cells = size_t(rows_) * p.heads;
    p.parts = (ranges.key_end + kPartKeys - 1) / kPartKeys;
    if (plan_) plan_->set_segments(p);
    SPANSCOPE_TRY(part_max_.resize(cells * p.parts));
    SPANSCOPE_TRY(part_sum_.resize(cells * p.parts));
    SPANSCOPE_TRY(part_out_.resize(cells * p.parts * recipe_.head_dim));
    SPANSCOPE_TRY(part_segment_sum_.resize(cells * p.segments));
    p.part_max = part_max_.view();
    p.part_sum = part_sum_.view();
    p.part_out = part_out_.view();
    p.part_segment_sum = part_segment_sum_.view();
  }
  do {
    if (tables_) {
      tables_->begin_layer(layer);
      auto arrays = plan_->begin_layer(*tables_);
      if (!arrays) return arrays.error();
      p.plan = *arrays;
    }
    SPANSCOPE_TRY(with_head_dim(recipe_.head_dim, [&](auto dim) { return launch_dim<Mode, dim()>(p); }));
    if (tables_) SPANSCOPE_TRY(plan_->end_layer(*tables_));
  } while (tables_ && tables_->grow_events());  // with more room the same launch finds the same events, all of them
  return {};
}

template <class Mode, uint32_t kDim>
Status Attention::launch_dim(AttentionParams<typename Mode::Element>& p) {
  return tables_ ? launch_planned<Mode, kDim, true>(p) : launch_planned<Mode, kDim, false>(p);
}

template <class Mode, uint32_t kDim, bool kPlanned>
Status Attention::launch_planned(AttentionParams<typename Mode::Element>& p) {
  using Element = typename Mode::Element;
  if (rows_ <= kDecodeRows) {
    const uint32_t chunks = (p.heads / p.kv_heads + kDecodeHeads - 1) / kDecodeHeads;
    SPANSCOPE_TRY(launch(decode_attention<Mode, kDim, kPlanned>, {p.parts, p.kv_heads, rows_ * chunks}, kDecodeThreads, DecodeShared<Element, kDim>::kBytes, p));
    return launch(join_partitions<Mode, kDim, kPlanned>, {p.heads, rows_}, kDecodeThreads, JoinShared::bytes(p.parts), p);
  }
  using Layout = PrefillShared<Element, kDim>;
  const uint32_t tiles = (rows_ + kTileRows - 1) / kTileRows, leaves = p.shared_leaves;
  if constexpr (kPlanned) {
    // Heads of 128 need more than the smallest cards have even without leaves: there the launch itself says so.
    const uint32_t room = Layout::kLeaves < kSharedLimit ? (kSharedLimit - Layout::kLeaves) / (kTileRows * 4) : 0;
    if (leaves > room) {
      p.shared_leaves = room;
      p.spill_leaves = leaves;
      SPANSCOPE_TRY(spill_.resize(size_t(p.heads) * tiles * leaves * kTileRows));
      p.spill = spill_.view();
    }
  }
  const Status done = launch(prefill_attention<Mode, kDim, kPlanned>, {tiles, p.heads}, kPrefillThreads, Layout::bytes(kPlanned ? p.shared_leaves : 0), p);
  p.shared_leaves = leaves;
  return done;
}

}  // namespace spanscope::gpu
