// SPDX-License-Identifier: GPL-3.0-or-later
// Products of one to four rows with a stored matrix, straight from its blocks. The best instruction set of
// the machine is chosen at run time. A row's result does not depend on how many rows run together. Any
// thread.
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/model/weights.h"

namespace spanscope::fast {

// out[r * out_stride + o] = W[o] . x[r] for outputs [first, first + count) of w; rows <= 4. Blocks are made
// f32 in registers.  // x [rows][x_stride]
void few_row_product(const WeightMatrix& w, uint32_t first, uint32_t count, const float* x, size_t x_stride,
                     uint32_t rows, float* out, size_t out_stride);

}  // namespace spanscope::fast
