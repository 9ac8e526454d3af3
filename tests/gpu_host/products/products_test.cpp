// SPDX-License-Identifier: GPL-3.0-or-later
// Products with weights as they are stored, every format: against the same weights widened by core/model
// and added up in double. Odd widths, more outputs than a block has, few and many rows.
#include <cmath>
#include <cstring>
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

struct Product {
  std::vector<float> out, x, bias;
};
Product multiply(const WeightMatrix& w, uint32_t rows, Arithmetic arithmetic, bool with_bias, float size, std::mt19937& random) {
  std::normal_distribution<float> normal;
  Product p{std::vector<float>(size_t(rows) * w.rows), std::vector<float>(size_t(rows) * w.cols), std::vector<float>(with_bias ? w.rows : 0)};
  for (float& v : p.x) v = size * normal(random);
  for (float& v : p.bias) v = normal(random);
  Products products(arithmetic);
  Array<float> x, out;
  REQUIRE(x.resize(p.x.size()));
  REQUIRE(x.upload(p.x.data(), p.x.size()));
  const Status done = products.run(w, p.bias, x, rows, out);
  if (!done) FAIL(done.error().line());
  REQUIRE(out.download(p.out.data(), p.out.size()));
  return p;
}
// What f16 keeps of a row: each number times the power of two that brings the largest to [2^13, 2^14).
float half_of(float x, float largest) {
  const float scale = largest > 0 ? std::ldexp(1.0f, 13 - std::ilogb(largest)) : 1.0f;
  return f16_to_f32(f32_to_f16(x * scale)) / scale;
}

TEST_CASE("products of every stored format") {
  std::mt19937 random(5);
  for (const TensorType type : kTensorTypes)
    for (const uint32_t cols : {32u, 96u, 256u, 1120u, 1280u, 45u})
      for (const uint32_t rows : {1u, 3u, 6u, 9u, 70u}) {
        if (cols % block_elements(type) || (rows > 8 && cols > 1000 && type != TensorType::q4_1)) continue;
        INFO(tensor_type_name(type) << ", " << cols << " wide, " << rows << " rows");
        const uint32_t outputs = rows == 70 ? 67 : 37;
        const std::vector<uint8_t> bytes = random_matrix(type, outputs, cols, random);
        const WeightMatrix w{type, outputs, cols, bytes.data()};
        const Product p = multiply(w, rows, Arithmetic::exact, cols != 96, 1, random);
        std::vector<float> row(cols);
        for (uint32_t o = 0; o < outputs; ++o) {
          dequantise_row(w, o, row.data());
          for (uint32_t r = 0; r < rows; ++r) {
            double sum = p.bias.empty() ? 0 : double(p.bias[o]), size = 0;
            for (uint32_t c = 0; c < cols; ++c) {
              sum += double(row[c]) * double(p.x[size_t(r) * cols + c]);
              size += std::abs(double(row[c]) * double(p.x[size_t(r) * cols + c]));
            }
            CHECK(std::abs(double(p.out[size_t(r) * outputs + o]) - sum) <= 1e-6 * (size + 1));
          }
        }
      }
}

// Inputs rounded as f16 keeps them, sums in double: what is left is the float32 of the sums. Also of numbers that f16 does not
// have, and of rows of zeros.
TEST_CASE("many rows in fast mode are those of a plain f16 product") {
  std::mt19937 random(7);
  for (const TensorType type : {TensorType::f32, TensorType::bf16, TensorType::q4_1, TensorType::q6_k, TensorType::mxfp4})
    for (const float size : {1.0f, 1e6f, 1e-9f, 0.0f}) {
      const uint32_t cols = type == TensorType::f32 ? 45 : 256, rows = 66, outputs = 65;
      INFO(tensor_type_name(type) << ", numbers of about " << size);
      const std::vector<uint8_t> bytes = random_matrix(type, outputs, cols, random);
      const WeightMatrix w{type, outputs, cols, bytes.data()};
      const Product p = multiply(w, rows, Arithmetic::fast, false, size, random);
      std::vector<float> row(cols);
      double worst = 0, plain_worst = 0;
      for (uint32_t o = 0; o < outputs; ++o) {
        dequantise_row(w, o, row.data());
        for (uint32_t r = 0; r < rows; ++r) {
          const float* x = p.x.data() + size_t(r) * cols;
          float largest = 0;
          for (uint32_t c = 0; c < cols; ++c) largest = std::max(largest, std::abs(x[c]));
          double plain = 0, exact = 0, all = 0;
          for (uint32_t c = 0; c < cols; ++c) {
            plain += double(f16_to_f32(f32_to_f16(row[c]))) * double(half_of(x[c], largest));
            exact += double(row[c]) * double(x[c]);
            all += std::abs(double(row[c]) * double(x[c]));
          }
          const double found = double(p.out[size_t(r) * outputs + o]);
          CHECK(std::abs(found - plain) <= 1e-6 * all + 1e-30);
          worst = std::max(worst, std::abs(found - exact));
          plain_worst = std::max(plain_worst, std::abs(plain - exact));
        }
      }
      CHECK(worst <= 2 * plain_worst + 1e-30);
    }
}

// A product with a unit vector is one weight and nothing else: every element of every format, bit for bit.
TEST_CASE("weights are widened to the same bits") {
  std::mt19937 random(6);
  for (const TensorType type : kTensorTypes) {
    const uint32_t cols = std::max(64u, block_elements(type)), outputs = 5;
    const std::vector<uint8_t> bytes = random_matrix(type, outputs, cols, random);
    const WeightMatrix w{type, outputs, cols, bytes.data()};
    std::vector<float> x(size_t(kFewRows) * cols), out(size_t(kFewRows) * outputs), row(cols);
    Products products;
    Array<float> device_x, device_out;
    uint32_t wrong = 0, zeros = 0;
    for (uint32_t first = 0; first < cols; first += kFewRows) {
      std::fill(x.begin(), x.end(), 0.0f);
      for (uint32_t i = 0; i < kFewRows; ++i) x[size_t(i) * cols + first + i] = 1;
      REQUIRE(device_x.resize(x.size()));
      REQUIRE(device_x.upload(x.data(), x.size()));
      REQUIRE(products.run(w, {}, device_x, kFewRows, device_out));
      REQUIRE(device_out.download(out.data(), out.size()));
      for (uint32_t o = 0; o < outputs; ++o) {
        dequantise_row(w, o, row.data());
        for (uint32_t i = 0; i < kFewRows; ++i) {
          wrong += out[size_t(i) * outputs + o] != row[first + i];
          zeros += row[first + i] == 0;
        }
      }
    }
    INFO(tensor_type_name(type));
    CHECK(wrong == 0);
    CHECK(zeros < outputs * cols / 2);
  }
}
