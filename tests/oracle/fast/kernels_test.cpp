// SPDX-License-Identifier: GPL-3.0-or-later
// Matrix products against sums in double over dequantise_row: every weight format, few and many rows, odd
// shapes.
#include <cmath>
#include <cstring>
#include <random>

#include "core/base/half.h"
#include "core/cpu/fast/matrix.h"
#include "tests/oracle/fast/fast_case.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {

struct Matrix {
  std::vector<uint8_t> bytes;
  WeightMatrix view;
};

// Random weights of about unit size in the given format; f16 scales include a subnormal one.
Matrix random_matrix(TensorType type, uint32_t rows, uint32_t cols, std::mt19937& random) {
  Matrix m;
  m.bytes.resize(row_bytes(type, cols) * rows);
  for (uint8_t& b : m.bytes) b = uint8_t(random());
  std::uniform_real_distribution<float> value(-1, 1);
  const uint32_t step = block_bytes(type);
  for (size_t at = 0; at < m.bytes.size(); at += step) {
    const auto put = [&](size_t offset, float x) {
      const uint16_t h = type == TensorType::bf16 ? f32_to_bf16(x) : f32_to_f16(x);
      std::memcpy(m.bytes.data() + at + offset, &h, 2);
    };
    if (type == TensorType::f32) {
      const float x = value(random);
      std::memcpy(m.bytes.data() + at, &x, 4);
    } else {
      put(0, at % (7 * step) == 0 ? 3e-6f * value(random) : 0.1f * value(random));
      if (type == TensorType::q4_1) put(2, value(random));
    }
  }
  m.view = {type, rows, cols, m.bytes.data()};
  return m;
}

}  // namespace

TEST_CASE("products of every format, few rows and many") {
  std::mt19937 random(7);
  ThreadPool pool(2);
  fast::Team team(pool);
  const TensorType types[] = {TensorType::f32,  TensorType::f16,  TensorType::bf16,
                              TensorType::q8_0, TensorType::q4_0, TensorType::q4_1};
  std::vector<Matrix> alive;  // packed copies are known by the address of the stored weights
  fast::Matrices matrices(team);
  for (const TensorType type : types)
    for (const auto& [outputs, cols] :
         std::vector<std::pair<uint32_t, uint32_t>>{{1, 32}, {70, 64}, {33, 608}, {300, 96}, {8, 50}}) {
      if (cols % block_elements(type) != 0) continue;
      alive.push_back(random_matrix(type, outputs, cols, random));
      const WeightMatrix& w = alive.back().view;
      std::vector<float> weights(size_t(outputs) * cols);
      for (uint32_t o = 0; o < outputs; ++o) dequantise_row(w, o, weights.data() + size_t(o) * cols);
      for (const uint32_t rows : {1u, 2u, 3u, 4u, 7u, 8u, 9u, 31u, 64u, 65u, 150u}) {
        INFO(tensor_type_name(type) << " " << outputs << " x " << cols << ", rows " << rows);
        std::uniform_real_distribution<float> value(-1, 1);
        std::vector<float> x(size_t(rows + fast::kRowPadding) * cols, 0.0f),
            out(size_t(rows) * (outputs + 3), -99.0f);
        for (size_t i = 0; i < size_t(rows) * cols; ++i) x[i] = value(random);
        const fast::Product product{&w, x.data(), out.data(), outputs + 3};
        team.run([&] { matrices.multiply({&product, 1}, rows); });
        double worst = 0;
        for (uint32_t r = 0; r < rows; ++r) {
          for (uint32_t o = 0; o < outputs; ++o) {
            double sum = 0, size = 0;
            for (uint32_t c = 0; c < cols; ++c) {
              const double term = double(weights[size_t(o) * cols + c]) * double(x[size_t(r) * cols + c]);
              sum += term;
              size += std::abs(term);
            }
            // Rounding of cols additions in some order: well below 32 ulp of the sum of magnitudes.
            const double error =
                std::abs(double(out[size_t(r) * (outputs + 3) + o]) - sum) / (size * 0x1p-24 + 1e-30);
            if (!(error <= worst)) worst = error;
          }
          for (uint32_t o = outputs; o < outputs + 3; ++o)  // nothing is written between the rows
            CHECK(out[size_t(r) * (outputs + 3) + o] == -99.0f);
        }
        CHECK(worst <= 32);
      }
    }
  CHECK(matrices.packed_bytes() > 0);
}

TEST_CASE("a team survives errors in its loops") {
  ThreadPool pool(3);
  fast::Team team(pool);
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> sum{0};
    bool thrown = false;
    team.run([&] {
      for (int loop = 0; loop < 20; ++loop)
        team.for_each(size_t(loop), [&](size_t item, unsigned thread) {
          if (thread < 3) sum += int(item);
        });
      try {
        team.for_each(8, [](size_t item, unsigned) {
          if (item == 5) throw std::runtime_error("five");
        });
      } catch (const std::runtime_error&) {
        thrown = true;
      }
    });
    CHECK(thrown);
    CHECK(sum == 1140);  // sum over loops of n(n-1)/2, n < 20
    CHECK_THROWS_AS(team.run([] { throw std::bad_alloc(); }), std::bad_alloc);
  }
}
