// SPDX-License-Identifier: GPL-3.0-or-later
// Few-row products of every weight format, on every instruction set of this machine, against sums in double
// over dequantise_row: any number of rows, odd numbers of columns, any stretch of the outputs.
#include <cmath>
#include <cstring>
#include <random>

#include "core/cpu/fast/targets.h"  // before Highway's: which sets the kernels have

#include <hwy/targets.h>

#include "core/cpu/fast/few_row_kernels.h"
#include "core/cpu/fast/vector_kernels.h"
#include "tests/support/catch.h"
#include "tests/support/random_blocks.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {

// Runs `body` once for each instruction set.
template <class Body>
void on_every_set(const Body& body) {
  const std::vector<int64_t> targets = hwy::SupportedAndGeneratedTargets();
  struct Restore {
    ~Restore() {
      hwy::SetSupportedTargetsForTest(0);
      hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    }
  } restore;
  REQUIRE(targets.size() >= 2);
  for (const int64_t target : targets) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    REQUIRE(std::string(fast::instruction_set()) == hwy::TargetName(target));
    INFO(hwy::TargetName(target));
    body();
  }
}

struct Shape {
  uint32_t outputs, cols;
};
// Columns in multiples of the block; odd ones among them, and more than one group of the kernel.
std::vector<Shape> shapes_for(TensorType type) {
  if (block_elements(type) == 256) return {{1, 256}, {9, 512}, {5, 768}, {3, 2816}};
  if (block_elements(type) == 32) return {{1, 32}, {9, 96}, {6, 544}, {3, 1056}};
  return {{1, 1}, {9, 50}, {6, 575}, {3, 1029}};
}

}  // namespace

TEST_CASE("products of every format on every instruction set") {
  std::mt19937 random(11);
  std::uniform_real_distribution<float> value(-1, 1);
  for (const TensorType type : kTensorTypes)
    for (const Shape& shape : shapes_for(type)) {
      const auto [outputs, cols] = shape;
      const std::vector<uint8_t> bytes = random_weights(type, outputs, cols, 1.0f, random);
      const WeightMatrix w{type, outputs, cols, bytes.data()};
      std::vector<double> weights;
      std::vector<float> row(cols);
      for (uint32_t o = 0; o < outputs; ++o) {
        dequantise_row(w, o, row.data());
        weights.insert(weights.end(), row.begin(), row.end());
      }
      const size_t x_stride = cols + 5, out_stride = outputs + 3;
      std::vector<float> x(4 * x_stride);
      for (float& v : x) v = value(random);

      on_every_set([&] {
        std::vector<float> four(4 * out_stride, -99.0f);
        for (uint32_t rows = 1; rows <= 4; ++rows) {
          INFO(tensor_type_name(type) << " " << outputs << " x " << cols << ", rows " << rows);
          std::vector<float> out(4 * out_stride, -99.0f);
          fast::few_row_product(w, 0, outputs, x.data(), x_stride, rows, out.data(), out_stride);
          double worst = 0;
          for (uint32_t r = 0; r < rows; ++r)
            for (uint32_t o = 0; o < outputs; ++o) {
              double sum = 0, size = 0;
              for (uint32_t c = 0; c < cols; ++c) {
                const double term = weights[size_t(o) * cols + c] * double(x[r * x_stride + c]);
                sum += term;
                size += std::abs(term);
              }
              // Rounding of cols additions in some order: well below 32 ulp of the sum of magnitudes.
              const double error = std::abs(double(out[r * out_stride + o]) - sum) / (size * 0x1p-24 + 1e-30);
              if (!(error <= worst)) worst = error;
            }
          CHECK(worst <= 32);
          for (size_t i = 0; i < out.size(); ++i)  // nothing between or behind the rows is written
            if (i % out_stride >= outputs || i / out_stride >= rows) CHECK(out[i] == -99.0f);

          // A stretch of the outputs, and the rows of a larger product, are the same bits.
          if (outputs > 2) {
            std::vector<float> part(4 * out_stride, -99.0f);
            fast::few_row_product(w, 1, outputs - 2, x.data(), x_stride, rows, part.data(), out_stride);
            for (uint32_t r = 0; r < rows; ++r)
              CHECK(std::memcmp(&part[r * out_stride], &out[r * out_stride + 1],
                                (outputs - 2) * sizeof(float)) == 0);
          }
          if (rows == 4) four = out;
        }
        for (uint32_t r = 0; r < 4; ++r) {
          std::vector<float> alone(outputs);
          fast::few_row_product(w, 0, outputs, x.data() + r * x_stride, x_stride, 1, alone.data(), outputs);
          CHECK(std::memcmp(alone.data(), &four[r * out_stride], outputs * sizeof(float)) == 0);
        }
      });
    }
}

TEST_CASE("a unit vector finds every single weight") {
  // One column at a time: the product is the weight itself, exactly, wherever it lies in its block.
  std::mt19937 random(12);
  for (const TensorType type : kTensorTypes) {
    const uint32_t cols = std::max(64u, 2 * block_elements(type));
    const std::vector<uint8_t> bytes = random_weights(type, 2, cols, 1.0f, random);
    const WeightMatrix w{type, 2, cols, bytes.data()};
    std::vector<float> weights(2 * cols), x(cols, 0.0f);
    for (uint32_t o = 0; o < 2; ++o) dequantise_row(w, o, &weights[o * cols]);
    on_every_set([&] {
      INFO(tensor_type_name(type));
      uint32_t wrong = 0;
      for (uint32_t c = 0; c < cols; ++c) {
        x[c] = 1;
        float out[2];
        fast::few_row_product(w, 0, 2, x.data(), cols, 1, out, 2);
        x[c] = 0;
        for (uint32_t o = 0; o < 2; ++o)
          if (out[o] != weights[o * cols + c] && ++wrong <= 3)
            UNSCOPED_INFO("row " << o << ", column " << c << ": " << out[o] << " instead of "
                                 << weights[o * cols + c]);
      }
      CHECK(wrong == 0);
    });
  }
}
