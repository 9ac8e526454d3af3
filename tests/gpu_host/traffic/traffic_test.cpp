// SPDX-License-Identifier: GPL-3.0-or-later
// What recording costs in global memory traffic: loads and stores of one query tile's attention at the end of an 8k context
// with 200 leaves, with a plan and without. No second product of queries and keys, nothing that grows with rows x keys.
#include <cstdio>

#include "tests/gpu_host/support/attention_case.h"
#include "tests/support/catch.h"

using namespace spanscope::gpu::test;

namespace {
double ratio(const char* name, const AttentionCase& c) {
  const AttentionOutcome o = run_case(c);
  INFO(o.problem);
  REQUIRE(o.problem.empty());
  const double r = double(o.planned.total()) / double(o.plain.total());
  std::printf("%-44s off %8.3f MB  on %8.3f MB  on/off %.4f\n", name, double(o.plain.total()) / 1e6, double(o.planned.total()) / 1e6, r);
  return r;
}
}  // namespace

TEST_CASE("recording adds at most 2 % to the traffic of a tile at the end of 8k") {
  AttentionCase c;
  c.rows = 64;
  c.before = 8192 - 64;
  c.heads = 1;
  c.kv_heads = 1;
  c.dim = 64;
  c.leaf_len = 41;  // 200 leaves
  c.answer_rows = 64;
  c.row_masses = false;
  CHECK(ratio("prefill exact, heads of 64, shared memory", c) <= 1.02);
  c.dim = 128;
  CHECK(ratio("prefill exact, heads of 128, shared memory", c) <= 1.02);
  c.mode = Mode::bf16;
  CHECK(ratio("prefill bf16, heads of 128, shared memory", c) <= 1.02);
  c.dim = 64;
  CHECK(ratio("prefill bf16, heads of 64, shared memory", c) <= 1.02);
  c.shared_leaves = 100;
  // Each leaf sum goes out and comes back once: rows x leaves x 8 bytes, beside rows x keys never.
  CHECK(ratio("prefill bf16, heads of 64, spilled", c) <= 1.02 + 64 * 200 * 8 / 2.0e6);
  c.mode = Mode::exact;
  CHECK(ratio("prefill exact, heads of 64, spilled", c) <= 1.02 + 64 * 200 * 8 / 4.0e6);
}

TEST_CASE("decode's recording, one row at the end of 8k") {
  AttentionCase c;
  c.shape = Shape::decode;
  c.rows = 1;
  c.before = 8191;
  c.heads = 4;
  c.kv_heads = 1;
  c.dim = 64;
  c.leaf_len = 41;
  c.answer_rows = 1;
  c.row_masses = false;
  // Segments and leaf tables stand beside one row's keys and values only: reported, with a bound that notices a change.
  CHECK(ratio("decode exact, 4 heads of 64 on one", c) <= 1.05);
}
