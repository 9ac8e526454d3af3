// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/record/turn_shape.h"

#include <algorithm>

namespace spanscope {

void TurnShape::build(const std::vector<LayoutEntry>& layout, const Ledger& ledger) {
  leaves = layout;
  readable.clear();
  parents.clear();
  std::vector<int64_t> at(ledger.spans.size(), -1);
  for (uint32_t c = 0; c < leaves.size(); ++c) {
    const LayoutEntry& e = leaves[c];
    const bool content = ledger[e.leaf].kind == SpanKind::content;
    readable.push_back(content);
    if (!content) continue;
    for (SpanId id : ledger.ancestors(e.leaf)) {
      if (at[id] < 0) {
        at[id] = int64_t(parents.size());
        parents.push_back({id, e.position, 0, 1, {}});
      }
      ParentExtent& parent = parents[size_t(at[id])];
      parent.end = std::max(parent.end, e.position + e.len);
      parent.columns.push_back(c);
    }
  }
  // Interval colouring: in order of their begins, each parent takes the lowest level that is free there.
  std::sort(parents.begin(), parents.end(), [](const ParentExtent& a, const ParentExtent& b) {
    if (a.begin != b.begin) return a.begin < b.begin;
    return a.end != b.end ? a.end > b.end : a.span < b.span;
  });
  std::vector<TokenPos> taken{0};  // [levels] end of the last parent
  for (ParentExtent& parent : parents) {
    uint32_t level = 1;
    while (level < taken.size() && taken[level] > parent.begin) ++level;
    if (level == taken.size()) taken.push_back(0);
    taken[level] = parent.end;
    parent.level = level;
  }
  levels = uint32_t(taken.size());
  level_parents.assign(levels, {});
  for (uint32_t i = 0; i < parents.size(); ++i) level_parents[parents[i].level].push_back(i);
}

uint32_t TurnShape::column_of(Slot slot) const {
  const auto it = std::upper_bound(leaves.begin(), leaves.end(), slot, [](Slot s, const LayoutEntry& e) { return s < e.slot; });
  return it == leaves.begin() ? 0 : uint32_t(it - leaves.begin() - 1);
}

}  // namespace spanscope
