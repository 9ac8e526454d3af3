// SPDX-License-Identifier: GPL-3.0-or-later
// Products with weights as they are stored, every format: against the same weights widened by core/model
// and added up in double. Odd widths, more outputs than a block has, few and many rows.
#include <cmath>
#include <random>

#include "core/base/half.h"
#include "gpu/products.h"
#include "tests/support/catch.h"

using namespace spanscope;
using namespace spanscope::gpu;

namespace {
// Where a block's f16 scale and minimum lie (core/model/block_formats.h); -1: none.
std::pair<int, int> scale_places(TensorType type) {
  switch (type) {
    case TensorType::q4_1: case TensorType::q5_1: case TensorType::q4_k: case TensorType::q5_k: return {0, 2};
    case TensorType::q2_k: return {80, 82};
    case TensorType::q3_k: return {108, -1};
    case TensorType::q6_k: return {208, -1};
    default: return {0, -1};
  }
}
// Random bytes, with every block's scales made numbers of about 0.1.
std::vector<uint8_t> random_matrix(TensorType type, uint32_t rows, uint32_t cols, std::mt19937& random) {
  std::vector<uint8_t> bytes(size_t(rows) * row_bytes(type, cols));
  std::normal_distribution<float> normal;
  const auto put16 = [&](size_t at, uint16_t v) { std::memcpy(bytes.data() + at, &v, 2); };
  if (type == TensorType::f32)
    for (size_t i = 0; i < bytes.size(); i += 4) {
      const float x = normal(random);
      std::memcpy(bytes.data() + i, &x, 4);
    }
  else if (type == TensorType::f16 || type == TensorType::bf16)
    for (size_t i = 0; i < bytes.size(); i += 2) put16(i, type == TensorType::f16 ? f32_to_f16(normal(random)) : f32_to_bf16(normal(random)));
  else
    for (size_t i = 0; i < bytes.size(); i += block_bytes(type)) {
      for (size_t k = 0; k < block_bytes(type); ++k) bytes[i + k] = uint8_t(random());
      if (type == TensorType::mxfp4) {
        bytes[i] = uint8_t(random() % 8 == 0 ? random() % 3 : 120 + random() % 10);  // also scales below the normal numbers
        continue;
      }
      const auto [d, m] = scale_places(type);
      put16(i + size_t(d), f32_to_f16(0.1f * normal(random)));
      if (m >= 0) put16(i + size_t(m), f32_to_f16(0.1f * normal(random)));
    }
  return bytes;
}
}  // namespace

TEST_CASE("products of every stored format") {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (const TensorType type : kTensorTypes) {
    for (const uint32_t cols : {32u, 96u, 256u, 1120u, 1280u, 45u})
      for (const uint32_t rows : {1u, 3u, 6u}) {
        if (cols % block_elements(type)) continue;
        const uint32_t outputs = 37;
        INFO(tensor_type_name(type) << ", " << cols << " wide, " << rows << " rows");
        const std::vector<uint8_t> bytes = random_matrix(type, outputs, cols, random);
        const WeightMatrix w{type, outputs, cols, bytes.data()};
        std::vector<float> x(size_t(rows) * cols), bias(outputs), out(size_t(rows) * outputs), row(cols);
        for (float& v : x) v = normal(random);
        for (float& v : bias) v = normal(random);
        Products products;
        Array<float> device_x, device_out;
        REQUIRE(device_x.resize(x.size()));
        REQUIRE(device_x.upload(x.data(), x.size()));
        const Status done = products.run(w, cols == 96 ? std::vector<float>{} : bias, device_x, rows, device_out);
        if (!done) FAIL(done.error().line());
        REQUIRE(device_out.download(out.data(), out.size()));
        for (uint32_t o = 0; o < outputs; ++o) {
          dequantise_row(w, o, row.data());
          for (uint32_t r = 0; r < rows; ++r) {
            double sum = cols == 96 ? 0 : double(bias[o]), size = 0;
            for (uint32_t c = 0; c < cols; ++c) {
              sum += double(row[c]) * double(x[size_t(r) * cols + c]);
              size += std::abs(double(row[c]) * double(x[size_t(r) * cols + c]));
            }
            CHECK(std::abs(double(out[size_t(r) * outputs + o]) - sum) <= 1e-6 * (size + 1));
          }
        }
      }
  }
}

// A product with a unit vector is one weight and nothing else: every element of every format, bit for bit.
TEST_CASE("weights are widened to the same bits") {
  std::mt19937 random(6);
  for (const TensorType type : kTensorTypes) {
    const uint32_t cols = std::max(64u, block_elements(type)), outputs = 5;
    const std::vector<uint8_t> bytes = random_matrix(type, outputs, cols, random);
    const WeightMatrix w{type, outputs, cols, bytes.data()};
    std::vector<float> x(size_t(cols) * cols), out(size_t(cols) * outputs), row(cols);
    for (uint32_t c = 0; c < cols; ++c) x[size_t(c) * cols + c] = 1;
    Products products;
    Array<float> device_x, device_out;
    REQUIRE(device_x.resize(x.size()));
    REQUIRE(device_x.upload(x.data(), x.size()));
    REQUIRE(products.run(w, {}, device_x, cols, device_out));
    REQUIRE(device_out.download(out.data(), out.size()));
    uint32_t wrong = 0, zeros = 0;
    for (uint32_t o = 0; o < outputs; ++o) {
      dequantise_row(w, o, row.data());
      for (uint32_t c = 0; c < cols; ++c) {
        wrong += out[size_t(c) * outputs + o] != row[c];
        zeros += row[c] == 0;
      }
    }
    INFO(tensor_type_name(type));
    CHECK(wrong == 0);
    CHECK(zeros < outputs * cols / 2);
  }
}
