// SPDX-License-Identifier: GPL-3.0-or-later
// Stored weights becoming float32 in registers: the formats of core/model/block_formats.h, in the same order of float32
// operations, so that every number is equal bit for bit. A format says how many elements a block has (1, 32 or 256), in what
// words it is read (a block is a whole number of them, so that every address is aligned), and widens 32 elements at a time:
//   widen(load, part, out)   load(i): word i of the block; part: which 32 of its elements; out [32]
// The same word may be asked for several times in a row: the compiler keeps it in a register.
#pragma once
#include "gpu/kernels/params.h"

namespace spanscope::gpu {

struct FormatF32 {
  using Word = uint32_t;
  static constexpr uint32_t kElements = 1, kWords = 1;
  static SPANSCOPE_DEVICE float number(Word word) { return float_of(word); }
};
struct FormatF16 {
  using Word = uint16_t;
  static constexpr uint32_t kElements = 1, kWords = 1;
  static SPANSCOPE_DEVICE float number(Word word) { return from_f16(word); }
};
struct FormatBf16 {
  using Word = uint16_t;
  static constexpr uint32_t kElements = 1, kWords = 1;
  static SPANSCOPE_DEVICE float number(Word word) { return from_bf16(word); }
};

namespace formats {

// Byte i of a block that is read in words of Word.
template <class Word, class Load>
SPANSCOPE_DEVICE uint32_t byte(const Load& load, uint32_t i) {
  return uint32_t(load(i / uint32_t(sizeof(Word)))) >> (i % uint32_t(sizeof(Word)) * 8) & 0xff;
}
template <class Word, class Load>
SPANSCOPE_DEVICE float half(const Load& load, uint32_t i) {
  return from_f16(uint16_t(byte<Word>(load, i) | byte<Word>(load, i + 1) << 8));
}

// Tables of 16 signed bytes as two words: a table in memory would have to be found by every kernel.
SPANSCOPE_DEVICE float of_table(uint64_t low, uint64_t high, uint32_t q) { return float(int8_t((q < 8 ? low : high) >> (q % 8 * 8) & 0xff)); }
constexpr uint64_t packed(const int8_t* values) {
  uint64_t out = 0;
  for (int i = 0; i < 8; ++i) out |= uint64_t(uint8_t(values[i])) << (8 * i);
  return out;
}
inline constexpr int8_t kIq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
inline constexpr int8_t kFp4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};  // doubled
// Outside the kernels' functions: there nvcc takes the call for one of the host.
inline constexpr uint64_t kIq4Low = packed(kIq4), kIq4High = packed(kIq4 + 8), kFp4Low = packed(kFp4), kFp4High = packed(kFp4 + 8);
SPANSCOPE_DEVICE float iq4_value(uint32_t q) { return of_table(kIq4Low, kIq4High, q); }
SPANSCOPE_DEVICE float fp4_value(uint32_t q) { return of_table(kFp4Low, kFp4High, q); }

// Scale and minimum s of the eight in the 12 bytes from `at` on (Q4_K, Q5_K): the second four have their low 4 bits in the
// last 4 bytes, their high 2 bits above the first four.
template <class Word, class Load>
SPANSCOPE_DEVICE void six_bit_scale(const Load& load, uint32_t at, uint32_t s, float& scale, float& minimum) {
  if (s < 4) {
    scale = float(byte<Word>(load, at + s) & 63);
    minimum = float(byte<Word>(load, at + 4 + s) & 63);
  } else {
    const uint32_t low = byte<Word>(load, at + 4 + s);
    scale = float((low & 15) | byte<Word>(load, at + s - 4) >> 6 << 4);
    minimum = float(low >> 4 | byte<Word>(load, at + s) >> 6 << 4);
  }
}

}  // namespace formats

// ---- blocks of 32; of 16 bytes, byte j holds element j in its low half and element j + 16 in its high

struct FormatQ8_0 {
  using Word = uint16_t;
  static constexpr uint32_t kElements = 32, kWords = 17;
  template <class Load>
  static SPANSCOPE_DEVICE void widen(const Load& load, uint32_t, float* out) {
    const float d = from_f16(load(0));
    SPANSCOPE_UNROLL
    for (uint32_t i = 0; i < 16; ++i) {
      const uint32_t pair = load(1 + i);
      out[2 * i] = d * float(int8_t(pair & 0xff));
      out[2 * i + 1] = d * float(int8_t(pair >> 8));
    }
  }
};

