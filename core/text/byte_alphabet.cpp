// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/text/byte_alphabet.h"

#include <array>
#include <cstdint>

#include "core/text/utf8.h"

namespace spanscope {
namespace {

constexpr uint32_t kFirstStandIn = 0x100;

struct Alphabet {
  std::array<uint32_t, 256> character{};       // [byte]
  std::array<int16_t, kFirstStandIn + 68> byte{};  // [code point], -1: outside
  Alphabet() {
    byte.fill(-1);
    uint32_t next = kFirstStandIn;
    for (uint32_t b = 0; b < 256; ++b) {
      const bool printable = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
      character[b] = printable ? b : next++;
      byte[character[b]] = int16_t(b);
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet table;
  return table;
}

}  // namespace

std::optional<std::string> bytes_of_alphabet_text(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const size_t length = utf8_sequence(text, i);
    if (length == 0) return std::nullopt;
    const uint32_t c = utf8_code_point(text, i, length);
    if (c >= alphabet().byte.size() || alphabet().byte[c] < 0) return std::nullopt;
    out.push_back(char(alphabet().byte[c]));
    i += length;
  }
  return out;
}

std::string alphabet_text_of_bytes(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (char b : bytes) append_utf8(out, alphabet().character[uint8_t(b)]);
  return out;
}

}  // namespace spanscope
