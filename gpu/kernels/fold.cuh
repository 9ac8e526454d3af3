// SPDX-License-Identifier: GPL-3.0-or-later
// Folding a block's leaf masses at row end into the sums of a LayerRecord (contract: core/model/record_plan.h). One thread
// owns a leaf and walks the block's rows, so sums of rows with equal phase, query leaf and groups are made in registers
// and global memory sees one addition per leaf and run, never one per row.
#pragma once
#include "gpu/kernels/params.h"

namespace spanscope::gpu {

// Of the block's rows, in shared memory.
template <uint32_t kRows>
struct RowFacts {
  static constexpr uint32_t kWords = kRows * (7 + kMaxLevels);
  Shared<uint32_t> phase, query, position, first, end;
  Shared<float> lse, gap;    // log-sum-exp; log-sum-exp of the keys that belong to no leaf
  Shared<int32_t> group;     // [kMaxLevels][kRows]

  SPANSCOPE_DEVICE explicit RowFacts(uint32_t at)
      : phase(shared_array<uint32_t>(at, kRows)),
        query(shared_array<uint32_t>(at + 4 * kRows, kRows)),
        position(shared_array<uint32_t>(at + 8 * kRows, kRows)),
        first(shared_array<uint32_t>(at + 12 * kRows, kRows)),
        end(shared_array<uint32_t>(at + 16 * kRows, kRows)),
        lse(shared_array<float>(at + 20 * kRows, kRows)),
        gap(shared_array<float>(at + 24 * kRows, kRows)),
        group(shared_array<int32_t>(at + 28 * kRows, kRows * kMaxLevels)) {}

