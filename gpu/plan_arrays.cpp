// SPDX-License-Identifier: GPL-3.0-or-later
#include "gpu/plan_arrays.h"

#include <algorithm>
#include <bit>
#include <string>
#include <tuple>

namespace spanscope::gpu {
namespace {
constexpr uint32_t kFirstEvents = 4096;  // 128 KiB; grows when a layer finds more

template <class T>
Global<const T> view(const std::vector<T>& v) {
  return {v.data(), v.size()};
}
template <class T>
Global<T> place(std::vector<T>& v) {
  return {v.data(), v.size()};
}
uint64_t key_of(float mass, uint32_t head, uint32_t row) {
  return (uint64_t(std::bit_cast<uint32_t>(mass)) + 1) << 32 | uint64_t(~(head << 16 | row));
}
Error refuse(const std::string& what) { return make_error(ErrorCode::invalid, "SPAN-GPU-PLAN", what); }
}  // namespace

Result<PlanTables> PlanTables::make(const RecordPlan& plan, uint32_t heads, std::span<const TokenPos> positions, uint32_t slots) {
  PlanTables t;
  if (plan.levels > kMaxLevels)
    return refuse("the GPU kernels fold at most " + std::to_string(kMaxLevels) + " nesting levels, the plan has " + std::to_string(plan.levels));
  if (heads > 0xffff || positions.size() > kMaxPlannedRows)
    return refuse("the GPU kernels record at most 65535 heads and 1024 rows a pass");
  t.plan_ = &plan;
  t.heads_ = heads;
  t.rows_ = uint32_t(positions.size());
  t.leaves_ = uint32_t(plan.leaves.size());
  t.slots_ = slots;
  t.row_position_.assign(positions.begin(), positions.end());
  for (RowPhase f : plan.row_phase) t.row_phase_.push_back(uint8_t(f));
  for (const PlanLeaf& leaf : plan.leaves) {
    if (leaf.len == 0) return refuse("a leaf at slot " + std::to_string(leaf.slot) + " has no keys");
    t.leaf_begin_.push_back(leaf.slot);
    t.leaf_end_.push_back(leaf.slot + leaf.len);
    t.leaf_position_.push_back(leaf.end_position);
    t.readable_.push_back(leaf.readable);
    uint64_t spike = 0;
    for (uint32_t i = 0; i < t.rows_ && spike == 0; ++i)
      if (plan.row_phase[i] == RowPhase::answer && positions[i] >= leaf.end_position) spike = key_of(0.0f, 0, i);
    t.first_spike_.push_back(spike);
  }
  const uint32_t parts = (slots + kPartKeys - 1) / kPartKeys;
  uint32_t leaf = 0, at = 0;
  t.leaf_segment.assign(t.leaves_ + 1, 0);
  for (uint32_t part = 0; part < parts; ++part) {
    t.part_segment.push_back(uint32_t(t.segment_begin.size()));
    const uint32_t end = std::min(slots, (part + 1) * kPartKeys);
    while (at < end) {
      const bool more = leaf < t.leaves_, inside = more && t.leaf_begin_[leaf] <= at;
      const uint32_t to = std::min(end, inside ? t.leaf_end_[leaf] : more ? t.leaf_begin_[leaf] : end);
      if (inside && t.leaf_begin_[leaf] == at) t.leaf_segment[leaf] = uint32_t(t.segment_begin.size());
      t.segment_begin.push_back(at);
      t.segment_end.push_back(to);
      t.segment_leaf.push_back(inside ? leaf : t.leaves_);
      at = to;
      if (inside && t.leaf_end_[leaf] <= to) ++leaf;
    }
  }
  t.part_segment.push_back(uint32_t(t.segment_begin.size()));
  for (uint32_t s = 0; s <= t.leaves_; ++s)  // leaves behind the last slot, and the end
    if (s == t.leaves_ || t.leaf_begin_[s] >= slots) t.leaf_segment[s] = uint32_t(t.segment_begin.size());

  t.head_mass_.resize(size_t(heads) * 3 * t.leaves_);
  t.inside_.resize(size_t(heads) * plan.levels * t.leaves_);
  t.query_leaf_.resize(size_t(3) * plan.query_leaves * t.leaves_);
  t.learned_sink_.resize(size_t(heads) * 3);
  t.unattributed_.resize(size_t(heads) * 3);
  t.event_count_.resize(1);
  t.device_events_.resize(kFirstEvents);
  if (plan.want_row_masses) t.row_mass_.resize(size_t(t.rows_) * heads * (t.leaves_ + 2));
  if (plan.want_row_lse) t.row_lse_.resize(size_t(t.rows_) * heads);
  return t;
}

void PlanTables::begin_layer(uint32_t layer) {
  layer_ = layer;
  for (auto* sums : {&head_mass_, &inside_, &query_leaf_, &learned_sink_, &unattributed_}) std::fill(sums->begin(), sums->end(), 0);
  spike_ = first_spike_;
  event_count_[0] = 0;
  std::fill(row_mass_.begin(), row_mass_.end(), 0.0f);
}

PlanArrays PlanTables::arrays() {
  PlanArrays a;
  a.leaves = leaves_;
  a.levels = plan_->levels;
  a.query_leaves = plan_->query_leaves;
  a.event_capacity = uint32_t(device_events_.size());
  a.theta = plan_->theta_rec;
  a.factor = plan_->factor;
  a.cap = plan_->cap;
  a.leaf_begin = view(leaf_begin_);
  a.leaf_end = view(leaf_end_);
  a.leaf_position = view(leaf_position_);
  a.readable = view(readable_);
  a.group_of_leaf = view(plan_->group_of_leaf);
  a.group_of_row = view(plan_->group_of_row);
  a.row_phase = view(row_phase_);
  a.row_query = view(plan_->row_query);
  a.row_position = view(row_position_);
  const uint64_t habits = uint64_t(heads_) * leaves_;
  if (!plan_->habit.empty()) a.habit = {plan_->habit.data() + layer_ * habits, habits};
  a.head_mass = place(head_mass_);
  a.inside = place(inside_);
  a.query_leaf = place(query_leaf_);
  a.learned_sink = place(learned_sink_);
  a.unattributed = place(unattributed_);
  a.spike = place(spike_);
  a.event_count = place(event_count_);
  a.events = place(device_events_);
  if (plan_->wants_rows(layer_)) a.row_mass = place(row_mass_);
  if (!row_lse_.empty()) a.row_lse = place(row_lse_);
  return a;
}

bool PlanTables::grow_events() {
  if (event_count_[0] <= device_events_.size()) return false;
  device_events_.resize(event_count_[0]);
  return true;
}

std::pair<uint32_t, uint32_t> PlanTables::leaves_in(uint32_t key_first, uint32_t key_end) const {
  const auto first = std::upper_bound(leaf_end_.begin(), leaf_end_.end(), key_first);
  const auto last = std::lower_bound(leaf_begin_.begin(), leaf_begin_.end(), key_end);
  const uint32_t a = uint32_t(first - leaf_end_.begin()), b = uint32_t(last - leaf_begin_.begin());
  return {a, std::max(a, b)};
}

LayerRecord PlanTables::record() {
  auto widen = [](const std::vector<uint64_t>& from, std::vector<double>& to) {
    to.resize(from.size());
    for (size_t i = 0; i < from.size(); ++i) to[i] = double(from[i]) / double(kMassUnit);
    return to.data();
  };
  LayerRecord r;
  r.layer = layer_;
  r.rows = rows_;
  r.query_heads = heads_;
  r.leaves = leaves_;
  r.head_mass = widen(head_mass_, d_head_mass_);
  r.inside = widen(inside_, d_inside_);
  r.query_leaf = widen(query_leaf_, d_query_leaf_);
  r.learned_sink = widen(learned_sink_, d_learned_sink_);
  r.unattributed = widen(unattributed_, d_unattributed_);
  spike_mass_.assign(leaves_, -1.0f);
  spike_head_.assign(leaves_, 0);
  spike_row_.assign(leaves_, 0);
  for (uint32_t s = 0; s < leaves_; ++s)
    if (spike_[s] != 0) {
      spike_mass_[s] = std::bit_cast<float>(uint32_t(spike_[s] >> 32) - 1);
      spike_head_[s] = uint16_t(~uint32_t(spike_[s]) >> 16);
      spike_row_[s] = ~uint32_t(spike_[s]) & 0xffff;
    }
  r.spike = spike_mass_.data();
  r.spike_head = spike_head_.data();
  r.spike_row = spike_row_.data();
  events_.clear();
  for (size_t i = 0; i < std::min<size_t>(event_count_[0], device_events_.size()); ++i) {
    const DeviceEvent& e = device_events_[i];
    events_.push_back({e.row, e.leaf, uint16_t(layer_), uint16_t(e.head), e.mass, e.habit});
  }
  std::sort(events_.begin(), events_.end(), [](const ReadEvent& a, const ReadEvent& b) {
    return std::tie(a.row, a.leaf, a.head) < std::tie(b.row, b.leaf, b.head);
  });
  r.events = events_.data();
  r.event_count = events_.size();
  r.row_mass = plan_->wants_rows(layer_) ? row_mass_.data() : nullptr;
  r.row_lse = row_lse_.empty() ? nullptr : row_lse_.data();
  return r;
}

}  // namespace spanscope::gpu
