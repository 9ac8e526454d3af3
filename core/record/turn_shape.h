// SPDX-License-Identifier: GPL-3.0-or-later
// The leaves and parents of one turn as the recorder needs them: columns in layout order, and parents sorted into nesting
// levels. Thread: the engine thread.
#pragma once
#include <cstdint>
#include <vector>

#include "core/span/span.h"

namespace spanscope {

// A parent's place: from its first to its last resident content leaf (its end, D1). Parents of one level do not overlap,
// so a row lies in at most one of them, and a leaf has at most one ancestor a level.
struct ParentExtent {
  SpanId span = kNoSpan;
  TokenPos begin = 0, end = 0;
  uint32_t level = 1;             // level 0 holds the leaves themselves
  std::vector<uint32_t> columns;  // its content leaves
};

struct TurnShape {
  std::vector<LayoutEntry> leaves;     // [S] layout order; a column is an index into it
  std::vector<uint8_t> readable;       // [S] content
  std::vector<ParentExtent> parents;   // by begin, longer first
  uint32_t levels = 1;
  std::vector<std::vector<uint32_t>> level_parents;  // [levels] indices into parents, ascending

  void build(const std::vector<LayoutEntry>& layout, const Ledger& ledger);
  // The column whose leaf holds the slot; a slot in no leaf belongs to the one before it.
  uint32_t column_of(Slot slot) const;
  TokenPos position_of(Slot slot, uint32_t column) const { return leaves[column].position + (slot - leaves[column].slot); }
};

}  // namespace spanscope
