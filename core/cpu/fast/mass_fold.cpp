// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cpu/fast/mass_fold.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "core/cpu/fast/fold_kernels.h"

namespace spanscope::fast {

void MassFold::begin_pass(const RecordPlan& plan, const Recipe& recipe, uint32_t slots,
                          std::span<const TokenPos> positions, unsigned threads) {
  plan_ = &plan;
  heads_ = recipe.query_heads;
  leaves_ = uint32_t(plan.leaves.size());
  rows_ = uint32_t(positions.size());
  levels_ = plan.levels;
  positions_ = positions;
  phases_ = 0;
  std::fill(phase_slot_, phase_slot_ + 4, -1);
  for (RowPhase phase : plan.row_phase)
    if (phase != RowPhase::unrecorded && phase_slot_[size_t(phase)] < 0)
      phase_slot_[size_t(phase)] = int32_t(phases_++);
  make_segments(slots);
  make_runs();

  // An answer row behind a leaf makes its spike at least 0, with the first such row as the place.
  no_spike_.assign(leaves_, Spike{-1.0f, 0, 0});
  for (uint32_t s = 0; s < leaves_; ++s) {
    const auto from = std::lower_bound(positions_.begin(), positions_.end(), plan.leaves[s].end_position);
    for (uint32_t i = uint32_t(from - positions_.begin()); i < rows_; ++i)
      if (plan.row_phase[i] == RowPhase::answer) {
        no_spike_[s] = Spike{0.0f, 0, i};
        break;
      }
  }
  workers_.resize(threads);
  for (Worker& w : workers_) {
    w.head_mass.resize(size_t(heads_) * phases_ * (leaves_ + 2));
    w.inside.resize(size_t(heads_) * levels_ * leaves_);
    w.query.resize(query_sums_.size() * leaves_);
    w.run_sums.resize(leaves_ + 2);
    w.maxima.resize(leaves_);
  }
  head_mass_.assign(size_t(heads_) * kPhases * leaves_, 0.0);
  inside_.resize(size_t(heads_) * levels_ * leaves_);
  learned_sink_.assign(size_t(heads_) * kPhases, 0.0);
  unattributed_.assign(size_t(heads_) * kPhases, 0.0);
  spike_mass_.resize(leaves_);
  spike_head_.resize(leaves_);
  spike_row_.resize(leaves_);
  if (plan.want_row_masses)
    row_mass_.assign(size_t(rows_) * heads_ * (leaves_ + 2), 0.0f);
  else
    row_mass_.clear();
  row_lse_.resize(plan.want_row_lse ? size_t(rows_) * heads_ : 0);
  // [3][query leaves][leaves] is large and a decode pass touches one line of it, so only touched lines are
  // cleared.
  const size_t size = size_t(kPhases) * plan.query_leaves * leaves_;
  if (stale_query_leaves_ != plan.query_leaves || stale_leaves_ != leaves_) {
    query_leaf_.assign(size, 0.0);
  } else {
    for (const auto& [phase, query] : stale_queries_)
      std::fill_n(query_leaf_.begin() + ptrdiff_t((size_t(phase) * plan.query_leaves + query) * leaves_),
                  leaves_, 0.0);
  }
  stale_query_leaves_ = plan.query_leaves;
  stale_leaves_ = leaves_;
  stale_queries_ = query_sums_;
}

void MassFold::make_segments(uint32_t slots) {
  segments_.clear();
  tile_segment_.clear();
  uint32_t at = 0;
  const auto add = [&](uint32_t to, uint32_t leaf) {
    while (at < to) {
      if (at % kTileKeys == 0) tile_segment_.push_back(uint32_t(segments_.size()));
      const uint32_t end = std::min(to, (at / kTileKeys + 1) * kTileKeys);
      segments_.push_back({at, end, leaf});
      at = end;
    }
  };
  for (uint32_t s = 0; s < leaves_; ++s) {
    add(plan_->leaves[s].slot, leaves_);
    add(plan_->leaves[s].slot + plan_->leaves[s].len, s);
  }
  add(slots, leaves_);
  tile_segment_.push_back(uint32_t(segments_.size()));
}

void MassFold::make_runs() {
  runs_.clear();
  tile_run_.clear();
  keep_.clear();
  run_members_.clear();
  member_leaf_.clear();
  query_sums_.clear();
  row_run_.assign(rows_, kNone32);

  std::map<std::pair<uint32_t, int32_t>, std::vector<uint32_t>> leaves_of;  // by (level, group)
  for (uint32_t k = 0; k < levels_; ++k)
    for (uint32_t s = 0; s < leaves_; ++s)
      if (const int32_t g = plan_->group_of_leaf[size_t(k) * leaves_ + s]; g >= 0)
        leaves_of[{k, g}].push_back(s);
  std::map<std::pair<uint32_t, int32_t>, Members> members_of;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> sums_of;  // by (phase, query leaf)
  const auto same = [&](uint32_t a, uint32_t b) {
    if (plan_->row_phase[a] != plan_->row_phase[b] || plan_->row_query[a] != plan_->row_query[b])
      return false;
    for (uint32_t k = 0; k < levels_; ++k)
      if (plan_->group_of_row[size_t(k) * rows_ + a] != plan_->group_of_row[size_t(k) * rows_ + b])
        return false;
    return true;
  };
  for (uint32_t row = 0; row < rows_;) {
    if (row % kTileRows == 0) tile_run_.push_back(uint32_t(runs_.size()));
    const uint32_t tile_end = std::min(rows_, (row / kTileRows + 1) * kTileRows);
    uint32_t end = row + 1;
    while (end < tile_end && same(row, end)) ++end;
    const RowPhase phase = plan_->row_phase[row];
    if (phase != RowPhase::unrecorded) {
      Run run{row, row % kTileRows, end - row, phase, 0, uint32_t(run_members_.size())};
      const std::pair<uint32_t, uint32_t> key{uint32_t(phase), plan_->row_query[row]};
      const auto [sums, fresh] = sums_of.try_emplace(key, uint32_t(query_sums_.size()));
      if (fresh) query_sums_.push_back(key);
      run.sums = sums->second;
      for (uint32_t k = 0; k < levels_; ++k) {
        const std::pair<uint32_t, int32_t> group{k, plan_->group_of_row[size_t(k) * rows_ + row]};
        Members members;
        if (const auto found = leaves_of.find(group); found != leaves_of.end()) {
          const auto [list, unknown] = members_of.try_emplace(group);
          if (unknown) {
            list->second = {uint32_t(member_leaf_.size()), uint32_t(found->second.size())};
            member_leaf_.insert(member_leaf_.end(), found->second.begin(), found->second.end());
          }
          members = list->second;
        }
        run_members_.push_back(members);
      }
      for (uint32_t i = row; i < end; ++i) row_run_[i] = uint32_t(runs_.size());
      const size_t at = keep_.size();
      keep_.resize(at + kTileRows, 0u);
      std::fill_n(keep_.begin() + ptrdiff_t(at + run.lane), run.count, 0xffffffffu);
      runs_.push_back(run);
    }
    row = end;
  }
  tile_run_.push_back(uint32_t(runs_.size()));
}

void MassFold::begin_layer(uint32_t layer, const int32_t* first, const int32_t* end) {
  layer_ = layer;
  rows_wanted_ = plan_->wants_rows(layer);
  first_ = first;
  end_ = end;
  for (Worker& w : workers_) {
    std::fill(w.head_mass.begin(), w.head_mass.end(), 0.0);
    std::fill(w.inside.begin(), w.inside.end(), 0.0);
    std::fill(w.query.begin(), w.query.end(), 0.0);
    w.spike = no_spike_;
    w.events.clear();
  }
}

void MassFold::add_run(Worker& worker, const Run& run, uint32_t head, const float* sums, uint32_t leaf_first,
                       uint32_t leaf_end) {
  double* head_mass = worker.head_mass.data() +
                      (size_t(head) * phases_ + size_t(phase_slot_[size_t(run.phase)])) * (leaves_ + 2);
  const size_t count = leaf_end - leaf_first;
  add_exact(head_mass + leaf_first, sums + leaf_first, count);
  add_exact(head_mass + leaves_, sums + leaves_, 2);
  add_exact(worker.query.data() + size_t(run.sums) * leaves_ + leaf_first, sums + leaf_first, count);
  if (run.phase == RowPhase::recompute) return;
  for (uint32_t k = 0; k < levels_; ++k) {
    double* inside = worker.inside.data() + (size_t(head) * levels_ + k) * leaves_;
    const Members members = run_members_[run.members + k];
    for (uint32_t m = 0; m < members.count; ++m) {
      const uint32_t s = member_leaf_[members.begin + m];
      if (s >= leaf_first && s < leaf_end) add_exact(inside + s, sums + s, 1);
    }
  }
}

void MassFold::fold_tile(unsigned thread, uint32_t tile, uint32_t head, const float* mass,
                         uint32_t leaf_first, uint32_t leaf_end) {
  Worker& worker = workers_[thread];
  const uint32_t first_row = tile * kTileRows;
  if (rows_wanted_)
    keep_rows(first_row, std::min(kTileRows, rows_ - first_row), head, mass, leaf_first, leaf_end);
  float* sums = worker.run_sums.data();
  for (uint32_t r = tile_run_[tile]; r < tile_run_[tile + 1]; ++r) {
    const uint32_t* keep = keep_.data() + size_t(r) * kTileRows;
    masked_sums(mass + size_t(leaf_first) * kTileRows, leaf_end - leaf_first, keep, runs_[r].lane,
                runs_[r].count, sums + leaf_first);
    masked_sums(mass + size_t(leaves_) * kTileRows, 2, keep, runs_[r].lane, runs_[r].count, sums + leaves_);
    add_run(worker, runs_[r], head, sums, leaf_first, leaf_end);
    if (runs_[r].phase == RowPhase::answer) {
      masked_maxima(mass + size_t(leaf_first) * kTileRows, leaf_end - leaf_first, keep,
                    worker.maxima.data() + leaf_first);
      look_at_answers(worker, runs_[r], head, mass, leaf_first, leaf_end);
    }
  }
}

// Spikes and events are rare: the largest mass of the run's rows decides whether a leaf is looked at row by
// row.
void MassFold::look_at_answers(Worker& worker, const Run& run, uint32_t head, const float* mass,
                               uint32_t leaf_first, uint32_t leaf_end) {
  const float bound = std::min(plan_->theta_rec, plan_->cap);
  const TokenPos last = positions_[run.row + run.count - 1];
  for (uint32_t s = leaf_first; s < leaf_end; ++s) {
    if (plan_->leaves[s].end_position > last) continue;
    const float largest = worker.maxima[s];
    if (largest <= bound && largest < worker.spike[s].mass) continue;
    for (uint32_t i = 0; i < run.count; ++i)
      look_at(worker, run.row + i, head, s, mass[size_t(s) * kTileRows + run.lane + i]);
  }
}

void MassFold::look_at(Worker& worker, uint32_t row, uint32_t head, uint32_t leaf, float mass) {
  const PlanLeaf& l = plan_->leaves[leaf];
  if (positions_[row] < l.end_position) return;
  Spike& spike = worker.spike[leaf];
  if (mass > spike.mass || (mass == spike.mass && std::tie(head, row) < std::tie(spike.head, spike.row)))
    spike = {mass, head, row};
  if (!l.readable || mass <= std::min(plan_->theta_rec, plan_->cap)) return;
  const uint32_t from = std::max(l.slot, uint32_t(first_[row])),
                 to = std::min(l.slot + l.len, uint32_t(end_[row]));
  if (from >= to) return;
  const double uniform = double(to - from) / double(end_[row] - first_[row]);
  const float habit =
      plan_->habit.empty() ? 0.0f : plan_->habit[(size_t(layer_) * heads_ + head) * leaves_ + leaf];
  const double factor = plan_->factor;
  const double bound = std::min(
      double(plan_->cap), std::max({double(plan_->theta_rec), factor * uniform, factor * double(habit)}));
  if (double(mass) > bound)
    worker.events.push_back({row, leaf, uint16_t(layer_), uint16_t(head), mass, habit});
}

void MassFold::fold_row(unsigned thread, uint32_t row, uint32_t head, const float* mass) {
  Worker& worker = workers_[thread];
  if (rows_wanted_) {
    float* out = row_mass_.data() + (size_t(row) * heads_ + head) * (leaves_ + 2);
    std::copy_n(mass, leaves_ + 2, out);
  }
  if (row_run_[row] == kNone32) return;
  const Run& run = runs_[row_run_[row]];
  double* head_mass = worker.head_mass.data() +
                      (size_t(head) * phases_ + size_t(phase_slot_[size_t(run.phase)])) * (leaves_ + 2);
  add_exact(head_mass, mass, leaves_ + 2);
  add_exact(worker.query.data() + size_t(run.sums) * leaves_, mass, leaves_);
  if (run.phase == RowPhase::recompute) return;
  for (uint32_t k = 0; k < levels_; ++k) {
    double* inside = worker.inside.data() + (size_t(head) * levels_ + k) * leaves_;
    const Members members = run_members_[run.members + k];
    for (uint32_t m = 0; m < members.count; ++m) {
      const uint32_t s = member_leaf_[members.begin + m];
      add_exact(inside + s, mass + s, 1);
    }
  }
  if (run.phase != RowPhase::answer) return;
  const float bound = std::min(plan_->theta_rec, plan_->cap);
  for (uint32_t s = 0; s < leaves_; ++s)
    if (mass[s] > bound || mass[s] >= worker.spike[s].mass) look_at(worker, row, head, s, mass[s]);
}

void MassFold::keep_rows(uint32_t first_row, uint32_t rows, uint32_t head, const float* mass,
                         uint32_t leaf_first, uint32_t leaf_end) {
  for (uint32_t i = 0; i < rows; ++i) {
    float* out = row_mass_.data() + (size_t(first_row + i) * heads_ + head) * (leaves_ + 2);
    std::fill_n(out, leaves_ + 2, 0.0f);
    for (uint32_t s = leaf_first; s < leaf_end; ++s) out[s] = mass[size_t(s) * kTileRows + i];
    out[leaves_] = mass[size_t(leaves_) * kTileRows + i];
    out[leaves_ + 1] = mass[size_t(leaves_ + 1) * kTileRows + i];
  }
}

LayerRecord MassFold::finish_layer() {
  std::fill(inside_.begin(), inside_.end(), 0.0);
  for (const auto& [phase, query] : query_sums_)
    std::fill_n(query_leaf_.begin() + ptrdiff_t((size_t(phase) * plan_->query_leaves + query) * leaves_),
                leaves_, 0.0);
  events_.clear();
  std::vector<Spike> spike = no_spike_;
  for (uint32_t p = 0; p < kPhases; ++p) {
    const int32_t slot = phase_slot_[p];
    if (slot < 0) continue;
    for (uint32_t h = 0; h < heads_; ++h) {
      double* out = head_mass_.data() + (size_t(h) * kPhases + p) * leaves_;
      std::fill_n(out, leaves_, 0.0);
      double gap = 0, sink = 0;
      for (const Worker& w : workers_) {
        const double* from = w.head_mass.data() + (size_t(h) * phases_ + size_t(slot)) * (leaves_ + 2);
        for (uint32_t s = 0; s < leaves_; ++s) out[s] += from[s];
        gap += from[leaves_];
        sink += from[leaves_ + 1];
      }
      unattributed_[size_t(h) * kPhases + p] = gap;
      learned_sink_[size_t(h) * kPhases + p] = sink;
    }
  }
  for (const Worker& w : workers_) {
    for (size_t i = 0; i < inside_.size(); ++i) inside_[i] += w.inside[i];
    for (size_t q = 0; q < query_sums_.size(); ++q) {
      double* out = query_leaf_.data() +
                    (size_t(query_sums_[q].first) * plan_->query_leaves + query_sums_[q].second) * leaves_;
      for (uint32_t s = 0; s < leaves_; ++s) out[s] += w.query[q * leaves_ + s];
    }
    for (uint32_t s = 0; s < leaves_; ++s) {
      const Spike &a = w.spike[s], &b = spike[s];
      if (a.mass > b.mass || (a.mass == b.mass && std::tie(a.head, a.row) < std::tie(b.head, b.row)))
        spike[s] = a;
    }
    events_.insert(events_.end(), w.events.begin(), w.events.end());
  }
  std::sort(events_.begin(), events_.end(), [](const ReadEvent& a, const ReadEvent& b) {
    return std::tie(a.row, a.leaf, a.head) < std::tie(b.row, b.leaf, b.head);
  });
  for (uint32_t s = 0; s < leaves_; ++s) {
    spike_mass_[s] = spike[s].mass;
    spike_head_[s] = uint16_t(spike[s].head);
    spike_row_[s] = spike[s].row;
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
  r.spike = spike_mass_.data();
  r.spike_head = spike_head_.data();
  r.spike_row = spike_row_.data();
  r.events = events_.data();
  r.event_count = events_.size();
  r.row_mass = rows_wanted_ ? row_mass_.data() : nullptr;
  r.row_lse = row_lse_.empty() ? nullptr : row_lse_.data();
  return r;
}

}  // namespace spanscope::fast
