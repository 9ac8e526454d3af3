// SPDX-License-Identifier: GPL-3.0-or-later
// Expert picks as counts (definitions D6): prefill (prompt rows) and decode (answer rows) apart, layers never added up.
// No Qt. Any thread.
#pragma once
#include <cstdint>
#include <vector>

#include "core/record/session_data.h"

namespace spanscope::panels {

struct ExpertLanes {  // one MoE layer over turns
  uint32_t layer = 0, experts = 0, picks = 0;
  std::vector<uint32_t> counts[2];   // [prefill, decode][turns][experts]
  std::vector<uint64_t> total[2];    // [phase][experts]
  std::vector<uint8_t> recorded;     // [turns]
  uint64_t sum(int phase) const;
  uint32_t turn_sum(int phase, size_t turn) const;
};
struct ExpertCounts {  // some spans over layers
  uint32_t experts = 0, picks = 0, tokens = 0, not_recorded = 0;
  std::vector<uint8_t> moe;          // [layers]
  std::vector<uint32_t> counts;      // [layers][experts]
  std::vector<double> first_weight;  // [layers] mean weight of the first pick
  std::vector<uint32_t> near_ties;   // [layers] margin below 0.01
};

bool has_routing(const SessionData& session);
std::vector<uint32_t> moe_layers(const SessionData& session);  // model layer of each routing layer
ExpertLanes expert_lanes(const SessionData& session, uint32_t layer);
ExpertCounts expert_counts(const SessionData& session, const std::vector<SpanId>& spans);
double entropy_bits(const uint32_t* counts, size_t n);  // NaN for no counts

}  // namespace spanscope::panels
