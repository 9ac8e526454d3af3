// SPDX-License-Identifier: GPL-3.0-or-later
// The printable alphabet in which byte-level vocabularies write bytes: printable Latin-1 characters stand for themselves,
// the other 68 byte values for U+0100 onward in ascending order (GPT-2's convention). Any thread.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace spanscope {

// The bytes that `text` stands for; nothing when it holds a character outside of the alphabet.
std::optional<std::string> bytes_of_alphabet_text(std::string_view text);
std::string alphabet_text_of_bytes(std::string_view bytes);

}  // namespace spanscope
