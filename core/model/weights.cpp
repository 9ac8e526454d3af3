// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/model/weights.h"

#include "core/model/block_formats.h"

namespace spanscope {

void dequantise_row(const WeightMatrix& w, uint64_t r, float* out) {
  dequantise_blocks(w.type, w.row(r), w.cols / block_elements(w.type), out);
}

}  // namespace spanscope
