// SPDX-License-Identifier: GPL-3.0-or-later
// Token statistics of 32 query rows of one head: their scores over all visible keys are made again and reduced at once,
// to columns (per key) and rows. Scores are kept for the keys of one tile of rows only. Any thread.
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/cpu/fast/attention_kernels.h"

namespace spanscope::fast {

struct StatTile {
  KeyPages keys;
  ScoreRule rule;
  const float* sink = nullptr;  // this head's learned score of a key without a value, or null
  uint32_t dim = 0, rows = 0;   // rows <= kTileRows
  const float* q = nullptr;     // first row, this head; rows lie q_stride apart
  size_t q_stride = 0;
  const int32_t* first = nullptr;    // [32] visible slots of a row are [first, end); lanes >= rows repeat the last row
  const int32_t* end = nullptr;      // [32]
  const float* bound = nullptr;      // [32] 1 / (position + 1)
  const float* counted = nullptr;    // [32] 1 or 0; 0 in lanes >= rows
  const float* window = nullptr;     // [windows][32] 1 or 0
  uint32_t windows = 0;
  float* scratch = nullptr;          // stat_scratch_floats(dim, slots), aligned to 64 bytes
  // Columns of this head, added to: [slots]; window arrays lie window_stride apart.
  double *column_sum = nullptr, *column_square = nullptr, *window_sum = nullptr;
  float* column_max = nullptr;
  uint32_t *column_count = nullptr, *window_count = nullptr;
  size_t window_stride = 0;
  float* last_row = nullptr;  // [slots] weights of lane rows - 1, or null
  // Rows of this head: [rows]
  uint32_t* row_argmax = nullptr;
  float *row_max = nullptr, *row_lse = nullptr, *row_entropy = nullptr;
};
// v^T G v.  // gram [dim][dim], v [dim]
double quadratic_form(const double* gram, const float* v, uint32_t dim);
size_t stat_scratch_floats(uint32_t dim, uint32_t slots);
void stat_tile(const StatTile& tile);

}  // namespace spanscope::fast
