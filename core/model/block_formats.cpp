// SPDX-License-Identifier: GPL-3.0-or-later
// Formats of single numbers and of blocks of 32.
#include "core/model/block_formats.h"

#include <bit>
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

template <class T>
T load(const uint8_t* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
float half(const uint8_t* p) { return f16_to_f32(load<uint16_t>(p)); }

// 2^(e - 128): half of what the exponent says, because kMxfp4Values are doubled. Subnormal for e < 2.
float half_power(uint8_t e) {
  return std::bit_cast<float>(e < 2 ? uint32_t(0x00200000u) << e : uint32_t(e - 1) << 23);
}

void q8_0(const uint8_t* in, float* out) {
  const float d = half(in);
  const Quants<32> block(in + 2);
  for (int j = 0; j < 32; ++j) out[j] = d * float(int8_t(block.q[j]));
}

void q4_0(const uint8_t* in, float* out) {
  const float d = half(in);
  const Quants<16> block(in + 2);
  for (int j = 0; j < 16; ++j) out[j] = d * float(int(block.q[j] & 15) - 8);
  for (int j = 0; j < 16; ++j) out[j + 16] = d * float(int(block.q[j] >> 4) - 8);
}

void q4_1(const uint8_t* in, float* out) {
  const float d = half(in), m = half(in + 2);
  const Quants<16> block(in + 4);
  for (int j = 0; j < 16; ++j) out[j] = d * float(block.q[j] & 15) + m;
  for (int j = 0; j < 16; ++j) out[j + 16] = d * float(block.q[j] >> 4) + m;
}

void q5_0(const uint8_t* in, float* out) {
  const float d = half(in);
  const uint32_t fifth = load<uint32_t>(in + 2);
  const Quants<16> block(in + 6);
  for (int j = 0; j < 16; ++j) out[j] = d * float(int((block.q[j] & 15) | ((fifth >> j & 1) << 4)) - 16);
  for (int j = 0; j < 16; ++j)
    out[j + 16] = d * float(int((block.q[j] >> 4) | ((fifth >> (j + 16) & 1) << 4)) - 16);
}

void q5_1(const uint8_t* in, float* out) {
  const float d = half(in), m = half(in + 2);
  const uint32_t fifth = load<uint32_t>(in + 4);
  const Quants<16> block(in + 8);
  for (int j = 0; j < 16; ++j) out[j] = d * float((block.q[j] & 15) | ((fifth >> j & 1) << 4)) + m;
  for (int j = 0; j < 16; ++j)
    out[j + 16] = d * float((block.q[j] >> 4) | ((fifth >> (j + 16) & 1) << 4)) + m;
}

void looked_up(float d, const int8_t (&values)[16], const uint8_t* in, float* out) {
  const Quants<16> block(in);
  for (int j = 0; j < 16; ++j) out[j] = d * float(values[block.q[j] & 15]);
  for (int j = 0; j < 16; ++j) out[j + 16] = d * float(values[block.q[j] >> 4]);
}
void iq4_nl(const uint8_t* in, float* out) { looked_up(half(in), kIq4Values, in + 2, out); }
void mxfp4(const uint8_t* in, float* out) { looked_up(half_power(in[0]), kMxfp4Values, in + 1, out); }

template <void (*kBlock)(const uint8_t*, float*), uint32_t kBytes>
void all(const uint8_t* in, uint64_t blocks, float* out) {
  for (uint64_t b = 0; b < blocks; ++b) kBlock(in + b * kBytes, out + b * 32);
}

}  // namespace

void dequantise_blocks(TensorType type, const uint8_t* in, uint64_t blocks, float* out) {
  switch (type) {
    case TensorType::f32:
      if (blocks) std::memcpy(out, in, blocks * sizeof(float));
      return;
    case TensorType::f16:
      for (uint64_t i = 0; i < blocks; ++i) out[i] = half(in + 2 * i);
      return;
    case TensorType::bf16:
      for (uint64_t i = 0; i < blocks; ++i) out[i] = bf16_to_f32(load<uint16_t>(in + 2 * i));
      return;
    case TensorType::q8_0:
      return all<q8_0, 34>(in, blocks, out);
    case TensorType::q4_0:
      return all<q4_0, 18>(in, blocks, out);
    case TensorType::q4_1:
      return all<q4_1, 20>(in, blocks, out);
    case TensorType::q5_0:
      return all<q5_0, 22>(in, blocks, out);
    case TensorType::q5_1:
      return all<q5_1, 24>(in, blocks, out);
    case TensorType::iq4_nl:
      return all<iq4_nl, 18>(in, blocks, out);
    case TensorType::mxfp4:
      return all<mxfp4, 17>(in, blocks, out);
    case TensorType::q2_k:
    case TensorType::q3_k:
    case TensorType::q4_k:
    case TensorType::q5_k:
    case TensorType::q6_k:
    case TensorType::iq4_xs:
      return detail::dequantise_blocks_256(type, in, blocks, out);
  }
}

}  // namespace spanscope
