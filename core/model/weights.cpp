// SPDX-License-Identifier: GPL-3.0-or-later
// Weight element formats. Block layouts as the GGUF format defines them (blocks of 32 along a row):
//   Q8_0: f16 scale d, 32 signed bytes q           value = d * q
//   Q4_0: f16 scale d, 16 bytes                    value = d * (q - 8)
//   Q4_1: f16 scale d, f16 minimum m, 16 bytes     value = d * q + m
// In Q4_*, byte j holds element j in its low half and element j + 16 in its high half.
#include "core/model/weights.h"

#include <cstring>

#include "core/base/half.h"

namespace spanscope {
namespace {

// A block's bytes are copied out first: the compiler then knows that writing `out` does not change them.
template <uint32_t kBytes>
struct Quants {
  explicit Quants(const uint8_t* p) { std::memcpy(q, p, kBytes); }
  uint8_t q[kBytes];
};

uint16_t load16(const uint8_t* p) {
  uint16_t v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

}  // namespace

const char* tensor_type_name(TensorType type) {
  switch (type) {
    case TensorType::f32:
      return "F32";
    case TensorType::f16:
      return "F16";
    case TensorType::bf16:
      return "BF16";
    case TensorType::q8_0:
      return "Q8_0";
    case TensorType::q4_0:
      return "Q4_0";
    case TensorType::q4_1:
      return "Q4_1";
  }
  return "?";
}

uint32_t block_elements(TensorType type) {
  return type == TensorType::f32 || type == TensorType::f16 || type == TensorType::bf16 ? 1 : 32;
}

uint32_t block_bytes(TensorType type) {
  switch (type) {
    case TensorType::f32:
      return 4;
    case TensorType::f16:
    case TensorType::bf16:
      return 2;
    case TensorType::q8_0:
      return 34;
    case TensorType::q4_0:
      return 18;
    case TensorType::q4_1:
      return 20;
  }
  return 0;
}

uint64_t row_bytes(TensorType type, uint64_t cols) { return cols / block_elements(type) * block_bytes(type); }

void dequantise_row(const WeightMatrix& w, uint64_t r, float* out) {
  const uint8_t* in = w.row(r);
  const uint32_t blocks = w.cols / block_elements(w.type);
  switch (w.type) {
    case TensorType::f32:
      std::memcpy(out, in, size_t(w.cols) * sizeof(float));
      return;
    case TensorType::f16:
      for (uint32_t i = 0; i < w.cols; ++i) out[i] = f16_to_f32(load16(in + 2 * size_t(i)));
      return;
    case TensorType::bf16:
      for (uint32_t i = 0; i < w.cols; ++i) out[i] = bf16_to_f32(load16(in + 2 * size_t(i)));
      return;
    case TensorType::q8_0:
      for (uint32_t b = 0; b < blocks; ++b, in += 34, out += 32) {
        const float d = f16_to_f32(load16(in));
        const Quants<32> block(in + 2);
        for (int j = 0; j < 32; ++j) out[j] = d * float(int8_t(block.q[j]));
      }
      return;
    case TensorType::q4_0:
      for (uint32_t b = 0; b < blocks; ++b, in += 18, out += 32) {
        const float d = f16_to_f32(load16(in));
        const Quants<16> block(in + 2);
        for (int j = 0; j < 16; ++j) out[j] = d * float(int(block.q[j] & 15) - 8);
        for (int j = 0; j < 16; ++j) out[j + 16] = d * float(int(block.q[j] >> 4) - 8);
      }
      return;
    case TensorType::q4_1:
      for (uint32_t b = 0; b < blocks; ++b, in += 20, out += 32) {
        const float d = f16_to_f32(load16(in)), m = f16_to_f32(load16(in + 2));
        const Quants<16> block(in + 4);
        for (int j = 0; j < 16; ++j) out[j] = d * float(block.q[j] & 15) + m;
        for (int j = 0; j < 16; ++j) out[j + 16] = d * float(block.q[j] >> 4) + m;
      }
      return;
  }
}

}  // namespace spanscope
