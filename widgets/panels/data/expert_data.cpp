// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/panels/data/expert_data.h"

#include <cmath>
#include <limits>

#include "widgets/panels/data/session_access.h"

namespace spanscope::panels {
namespace {

// Index of a model layer among the routing layers; -1: dense.
int routing_layer(const std::vector<uint32_t>& layers, uint32_t layer) {
  for (size_t i = 0; i < layers.size(); ++i)
    if (layers[i] == layer) return int(i);
  return -1;
}

bool usable(const SessionData& session, const TurnRecord& t, size_t moe_layers) {
  const size_t rows = t.phase.size(), k = t.routing.experts_used;
  return !t.routing.empty() && t.routing.layers == moe_layers && t.routing.ids.size() == moe_layers * rows * k &&
         session.header.experts > 0;
}

}  // namespace

uint64_t ExpertLanes::sum(int phase) const {
  uint64_t n = 0;
  for (uint64_t x : total[phase]) n += x;
  return n;
}

uint32_t ExpertLanes::turn_sum(int phase, size_t turn) const {
  uint32_t n = 0;
  for (uint32_t e = 0; e < experts; ++e) n += counts[phase][turn * experts + e];
  return n;
}

bool has_routing(const SessionData& session) {
  for (const TurnRecord& t : session.turns)
    if (!t.routing.empty()) return true;
  return false;
}

std::vector<uint32_t> moe_layers(const SessionData& session) {
  std::vector<uint32_t> out;
  for (uint32_t l = 0; l < session.header.moe_layer.size(); ++l)
    if (session.header.moe_layer[l]) out.push_back(l);
  return out;
}

ExpertLanes expert_lanes(const SessionData& session, uint32_t layer) {
  ExpertLanes out;
  out.layer = layer;
  out.experts = session.header.experts;
  out.picks = session.header.experts_used;
  const auto layers = moe_layers(session);
  const int at = routing_layer(layers, layer);
  const size_t turns = session.turns.size();
  for (int p = 0; p < 2; ++p) {
    out.counts[p].assign(turns * out.experts, 0);
    out.total[p].assign(out.experts, 0);
  }
  out.recorded.assign(turns, 0);
  if (at < 0) return out;
  for (size_t i = 0; i < turns; ++i) {
    const TurnRecord& t = session.turns[i];
    if (!usable(session, t, layers.size())) continue;
    out.recorded[i] = 1;
    const size_t rows = t.phase.size(), k = t.routing.experts_used;
    for (size_t row = 0; row < rows; ++row) {
      const RowPhase phase = RowPhase(t.phase[row]);
      if (phase != RowPhase::prompt && phase != RowPhase::answer) continue;
      const int p = phase == RowPhase::answer;
      for (size_t j = 0; j < k; ++j) {
        const uint16_t e = t.routing.ids[(size_t(at) * rows + row) * k + j];
        if (e >= out.experts) continue;
        ++out.counts[p][i * out.experts + e];
        ++out.total[p][e];
      }
    }
  }
  return out;
}

ExpertCounts expert_counts(const SessionData& session, const std::vector<SpanId>& spans) {
  ExpertCounts out;
  const uint32_t layers = session.header.layers;
  out.experts = session.header.experts;
  out.picks = session.header.experts_used;
  out.moe.assign(layers, 0);
  out.counts.assign(size_t(layers) * out.experts, 0);
  out.first_weight.assign(layers, 0);
  out.near_ties.assign(layers, 0);
  const auto moe = moe_layers(session);
  for (uint32_t l : moe) out.moe[l] = 1;
  const auto mask = leaf_mask(session, spans);
  std::vector<uint32_t> seen(layers, 0);
  for (const TurnRecord& t : session.turns) {
    const bool good = usable(session, t, moe.size());
    const size_t rows = t.phase.size(), k = t.routing.experts_used;
    for (const LayoutEntry& entry : t.layout) {
      if (entry.leaf >= mask.size() || !mask[entry.leaf]) continue;
      for (Slot s = std::max(entry.slot, t.executed_begin); s < entry.slot + entry.len && s < t.executed_begin + rows; ++s) {
        const size_t row = s - t.executed_begin;
        const RowPhase phase = RowPhase(t.phase[row]);
        if (phase != RowPhase::prompt && phase != RowPhase::answer) continue;
        ++out.tokens;
        if (!good || t.routing.ids[row * k] == kNoExpert) {  // or dropped by gc
          ++out.not_recorded;
          continue;
        }
        for (size_t m = 0; m < moe.size(); ++m) {
          const uint32_t l = moe[m];
          for (size_t j = 0; j < k; ++j) {
            const uint16_t e = t.routing.ids[(m * rows + row) * k + j];
            if (e < out.experts) ++out.counts[size_t(l) * out.experts + e];
          }
          if (t.routing.weights.size() == t.routing.ids.size()) out.first_weight[l] += t.routing.weights[(m * rows + row) * k];
          if (t.routing.margin.size() == moe.size() * rows) out.near_ties[l] += t.routing.margin[m * rows + row] < 0.01f;
          ++seen[l];
        }
      }
    }
  }
  for (uint32_t l = 0; l < layers; ++l)
    if (seen[l]) out.first_weight[l] /= seen[l];
  return out;
}

double entropy_bits(const uint32_t* counts, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += counts[i];
  if (sum == 0) return std::numeric_limits<double>::quiet_NaN();
  double h = 0;
  for (size_t i = 0; i < n; ++i)
    if (counts[i]) h -= counts[i] / sum * std::log2(counts[i] / sum);
  return h;
}

}  // namespace spanscope::panels
