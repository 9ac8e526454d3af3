// SPDX-License-Identifier: GPL-3.0-or-later
// Bits: a plan changes none of the logits, threads change none at all, and records do not depend on the
// threads either.
#include <cstring>

#include "core/cpu/fast/targets.h"  // before Highway's: which sets the kernels have

#include <hwy/targets.h>

#include "core/cpu/fast/vector_kernels.h"
#include "tests/oracle/fast/fast_case.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {
bool same(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0);
}
}  // namespace

TEST_CASE("a plan changes no bit") {
  for (const FastCase& plain : fast_cases())
    for (const FastCase& c : {plain, with_window(plain, 40)}) {
      const std::vector<TokenId> ids = some_ids(c.model->recipe, 300, 4);
      const Layout ragged = ragged_layout(300, 2), single = one_token_layout(300);
      for (unsigned threads : {1u, 2u}) {
        const auto backend = fast_backend(c, threads);
        CHECK(backend->threads() == threads);
        for (uint32_t chunk : {1u, 7u, 100u, 300u}) {
          INFO(c.name << ", threads " << threads << ", passes of " << chunk);
          const Session off = run_session(*backend, ids, chunk, nullptr);
          for (const Layout* layout : {&ragged, &single}) {
            const Session on = run_session(*backend, ids, chunk, layout, chunk == 7);
            CHECK(same_bytes(off.logits, on.logits));
            CHECK(same_bytes(off.hidden, on.hidden));
          }
        }
      }
    }
}

TEST_CASE("logits and records do not depend on the threads") {
  for (const FastCase& c : fast_cases()) {
    const std::vector<TokenId> ids = some_ids(c.model->recipe, 300, 4);
    const Layout layout = ragged_layout(300, 2);
    const auto one = fast_backend(c, 1), three = fast_backend(c, 3);
    for (uint32_t chunk : {1u, 7u, 100u, 300u}) {
      INFO(c.name << ", passes of " << chunk);
      const Session a = run_session(*one, ids, chunk, &layout), b = run_session(*three, ids, chunk, &layout);
      CHECK(same_bytes(a.logits, b.logits));
      for (size_t pass = 0; pass < a.records.size(); ++pass)
        for (size_t l = 0; l < a.records[pass].size(); ++l) {
          const KeptLayer &x = a.records[pass][l], &y = b.records[pass][l];
          CHECK((same(x.head_mass, y.head_mass) && same(x.inside, y.inside) &&
                 same(x.query_leaf, y.query_leaf) && same(x.unattributed, y.unattributed)));
          CHECK((same_bytes(x.spike, y.spike) && x.spike_head == y.spike_head && x.spike_row == y.spike_row));
          REQUIRE(x.events.size() == y.events.size());
          if (!x.events.empty())
            CHECK(std::memcmp(x.events.data(), y.events.data(), x.events.size() * sizeof(ReadEvent)) == 0);
        }
    }
  }
}

TEST_CASE("every instruction set gives the same answer within rounding") {
  const std::vector<int64_t> targets = hwy::SupportedAndGeneratedTargets();
  struct Restore {
    ~Restore() {
      hwy::SetSupportedTargetsForTest(0);
      hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    }
  } restore;
  for (const FastCase& plain : fast_cases())
    for (const FastCase& c : {plain, with_cap(with_window(plain, 40), 3.0f)}) {
      const std::vector<TokenId> ids = some_ids(c.model->recipe, 120, 4);
      const Layout layout = ragged_layout(120, 2);
      const auto reference = reference_backend(c);
      const Session expected = run_session(*reference, ids, 60, &layout);
      const Session expected_single = run_session(*reference, ids, 5, &layout);
      // The last in the list is the portable baseline, which runs everywhere.
      for (const int64_t target : targets) {
        hwy::SetSupportedTargetsForTest(target);
        hwy::GetChosenTarget().Update(hwy::SupportedTargets());
        INFO(c.name << ", " << fast::instruction_set());
        CHECK(std::string(fast::instruction_set()) == hwy::TargetName(target));
        for (uint32_t chunk : {60u, 5u}) {
          const auto backend = fast_backend(c);
          const Session found = run_session(*backend, ids, chunk, &layout);
          const Session off = run_session(*backend, ids, chunk, nullptr);
          const Session& e = chunk == 60 ? expected : expected_single;
          CHECK(largest_difference(found.logits, e.logits) <= logit_tolerance(e.logits));
          CHECK(same_bytes(found.logits, off.logits));
          for (size_t pass = 0; pass < e.records.size(); ++pass)
            for (size_t l = 0; l < e.records[pass].size(); ++l)
              CHECK(largest_difference(found.records[pass][l].row_mass, e.records[pass][l].row_mass) <= 2e-5);
        }
      }
    }
  std::cout << targets.size() << " instruction sets compared\n";
}
