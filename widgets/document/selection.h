// SPDX-License-Identifier: GPL-3.0-or-later
// What is selected, hovered and pinned. Plain values.
#pragma once
#include <vector>

#include "core/base/ids.h"

namespace spanscope {

struct TokenRange {  // absolute positions of answer tokens in the cursor's turn; empty: none
  TokenPos begin = 0, end = 0;
  bool empty() const { return begin >= end; }
  bool operator==(const TokenRange&) const = default;
};

struct Selection {
  std::vector<SpanId> spans;  // in the order of selecting, no duplicates
  int turn = -1;              // index into session.turns: the turn cursor
  int layer = -1, head = -1;  // -1: all
  int expert = -1;
  TokenRange words;
  bool contains(SpanId id) const {
    for (SpanId s : spans)
      if (s == id) return true;
    return false;
  }
  SpanId first() const { return spans.empty() ? kNoSpan : spans.front(); }
  bool operator==(const Selection&) const = default;
};

struct Hover {
  SpanId span = kNoSpan;
  int turn = -1;
  bool operator==(const Hover&) const = default;
};

// Who changed it: a panel does not scroll itself for its own click.
enum class Origin { program, map, tree, table, transcript, plot, slices, experts, inspector, predicate, threshold, reattend };

}  // namespace spanscope
