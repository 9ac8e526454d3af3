// SPDX-License-Identifier: GPL-3.0-or-later
// Characters as Python sees them: white space, line ends, letter case. Any thread.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "core/text/jinja/machine.h"

namespace spanscope::jinja {

bool is_space(uint32_t code);      // str.isspace(), which strip() and split() use
bool is_line_end(uint32_t code);   // splitlines()
bool is_printable(uint32_t code);  // repr() shows others as escapes
bool is_letter(uint32_t code);     // isalpha()
bool is_digit(uint32_t code);      // isdigit(): decimal digits
bool is_letter_or_digit(uint32_t code);
std::string_view strip_left(std::string_view text);
std::string_view strip_right(std::string_view text);

// Code point at `at`, or 0xffffffff for an ill-formed byte; `length` gets its bytes.
uint32_t code_at(std::string_view text, uint64_t at, uint64_t& length);

enum class Case : uint8_t {
  upper, lower, swapped,
  title,       // the first letter of each run of letters
  capitalize,  // the first character
};
// Full mappings of Unicode (SpecialCasing.txt, without languages), final sigma included.
void change_case(TextBuilder& out, const TextData& text, Case mode);
void change_case(TextBuilder& out, const TextData& text, uint64_t begin, uint64_t end, Case mode);
bool all_cased(std::string_view text, bool upper);  // isupper(), islower()

}  // namespace spanscope::jinja