namespace formats {
// kBytes a block, the 16 bytes of halves from kAt on, value(q, element) -> the weight.
template <class Word, uint32_t kAt, class Load, class Value>
SPANSCOPE_DEVICE void widen_halves(const Load& load, float* out, Value value) {
  SPANSCOPE_UNROLL
  for (uint32_t i = 0; i < 16; ++i) {
    const uint32_t both = byte<Word>(load, kAt + i);
    out[i] = value(both & 15, i);
    out[i + 16] = value(both >> 4, i + 16);
  }
}
}  // namespace formats

struct FormatQ4_0 {
  using Word = uint16_t;
  static constexpr uint32_t kElements = 32, kWords = 9;
  template <class Load>
  static SPANSCOPE_DEVICE void widen(const Load& load, uint32_t, float* out) {
    const float d = from_f16(load(0));
    formats::widen_halves<Word, 2>(load, out, [d](uint32_t q, uint32_t) { return d * float(int32_t(q) - 8); });
  }
};
struct FormatQ4_1 {
  using Word = uint32_t;
  static constexpr uint32_t kElements = 32, kWords = 5;
  template <class Load>
  static SPANSCOPE_DEVICE void widen(const Load& load, uint32_t, float* out) {
    const uint32_t head = load(0);
    const float d = from_f16(uint16_t(head)), m = from_f16(uint16_t(head >> 16));
    formats::widen_halves<Word, 4>(load, out, [d, m](uint32_t q, uint32_t) { return d * float(q) + m; });
  }
};
struct FormatQ5_0 {
  using Word = uint16_t;
  static constexpr uint32_t kElements = 32, kWords = 11;
  template <class Load>
  static SPANSCOPE_DEVICE void widen(const Load& load, uint32_t, float* out) {
    const float d = from_f16(load(0));
    const uint32_t fifth = uint32_t(load(1)) | uint32_t(load(2)) << 16;
    formats::widen_halves<Word, 6>(load, out, [d, fifth](uint32_t q, uint32_t i) { return d * float(int32_t(q | (fifth >> i & 1) << 4) - 16); });
  }
};
struct FormatQ5_1 {
  using Word = uint32_t;
  static constexpr uint32_t kElements = 32, kWords = 6;
  template <class Load>
  static SPANSCOPE_DEVICE void widen(const Load& load, uint32_t, float* out) {
    const uint32_t head = load(0), fifth = load(1);
    const float d = from_f16(uint16_t(head)), m = from_f16(uint16_t(head >> 16));
    formats::widen_halves<Word, 8>(load, out, [d, m, fifth](uint32_t q, uint32_t i) { return d * float(q | (fifth >> i & 1) << 4) + m; });
  }
};
struct FormatIq4Nl {
  using Word = uint16_t;
  static constexpr uint32_t kElements = 32, kWords = 9;
  template <class Load>
  static SPANSCOPE_DEVICE void widen(const Load& load, uint32_t, float* out) {
    const float d = from_f16(load(0));
    formats::widen_halves<Word, 2>(load, out, [d](uint32_t q, uint32_t) { return d * formats::iq4_value(q); });
  }
};
struct FormatMxfp4 {
  using Word = uint8_t;
  static constexpr uint32_t kElements = 32, kWords = 17;
  template <class Load>
  static SPANSCOPE_DEVICE void widen(const Load& load, uint32_t, float* out) {
    // 2^(e - 128): half of what the exponent says, because the table is doubled. Subnormal for e < 2.
    const uint32_t e = load(0);
    const float d = float_of(e < 2 ? 0x00200000u << e : (e - 1) << 23);
    formats::widen_halves<Word, 1>(load, out, [d](uint32_t q, uint32_t) { return d * formats::fp4_value(q); });
  }
};

// ---- blocks of 256: eight stretches of 32, whose small numbers lie in bytes that several stretches share

