// SPDX-License-Identifier: GPL-3.0-or-later
// Which experts a row uses: the K largest scores in falling order, of equals the lower index, and how they are combined.
// One warp a row; up to 1,024 experts, of which each lane looks after every 32nd.
#pragma once
#include "gpu/kernels/params.h"

namespace spanscope::gpu {

struct RouterParams {
  Global<const float> scores;      // [rows][experts]
  Global<int32_t> ids;             // [rows][used] in selection order
  Global<float> weights, margin;   // [rows][used], [rows]
  uint32_t experts = 0, used = 0;
  bool softmax_all = false;  // over all experts before the choice; else over the chosen ones
  bool renormalise = false;  // softmax_all: chosen weights are made to add up to 1
};

SPANSCOPE_DEVICE float warp_sum(float x) {
  for (uint32_t bits = 16; bits > 0; bits /= 2) x += shuffle_xor(x, bits);
  return x;
}
SPANSCOPE_DEVICE float warp_max(float x) {
  for (uint32_t bits = 16; bits > 0; bits /= 2) {
    const float y = shuffle_xor(x, bits);
    x = y > x ? y : x;
  }
  return x;
}

// Grid: rows; 32 threads.
SPANSCOPE_KERNEL(32) choose_experts(const RouterParams p) {
  const uint32_t lane = thread_x();
  const uint64_t row = uint64_t(block_x()) * p.experts, out = uint64_t(block_x()) * p.used;
  float max = 0, total = 1;
  if (p.softmax_all) {
    max = -infinity();
    for (uint32_t e = lane; e < p.experts; e += 32) {
      const float x = p.scores.load(row + e);
      max = x > max ? x : max;
    }
    max = warp_max(max);
    total = 0;
    for (uint32_t e = lane; e < p.experts; e += 32) total += exponential(p.scores.load(row + e) - max);
    total = warp_sum(total);
  }
  uint32_t taken = 0;   // bit k: expert lane + 32 k
  float mine = 0, last = 0;  // lane k keeps the k-th weight
  for (uint32_t k = 0; k <= p.used; ++k) {
    float best = -infinity();
    uint32_t found = kMaxExperts;
    for (uint32_t e = lane, i = 0; e < p.experts; e += 32, ++i) {
      if (taken >> i & 1) continue;
      const float x = p.scores.load(row + e), score = p.softmax_all ? exponential(x - max) / total : x;
      if (found == kMaxExperts || score > best) {
        best = score;
        found = e;
      }
    }
    for (uint32_t bits = 16; bits > 0; bits /= 2) {
      const float other = shuffle_xor(best, bits);
      const uint32_t index = shuffle_xor(found, bits);
      if (index != kMaxExperts && (found == kMaxExperts || other > best || (other == best && index < found))) {
        best = other;
        found = index;
      }
    }
    if (k == p.used) {  // the first one that was not chosen
      if (lane == 0) p.margin.store(block_x(), found == kMaxExperts ? 0.0f : last - best);
      break;
    }
    if (found % 32 == lane) taken |= 1u << found / 32;
    if (lane == k) mine = best;
    if (lane == 0) p.ids.store(out + k, int32_t(found));
    last = best;
  }
  if (!p.softmax_all) {
    const float high = warp_max(lane < p.used ? mine : -infinity());
    mine = lane < p.used ? exponential(mine - high) : 0.0f;
    mine /= warp_sum(mine);
  } else if (p.renormalise) {
    mine /= warp_sum(mine);
  }
  if (lane < p.used) p.weights.store(out + lane, mine);
}

}  // namespace spanscope::gpu
