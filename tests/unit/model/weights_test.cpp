// SPDX-License-Identifier: GPL-3.0-or-later
// Weight formats against blocks worked out by hand.
#include <cmath>

#include "core/base/half.h"
#include "core/model/weights.h"
#include "tests/support/catch.h"
#include "tests/support/gguf_builder.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {
std::vector<float> row(TensorType type, uint32_t cols, const Bytes& bytes, uint32_t r = 0) {
  WeightMatrix w;
  w.type = type;
  w.cols = cols;
  w.rows = r + 1;
  w.data = bytes.data.data();
  REQUIRE(bytes.data.size() == row_bytes(type, cols) * w.rows);
  std::vector<float> out(cols, NAN);
  dequantise_row(w, r, out.data());
  return out;
}
}  // namespace

TEST_CASE("plain formats") {
  CHECK(row(TensorType::f32, 3, Bytes().put(1.5f).put(-0.1f).put(3e38f)) ==
        std::vector<float>{1.5f, -0.1f, 3e38f});
  // f16: 1, -2, the least subnormal, 65504; the second row starts behind the first.
  Bytes half;
  for (uint16_t h : {0, 0, 0, 0, 0x3c00, 0xc000, 0x0001, 0x7bff}) half.put(uint16_t(h));
  CHECK(row(TensorType::f16, 4, half, 1) == std::vector<float>{1.0f, -2.0f, 0x1p-24f, 65504.0f});
  Bytes brain;
  for (uint16_t b : {0x3f80, 0xc049}) brain.put(uint16_t(b));
  CHECK(row(TensorType::bf16, 2, brain) == std::vector<float>{1.0f, -3.140625f});
}

TEST_CASE("Q8_0: scale times signed byte") {
  Bytes b;
  for (int block = 0; block < 2; ++block) {
    b.put(f32_to_f16(block ? -0.5f : 0.25f));
    for (int j = 0; j < 32; ++j) b.put(int8_t(j == 0 ? -128 : j == 1 ? 127 : j - 16));
  }
  const auto out = row(TensorType::q8_0, 64, b);
  CHECK(out[0] == -32.0f);
  CHECK(out[1] == 31.75f);
  CHECK(out[16] == 0.0f);
  CHECK(out[31] == 3.75f);
  CHECK(out[32] == 64.0f);
  CHECK(out[63] == -7.5f);
}

TEST_CASE("Q4_0: low halves first, then high halves, offset 8") {
  Bytes b;
  b.put(f32_to_f16(0.5f));
  for (int j = 0; j < 16; ++j) b.put(uint8_t(j | ((15 - j) << 4)));
  const auto out = row(TensorType::q4_0, 32, b);
  for (int j = 0; j < 16; ++j) {
    CHECK(out[size_t(j)] == 0.5f * float(j - 8));
    CHECK(out[size_t(j) + 16] == 0.5f * float(7 - j));
  }
}

TEST_CASE("Q4_1: scale and minimum, product and sum each rounded to f32") {
  Bytes b;
  const float d = f16_to_f32(0x2e66), m = f16_to_f32(0xb333);  // about 0.1 and -0.225: neither is exact
  b.put(uint16_t(0x2e66)).put(uint16_t(0xb333));
  for (int j = 0; j < 16; ++j) b.put(uint8_t(j | ((j ^ 5) << 4)));
  const auto out = row(TensorType::q4_1, 32, b);
  for (int j = 0; j < 16; ++j) {
    // A product of an f16 and a 4-bit number is exact in f32, so only the sum rounds: one correct rounding
    // from double.
    CHECK(out[size_t(j)] == float(double(d) * j + double(m)));
    CHECK(out[size_t(j) + 16] == float(double(d) * (j ^ 5) + double(m)));
  }
}
