// SPDX-License-Identifier: GPL-3.0-or-later
// Attention kernels with fused span mass against the CPU reference path: outputs, every sum of the record, spikes, events.
// Every case runs without a plan, with it, and with the threads' turns in falling order; outputs must be the same bytes.
#include <cstdio>

#include "tests/gpu_host/support/attention_case.h"
#include "tests/support/catch.h"

using namespace spanscope::gpu::test;

namespace {
void check(AttentionCase c) {
  const AttentionOutcome o = run_case(c);
  std::printf("%-34s out %.1e mass %.1e events %zu\n", c.name.c_str(), o.out_error, o.mass_error, o.events);
  INFO(c.name << ": " << o.problem);
  CHECK(o.problem.empty());
}

std::vector<AttentionCase> cases(Mode mode, Shape shape) {
  const uint32_t rows = shape == Shape::prefill ? 100 : 3;
  AttentionCase base;
  base.mode = mode;
  base.shape = shape;
  base.rows = rows;
  base.before = 150;
  base.answer_rows = rows / 2 + 1;
  std::vector<AttentionCase> out;
  auto add = [&](const char* name, auto change) {
    AttentionCase c = base;
    c.name = name;
    change(c);
    out.push_back(c);
  };
  add("ragged leaves", [](AttentionCase&) {});
  add("one-token leaves", [](AttentionCase& c) { c.leaf_len = 1; });
  add("leaves of a tile", [](AttentionCase& c) { c.leaf_len = 64; });
  add("one leaf", [](AttentionCase& c) { c.leaf_len = 100000; });
  add("keys in no leaf", [](AttentionCase& c) { c.gap_every = 3; });
  add("window", [](AttentionCase& c) { c.window = 70; c.gap_every = 5; });
  add("window of one", [](AttentionCase& c) { c.window = 1; });
  add("window at a leaf border", [](AttentionCase& c) { c.window = 64; c.leaf_len = 32; });
  add("window and a gap in positions", [](AttentionCase& c) { c.window = 90; c.position_gap = 40; });
  add("soft cap", [](AttentionCase& c) { c.score_cap = 5; });
  add("learned sinks", [](AttentionCase& c) { c.sinks = true; c.gap_every = 4; });
  add("sharp attention", [](AttentionCase& c) { c.spread = 12; c.answer_rows = c.rows; });
  add("no cache before", [](AttentionCase& c) { c.before = 0; });
  add("one row", [](AttentionCase& c) { c.rows = 1; c.answer_rows = 1; });
  add("heads of 16", [](AttentionCase& c) { c.dim = 16; });
  add("heads of 64", [](AttentionCase& c) { c.dim = 64; c.heads = 3; c.kv_heads = 1; });
  add("heads of 128", [](AttentionCase& c) { c.dim = 128; c.heads = 2; });
  if (mode != Mode::bf16) {
    add("heads of 80", [](AttentionCase& c) { c.dim = 80; c.heads = 2; });
    add("heads of 96", [](AttentionCase& c) { c.dim = 96; c.heads = 2; c.gap_every = 3; });
    add("heads of 256", [](AttentionCase& c) { c.dim = 256; c.heads = 2; c.kv_heads = 1; c.rows = c.rows > 70 ? 70 : c.rows; });
  }
  add("nine heads on one", [](AttentionCase& c) { c.heads = 9; c.kv_heads = 1; c.rows = c.rows > 40 ? 40 : c.rows; });
  add("eight levels", [](AttentionCase& c) { c.levels = 8; });
  add("several partitions", [](AttentionCase& c) { c.before = 1200; c.rows = c.rows > 40 ? 40 : c.rows; c.heads = 2; });
  add("window far behind", [](AttentionCase& c) { c.before = 1100; c.window = 30; c.rows = c.rows > 70 ? 70 : c.rows; c.heads = 2; });
  return out;
}
}  // namespace

TEST_CASE("prefill in exact mode") {
  for (const AttentionCase& c : cases(Mode::exact, Shape::prefill)) check(c);
}
TEST_CASE("decode in exact mode") {
  for (const AttentionCase& c : cases(Mode::exact, Shape::decode)) check(c);
}
TEST_CASE("prefill in 16 bits") {
  for (const Mode mode : {Mode::f16, Mode::bf16})
    for (const AttentionCase& c : cases(mode, Shape::prefill)) check(c);
}
TEST_CASE("decode in 16 bits") {
  for (const Mode mode : {Mode::f16, Mode::bf16})
    for (const AttentionCase& c : cases(mode, Shape::decode)) check(c);
}
TEST_CASE("leaf sums that do not fit in shared memory give the same record") {
  AttentionCase c;
  c.name = "spilled";
  c.rows = 100;
  c.before = 200;
  c.answer_rows = 30;
  c.leaf_len = 1;
  c.shared_leaves = 16;
  check(c);
}
TEST_CASE("more leaves than a chunk of borders") {
  AttentionCase c;
  c.name = "500 one-token leaves";
  c.rows = 20;
  c.before = 480;
  c.answer_rows = 20;
  c.leaf_len = 1;
  check(c);
}
TEST_CASE("more events than there is room for") {
  AttentionCase c;
  c.name = "event overflow";
  c.rows = 80;
  c.before = 100;
  c.answer_rows = 80;
  c.spread = 12;
  c.event_capacity = 3;
  const AttentionOutcome o = run_case(c);
  INFO(o.problem);
  CHECK(o.problem.empty());
  CHECK(o.events > 3);
  CHECK(o.event_launches > 1);
}
