// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/report/figure/text_width.h"

#include <cstdint>

namespace spanscope {
namespace {

// Thousandths of the size, for U+0020 ... U+007E.
constexpr uint16_t kAdvance[95] = {
    290, 360, 410, 750, 570, 855, 700, 250, 350, 350, 450, 750, 290, 325, 290, 300, 570, 570, 570, 570, 570, 570, 570, 570,
    570, 570, 300, 300, 750, 750, 750, 480, 900, 615, 615, 630, 695, 570, 520, 700, 680, 265, 265, 590, 500, 775, 675, 710,
    540, 710, 625, 570, 550, 660, 615, 890, 615, 550, 615, 350, 300, 350, 750, 450, 450, 550, 570, 495, 570, 555, 315, 570,
    570, 250, 250, 520, 250, 875, 570, 550, 570, 570, 370, 470, 355, 570, 530, 735, 530, 530, 470, 570, 300, 570, 750};

struct Character {
  size_t length = 1;
  double em = 0.6;
};

Character next(std::string_view text, size_t at) {
  const auto lead = uint8_t(text[at]);
  if (lead < 0x20) return {1, 0};
  if (lead < 0x7f) return {1, kAdvance[lead - 0x20] / 1000.0};
  const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
  if (at + length > text.size()) return {text.size() - at, 0.6};
  uint32_t code = lead & (0xff >> (length + 1));
  for (size_t i = 1; i < length; ++i) code = code << 6 | (uint8_t(text[at + i]) & 0x3f);
  if (code >= 0x0300 && code <= 0x036f) return {length, 0};  // marks over the letter before
  if (code == 0x2026) return {length, 0.9};
  const bool wide = (code >= 0x1100 && code <= 0x115f) || (code >= 0x2e80 && code <= 0xa4cf) || (code >= 0xac00 && code <= 0xd7a3) ||
                    (code >= 0xf900 && code <= 0xfaff) || (code >= 0xff00 && code <= 0xff60) || code >= 0x1f300;
  return {length, wide ? 1.0 : 0.6};
}

}  // namespace

double text_width(std::string_view text, double size, bool bold) {
  double em = 0;
  for (size_t at = 0; at < text.size();) {
    const Character c = next(text, at);
    em += c.em;
    at += c.length;
  }
  return em * size * (bold ? 1.08 : 1.0);
}

std::string fit_width(std::string_view text, double width, double size, bool bold) {
  if (text_width(text, size, bold) <= width) return std::string(text);
  const double scale = size * (bold ? 1.08 : 1.0), dots = 0.9 * scale;
  double used = 0;
  size_t end = 0;
  for (size_t at = 0; at < text.size();) {
    const Character c = next(text, at);
    if (used + c.em * scale + dots > width) break;
    used += c.em * scale;
    at += c.length;
    end = at;
  }
  while (end > 0 && text[end - 1] == ' ') --end;
  return std::string(text.substr(0, end)) + "\xE2\x80\xA6";
}

}  // namespace spanscope
