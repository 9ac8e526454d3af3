// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/text/jinja/characters.h"

#include <utf8proc.h>

#include <algorithm>

#include "core/text/jinja/special_case.h"
#include "core/text/utf8.h"

namespace spanscope::jinja {
namespace {

constexpr uint32_t kIllFormed = 0xffffffff;
constexpr uint32_t kCapitalSigma = 0x3a3, kSigma = 0x3c3, kFinalSigma = 0x3c2;

// Letters with case that are not in the categories Lu, Ll and Lt (Other_Lowercase, Other_Uppercase).
constexpr uint32_t kOtherCased[][2] = {
    {0xaa, 0xaa}, {0xba, 0xba}, {0x2b0, 0x2b8}, {0x2c0, 0x2c1}, {0x2e0, 0x2e4}, {0x345, 0x345}, {0x37a, 0x37a},
    {0x1d2c, 0x1d6a}, {0x1d78, 0x1d78}, {0x1d9b, 0x1dbf}, {0x2071, 0x2071}, {0x207f, 0x207f}, {0x2090, 0x209c},
    {0x2160, 0x217f}, {0x24b6, 0x24e9}, {0x2c7c, 0x2c7d}, {0xa69c, 0xa69d}, {0xa770, 0xa770}, {0xa7f8, 0xa7f9},
    {0xab5c, 0xab5f}, {0x10780, 0x10780}, {0x10783, 0x10785}, {0x10787, 0x107b0}, {0x107b2, 0x107ba},
    {0x1f130, 0x1f149}, {0x1f150, 0x1f169}, {0x1f170, 0x1f189}};
// Characters that a word's case passes over, beside marks and modifiers.
constexpr uint32_t kPassedOver[] = {0x27, 0x2e, 0x3a, 0xb7, 0x387, 0x55f, 0x5f4, 0x2018, 0x2019, 0x2024, 0x2027,
                                    0xfe13, 0xfe52, 0xfe55, 0xff07, 0xff0e, 0xff1a};

utf8proc_category_t category(uint32_t code) { return code > 0x10ffff ? UTF8PROC_CATEGORY_CN : utf8proc_category(utf8proc_int32_t(code)); }

bool is_cased(uint32_t code) {
  const auto c = category(code);
  if (c == UTF8PROC_CATEGORY_LU || c == UTF8PROC_CATEGORY_LL || c == UTF8PROC_CATEGORY_LT) return true;
  return std::any_of(std::begin(kOtherCased), std::end(kOtherCased), [&](const auto& r) { return code >= r[0] && code <= r[1]; });
}
bool is_passed_over(uint32_t code) {
  const auto c = category(code);
  if (c == UTF8PROC_CATEGORY_MN || c == UTF8PROC_CATEGORY_ME || c == UTF8PROC_CATEGORY_CF || c == UTF8PROC_CATEGORY_LM || c == UTF8PROC_CATEGORY_SK)
    return true;
  return std::find(std::begin(kPassedOver), std::end(kPassedOver), code) != std::end(kPassedOver);
}

// Whether the sigma at `at` ends its word.
bool final_sigma(std::string_view text, uint64_t at) {
  bool before = false;
  for (uint64_t i = at; i > 0;) {
    do --i;
    while (i > 0 && (uint8_t(text[i]) & 0xc0) == 0x80);
    uint64_t length = 0;
    const uint32_t code = code_at(text, i, length);
    if (is_passed_over(code)) continue;
    before = is_cased(code);
    break;
  }
  if (!before) return false;
  uint64_t length = 2;
  for (uint64_t i = at + 2; i < text.size(); i += length) {
    const uint32_t code = code_at(text, i, length);
    if (!is_passed_over(code)) return !is_cased(code);
  }
  return true;
}

template <size_t N>
const char* special(const SpecialCase (&table)[N], uint32_t code) {
  const auto* found = std::lower_bound(std::begin(table), std::end(table), code, [](const SpecialCase& s, uint32_t c) { return s.code < c; });
  return found != std::end(table) && found->code == code ? found->text : nullptr;
}

enum class Map { upper, lower, title };
void append_mapped(std::string& out, std::string_view text, uint64_t at, uint32_t code, Map map) {
  const char* several = map == Map::upper ? special(kSpecialUpper, code) : map == Map::title ? special(kSpecialTitle, code) : nullptr;
  if (several) {
    out += several;
    return;
  }
  if (map == Map::lower && code == 0x130) {  // capital I with a dot above
    out += "i\xcc\x87";
    return;
  }
  if (map == Map::lower && code == kCapitalSigma) return append_utf8(out, final_sigma(text, at) ? kFinalSigma : kSigma);
  const auto c = utf8proc_int32_t(code);
  append_utf8(out, uint32_t(map == Map::upper ? utf8proc_toupper(c) : map == Map::lower ? utf8proc_tolower(c) : utf8proc_totitle(c)));
}

}  // namespace

uint32_t code_at(std::string_view text, uint64_t at, uint64_t& length) {
  length = utf8_sequence(text, at);
  if (length > 0) return utf8_code_point(text, at, length);
  length = 1;
  return kIllFormed;
}

bool is_space(uint32_t c) {
  if (c < 0x80) return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20);
  return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
         c == 0x205f || c == 0x3000;
}
bool is_line_end(uint32_t c) { return (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029; }

bool is_printable(uint32_t code) {
  if (code < 0x7f) return code >= 0x20;
  switch (category(code)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS: return false;
    default: return true;
  }
}

bool is_letter(uint32_t code) {
  const auto c = category(code);
  return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
}
bool is_digit(uint32_t code) { return category(code) == UTF8PROC_CATEGORY_ND; }
bool is_letter_or_digit(uint32_t code) {
  const auto c = category(code);
  return is_letter(code) || (c >= UTF8PROC_CATEGORY_ND && c <= UTF8PROC_CATEGORY_NO);
}
std::string_view strip_left(std::string_view text) {
  uint64_t at = 0, length = 0;
  while (at < text.size() && is_space(code_at(text, at, length))) at += length;
  return text.substr(at);
}
std::string_view strip_right(std::string_view text) {
  while (!text.empty()) {
    size_t at = text.size() - 1;
    while (at > 0 && (uint8_t(text[at]) & 0xc0) == 0x80 && text.size() - at < 4) --at;
    uint64_t length = 0;
    if (!is_space(code_at(text, at, length)) || at + length != text.size()) break;
    text = text.substr(0, at);
  }
  return text;
}

void change_case(TextBuilder& out, const TextData& text, Case mode) { change_case(out, text, 0, text.bytes.size(), mode); }

void change_case(TextBuilder& out, const TextData& text, uint64_t begin, uint64_t end, Case mode) {
  bool in_word = false, first = true;
  std::string mapped;
  uint64_t length = 0;
  for (uint64_t at = begin; at < end; at += length) {
    const uint32_t code = code_at(text.bytes, at, length);
    const std::string_view old = text.bytes.substr(at, length);
    mapped.clear();
    if (code == kIllFormed) {
      mapped = old;
    } else {
      Map map = Map::lower;
      switch (mode) {
        case Case::upper: map = Map::upper; break;
        case Case::lower: break;
        case Case::swapped: map = category(code) == UTF8PROC_CATEGORY_LU ? Map::lower : Map::upper; break;
        case Case::title: map = in_word ? Map::lower : Map::title; break;
        case Case::capitalize: map = first ? Map::title : Map::lower; break;
      }
      append_mapped(mapped, text.bytes, at, code, map);
    }
    if (mapped == old) out.add(text, at, at + length);
    else out.in_place(mapped, text, at);
    in_word = is_cased(code);
    first = false;
  }
}

bool all_cased(std::string_view text, bool upper) {
  bool any = false;
  uint64_t length = 0;
  for (uint64_t at = 0; at < text.size(); at += length) {
    const uint32_t code = code_at(text, at, length);
    if (!is_cased(code)) continue;
    const auto c = category(code);
    const bool is_upper = c == UTF8PROC_CATEGORY_LU || utf8proc_tolower(utf8proc_int32_t(code)) != utf8proc_int32_t(code);
    if (c == UTF8PROC_CATEGORY_LT || is_upper != upper) return false;
    any = true;
  }
  return any;
}

}  // namespace spanscope::jinja
