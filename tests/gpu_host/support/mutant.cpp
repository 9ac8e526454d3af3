// SPDX-License-Identifier: GPL-3.0-or-later
// A test of the tests: this program is linked with kernels that carry one seeded bug (SPANSCOPE_MUTANT, see below) and fails
// when no case notices. Without a bug (0) every case must pass.
//   1 prefill: no barrier before keys are read         5 prefill: no barrier before masses are folded
//   2 a sum over four lanes takes the wrong partner     6 decode: partitions are joined without rescaling
//   3 an open leaf is not rescaled with the maximum     7 decode: a segment ends one key late
//   4 a leaf ends one key late                          8 decode: an asynchronous copy is not waited for
#include <cstdio>

#include "tests/gpu_host/support/attention_case.h"

#ifndef SPANSCOPE_MUTANT_PROGRAM
#error "which mutant is this?"
#endif

using namespace spanscope::gpu::test;

int main() {
  bool noticed = false;
  for (const Shape shape : {Shape::prefill, Shape::decode})
    for (const uint32_t leaf : {0u, 1u, 32u}) {
      AttentionCase c;
      c.shape = shape;
      c.rows = shape == Shape::prefill ? 70 : 2;
      c.before = shape == Shape::prefill ? 150 : 700;
      c.answer_rows = c.rows;
      c.gap_every = 4;
      c.leaf_len = leaf;
      c.heads = 2;
      c.kv_heads = 1;
      const AttentionOutcome o = run_case(c);
      std::printf("mutant %d, %s, leaves of %u: %s\n", SPANSCOPE_MUTANT_PROGRAM, shape == Shape::prefill ? "prefill" : "decode", leaf,
                  o.problem.empty() ? "agrees" : o.problem.c_str());
      noticed |= !o.problem.empty();
    }
  return noticed == (SPANSCOPE_MUTANT_PROGRAM != 0) ? 0 : 1;
}