  // By the threads i < kRows; row >= all rows: a row that sees nothing and is recorded nowhere.
  template <bool kPlanned, class P>
  SPANSCOPE_DEVICE void load(const P& p, uint32_t i, uint32_t row) const {
    const bool real = row < p.rows;
    first.set(i, real ? p.row_first.load(row) : 0);
    end.set(i, real ? p.row_end.load(row) : 0);
    if constexpr (kPlanned) {
      phase.set(i, real ? p.plan.row_phase.load(row) : 3);
      query.set(i, real ? p.plan.row_query.load(row) : 0);
      position.set(i, real ? p.plan.row_position.load(row) : 0);
      for (uint32_t k = 0; k < p.plan.levels; ++k)
        group.set(k * kRows + i, real ? p.plan.group_of_row.load(uint64_t(k) * p.rows + row) : -1);
    }
  }
};

SPANSCOPE_DEVICE void add_mass(const Global<uint64_t>& to, uint64_t i, uint64_t mass) {
  if (mass != 0) to.add(i, mass);
}
SPANSCOPE_DEVICE uint64_t mass_units(float mass) { return round_to_u64(mass * kMassUnit); }

// One read event, when the bound is passed (definitions D5).
template <uint32_t kRows>
SPANSCOPE_DEVICE void look_for_read(const PlanArrays& plan, const RowFacts<kRows>& rows, uint32_t i, uint32_t row, uint32_t head,
                                    uint32_t leaf, uint32_t leaf_begin, uint32_t leaf_end, float habit, float mass) {
  if (!(mass > plan.theta)) return;  // the bound is at least theta, or the cap
  const uint32_t first = rows.first.get(i), end = rows.end.get(i);
  const uint32_t from = leaf_begin > first ? leaf_begin : first, to = leaf_end < end ? leaf_end : end;
  if (from >= to) return;
  // In double, as the CPU paths decide it.
  const double uniform = double(plan.factor) * (double(to - from) / double(end - first));
  const double used = double(plan.factor) * double(habit);
  double bound = double(plan.theta);
  if (uniform > bound) bound = uniform;
  if (used > bound) bound = used;
  if (double(plan.cap) < bound) bound = double(plan.cap);
  if (!(double(mass) > bound)) return;
  const uint32_t at = plan.event_count.add(0, 1);
  if (at < plan.event_capacity) plan.events.store(at, DeviceEvent{row, leaf, head, mass, habit, {}});
}

// Leaves [leaf_first, leaf_last) of rows [row0, row0 + count) of one head. leaf_lse(leaf - leaf_first, row in block) gives
// the log-sum-exp over the leaf's visible keys, -infinity where there are none.
template <uint32_t kRows, uint32_t kThreads, class LeafLse>
SPANSCOPE_DEVICE void fold_leaves(const PlanArrays& plan, const RowFacts<kRows>& rows, uint32_t all_rows, uint32_t row0, uint32_t count,
                                  uint32_t heads, uint32_t head, uint32_t leaf_first, uint32_t leaf_last, LeafLse leaf_lse) {
  for (uint32_t s = leaf_first + thread_x(); s < leaf_last; s += kThreads) {
    const uint32_t begin = plan.leaf_begin.load(s), end = plan.leaf_end.load(s), position = plan.leaf_position.load(s);
    const bool readable = plan.readable.load(s) != 0;
    const float habit = plan.habit ? plan.habit.load(uint64_t(head) * plan.leaves + s) : 0.0f;
    uint64_t phase_sum[3] = {0, 0, 0}, inside[kMaxLevels], run_sum = 0, spike = 0;
    int32_t group[kMaxLevels];
    SPANSCOPE_UNROLL
    for (uint32_t k = 0; k < kMaxLevels; ++k) {
      inside[k] = 0;
      group[k] = k < plan.levels ? plan.group_of_leaf.load(uint64_t(k) * plan.leaves + s) : -1;
    }
    uint32_t run_phase = 3, run_query = 0;
    for (uint32_t i = 0; i < count; ++i) {
      const float mass = exponential(leaf_lse(s - leaf_first, i) - rows.lse.get(i));
      if (plan.row_mass) plan.row_mass.store((uint64_t(row0 + i) * heads + head) * (plan.leaves + 2) + s, mass);
      const uint32_t phase = rows.phase.get(i), query = rows.query.get(i);
      if (phase >= 3) continue;
      const uint64_t units = mass_units(mass);
      if (phase != run_phase || query != run_query) {
        if (run_phase < 3) add_mass(plan.query_leaf, (uint64_t(run_phase) * plan.query_leaves + run_query) * plan.leaves + s, run_sum);
        run_phase = phase;
        run_query = query;
        run_sum = 0;
      }
      run_sum += units;
      SPANSCOPE_UNROLL
      for (uint32_t f = 0; f < 3; ++f) phase_sum[f] += phase == f ? units : 0;
      if (phase == 2) continue;
      SPANSCOPE_UNROLL
      for (uint32_t k = 0; k < kMaxLevels; ++k)
        if (k < plan.levels && group[k] >= 0 && rows.group.get(k * kRows + i) == group[k]) inside[k] += units;
      if (phase != 1 || rows.position.get(i) < position) continue;
      const uint64_t key = spike_key(mass, head, row0 + i);
      if (key > spike) spike = key;
      if (readable) look_for_read(plan, rows, i, row0 + i, head, s, begin, end, habit, mass);
    }
    if (run_phase < 3) add_mass(plan.query_leaf, (uint64_t(run_phase) * plan.query_leaves + run_query) * plan.leaves + s, run_sum);
    SPANSCOPE_UNROLL
    for (uint32_t f = 0; f < 3; ++f) add_mass(plan.head_mass, (uint64_t(head) * 3 + f) * plan.leaves + s, phase_sum[f]);
    SPANSCOPE_UNROLL
    for (uint32_t k = 0; k < kMaxLevels; ++k)
      if (k < plan.levels) add_mass(plan.inside, (uint64_t(head) * plan.levels + k) * plan.leaves + s, inside[k]);
    if (spike != 0) plan.spike.largest(s, spike);
  }
  (void)all_rows;
}

// The row's keys in no leaf, its learned sink, its log-sum-exp. By the threads i < count.
template <uint32_t kRows>
SPANSCOPE_DEVICE void fold_row(const PlanArrays& plan, const RowFacts<kRows>& rows, const Global<const float>& sinks, uint32_t i, uint32_t row,
                               uint32_t heads, uint32_t head) {
  const float lse = rows.lse.get(i);
  const float gap = exponential(rows.gap.get(i) - lse), sink = sinks ? exponential(sinks.load(head) - lse) : 0.0f;
  if (plan.row_lse) plan.row_lse.store(uint64_t(row) * heads + head, lse);
  if (plan.row_mass) {
    const uint64_t at = (uint64_t(row) * heads + head) * (plan.leaves + 2) + plan.leaves;
    plan.row_mass.store(at, gap);
    plan.row_mass.store(at + 1, sink);
  }
  const uint32_t phase = rows.phase.get(i);
  if (phase >= 3) return;
  add_mass(plan.unattributed, uint64_t(head) * 3 + phase, mass_units(gap));
  add_mass(plan.learned_sink, uint64_t(head) * 3 + phase, mass_units(sink));
}

}  // namespace spanscope::gpu
