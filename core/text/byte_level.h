// SPDX-License-Identifier: GPL-3.0-or-later
// The printable characters by which byte-level BPE vocabularies spell bytes (GPT-2's table): printable Latin-1 stands for
// itself, the other 68 bytes for U+0100 upwards in order. Any thread.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace spanscope {

// UTF-8 of the character that spells a byte.
const std::string& byte_character(uint8_t byte);
// The bytes that a vocabulary entry spells; nothing if it holds a character outside of the table.
std::optional<std::string> bytes_of_spelling(std::string_view spelling);

}  // namespace spanscope
