// SPDX-License-Identifier: GPL-3.0-or-later
// Every weight format against numbers that another implementation made (tests/data/quant/make_vectors.py),
// bit for bit, and what is known about the formats by name and number.
#include "core/model/block_formats.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <set>

#include "core/file/safetensors.h"
#include "core/model/weights.h"
#include "tests/support/catch.h"
#include "tests/support/oracles.h"

using namespace spanscope;
using namespace spanscope::test;

TEST_CASE("blocks mean what the published definition says, bit for bit") {
  auto vectors = read_safetensors_file(data_dir() + "/quant/vectors.safetensors");
  if (!vectors) FAIL(vectors.error().line());
  for (const TensorType type : kTensorTypes) {
    const std::string name = tensor_type_name(type);
    INFO(name);
    const auto blocks = vectors->get<uint8_t>(name + ".blocks").value();
    const auto expected = vectors->get<float>(name + ".values").value();
    const uint32_t bytes = block_bytes(type), elements = block_elements(type);
    const size_t count = blocks.size() / bytes;
    REQUIRE(count >= 40);
    REQUIRE(blocks.size() == count * bytes);
    REQUIRE(expected.size() == count * elements);

    // From an odd address, as tensors of a mapped file may lie for single bytes.
    std::vector<uint8_t> shifted(blocks.size() + 1);
    std::copy(blocks.begin(), blocks.end(), shifted.begin() + 1);
    std::vector<float> found(expected.size() + 1, 1234.5f);
    dequantise_blocks(type, shifted.data() + 1, count, found.data());
    CHECK(found.back() == 1234.5f);
    size_t wrong = 0, non_zero = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      non_zero += expected[i] != 0;
      if (std::bit_cast<uint32_t>(found[i]) == std::bit_cast<uint32_t>(expected[i])) continue;
      if (++wrong > 3) continue;
      UNSCOPED_INFO("block " << i / elements << ", element " << i % elements << ": " << found[i]
                             << " instead of " << expected[i]);
    }
    CHECK(wrong == 0);
    CHECK(non_zero > expected.size() / 2);

    // The same through a matrix of two rows.
    const WeightMatrix w{type, 2, uint32_t(count / 2 * elements), blocks.data()};
    std::vector<float> row(w.cols);
    dequantise_row(w, 1, row.data());
    CHECK(std::memcmp(row.data(), found.data() + w.cols, w.cols * sizeof(float)) == 0);
  }
}

TEST_CASE("every half is itself in an F16 tensor") {
  std::vector<uint16_t> halves;
  for (uint32_t h = 0; h < 0x10000; ++h)
    if ((h & 0x7fff) <= 0x7c00) halves.push_back(uint16_t(h));  // no NaN
  std::vector<float> found(halves.size());
  dequantise_blocks(TensorType::f16, reinterpret_cast<const uint8_t*>(halves.data()), halves.size(),
                    found.data());
  for (size_t i = 0; i < halves.size(); ++i) {
    const int exponent = halves[i] >> 10 & 31, mantissa = halves[i] & 1023;
    double value = exponent == 0    ? std::ldexp(mantissa, -24)
                   : exponent == 31 ? INFINITY
                                    : std::ldexp(1024 + mantissa, exponent - 25);
    if (halves[i] & 0x8000) value = -value;
    if (std::bit_cast<uint32_t>(found[i]) != std::bit_cast<uint32_t>(float(value)))
      FAIL("half " << halves[i]);
  }
}

TEST_CASE("names, numbers and sizes") {
  std::set<std::string> names;
  std::set<uint32_t> numbers;
  for (const TensorType type : kTensorTypes) {
    const uint32_t number = ggml_number(type);
    CHECK(names.insert(tensor_type_name(type)).second);
    CHECK(numbers.insert(number).second);
    CHECK(tensor_type_from_ggml(number) == type);
    const StoredType* stored = stored_type(number);
    REQUIRE(stored);
    CHECK(stored->name == std::string(tensor_type_name(type)));
    CHECK(stored->elements == block_elements(type));
    CHECK(stored->bytes == block_bytes(type));
    CHECK(row_bytes(type, 512) == 512 / block_elements(type) * block_bytes(type));
  }
  CHECK(names.size() == kTensorTypeCount);
  CHECK(ggml_number(TensorType::q4_k) == 12);
  CHECK(ggml_number(TensorType::mxfp4) == 39);
  CHECK(row_bytes(TensorType::q6_k, 256) == 210);
  for (uint32_t other : {4u, 5u, 9u, 15u, 16u, 24u, 28u, 31u, 34u, 40u, 99u, UINT32_MAX})
    CHECK_FALSE(tensor_type_from_ggml(other));
  for (uint32_t never : {4u, 5u, 31u, 32u, 33u, 36u, 99u, UINT32_MAX}) CHECK(stored_type(never) == nullptr);
  CHECK(supported_tensor_types() ==
        "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, IQ4_NL, MXFP4, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_XS");
}
