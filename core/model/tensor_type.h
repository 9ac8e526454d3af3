// SPDX-License-Identifier: GPL-3.0-or-later
// The element formats of stored weights: names, numbers, block sizes. What the bytes of a block mean is
// block_formats.h. Not for: whole matrices (weights.h). Any thread.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace spanscope {

enum class TensorType : uint8_t {
  f32,
  f16,
  bf16,  // one number each
  q8_0,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  iq4_nl,  // blocks of 32, f16 scale
  mxfp4,   // blocks of 32, power-of-two scale
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
  iq4_xs,  // blocks of 256 with scales of their parts
};
inline constexpr uint32_t kTensorTypeCount = 16;
inline constexpr std::array<TensorType, kTensorTypeCount> kTensorTypes = {
    TensorType::f32,    TensorType::f16,   TensorType::bf16, TensorType::q8_0,
    TensorType::q4_0,   TensorType::q4_1,  TensorType::q5_0, TensorType::q5_1,
    TensorType::iq4_nl, TensorType::mxfp4, TensorType::q2_k, TensorType::q3_k,
    TensorType::q4_k,   TensorType::q5_k,  TensorType::q6_k, TensorType::iq4_xs,
};

const char* tensor_type_name(TensorType type);  // "Q4_K"
uint32_t block_elements(TensorType type);       // 1, 32 or 256
uint32_t block_bytes(TensorType type);
// Bytes of one row of `cols` elements (cols must be a multiple of block_elements).
uint64_t row_bytes(TensorType type, uint64_t cols);

// A type number that the GGUF format has given out, read here or not. The sizes of the others are needed to
// check that tensors lie inside their file.
struct StoredType {
  uint32_t number;
  const char* name;
  uint32_t elements, bytes;  // of one block
};
const StoredType* stored_type(uint32_t number);  // nullptr: never given out, or withdrawn

// The type with this number in GGUF files, if its weights are read here.
std::optional<TensorType> tensor_type_from_ggml(uint32_t number);
uint32_t ggml_number(TensorType type);
// "F32, F16, ...": for errors.
std::string supported_tensor_types();

}  // namespace spanscope
