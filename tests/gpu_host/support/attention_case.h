// SPDX-License-Identifier: GPL-3.0-or-later
// One layer's attention on the host layer and on the CPU reference path, with the same plan: what differs and by how much.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "core/model/record_plan.h"
#include "tests/gpu_host/support/attention_launch.h"

namespace spanscope::gpu::test {

struct AttentionCase {
  std::string name;
  Mode mode = Mode::exact;
  Shape shape = Shape::prefill;
  uint32_t rows = 64, before = 0;  // rows of the pass behind `before` cached slots
  uint32_t heads = 4, kv_heads = 2, dim = 32;
  uint32_t window = 0;
  float score_cap = 0;
  bool sinks = false;
  uint32_t leaf_len = 0;       // 0: ragged lengths 1..40
  uint32_t gap_every = 0;      // after so many leaves some keys belong to none
  uint32_t position_gap = 0;   // positions jump by that much in the middle of the cache
  uint32_t answer_rows = 0;    // the last rows are answer rows; some of the others are recomputed or unrecorded
  uint32_t levels = 2;
  float spread = 2.0f;         // of the queries: larger is sharper attention
  uint32_t shared_leaves = 512;
  bool row_masses = true;
  uint32_t event_capacity = 0;  // 0: the tables' own
  uint64_t seed = 1;
};

struct AttentionOutcome {
  std::string problem;  // empty: everything agreed
  double out_error = 0, mass_error = 0;  // largest absolute, largest relative
  size_t events = 0, event_launches = 1;
  layer::Traffic plain, planned;
};

AttentionOutcome run_case(const AttentionCase& c);

}  // namespace spanscope::gpu::test
