// SPDX-License-Identifier: GPL-3.0-or-later
// Attention of one layer, row by row and head by head: the scores of one row over its visible keys are the
// largest buffer, never rows x keys. With a MassFold the row's weights are also summed per leaf before they
// are forgotten. Engine thread.
#pragma once
#include <stop_token>
#include <vector>

#include "core/base/thread_pool.h"
#include "core/cpu/reference/cache.h"
#include "core/cpu/reference/kernels.h"
#include "core/cpu/reference/mass_fold.h"
#include "core/model/recipe.h"

namespace spanscope::reference {

struct AttentionInput {
  const Recipe& recipe;
  uint32_t layer = 0;
  uint32_t rows = 0;
  const float* q = nullptr;             // [rows][query heads][dim], rotated
  ReferenceCache& cache;                // keys and values of this pass are already in place
  Slot first_slot = 0;                  // slot of row 0
  std::span<const TokenPos> positions;  // [first_slot + rows] of every slot, those of this pass included
  const float* sinks = nullptr;         // [query heads] learned scores of a key without a value, or null
  std::stop_token stop;
};

// Masks go by absolute position: key j is visible to row i when pos(j) <= pos(i), and pos(i) - pos(j) <
// window. Positions ascend with slots, so the visible keys are one run.
VisibleRange visible_slots(std::span<const TokenPos> positions, Slot slot, uint32_t window);

// out [rows][query heads][dim]. plan and fold: both or neither. False when it was stopped.
bool attention(ThreadPool& pool, const AttentionInput& in, const RecordPlan* plan, MassFold* fold,
               std::vector<ThreadScratch>& scratch, float* out);

}  // namespace spanscope::reference
