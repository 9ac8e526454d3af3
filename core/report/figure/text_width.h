// SPDX-License-Identifier: GPL-3.0-or-later
// How wide a text will be, without a font: advances of a common sans-serif face. Figures are laid out with it, so that a
// picture from the command line and the window's are the same. Any thread.
#pragma once
#include <string>
#include <string_view>

namespace spanscope {

// In px at the given size. Bytes that are not UTF-8 count as one character each.
double text_width(std::string_view text, double size, bool bold = false);
// The text, or as much of its beginning as fits with an ellipsis. Never cuts inside a character.
std::string fit_width(std::string_view text, double width, double size, bool bold = false);

}  // namespace spanscope
