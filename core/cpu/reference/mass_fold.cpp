// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cpu/reference/mass_fold.h"

#include <algorithm>
#include <map>

namespace spanscope::reference {
namespace {
constexpr uint64_t kTileBytes = 4 << 20;
constexpr uint32_t kTileRows = 64;
constexpr uint32_t kLeafBlock = 64;  // leaves of one work item
}  // namespace

MassFold::MassFold(const RecordPlan& plan, const Recipe& recipe, uint32_t rows, ThreadPool& pool)
    : plan_(plan),
      pool_(pool),
      rows_(rows),
      heads_(recipe.query_heads),
      leaves_(uint32_t(plan.leaves.size())) {
  const uint64_t row_bytes = uint64_t(heads_) * columns() * sizeof(double);
  tile_rows_ = uint32_t(std::clamp<uint64_t>(kTileBytes / row_bytes, 1, std::min(kTileRows, rows)));
  tile_.resize(size_t(tile_rows_) * heads_ * columns());
  head_mass_.resize(size_t(heads_) * kPhases * leaves_);
  inside_.resize(size_t(heads_) * plan.levels * leaves_);
  query_leaf_.resize(size_t(kPhases) * plan.query_leaves * leaves_);
  learned_sink_.resize(size_t(heads_) * kPhases);
  unattributed_.resize(size_t(heads_) * kPhases);
  head_spike_.resize(size_t(heads_) * leaves_);
  head_spike_row_.resize(size_t(heads_) * leaves_);
  spike_.resize(leaves_);
  spike_head_.resize(leaves_);
  spike_row_.resize(leaves_);
  if (plan.want_row_masses) row_mass_.resize(size_t(rows) * heads_ * columns());
  if (plan.want_row_lse) row_lse_.resize(size_t(rows) * heads_);

  member_begin_.resize(size_t(plan.levels) * rows);
  member_count_.resize(size_t(plan.levels) * rows);
  for (uint32_t k = 0; k < plan.levels; ++k) {
    std::map<int32_t, std::vector<uint32_t>> leaves_of;
    for (uint32_t s = 0; s < leaves_; ++s)
      if (const int32_t g = plan.group_of_leaf[size_t(k) * leaves_ + s]; g >= 0) leaves_of[g].push_back(s);
    std::map<int32_t, uint32_t> begin_of;
    for (const auto& [group, list] : leaves_of) {
      begin_of[group] = uint32_t(members_.size());
      members_.insert(members_.end(), list.begin(), list.end());
    }
    for (uint32_t i = 0; i < rows; ++i) {
      const int32_t g = plan.group_of_row[size_t(k) * rows + i];
      if (auto found = leaves_of.find(g); g >= 0 && found != leaves_of.end()) {
        member_begin_[size_t(k) * rows + i] = begin_of[g];
        member_count_[size_t(k) * rows + i] = uint32_t(found->second.size());
      }
    }
  }
}

void MassFold::begin_layer(uint32_t layer) {
  layer_ = layer;
  rows_wanted_ = plan_.wants_rows(layer);
  for (auto* sums : {&head_mass_, &inside_, &query_leaf_, &learned_sink_, &unattributed_})
    std::fill(sums->begin(), sums->end(), 0.0);
  std::fill(head_spike_.begin(), head_spike_.end(), -1.0);
  events_.clear();
}

void MassFold::fold(uint32_t first_row, uint32_t rows, const TokenPos* positions,
                    const VisibleRange* visible) {
  pool_.parallel_for(heads_,
                     [&](size_t head, unsigned) { fold_head(uint32_t(head), first_row, rows, positions); });
  const uint32_t blocks = (leaves_ + kLeafBlock - 1) / kLeafBlock;
  pool_.parallel_for(blocks, [&](size_t block, unsigned) {
    const uint32_t begin = uint32_t(block) * kLeafBlock;
    fold_queries(begin, std::min(begin + kLeafBlock, leaves_), first_row, rows);
  });
  find_events(first_row, rows, positions, visible);
}

void MassFold::fold_head(uint32_t head, uint32_t first_row, uint32_t rows, const TokenPos* positions) {
  for (uint32_t i = 0; i < rows; ++i) {
    const uint32_t row = first_row + i;
    const double* mass = this->mass(i, head);
    if (rows_wanted_) {
      float* out = row_mass_.data() + (size_t(row) * heads_ + head) * columns();
      for (uint32_t s = 0; s < columns(); ++s) out[s] = float(mass[s]);
    }
    const RowPhase phase = plan_.row_phase[row];
    if (phase == RowPhase::unrecorded) continue;
    double* sums = head_mass_.data() + (size_t(head) * kPhases + size_t(phase)) * leaves_;
    for (uint32_t s = 0; s < leaves_; ++s) sums[s] += mass[s];
    unattributed_[head * kPhases + size_t(phase)] += mass[leaves_];
    learned_sink_[head * kPhases + size_t(phase)] += mass[leaves_ + 1];
    if (phase == RowPhase::recompute) continue;
    for (uint32_t k = 0; k < plan_.levels; ++k) {
      double* in = inside_.data() + (size_t(head) * plan_.levels + k) * leaves_;
      const uint32_t* member = members_.data() + member_begin_[size_t(k) * rows_ + row];
      for (uint32_t m = 0; m < member_count_[size_t(k) * rows_ + row]; ++m) in[member[m]] += mass[member[m]];
    }
    if (phase != RowPhase::answer) continue;
    double* spike = head_spike_.data() + size_t(head) * leaves_;
    for (uint32_t s = 0; s < leaves_; ++s)
      if (positions[i] >= plan_.leaves[s].end_position && mass[s] > spike[s]) {
        spike[s] = mass[s];
        head_spike_row_[size_t(head) * leaves_ + s] = row;
      }
  }
}

void MassFold::fold_queries(uint32_t first_leaf, uint32_t end_leaf, uint32_t first_row, uint32_t rows) {
  for (uint32_t i = 0; i < rows; ++i) {
    const uint32_t row = first_row + i;
    const RowPhase phase = plan_.row_phase[row];
    if (phase == RowPhase::unrecorded) continue;
    double* sums = query_leaf_.data() + (size_t(phase) * plan_.query_leaves + plan_.row_query[row]) * leaves_;
    for (uint32_t head = 0; head < heads_; ++head) {
      const double* mass = this->mass(i, head);
      for (uint32_t s = first_leaf; s < end_leaf; ++s) sums[s] += mass[s];
    }
  }
}

void MassFold::find_events(uint32_t first_row, uint32_t rows, const TokenPos* positions,
                           const VisibleRange* visible) {
  const float* habits =
      plan_.habit.empty() ? nullptr : plan_.habit.data() + size_t(layer_) * heads_ * leaves_;
  for (uint32_t i = 0; i < rows; ++i) {
    const uint32_t row = first_row + i;
    if (plan_.row_phase[row] != RowPhase::answer) continue;
    const double visible_keys = double(visible[i].end - visible[i].first);
    for (uint32_t s = 0; s < leaves_; ++s) {
      const PlanLeaf& leaf = plan_.leaves[s];
      if (!leaf.readable || positions[i] < leaf.end_position) continue;
      const Slot first = std::max(leaf.slot, visible[i].first),
                 end = std::min(leaf.slot + leaf.len, visible[i].end);
      if (first >= end) continue;
      const double uniform = double(end - first) / visible_keys;
      for (uint32_t head = 0; head < heads_; ++head) {
        const double habit = habits ? double(habits[size_t(head) * leaves_ + s]) : 0.0;
        const double bound =
            std::min(double(plan_.cap),
                     std::max({double(plan_.theta_rec), plan_.factor * uniform, plan_.factor * habit}));
        const double mass = this->mass(i, head)[s];
        if (mass > bound)
          events_.push_back({row, s, uint16_t(layer_), uint16_t(head), float(mass), float(habit)});
      }
    }
  }
}

LayerRecord MassFold::record() const {
  for (uint32_t s = 0; s < leaves_; ++s) {
    double best = -1.0;
    spike_head_[s] = 0;
    spike_row_[s] = 0;
    for (uint32_t head = 0; head < heads_; ++head)  // strictly larger: ties stay with the lower head
      if (const double m = head_spike_[size_t(head) * leaves_ + s]; m > best) {
        best = m;
        spike_head_[s] = uint16_t(head);
        spike_row_[s] = head_spike_row_[size_t(head) * leaves_ + s];
      }
    spike_[s] = float(best);
  }
  LayerRecord r;
  r.layer = layer_;
  r.rows = rows_;
  r.query_heads = heads_;
  r.leaves = leaves_;
  r.head_mass = head_mass_.data();
  r.inside = inside_.data();
  r.query_leaf = query_leaf_.data();
  r.learned_sink = learned_sink_.data();
  r.unattributed = unattributed_.data();
  r.spike = spike_.data();
  r.spike_head = spike_head_.data();
  r.spike_row = spike_row_.data();
  r.events = events_.data();
  r.event_count = events_.size();
  r.row_mass = rows_wanted_ ? row_mass_.data() : nullptr;
  r.row_lse = row_lse_.empty() ? nullptr : row_lse_.data();
  return r;
}

}  // namespace spanscope::reference
