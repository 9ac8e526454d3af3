// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/text/utf8.h"

#include <algorithm>

namespace spanscope {
namespace {

// Length that the lead byte announces; 0: no lead byte.
size_t announced(uint8_t lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return 2;
  if (lead >= 0xe0 && lead <= 0xef) return 3;
  if (lead >= 0xf0 && lead <= 0xf4) return 4;
  return 0;
}

// Second bytes are narrower after some leads: no overlong forms, no surrogates, nothing above U+10FFFF.
bool second_fits(uint8_t lead, uint8_t second) {
  switch (lead) {
    case 0xe0: return second >= 0xa0 && second <= 0xbf;
    case 0xed: return second >= 0x80 && second <= 0x9f;
    case 0xf0: return second >= 0x90 && second <= 0xbf;
    case 0xf4: return second >= 0x80 && second <= 0x8f;
    default: return second >= 0x80 && second <= 0xbf;
  }
}

// How many bytes from `at` on agree with one well-formed sequence; at most the announced length.
size_t agreeing(std::string_view text, size_t at) {
  const uint8_t lead = uint8_t(text[at]);
  const size_t length = announced(lead);
  if (length <= 1) return length;
  size_t n = 1;
  while (n < length && at + n < text.size()) {
    const uint8_t byte = uint8_t(text[at + n]);
    if (n == 1 ? !second_fits(lead, byte) : (byte & 0xc0) != 0x80) break;
    ++n;
  }
  return n;
}

}  // namespace

size_t utf8_sequence(std::string_view text, size_t at) {
  if (at >= text.size()) return 0;
  const size_t length = announced(uint8_t(text[at]));
  return length != 0 && agreeing(text, at) == length ? length : 0;
}

size_t utf8_complete_prefix(std::string_view text) {
  for (size_t back = 1; back <= std::min<size_t>(3, text.size()); ++back) {
    const size_t at = text.size() - back;
    const size_t length = announced(uint8_t(text[at]));
    if (length == 0) continue;  // a continuation byte or one that never occurs
    return length > back && agreeing(text, at) == back ? at : text.size();
  }
  return text.size();
}

void append_utf8(std::string& out, uint32_t c) {
  if (c < 0x80) {
    out.push_back(char(c));
  } else if (c < 0x800) {
    out.push_back(char(0xc0 | (c >> 6)));
    out.push_back(char(0x80 | (c & 0x3f)));
  } else if (c < 0x10000) {
    out.push_back(char(0xe0 | (c >> 12)));
    out.push_back(char(0x80 | ((c >> 6) & 0x3f)));
    out.push_back(char(0x80 | (c & 0x3f)));
  } else {
    out.push_back(char(0xf0 | (c >> 18)));
    out.push_back(char(0x80 | ((c >> 12) & 0x3f)));
    out.push_back(char(0x80 | ((c >> 6) & 0x3f)));
    out.push_back(char(0x80 | (c & 0x3f)));
  }
}

uint32_t utf8_code_point(std::string_view text, size_t at, size_t length) {
  const auto byte = [&](size_t i) { return uint32_t(uint8_t(text[at + i])); };
  switch (length) {
    case 2: return (byte(0) & 0x1f) << 6 | (byte(1) & 0x3f);
    case 3: return (byte(0) & 0x0f) << 12 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f);
    case 4: return (byte(0) & 0x07) << 18 | (byte(1) & 0x3f) << 12 | (byte(2) & 0x3f) << 6 | (byte(3) & 0x3f);
    default: return byte(0);
  }
}

}  // namespace spanscope
