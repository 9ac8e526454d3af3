// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/text/byte_level.h"

#include <array>
#include <cstdint>

namespace spanscope {
namespace {

struct Table {
  std::array<std::string, 256> character;
  std::array<int, 0x180> byte;  // code point -> byte, -1: none
  Table() {
    byte.fill(-1);
    uint32_t next = 0x100;
    for (uint32_t b = 0; b < 256; ++b) {
      const bool printable = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || (b >= 0xae && b <= 0xff);
      const uint32_t code = printable ? b : next++;
      byte[code] = int(b);
      if (code < 0x80) character[b] = std::string(1, char(code));
      else character[b] = {char(0xc0 | (code >> 6)), char(0x80 | (code & 0x3f))};
    }
  }
};
const Table& table() {
  static const Table t;
  return t;
}

}  // namespace

const std::string& byte_character(uint8_t byte) { return table().character[byte]; }

std::optional<std::string> bytes_of_spelling(std::string_view s) {
  std::string out;
  for (size_t i = 0; i < s.size();) {
    const uint8_t c = uint8_t(s[i]);
    uint32_t code;
    if (c < 0x80) {
      code = c;
      ++i;
    } else if (c >= 0xc2 && c <= 0xc5 && i + 1 < s.size() && (uint8_t(s[i + 1]) & 0xc0) == 0x80) {
      code = uint32_t(c & 0x1f) << 6 | uint32_t(uint8_t(s[i + 1]) & 0x3f);
      i += 2;
    } else {
      return std::nullopt;
    }
    if (code >= 0x180 || table().byte[code] < 0) return std::nullopt;
    out += char(table().byte[code]);
  }
  return out;
}

}  // namespace spanscope
