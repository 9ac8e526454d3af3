// SPDX-License-Identifier: GPL-3.0-or-later
// A made-up session with the shape of a real one: seeded, its sums consistent, so that panels can be tested and looked at
// without a model. Numbers in it mean nothing.
#pragma once
#include <cstdint>
#include <memory>

#include "core/record/session_data.h"

namespace spanscope::test {

struct SyntheticOptions {
  uint32_t seed = 7;
  uint32_t turns = 24;
  uint32_t layers = 24, heads = 16, kv_heads = 4;
  uint32_t experts = 8;        // 0: dense, no routing
  bool text = true;
  uint32_t events_per_turn = 260;
};
std::shared_ptr<const SessionData> synthetic_session(const SyntheticOptions& options = {});

}  // namespace spanscope::test
