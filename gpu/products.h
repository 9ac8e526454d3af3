// SPDX-License-Identifier: GPL-3.0-or-later
// y = W x + b with W as it is stored: matrices go to the device once, at the first use. A few rows: each weight is widened in
// registers, sums in float32 (matrix_vector). More: weights are widened once a pass and multiplied on tensor cores, in float32
// (three TF32 products) or, in fast mode, in f16 (matrix_tiles). Engine thread.
#pragma once
#include <map>

#include "core/model/backend.h"
#include "core/model/weights.h"
#include "gpu/runtime.h"

namespace spanscope::gpu {

// What a block of them asks of a card, in bytes, for weights so many columns wide.
uint64_t products_shared_bytes(uint32_t cols);

inline constexpr uint32_t kFewRows = 8;

class Products {
 public:
  explicit Products(Arithmetic arithmetic = Arithmetic::exact) : arithmetic_(arithmetic) {}
  // x [rows][cols], out [rows][w.rows]; bias [w.rows] or empty. Errors: SPAN-GPU-TYPE (no kernel for the format).
  Status run(const WeightMatrix& w, const std::vector<float>& bias, const Array<float>& x, uint32_t rows, Array<float>& out);
  // A vector of the model on the device: norms, biases, sinks. Empty: none.
  Result<Global<const float>> vector(const std::vector<float>& v);

 private:
  template <class Format>
  Status run_format(const WeightMatrix& w, const Array<uint8_t>& bytes, Global<const float> bias, const Array<float>& x, uint32_t rows,
                    Array<float>& out);
  template <class Format, class Mode>
  Status launch_tiles(const WeightMatrix& w, const Array<uint8_t>& bytes, Global<const float> bias, const Array<float>& x, uint32_t rows,
                      Array<float>& out, Array<typename Mode::Element>& widened);
  template <class Format>
  Status launch_vector(const WeightMatrix& w, const Array<uint8_t>& bytes, Global<const float> bias, const Array<float>& x, uint32_t rows,
                       Array<float>& out);
  const Arithmetic arithmetic_;
  Array<float> widened_, scale_;
  Array<uint16_t> widened16_;
  std::map<const uint8_t*, Array<uint8_t>> matrices_;
  std::map<const float*, Array<float>> vectors_;
};

}  // namespace spanscope::gpu
