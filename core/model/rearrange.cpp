// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/model/rearrange.h"

#include <algorithm>
#include <cstring>

namespace spanscope {
namespace {

Rearranged finish(WeightMatrix w, std::vector<uint8_t> bytes) {
  auto storage = std::make_shared<const std::vector<uint8_t>>(std::move(bytes));
  w.data = storage->data();
  return {w, std::move(storage)};
}

template <class T>
void transpose_elements(const uint8_t* in, uint8_t* out, uint32_t rows, uint32_t cols) {
  constexpr uint32_t kTile = 32;  // both sides stay in the nearest cache
  for (uint32_t r0 = 0; r0 < rows; r0 += kTile)
    for (uint32_t c0 = 0; c0 < cols; c0 += kTile)
      for (uint32_t r = r0; r < std::min(rows, r0 + kTile); ++r)
        for (uint32_t c = c0; c < std::min(cols, c0 + kTile); ++c)
          std::memcpy(out + (size_t(r) * cols + c) * sizeof(T), in + (size_t(c) * rows + r) * sizeof(T), sizeof(T));
}

}  // namespace

Rearranged transpose(const WeightMatrix& w) {
  std::vector<uint8_t> out(row_bytes(w.type, w.cols) * w.rows);
  if (block_bytes(w.type) == 4)
    transpose_elements<uint32_t>(w.data, out.data(), w.rows, w.cols);
  else
    transpose_elements<uint16_t>(w.data, out.data(), w.rows, w.cols);
  return finish(w, std::move(out));
}

Rearranged every_other_row(const WeightMatrix& w, uint32_t first) {
  const size_t bytes = row_bytes(w.type, w.cols);
  WeightMatrix half = w;
  half.rows = (w.rows - first + 1) / 2;
  std::vector<uint8_t> out(bytes * half.rows);
  for (uint32_t r = 0; r < half.rows; ++r) std::memcpy(out.data() + r * bytes, w.row(first + 2 * uint64_t(r)), bytes);
  return finish(half, std::move(out));
}

Rearranged join_mxfp4(const uint8_t* codes, const uint8_t* exponents, uint32_t rows, uint32_t cols, uint32_t first,
                      uint32_t step) {
  const uint32_t blocks = cols / 32;
  WeightMatrix w;
  w.type = TensorType::mxfp4;
  w.rows = (rows - first + step - 1) / step;
  w.cols = cols;
  std::vector<uint8_t> out(row_bytes(w.type, cols) * w.rows);
  uint8_t* to = out.data();
  for (uint64_t r = first; r < rows; r += step)
    for (uint32_t b = 0; b < blocks; ++b) {
      const uint8_t* pairs = codes + (r * blocks + b) * 16;
      *to++ = exponents[r * blocks + b];
      for (uint32_t j = 0; j < 16; ++j) {
        const auto code = [&](uint32_t element) { return uint8_t(pairs[element / 2] >> (element % 2 * 4) & 15); };
        *to++ = uint8_t(code(j) | code(j + 16) << 4);
      }
    }
  return finish(w, std::move(out));
}

}  // namespace spanscope
