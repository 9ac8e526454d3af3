// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/span/label.h"

#include "core/text/utf8.h"

namespace spanscope {

std::string first_words(std::string_view text) {
  constexpr size_t kMost = 40;
  std::string out;
  size_t characters = 0, word_end = 0;  // word_end: bytes of `out` at the last space
  bool space = false;
  for (size_t i = 0; i < text.size();) {
    const size_t length = utf8_sequence(text, i);
    const uint8_t byte = uint8_t(text[i]);
    if (length == 0) {  // a label holds no broken characters; the span's text does
      ++i;
      continue;
    }
    if (byte <= 0x20 || byte == 0x7f) {
      space = !out.empty();
      ++i;
      continue;
    }
    if (characters + (space ? 1 : 0) >= kMost) {
      if (!space && word_end > out.size() / 2) out.resize(word_end);
      return out + "\xe2\x80\xa6";
    }
    if (space) {
      word_end = out.size();
      out.push_back(' ');
      ++characters;
      space = false;
    }
    out.append(text.substr(i, length));
    ++characters;
    i += length;
  }
  return out;
}

}  // namespace spanscope
