// SPDX-License-Identifier: GPL-3.0-or-later
// One real conversation on SmolLM2-135M-Instruct (Q4_1) against an independent float32 run.
#include <algorithm>
#include <cmath>

#include "tests/oracle/engine/engine_case.h"

using namespace spanscope;
using namespace spanscope::test;

TEST_CASE("a real model gives the reference's logits") {
  const auto path = smollm2();
  if (!path || !have_full_oracles()) return;
  auto blob = read_safetensors_file(*oracle("smollm2/ref.safetensors"));
  if (!blob) FAIL(blob.error().line());
  auto ids = blob->get<int32_t>("ids"), top_ids = blob->get<int32_t>("top_ids");
  auto top_logits = blob->get<float>("top_logits"), lse = blob->get<float>("logit_lse"),
       last = blob->get<float>("last_logits");
  REQUIRE((ids && top_ids && top_logits && lse && last));
  const auto model = loaded(*path);
  const size_t n = ids->size(), vocab = model->recipe.vocab, top = top_ids->size() / n;
  for (const BackendCase& c : backend_cases()) {
    INFO(c.name);
    const bool reference = std::string(c.name) == "reference";
    auto backend = made(c, model);
    auto cache = backend->new_cache(uint32_t(n));
    std::vector<float> logits = run_pieces(*backend, *cache, *ids, 0, PlanKind::none, false).logits;
    double worst = 0, divergence = 0;
    size_t same_top = 0;
    for (size_t i = 0; i < n; ++i) {
      const float* row = logits.data() + i * vocab;
      double own_lse = 0;
      for (size_t v = 0; v < vocab; ++v) own_lse += std::exp(double(row[v]));
      own_lse = std::log(own_lse);
      for (size_t k = 0; k < top; ++k) {
        const double expected = (*top_logits)[i * top + k], found = row[(*top_ids)[i * top + k]];
        worst = std::max(worst, std::abs(expected - found));
        const double p = std::exp(expected - double((*lse)[i]));
        divergence += p * ((expected - double((*lse)[i])) - (found - own_lse));
      }
      same_top += std::max_element(row, row + vocab) - row == (*top_ids)[i * top];
    }
    divergence /= double(n);
    INFO("largest difference " << worst << ", mean KL " << divergence << ", top-1 "
                               << double(same_top) / double(n));
    if (reference) {
      CHECK(worst <= 2e-3);
      logits.erase(logits.begin(), logits.end() - ptrdiff_t(last->size()));
      CHECK(largest_difference(logits, *last) <= 2e-3);
      CHECK(same_top == n);
    } else {
      CHECK(divergence <= 0.01);
      CHECK(double(same_top) >= 0.96 * double(n));
    }
  }
}
