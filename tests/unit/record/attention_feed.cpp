// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/unit/record/attention_feed.h"

#include <algorithm>

namespace spanscope::test {

std::vector<TokenPos> positions_of(const std::vector<LayoutEntry>& layout, uint32_t slots) {
  std::vector<TokenPos> out(slots);
  for (Slot slot = 0; slot < slots; ++slot) {
    out[slot] = slot ? out[slot - 1] + 1 : 0;
    for (const LayoutEntry& e : layout)
      if (slot >= e.slot && slot < e.slot + e.len) out[slot] = e.position + (slot - e.slot);
  }
  return out;
}

void feed_pass(Recorder& recorder, const RecordPlan& plan, Slot begin, const std::vector<TokenPos>& positions, const Attention& attention) {
  const uint32_t rows = uint32_t(plan.row_phase.size()), heads = attention.heads, leaves = uint32_t(plan.leaves.size());
  for (uint32_t l = 0; l < attention.layers; ++l) {
    std::vector<double> head_mass(size_t(heads) * kPhases * leaves), inside(size_t(heads) * plan.levels * leaves),
        query_leaf(size_t(kPhases) * plan.query_leaves * leaves), learned(heads * kPhases), unattributed(heads * kPhases);
    std::vector<float> spike(leaves, -1);
    std::vector<uint16_t> spike_head(leaves);
    std::vector<uint32_t> spike_row(leaves);
    std::vector<ReadEvent> events;
    const uint32_t window = attention.window[l];
    for (uint32_t h = 0; h < heads; ++h)
      for (uint32_t i = 0; i < rows; ++i) {
        const size_t p = size_t(plan.row_phase[i]);
        const Slot slot = begin + i;
        std::vector<double> mass(leaves, 0);
        std::vector<uint32_t> visible(leaves, 0);
        uint32_t all = 0;
        for (Slot key = 0; key <= slot; ++key) {
          if (window && positions[slot] - positions[key] >= window) continue;
          ++all;
          const double w = attention.weight(l, h, slot, key);
          uint32_t s = 0;
          while (s < leaves && !(key >= plan.leaves[s].slot && key < plan.leaves[s].slot + plan.leaves[s].len)) ++s;
          if (s == leaves) {
            unattributed[h * kPhases + p] += w;
          } else {
            mass[s] += w;
            ++visible[s];
          }
        }
        if (attention.learned) learned[h * kPhases + p] += attention.learned(l, h, slot);
        for (uint32_t s = 0; s < leaves; ++s) {
          head_mass[(size_t(h) * kPhases + p) * leaves + s] += mass[s];
          query_leaf[(p * plan.query_leaves + plan.row_query[i]) * leaves + s] += mass[s];
          for (uint32_t k = 0; k < plan.levels && p != size_t(RowPhase::recompute); ++k) {
            const int32_t group = plan.group_of_row[size_t(k) * rows + i];
            if (group >= 0 && plan.group_of_leaf[size_t(k) * leaves + s] == group) inside[(size_t(h) * plan.levels + k) * leaves + s] += mass[s];
          }
          if (plan.row_phase[i] != RowPhase::answer || positions[slot] < plan.leaves[s].end_position) continue;
          if (float(mass[s]) > spike[s]) spike[s] = float(mass[s]), spike_head[s] = uint16_t(h), spike_row[s] = i;
          if (!plan.leaves[s].readable) continue;
          const double habit = plan.habit.empty() ? 0.0 : double(plan.habit[(size_t(l) * heads + h) * leaves + s]);
          const double u = double(visible[s]) / all;
          const double bound = std::min(double(plan.cap), std::max({double(plan.theta_rec), plan.factor * u, plan.factor * habit}));
          if (mass[s] > bound) events.push_back({i, s, uint16_t(l), uint16_t(h), float(mass[s]), float(habit)});
        }
      }
    LayerRecord r;
    r.layer = l;
    r.rows = rows, r.query_heads = heads, r.leaves = leaves;
    r.head_mass = head_mass.data(), r.inside = inside.data(), r.query_leaf = query_leaf.data();
    r.learned_sink = learned.data(), r.unattributed = unattributed.data();
    r.spike = spike.data(), r.spike_head = spike_head.data(), r.spike_row = spike_row.data();
    r.events = events.data(), r.event_count = events.size();
    recorder.on_layer(r);
  }
}

void feed_turn(Recorder& recorder, const TurnPlan& turn, const Ledger& ledger, const Attention& attention, uint32_t pass_rows,
               const std::function<void(const RecordPlan&, Slot)>& after_plan) {
  recorder.begin_turn(turn, ledger);
  const std::vector<TokenPos> positions = positions_of(turn.layout, uint32_t(turn.ids.size()));
  const Slot border = turn.answer_len ? turn.first_answer_row() : turn.executed_end;
  for (Slot begin = turn.cached; begin < turn.executed_end;) {
    Slot end = std::min(turn.executed_end, begin + pass_rows);
    if (begin < border) end = std::min(end, border);
    const std::vector<RowPhase> phases(turn.phase.begin() + (begin - turn.cached), turn.phase.begin() + (end - turn.cached));
    const RecordPlan& plan = recorder.plan_pass(begin, end, phases);
    if (after_plan) after_plan(plan, begin);
    feed_pass(recorder, plan, begin, positions, attention);
    begin = end;
  }
}

}  // namespace spanscope::test
