// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cpu/fast/expert_choice.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

namespace spanscope::fast {
namespace {

// In place: e^(x - max) over its sum.
void normalise(float* x, size_t n) {
  const float top = *std::max_element(x, x + n);
  double total = 0;
  for (size_t i = 0; i < n; ++i) total += std::exp(double(x[i]) - double(top));
  for (size_t i = 0; i < n; ++i) x[i] = float(std::exp(double(x[i]) - double(top)) / total);
}

}  // namespace

float choose_experts(const Recipe& recipe, const float* logits, int32_t* ids, float* weights) {
  const size_t n = recipe.experts, used = recipe.experts_used;
  std::vector<float> score(logits, logits + n);
  if (recipe.router == RouterRule::softmax_all) normalise(score.data(), n);
  std::vector<int32_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  // Numbers that are not numbers sort last, so that the order stays one.
  const auto key = [&](int32_t e) { return std::isnan(score[size_t(e)]) ? -INFINITY : score[size_t(e)]; };
  const size_t sorted = std::min(used + 1, n);
  std::partial_sort(order.begin(), order.begin() + std::ptrdiff_t(sorted), order.end(),
                    [&](int32_t a, int32_t b) { return key(a) != key(b) ? key(a) > key(b) : a < b; });
  for (size_t k = 0; k < used; ++k) {
    ids[k] = order[k];
    weights[k] = score[size_t(order[k])];
  }
  const float margin = sorted > used ? weights[used - 1] - score[size_t(order[used])] : 0.0f;
  if (recipe.router == RouterRule::softmax_chosen) {
    normalise(weights, used);
  } else if (recipe.renormalise_experts) {
    const float total = std::accumulate(weights, weights + used, 0.0f);
    for (size_t k = 0; k < used; ++k) weights[k] /= total;
  }
  return margin;
}

}  // namespace spanscope::fast
