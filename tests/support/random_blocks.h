// SPDX-License-Identifier: GPL-3.0-or-later
// Random stored weights in any format: any bits where small numbers lie, scales that give weights of about
// the size asked for.
#pragma once
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "core/base/half.h"
#include "core/model/weights.h"

namespace spanscope::test {

// Bytes of rows x cols weights of about [-size, size]; some blocks have a scale that is a subnormal f16.
inline std::vector<uint8_t> random_weights(TensorType type, uint32_t rows, uint32_t cols, float size,
                                           std::mt19937& random) {
  std::vector<uint8_t> bytes(row_bytes(type, cols) * rows);
  for (uint8_t& b : bytes) b = uint8_t(random());
  std::uniform_real_distribution<float> value(-1, 1);
  const uint32_t step = block_bytes(type);
  const auto half = [&](size_t at, float x) {
    const uint16_t h = f32_to_f16(x);
    std::memcpy(bytes.data() + at, &h, sizeof h);
  };
  size_t block = 0;
  for (size_t at = 0; at < bytes.size(); at += step, ++block) {
    // d * (largest small number) = size, and minima that bring weights to both sides of 0.
    const auto scale = [&](float largest) { return block % 7 == 3 ? 3e-6f : value(random) * size / largest; };
    switch (type) {
      case TensorType::f32: {
        const float x = value(random) * size;
        std::memcpy(bytes.data() + at, &x, sizeof x);
        break;
      }
      case TensorType::f16:
        half(at, value(random) * size);
        break;
      case TensorType::bf16: {
        const uint16_t h = f32_to_bf16(value(random) * size);
        std::memcpy(bytes.data() + at, &h, sizeof h);
        break;
      }
      case TensorType::q8_0:
        half(at, scale(128));
        break;
      case TensorType::q4_0:
        half(at, scale(8));
        break;
      case TensorType::q4_1:
      case TensorType::q5_1: {
        const float d = scale(type == TensorType::q4_1 ? 8.0f : 16.0f);
        half(at, d);
        half(at + 2, -d * (type == TensorType::q4_1 ? 7.5f : 15.5f));
        break;
      }
      case TensorType::q5_0:
        half(at, scale(16));
        break;
      case TensorType::iq4_nl:
        half(at, scale(127));
        break;
      case TensorType::mxfp4:
        // 12 * 2^(e - 128)
        bytes[at] = uint8_t(124 + std::ilogb(size) - int(random() % 3));
        break;
      case TensorType::q2_k:
        half(at + 80, std::abs(scale(15 * 2)));
        half(at + 82, std::abs(scale(15 * 2)) * 1.5f);
        break;
      case TensorType::q3_k:
        half(at + 108, scale(32 * 4));
        break;
      case TensorType::q4_k:
      case TensorType::q5_k: {
        const float largest = type == TensorType::q4_k ? 8.0f : 16.0f, d = std::abs(scale(63 * largest));
        half(at, d);
        half(at + 2, d * largest);
        break;
      }
      case TensorType::q6_k:
        half(at + 208, scale(128 * 32));
        break;
      case TensorType::iq4_xs:
        half(at, scale(32 * 127));
        break;
    }
  }
  return bytes;
}

}  // namespace spanscope::test
