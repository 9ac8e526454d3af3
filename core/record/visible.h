// SPDX-License-Identifier: GPL-3.0-or-later
// Which keys a row sees, from a layout alone: those at or before its own position, inside the layer's window. Any thread.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/span/span.h"

namespace spanscope {

// Keys at positions [begin, end) that the row at position `row` sees; window 0: no window.
inline uint32_t visible_keys(TokenPos begin, TokenPos end, TokenPos row, uint32_t window) {
  const TokenPos first = window && row + 1 > window ? row + 1 - window : 0;
  const TokenPos from = std::max(begin, first), to = std::min<TokenPos>(end, row + 1);
  return to > from ? to - from : 0;
}

// Keys of a context that lie in no leaf. Leaves partition the context (D1), so there are none; if there are, they count as
// visible and their positions go on from the leaf before them.
struct KeyRun {
  TokenPos begin = 0, end = 0;
};
std::vector<KeyRun> keys_outside(const std::vector<LayoutEntry>& layout, uint32_t context);

// All keys that the row sees: leaves and keys outside of them.
uint64_t all_visible_keys(const std::vector<LayoutEntry>& layout, const std::vector<KeyRun>& outside, TokenPos row, uint32_t window);

// What uniform attention would give (D4), summed over layers and heads: for every recorded row heads x layers x visible
// keys of the leaf / visible non-sink keys. A row that sees only sinks adds nothing; the sink gets nothing.
struct UniformInput {
  const std::vector<LayoutEntry>* layout = nullptr;
  const Ledger* ledger = nullptr;
  uint32_t context = 0, heads = 0;
  const std::vector<uint32_t>* window = nullptr;  // [layers]
  Slot executed_begin = 0, executed_end = 0;
  const std::vector<uint8_t>* phase = nullptr;    // [executed]
  const std::vector<uint32_t>* query = nullptr;   // [Q] layout index of every query leaf
};
std::vector<double> uniform_expectation(const UniformInput& in);  // [3][Q][S]

}  // namespace spanscope
