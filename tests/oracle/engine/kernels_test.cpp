// SPDX-License-Identifier: GPL-3.0-or-later
// The reference path's inner loops give the same bits whatever instruction set runs them, and are right.
#include <cmath>
#include <cstring>
#include <random>

#include "core/cpu/reference/kernels.h"
#include "tests/support/catch.h"

using namespace spanscope;
using namespace spanscope::reference;

TEST_CASE("every instruction set gives the same bits") {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (uint32_t cols : {1u, 15u, 16u, 48u, 67u}) {
    const uint32_t outputs = 7, rows = 9;
    std::vector<float> w(outputs * cols), x(rows * cols);
    for (float& v : w) v = normal(random);
    for (float& v : x) v = normal(random);
    const Kernels* baseline = kernels_named("baseline");
    REQUIRE(baseline);
    std::vector<float> expected(rows * outputs), scores(outputs);
    std::vector<double> sums(cols);
    baseline->products(w.data(), outputs, x.data(), rows, cols, expected.data(), outputs);
    baseline->scores(x.data(), w.data(), outputs, cols, 0.3f, scores.data());
    baseline->weighted_sum(x.data(), w.data(), outputs, cols, sums.data());
    for (uint32_t r = 0; r < rows; ++r)
      for (uint32_t o = 0; o < outputs; ++o) {
        double sum = 0, size = 0;
        for (uint32_t c = 0; c < cols; ++c) {
          sum += double(w[o * cols + c]) * double(x[r * cols + c]);
          size += std::abs(double(w[o * cols + c]) * double(x[r * cols + c]));
        }
        CHECK(std::abs(sum - double(expected[r * outputs + o])) <= 1e-6 * size);
      }
    for (const char* name : {"avx2", "avx512"}) {
      const Kernels* other = kernels_named(name);
      if (!other) {
        WARN("this machine has no " << name);
        continue;
      }
      std::vector<float> out(rows * outputs), own_scores(outputs);
      std::vector<double> own_sums(cols);
      other->products(w.data(), outputs, x.data(), rows, cols, out.data(), outputs);
      other->scores(x.data(), w.data(), outputs, cols, 0.3f, own_scores.data());
      other->weighted_sum(x.data(), w.data(), outputs, cols, own_sums.data());
      CHECK(std::memcmp(out.data(), expected.data(), out.size() * sizeof(float)) == 0);
      CHECK(std::memcmp(own_scores.data(), scores.data(), scores.size() * sizeof(float)) == 0);
      CHECK(std::memcmp(own_sums.data(), sums.data(), sums.size() * sizeof(double)) == 0);
    }
  }
}
