// SPDX-License-Identifier: GPL-3.0-or-later
// UTF-8 helpers for text that may be cut anywhere or ill-formed. Any thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace spanscope {

// Bytes of the well-formed sequence at `at` (1 to 4), or 0 when none begins there (Unicode 15, table 3-7).
size_t utf8_sequence(std::string_view text, size_t at);

// How many leading bytes can be shown now: all but an unfinished, so far well-formed sequence at the end.
size_t utf8_complete_prefix(std::string_view text);

void append_utf8(std::string& out, uint32_t code_point);
// Code point of the well-formed sequence of `length` bytes at `at`.
uint32_t utf8_code_point(std::string_view text, size_t at, size_t length);

}  // namespace spanscope
