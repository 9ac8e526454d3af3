// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cpu/reference/routing.h"

#include <cmath>
#include <vector>

namespace spanscope::reference {
namespace {

void softmax(std::vector<float>& x) {
  float largest = x[0];
  for (float v : x) largest = v > largest ? v : largest;
  double total = 0;
  for (float& v : x) total += double(v = std::exp(v - largest));
  for (float& v : x) v = float(double(v) / total);
}

}  // namespace

float route(const Recipe& recipe, const float* scores, int32_t* ids, float* weights) {
  const uint32_t used = recipe.experts_used;
  std::vector<float> score(scores, scores + recipe.experts);
  if (recipe.router == RouterRule::softmax_all) softmax(score);
  // Selection by scan: a score that is not a number is never larger, so it cannot break the order.
  std::vector<uint8_t> taken(recipe.experts, 0);
  auto best = [&] {
    int32_t found = -1;
    for (uint32_t e = 0; e < recipe.experts; ++e)
      if (!taken[e] && (found < 0 || score[e] > score[size_t(found)])) found = int32_t(e);
    return found;
  };
  for (uint32_t k = 0; k < used; ++k) {
    ids[k] = best();
    taken[size_t(ids[k])] = 1;
    weights[k] = score[size_t(ids[k])];
  }
  const int32_t next = best();
  const float margin = next < 0 ? 0.0f : weights[used - 1] - score[size_t(next)];
  if (recipe.router == RouterRule::softmax_chosen) {
    std::vector<float> chosen(weights, weights + used);
    softmax(chosen);
    for (uint32_t k = 0; k < used; ++k) weights[k] = chosen[k];
  } else if (recipe.renormalise_experts) {
    float total = 0;
    for (uint32_t k = 0; k < used; ++k) total += weights[k];
    for (uint32_t k = 0; k < used; ++k) weights[k] /= total;
  }
  return margin;
}

}  // namespace spanscope::reference
