// SPDX-License-Identifier: GPL-3.0-or-later
// Does a profile per head earn its storage? Asked of one recorded session: how much of what its answers looked up lies in
// the best 5 % of heads. Any thread.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/record/head_map.h"

namespace spanscope {

struct HeadShare {
  std::string by;               // what chose the heads
  std::vector<uint32_t> heads;  // layer * query_heads + head, best first
  double reads = 0;             // their part of all reads
  std::optional<double> mass;   // their part of the retrieval mass; nothing without head detail of all heads
};

struct HeadCriterion {
  size_t heads = 0, top = 0;    // of the model; how many are 5 %
  double reads = 0;             // all of them, requests left out
  std::optional<double> mass;   // retrieval mass of all heads: rows' worth
  // By copy score and by reads of the map; both united, which is what head detail keeps; then what this session itself would
  // choose, by reads and by retrieval mass: the most that so few heads can hold.
  std::vector<HeadShare> shares;
  size_t judged = 0;            // the share that the verdict goes by: the united one, or the session's own choice by reads
  size_t heads_for_half = 0;    // the fewest heads that hold half of the reads
  uint64_t span_bytes = 0;      // frames of span detail: mass and reads
  uint64_t profile_bytes = 0;   // frames of head profiles, as they are in the file
  size_t profile_heads = 0;     // heads in them
  bool earns = false;           // the profile of the few heads
  std::string verdict;
};

// When the heads that head detail keeps hold at least this part of the reads, looking things up is the work of few heads:
// their profile is worth what it takes, and that of all the others is not. When they do not, the profile of few heads says
// little that one number a span does not.
inline constexpr double kEnoughReads = 0.5;

// reads, retrieval: by head, from HeadCounter. map_copy, map_reads: by head, from a head map; null where it has none.
HeadCriterion head_criterion(const std::vector<double>& reads, const std::vector<double>& retrieval, const HeadTable* map_copy, const HeadTable* map_reads,
                             uint64_t span_bytes, uint64_t profile_bytes, size_t profile_heads);

}  // namespace spanscope
