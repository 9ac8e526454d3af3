// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/base/half.h"

#include <cmath>

#include "tests/support/catch.h"

using namespace spanscope;

TEST_CASE("every f16 value survives the way to f32 and back") {
  for (uint32_t h = 0; h < 0x10000; ++h) {
    const float f = f16_to_f32(uint16_t(h));
    if (std::isnan(f)) continue;
    REQUIRE(f32_to_f16(f) == h);
  }
}

TEST_CASE("f32 to f16 rounds to nearest, ties to even") {
  REQUIRE(f32_to_f16(1.0f + 0x1p-11f) == 0x3c00);              // a tie goes to the even neighbour below
  REQUIRE(f32_to_f16(1.0f + 3 * 0x1p-11f) == 0x3c02);          // and above
  REQUIRE(f32_to_f16(65519.0f) == 0x7bff);
  REQUIRE(f32_to_f16(65520.0f) == 0x7c00);
  REQUIRE(f32_to_f16(0x1p-25f) == 0);                          // half of the least subnormal, tie to even
  REQUIRE(f32_to_f16(0x1.8p-25f) == 1);
}
