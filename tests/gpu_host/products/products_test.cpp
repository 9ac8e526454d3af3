// SPDX-License-Identifier: GPL-3.0-or-later
// Products with weights as they are stored, every format that has a kernel: against the same weights widened by core/model
// and added up in double. Odd widths, more outputs than a block has, few and many rows.
#include <cmath>
#include <random>

#include "core/base/half.h"
#include "gpu/products.h"
#include "tests/support/catch.h"

using namespace spanscope;
using namespace spanscope::gpu;

namespace {
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
      put16(i, f32_to_f16(0.1f * normal(random)));
      if (type == TensorType::q4_1) put16(i + 2, f32_to_f16(normal(random)));
    }
  return bytes;
}
}  // namespace

TEST_CASE("products of every stored format that has a kernel") {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  uint32_t formats = 0;
  for (const TensorType type : kTensorTypes) {
    if (!products_have(type)) continue;
    ++formats;
    for (const uint32_t cols : {32u, 96u, 1120u, 45u})
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
  CHECK(formats == 5);
}

TEST_CASE("a format without a kernel is named") {
  const std::vector<uint8_t> bytes(1024);
  Products products;
  Array<float> x, out;
  REQUIRE(x.resize(256));
  const Status done = products.run({TensorType::q4_k, 1, 256, bytes.data()}, {}, x, 1, out);
  REQUIRE(!done);
  CHECK(done.error().tag == "SPAN-GPU-TYPE");
  CHECK(done.error().message.find("Q4_K") != std::string::npos);
}
