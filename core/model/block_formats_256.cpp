// SPDX-License-Identifier: GPL-3.0-or-later
// Formats with blocks of 256: eight stretches of 32 elements. The stretches' small numbers lie in 32 bytes
// that several stretches share, each at its own bits.
#include <cstring>

#include "core/base/half.h"
#include "core/model/block_formats.h"

namespace spanscope {
namespace {

float half(const uint8_t* p) {
  uint16_t v;
  std::memcpy(&v, p, sizeof v);
  return f16_to_f32(v);
}

// Scales and minima of a Q4_K or Q5_K block: 8 of each, 6 bits, in 12 bytes.
struct SixBitScales {
  explicit SixBitScales(const uint8_t* packed) {
    for (int i = 0; i < 4; ++i) {
      scale[i] = packed[i] & 63;
      minimum[i] = packed[i + 4] & 63;
      // The second four have their low 4 bits in the last 4 bytes, their high 2 bits above the first four.
      scale[i + 4] = uint8_t((packed[i + 8] & 15) | packed[i] >> 6 << 4);
      minimum[i + 4] = uint8_t(packed[i + 8] >> 4 | packed[i + 4] >> 6 << 4);
    }
  }
  uint8_t scale[8], minimum[8];
};

// Scales of a Q3_K block: 16 of 6 bits in 12 bytes, still with 32 added.
struct ThirdScales {
  explicit ThirdScales(const uint8_t* packed) {
    for (int i = 0; i < 16; ++i) {
      const int low = packed[i % 8] >> 4 * (i / 8) & 15, high = packed[8 + i % 4] >> 2 * (i / 4) & 3;
      scale[i] = uint8_t(low | high << 4);
    }
  }
  uint8_t scale[16];
};

void q2_k(const uint8_t* in, float* out) {
  const float d = half(in + 80), dmin = half(in + 82);
  for (int s = 0; s < 8; ++s) {  // 2 bits of the first or second 32 bytes
    const uint8_t* q = in + 16 + 32 * (s / 4);
    const int shift = 2 * (s % 4);
    for (int part = 0; part < 2; ++part) {
      const uint8_t packed = in[2 * s + part];
      const float scale = d * float(packed & 15), minimum = dmin * float(packed >> 4);
      for (int j = 0; j < 16; ++j) *out++ = scale * float(q[16 * part + j] >> shift & 3) - minimum;
    }
  }
}

void q3_k(const uint8_t* in, float* out) {
  const float d = half(in + 108);
  const ThirdScales scales(in + 96);
  for (int s = 0; s < 8; ++s) {
    const uint8_t *third = in, *q = in + 32 + 32 * (s / 4);
    const int shift = 2 * (s % 4);
    for (int part = 0; part < 2; ++part) {
      const float scale = d * float(int(scales.scale[2 * s + part]) - 32);
      for (int j = 16 * part; j < 16 * part + 16; ++j)
        *out++ = scale * float(int(q[j] >> shift & 3) - (third[j] >> s & 1 ? 0 : 4));
    }
  }
}

void q4_k(const uint8_t* in, float* out) {
  const float d = half(in), dmin = half(in + 2);
  const SixBitScales scales(in + 4);
  for (int s = 0; s < 8; ++s) {
    const uint8_t* q = in + 16 + 32 * (s / 2);
    const float scale = d * float(scales.scale[s]), minimum = dmin * float(scales.minimum[s]);
    for (int j = 0; j < 32; ++j) *out++ = scale * float(q[j] >> 4 * (s % 2) & 15) - minimum;
  }
}

void q5_k(const uint8_t* in, float* out) {
  const float d = half(in), dmin = half(in + 2);
  const SixBitScales scales(in + 4);
  for (int s = 0; s < 8; ++s) {
    const uint8_t *fifth = in + 16, *q = in + 48 + 32 * (s / 2);
    const float scale = d * float(scales.scale[s]), minimum = dmin * float(scales.minimum[s]);
    for (int j = 0; j < 32; ++j)
      *out++ = scale * float((q[j] >> 4 * (s % 2) & 15) | (fifth[j] >> s & 1) << 4) - minimum;
  }
}

void q6_k(const uint8_t* in, float* out) {
  const float d = half(in + 208);
  for (int s = 0; s < 8; ++s) {
    // Of 64 low bytes four stretches: first and second 32 bytes' low halves, then their high halves.
    const int quarter = s % 4;
    const uint8_t *low = in + 64 * (s / 4) + 32 * (quarter % 2), *high = in + 128 + 32 * (s / 4);
    for (int part = 0; part < 2; ++part) {
      const float scale = d * float(int8_t(in[192 + 2 * s + part]));
      for (int j = 16 * part; j < 16 * part + 16; ++j)
        *out++ =
            scale * float(int((low[j] >> 4 * (quarter / 2) & 15) | (high[j] >> 2 * quarter & 3) << 4) - 32);
    }
  }
}

void iq4_xs(const uint8_t* in, float* out) {
  const float d = half(in);
  const uint32_t high = uint32_t(in[2]) | uint32_t(in[3]) << 8;
  for (int s = 0; s < 8; ++s) {
    const uint8_t* q = in + 8 + 16 * s;
    const int packed = int((in[4 + s / 2] >> 4 * (s % 2) & 15) | (high >> 2 * s & 3) << 4);
    const float scale = d * float(packed - 32);
    for (int j = 0; j < 16; ++j) *out++ = scale * float(kIq4Values[q[j] & 15]);
    for (int j = 0; j < 16; ++j) *out++ = scale * float(kIq4Values[q[j] >> 4]);
  }
}

template <void (*kBlock)(const uint8_t*, float*), uint32_t kBytes>
void all(const uint8_t* in, uint64_t blocks, float* out) {
  for (uint64_t b = 0; b < blocks; ++b) {
    uint8_t block[kBytes];  // a copy: writing `out` then cannot change it, which lets loops become vectors
    std::memcpy(block, in + b * kBytes, kBytes);
    kBlock(block, out + b * 256);
  }
}

}  // namespace

namespace detail {
void dequantise_blocks_256(TensorType type, const uint8_t* in, uint64_t blocks, float* out) {
  switch (type) {
    case TensorType::q2_k:
      return all<q2_k, 84>(in, blocks, out);
    case TensorType::q3_k:
      return all<q3_k, 110>(in, blocks, out);
    case TensorType::q4_k:
      return all<q4_k, 144>(in, blocks, out);
    case TensorType::q5_k:
      return all<q5_k, 176>(in, blocks, out);
    case TensorType::q6_k:
      return all<q6_k, 210>(in, blocks, out);
    case TensorType::iq4_xs:
      return all<iq4_xs, 136>(in, blocks, out);
    default:
      return;  // dequantise_blocks() sends no other
  }
}
}  // namespace detail

}  // namespace spanscope
