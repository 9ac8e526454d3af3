// SPDX-License-Identifier: GPL-3.0-or-later
// A real conversation on SmolLM2-135M-Instruct (Q4_1): the fast path against the reference path over the
// whole vocabulary, and against the published logits.
#include <algorithm>
#include <cmath>

#include "core/file/safetensors.h"
#include "tests/oracle/fast/fast_case.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {

double log_sum_exp(const float* x, size_t n) {
  const double top = *std::max_element(x, x + n);
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += std::exp(double(x[i]) - top);
  return top + std::log(sum);
}

// Largest difference between the published logits and ours, in passes of `chunk` rows.
double compare(const FastCase& c, const std::vector<TokenId>& ids, const Session& reference,
               const std::vector<int32_t>& top_ids, const std::vector<float>& top_logits, uint32_t chunk) {
  const size_t n = ids.size(), vocab = c.model->recipe.vocab, top = top_ids.size() / n;
  const auto backend = fast_backend(c);
  const Session fast = run_session(*backend, ids, chunk, nullptr, false, false);
  REQUIRE(fast.logits.size() == n * vocab);
  double divergence = 0, worst = 0;
  size_t same_top = 0;
  for (size_t i = 0; i < n; ++i) {
    const float *p = reference.logits.data() + i * vocab, *q = fast.logits.data() + i * vocab;
    const double p_lse = log_sum_exp(p, vocab), q_lse = log_sum_exp(q, vocab);
    for (size_t v = 0; v < vocab; ++v)
      divergence += std::exp(double(p[v]) - p_lse) * ((double(p[v]) - p_lse) - (double(q[v]) - q_lse));
    same_top += std::max_element(p, p + vocab) - p == std::max_element(q, q + vocab) - q;
    for (size_t k = 0; k < top; ++k)
      worst = std::max(worst, std::abs(double(top_logits[i * top + k]) - double(q[top_ids[i * top + k]])));
  }
  divergence /= double(n);
  std::cout << "passes of " << chunk << ": mean KL " << divergence << ", same top-1 " << same_top << " of "
            << n << ", published logits within " << worst << "\n";
  CHECK(divergence <= 0.01);
  CHECK(double(same_top) >= 0.96 * double(n));
  return worst;
}

}  // namespace

TEST_CASE("a real model on the fast path") {
  const auto path = smollm2();
  if (!path) return;
  const auto data = oracle("smollm2/ref.safetensors");
  if (!data) return;
  auto blob = read_safetensors_file(*data);
  if (!blob) FAIL(blob.error().line());
  auto ids = blob->get<int32_t>("ids"), top_ids = blob->get<int32_t>("top_ids");
  auto top_logits = blob->get<float>("top_logits");
  REQUIRE((ids && top_ids && top_logits));
  auto model = load_model(*path);
  if (!model) FAIL(model.error().line());
  const FastCase c{"SmolLM2", *model};
  const auto reference = reference_backend(c);
  const Session expected = run_session(*reference, *ids, uint32_t(ids->size()), nullptr, false, false);
  for (uint32_t chunk : {uint32_t(ids->size()), 100u})
    CHECK(compare(c, *ids, expected, *top_ids, *top_logits, chunk) <= 2e-3);

  // One token at a time over the first part: products straight from the stored blocks, keys in partitions.
  const std::vector<TokenId> first(ids->begin(), ids->begin() + 60);
  const auto backend = fast_backend(c);
  const Session single = run_session(*backend, first, 1, nullptr, false, false);
  const std::vector<float> rows(expected.logits.begin(),
                                expected.logits.begin() + ptrdiff_t(60 * (*model)->recipe.vocab));
  CHECK(largest_difference(single.logits, rows) <= 2e-3);
}

TEST_CASE("recording a real model: the sums of the reference path") {
  const auto path = smollm2();
  if (!path) return;
  auto model = load_model(*path);
  if (!model) FAIL(model.error().line());
  const FastCase c{"SmolLM2", *model};
  const std::vector<TokenId> ids = some_ids((*model)->recipe, 260, 2);
  const Layout layout = ragged_layout(260, 3);
  const auto fast = fast_backend(c), reference = reference_backend(c);
  const Session a = run_session(*fast, ids, 230, &layout), b = run_session(*reference, ids, 230, &layout),
                off = run_session(*fast, ids, 230, nullptr);
  CHECK(same_bytes(a.logits, off.logits));
  double worst = 0;
  for (size_t pass = 0; pass < a.records.size(); ++pass)
    for (size_t l = 0; l < a.records[pass].size(); ++l)
      worst = std::max(worst, largest_difference(a.records[pass][l].row_mass, b.records[pass][l].row_mass));
  std::cout << "row masses within " << worst << "\n";
  CHECK(worst <= 1e-3);
}
