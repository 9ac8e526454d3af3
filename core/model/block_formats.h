// SPDX-License-Identifier: GPL-3.0-or-later
// What the bytes of a stored block mean, as the GGUF format defines them: the definition in plain code, f32
// operations in the definition's order, so that results are equal bit for bit. d and m are f16 in the file.
//
// Blocks of 32 elements. Of 16 bytes, byte j holds element j in its low half and element j + 16 in its high.
//   Q8_0    d, 32 signed bytes q                            d * q
//   Q4_0    d, 16 bytes                                     d * (q - 8)
//   Q4_1    d, m, 16 bytes                                  d * q + m
//   Q5_0    d, u32 fifth bits (bit j: element j), 16 bytes  d * (q - 16)
//   Q5_1    d, m, u32 fifth bits, 16 bytes                  d * q + m
//   IQ4_NL  d, 16 bytes                                     d * kIq4Values[q]
//   MXFP4   u8 exponent e, 16 bytes                         2^(e - 128) * kMxfp4Values[q]
//
// Blocks of 256 elements in parts of 16 or 32, each part p with its own scale s[p] (and minimum m[p]):
//   Q2_K    16 bytes (low half s, high half m), 64 bytes of 2 bits, d, dmin      d*s * q - dmin*m
//   Q3_K    32 bytes third bits, 64 bytes of 2 bits, 12 bytes s, d               d*(s - 32) * (q - 4)
//   Q4_K    d, dmin, 12 bytes s and m of 6 bits, 128 bytes of 4 bits             d*s * q - dmin*m
//   Q5_K    d, dmin, 12 bytes s and m, 32 bytes fifth bits, 128 bytes of 4 bits  d*s * q - dmin*m
//   Q6_K    128 bytes of 4 bits, 64 bytes of 2 bits above them, 16 signed s, d   d*s * (q - 32)
//   IQ4_XS  d, u16 high bits of s, 4 bytes low bits of s, 128 bytes of 4 bits    d*(s - 32) * kIq4Values[q]
// Parts have 32 elements in Q4_K, Q5_K and IQ4_XS, 16 in the others.
#pragma once
#include <cstdint>

#include "core/model/tensor_type.h"

namespace spanscope {

inline constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                          1,    13,   25,  38,  53,  69,  89,  113};
// The 4-bit floating point numbers, doubled.
inline constexpr int8_t kMxfp4Values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// `blocks` blocks from `in` as f32.  // in [blocks][block_bytes], out [blocks][block_elements]
void dequantise_blocks(TensorType type, const uint8_t* in, uint64_t blocks, float* out);

namespace detail {
// The formats with blocks of 256 (block_formats_256.cpp).
void dequantise_blocks_256(TensorType type, const uint8_t* in, uint64_t blocks, float* out);
}  // namespace detail

}  // namespace spanscope
