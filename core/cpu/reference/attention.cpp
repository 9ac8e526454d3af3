// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cpu/reference/attention.h"

#include <algorithm>
#include <cmath>

namespace spanscope::reference {

VisibleRange visible_slots(std::span<const TokenPos> positions, Slot slot, uint32_t window) {
  VisibleRange range{0, slot + 1};
  if (window && positions[slot] >= window)
    range.first =
        Slot(std::upper_bound(positions.begin(), positions.begin() + slot, positions[slot] - window) -
             positions.begin());
  return range;
}

namespace {

// Sums the exponentials of each leaf's visible keys, and of the keys between leaves, in double.
void leaf_masses(const RecordPlan& plan, const VisibleRange& visible, const float* exponentials, double total,
                 double* mass) {
  double unattributed = 0;
  Slot at = visible.first;
  const size_t leaves = plan.leaves.size();
  for (size_t s = 0; s < leaves; ++s) {
    const Slot first = std::clamp(plan.leaves[s].slot, at, visible.end);
    const Slot end = std::clamp(plan.leaves[s].slot + plan.leaves[s].len, first, visible.end);
    for (; at < first; ++at) unattributed += double(exponentials[at - visible.first]);
    double sum = 0;
    for (; at < end; ++at) sum += double(exponentials[at - visible.first]);
    mass[s] = sum / total;
  }
  for (; at < visible.end; ++at) unattributed += double(exponentials[at - visible.first]);
  mass[leaves] = unattributed / total;
}

// One row of one head. The planned instantiation adds leaf_masses and changes nothing else.
template <bool kPlanned>
void attend_row(const AttentionInput& in, const RecordPlan* plan, const VisibleRange& visible, uint32_t row,
                uint32_t head, ThreadScratch& scratch, double* mass, float* lse, float* out) {
  const Recipe& r = in.recipe;
  float* weights = scratch.row.data();
  const uint32_t dim = r.head_dim, kv_head = head / (r.query_heads / r.kv_heads),
                 count = visible.end - visible.first;
  const float* q = in.q + (size_t(row) * r.query_heads + head) * dim;
  kernels().scores(q, in.cache.key(in.layer, kv_head, visible.first), count, dim, r.attention_scale, weights);
  if (r.score_cap != 0)
    for (uint32_t j = 0; j < count; ++j) weights[j] = r.score_cap * std::tanh(weights[j] / r.score_cap);
  float largest = *std::max_element(weights, weights + count);
  if (in.sinks) largest = std::max(largest, in.sinks[head]);
  double total = 0;
  for (uint32_t j = 0; j < count; ++j) {
    weights[j] = std::exp(weights[j] - largest);
    total += double(weights[j]);
  }
  // A learned sink takes its share of the row and gives no value.
  const double sink = in.sinks ? double(std::exp(in.sinks[head] - largest)) : 0.0;
  total += sink;
  if constexpr (kPlanned) {
    leaf_masses(*plan, visible, weights, total, mass);
    mass[plan->leaves.size() + 1] = sink / total;
    if (lse) *lse = float(double(largest) + std::log(total));
  }
  double* sum = scratch.sum.data();
  const float* values = in.cache.value(in.layer, kv_head, visible.first);
  std::fill(sum, sum + dim, 0.0);
  kernels().weighted_sum(weights, values, count, dim, sum);
  for (uint32_t d = 0; d < dim; ++d) out[d] = float(sum[d] / total);
}

}  // namespace

bool attention(ThreadPool& pool, const AttentionInput& in, const RecordPlan* plan, MassFold* fold,
               std::vector<ThreadScratch>& scratch, float* out) {
  const uint32_t heads = in.recipe.query_heads, dim = in.recipe.head_dim;
  const uint32_t tile = fold ? fold->tile_rows() : 64;
  for (ThreadScratch& s : scratch) {
    s.row.resize(in.first_slot + in.rows);
    s.sum.resize(dim);
  }
  std::vector<VisibleRange> visible(in.rows);
  for (uint32_t i = 0; i < in.rows; ++i)
    visible[i] = visible_slots(in.positions, in.first_slot + i, in.recipe.window[in.layer]);
  for (uint32_t first = 0; first < in.rows; first += tile) {
    if (in.stop.stop_requested()) return false;
    const uint32_t rows = std::min(tile, in.rows - first);
    pool.parallel_for(size_t(rows) * heads, [&](size_t item, unsigned thread) {
      const uint32_t i = uint32_t(item / heads), row = first + i, head = uint32_t(item % heads);
      float* to = out + (size_t(row) * heads + head) * dim;
      if (fold)
        attend_row<true>(in, plan, visible[row], row, head, scratch[thread], fold->mass(i, head),
                         fold->lse(row, head), to);
      else
        attend_row<false>(in, nullptr, visible[row], row, head, scratch[thread], nullptr, nullptr, to);
    });
    if (fold) fold->fold(first, rows, in.positions.data() + in.first_slot + first, visible.data() + first);
  }
  return true;
}

}  // namespace spanscope::reference
