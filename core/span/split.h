// SPDX-License-Identifier: GPL-3.0-or-later
// Splitting one field's tokens into leaves at the borders that a reader would choose (definitions D1). Any thread.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/span/replay.h"

namespace spanscope {

// text: the field's bytes. token_begin [tokens]: byte of `text` at which each token begins, ascending (0 for a token that
// begins before the field). Returns the length in tokens of each leaf, left to right; their sum is the number of tokens.
//
// With a limit of N tokens a field of more than N is cut after the last border of the best class among N/4 ... N tokens of
// the rest: Markdown heading, blank line, list item or outermost JSON element, sentence end, line end, any token. A fenced
// code block is cut only when it alone is longer than N.
std::vector<uint32_t> split_field(std::string_view text, const std::vector<uint64_t>& token_begin, const SplitRule& rule);

}  // namespace spanscope
