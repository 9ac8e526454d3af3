// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/base/thread_pool.h"

#include <atomic>
#include <cstdlib>

#include "tests/support/catch.h"

using namespace spanscope;

TEST_CASE("every item runs exactly once, loop after loop") {
  ThreadPool pool(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::atomic<int>> hits(round % 17);
    pool.parallel_for(hits.size(), [&](size_t i, unsigned thread) {
      if (thread >= pool.threads()) std::abort();
      ++hits[i];
    });
    for (auto& h : hits) REQUIRE(h == 1);
  }
}
