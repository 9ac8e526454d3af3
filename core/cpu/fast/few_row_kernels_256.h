// SPDX-License-Identifier: GPL-3.0-or-later
// The part of few_row_product() (few_row_kernels.h) for formats with blocks of 256; in a file of its own
// because every format is compiled for every instruction set and number of rows.
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/model/weights.h"

namespace spanscope::fast {

void few_row_product_256(const WeightMatrix& w, uint32_t first, uint32_t count, const float* x,
                         size_t x_stride, uint32_t rows, float* out, size_t out_stride);

}  // namespace spanscope::fast
