// SPDX-License-Identifier: GPL-3.0-or-later
// Copies of matrices whose stored form no kernel reads. Plain functions; any thread. Throw std::bad_alloc.
#pragma once
#include <memory>
#include <vector>

#include "core/model/weights.h"

namespace spanscope {

struct Rearranged {
  WeightMatrix matrix;  // looks into `storage`
  std::shared_ptr<const std::vector<uint8_t>> storage;
};

// `w` says rows and cols as they are to become; its data lies as [cols][rows]. Element types without blocks only.
Rearranged transpose(const WeightMatrix& w);
// Rows first, first + 2, ...
Rearranged every_other_row(const WeightMatrix& w, uint32_t first);
// MXFP4 as checkpoints hold it: codes [rows][cols/2], the even element of a pair in the low half; exponents
// [rows][cols/32]. Takes rows first, first + step, ... into blocks of 17 bytes: exponent, then 16 bytes with element j in
// the low and j + 16 in the high half.
Rearranged join_mxfp4(const uint8_t* codes, const uint8_t* exponents, uint32_t rows, uint32_t cols, uint32_t first,
                      uint32_t step);

}  // namespace spanscope