struct FormatQ2K {
  using Word = uint32_t;
  static constexpr uint32_t kElements = 256, kWords = 21;
  template <class Load>
  static SPANSCOPE_DEVICE void widen(const Load& load, uint32_t s, float* out) {
    const uint32_t head = load(20), q = 16 + 32 * (s / 4), shift = 2 * (s % 4);
    const float d = from_f16(uint16_t(head)), dmin = from_f16(uint16_t(head >> 16));
    SPANSCOPE_UNROLL
    for (uint32_t part = 0; part < 2; ++part) {
      const uint32_t both = formats::byte<Word>(load, 2 * s + part);
      const float scale = d * float(both & 15), minimum = dmin * float(both >> 4);
      SPANSCOPE_UNROLL
      for (uint32_t j = 0; j < 16; ++j) out[16 * part + j] = scale * float(formats::byte<Word>(load, q + 16 * part + j) >> shift & 3) - minimum;
    }
  }
};
struct FormatQ3K {
  using Word = uint16_t;
  static constexpr uint32_t kElements = 256, kWords = 55;
  template <class Load>
  static SPANSCOPE_DEVICE void widen(const Load& load, uint32_t s, float* out) {
    const float d = from_f16(load(54));
    const uint32_t q = 32 + 32 * (s / 4), shift = 2 * (s % 4);
    SPANSCOPE_UNROLL
    for (uint32_t part = 0; part < 2; ++part) {
      const uint32_t i = 2 * s + part;
      const uint32_t low = formats::byte<Word>(load, 96 + i % 8) >> 4 * (i / 8) & 15, high = formats::byte<Word>(load, 104 + i % 4) >> 2 * (i / 4) & 3;
      const float scale = d * float(int32_t(low | high << 4) - 32);
      SPANSCOPE_UNROLL
      for (uint32_t j = 0; j < 16; ++j) {
        const uint32_t at = 16 * part + j;
        const int32_t two = int32_t(formats::byte<Word>(load, q + at) >> shift & 3);
        out[at] = scale * float(two - (formats::byte<Word>(load, at) >> s & 1 ? 0 : 4));
      }
    }
  }
};
struct FormatQ4K {
  using Word = uint32_t;
  static constexpr uint32_t kElements = 256, kWords = 36;
  template <class Load>
  static SPANSCOPE_DEVICE void widen(const Load& load, uint32_t s, float* out) {
    const uint32_t head = load(0);
    float scale, minimum;
    formats::six_bit_scale<Word>(load, 4, s, scale, minimum);
    scale = from_f16(uint16_t(head)) * scale;
    minimum = from_f16(uint16_t(head >> 16)) * minimum;
    SPANSCOPE_UNROLL
    for (uint32_t j = 0; j < 32; ++j) out[j] = scale * float(formats::byte<Word>(load, 16 + 32 * (s / 2) + j) >> 4 * (s % 2) & 15) - minimum;
  }
};
struct FormatQ5K {
  using Word = uint32_t;
  static constexpr uint32_t kElements = 256, kWords = 44;
  template <class Load>
  static SPANSCOPE_DEVICE void widen(const Load& load, uint32_t s, float* out) {
    const uint32_t head = load(0);
    float scale, minimum;
    formats::six_bit_scale<Word>(load, 4, s, scale, minimum);
    scale = from_f16(uint16_t(head)) * scale;
    minimum = from_f16(uint16_t(head >> 16)) * minimum;
    SPANSCOPE_UNROLL
    for (uint32_t j = 0; j < 32; ++j) {
      const uint32_t four = formats::byte<Word>(load, 48 + 32 * (s / 2) + j) >> 4 * (s % 2) & 15;
      out[j] = scale * float(four | (formats::byte<Word>(load, 16 + j) >> s & 1) << 4) - minimum;
    }
  }
};
struct FormatQ6K {
  using Word = uint16_t;
  static constexpr uint32_t kElements = 256, kWords = 105;
  template <class Load>
  static SPANSCOPE_DEVICE void widen(const Load& load, uint32_t s, float* out) {
    const float d = from_f16(load(104));
    // Of 64 low bytes four stretches: first and second 32 bytes' low halves, then their high halves.
    const uint32_t quarter = s % 4, low = 64 * (s / 4) + 32 * (quarter % 2), high = 128 + 32 * (s / 4);
    SPANSCOPE_UNROLL
    for (uint32_t part = 0; part < 2; ++part) {
      const float scale = d * float(int8_t(formats::byte<Word>(load, 192 + 2 * s + part)));
      SPANSCOPE_UNROLL
      for (uint32_t j = 0; j < 16; ++j) {
        const uint32_t at = 16 * part + j;
        const uint32_t four = formats::byte<Word>(load, low + at) >> 4 * (quarter / 2) & 15, two = formats::byte<Word>(load, high + at) >> 2 * quarter & 3;
        out[at] = scale * float(int32_t(four | two << 4) - 32);
      }
    }
  }
};
struct FormatIq4Xs {
  using Word = uint32_t;
  static constexpr uint32_t kElements = 256, kWords = 34;
  template <class Load>
  static SPANSCOPE_DEVICE void widen(const Load& load, uint32_t s, float* out) {
    const uint32_t head = load(0);
    const uint32_t low = formats::byte<Word>(load, 4 + s / 2) >> 4 * (s % 2) & 15, high = head >> 16 >> 2 * s & 3;
    const float scale = from_f16(uint16_t(head)) * float(int32_t(low | high << 4) - 32);
    SPANSCOPE_UNROLL
    for (uint32_t j = 0; j < 16; ++j) {
      const uint32_t both = formats::byte<Word>(load, 8 + 16 * s + j);
      out[j] = scale * formats::iq4_value(both & 15);
      out[j + 16] = scale * formats::iq4_value(both >> 4);
    }
  }
};

}  // namespace spanscope::gpu
