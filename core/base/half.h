// SPDX-License-Identifier: GPL-3.0-or-later
// f16 and bf16 to and from float, exactly (round to nearest even on the way down). Any thread.
#pragma once
#include <bit>
#include <cstdint>

namespace spanscope {

inline float f16_to_f32(uint16_t h) {
  const uint32_t sign = uint32_t(h & 0x8000u) << 16;
  const uint32_t exponent = (h >> 10) & 0x1fu, mantissa = h & 0x3ffu;
  if (exponent == 0) {
    if (mantissa == 0) return std::bit_cast<float>(sign);
    const float value = float(mantissa) * 0x1p-24f;  // subnormal: exact in f32
    return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

inline uint16_t f32_to_f16(float f) {
  const uint32_t bits = std::bit_cast<uint32_t>(f);
  const uint32_t sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return uint16_t(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return uint16_t(sign | 0x7c00u);  // rounds to infinity
  if (magnitude < 0x38800000u) {                                  // subnormal or zero
    const float scaled = std::bit_cast<float>(magnitude) * 0x1p24f;
    uint32_t integer = uint32_t(scaled);
    const float rest = scaled - float(integer);
    if (rest > 0.5f || (rest == 0.5f && (integer & 1u))) ++integer;
    return uint16_t(sign | integer);
  }
  uint32_t rounded = magnitude - 0x38000000u;
  rounded += 0xfffu + ((rounded >> 13) & 1u);
  return uint16_t(sign | (rounded >> 13));
}

inline float bf16_to_f32(uint16_t b) { return std::bit_cast<float>(uint32_t(b) << 16); }
inline uint16_t f32_to_bf16(float f) {
  uint32_t bits = std::bit_cast<uint32_t>(f);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return uint16_t((bits >> 16) | 0x40u);
  bits += 0x7fffu + ((bits >> 16) & 1u);
  return uint16_t(bits >> 16);
}

}  // namespace spanscope
