// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/record/visible.h"

#include <utility>

#include "core/model/record_plan.h"

namespace spanscope {

std::vector<KeyRun> keys_outside(const std::vector<LayoutEntry>& layout, uint32_t context) {
  std::vector<KeyRun> out;
  Slot slot = 0;
  TokenPos position = 0;
  for (const LayoutEntry& e : layout) {
    if (e.slot > slot) out.push_back({position, position + (e.slot - slot)});
    slot = e.slot + e.len;
    position = e.position + e.len;
  }
  if (context > slot) out.push_back({position, position + (context - slot)});
  return out;
}

uint64_t all_visible_keys(const std::vector<LayoutEntry>& layout, const std::vector<KeyRun>& outside, TokenPos row, uint32_t window) {
  uint64_t n = 0;
  for (const LayoutEntry& e : layout) n += visible_keys(e.position, e.position + e.len, row, window);
  for (const KeyRun& run : outside) n += visible_keys(run.begin, run.end, row, window);
  return n;
}

std::vector<double> uniform_expectation(const UniformInput& in) {
  const std::vector<LayoutEntry>& layout = *in.layout;
  const size_t leaves = layout.size(), queries = in.query->size();
  std::vector<double> out(kPhases * queries * leaves, 0.0);
  const std::vector<KeyRun> outside = keys_outside(layout, in.context);
  std::vector<uint8_t> sink(leaves);
  for (size_t s = 0; s < leaves; ++s) sink[s] = (*in.ledger)[layout[s].leaf].kind == SpanKind::sink;

  std::vector<std::pair<uint32_t, uint32_t>> windows;  // window, layers that have it
  for (uint32_t w : *in.window) {
    const auto it = std::find_if(windows.begin(), windows.end(), [&](const auto& x) { return x.first == w; });
    if (it == windows.end()) windows.push_back({w, 1});
    else ++it->second;
  }
  std::vector<uint32_t> seen(leaves);
  for (size_t q = 0; q < queries; ++q) {
    const LayoutEntry& own = layout[(*in.query)[q]];
    const Slot first = std::max(own.slot, in.executed_begin), last = std::min(own.slot + own.len, in.executed_end);
    for (Slot slot = first; slot < last; ++slot) {
      const uint32_t phase = (*in.phase)[slot - in.executed_begin];
      if (phase >= kPhases) continue;
      const TokenPos row = own.position + (slot - own.slot);
      double* sums = &out[(phase * queries + q) * leaves];
      for (const auto& [window, layers] : windows) {
        uint64_t all = 0;
        size_t end = 0;  // leaves behind the row are not visible
        for (; end < leaves && layout[end].position <= row; ++end) {
          const LayoutEntry& e = layout[end];
          seen[end] = sink[end] ? 0 : visible_keys(e.position, e.position + e.len, row, window);
          all += seen[end];
        }
        for (const KeyRun& run : outside) all += visible_keys(run.begin, run.end, row, window);
        if (all == 0) continue;
        const double unit = double(layers) * in.heads / double(all);
        for (size_t s = 0; s < end; ++s) sums[s] += seen[s] * unit;
      }
    }
  }
  return out;
}

}  // namespace spanscope
