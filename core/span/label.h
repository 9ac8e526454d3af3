// SPDX-License-Identifier: GPL-3.0-or-later
// Names that people see on spans. Any thread.
#pragma once
#include <string>
#include <string_view>

namespace spanscope {

// The first words of a text on one line, at most about 40 characters, always well-formed UTF-8. Empty for blank text.
std::string first_words(std::string_view text);

}  // namespace spanscope
