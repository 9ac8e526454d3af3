// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/record/profile_shares.h"

#include <algorithm>
#include <cmath>

#include "core/base/half.h"

namespace spanscope {

ProfileRows profile_rows(const TurnRecord& turn, const Ledger& ledger) {
  ProfileRows out;
  out.answer = turn.answer_rows();
  std::vector<TokenPos> end(ledger.spans.size(), 0);
  std::vector<TokenPos> rows;  // positions of prompt and answer rows, ascending
  for (const LayoutEntry& e : turn.layout) {
    end[e.leaf] = e.position + e.len;
    if (ledger[e.leaf].kind == SpanKind::content)
      for (SpanId parent : ledger.ancestors(e.leaf)) end[parent] = std::max(end[parent], e.position + e.len);
    for (Slot slot = std::max(e.slot, turn.executed_begin); slot < std::min(e.slot + e.len, turn.executed_end); ++slot) {
      const RowPhase phase = RowPhase(turn.phase[slot - turn.executed_begin]);
      if (phase == RowPhase::prompt || phase == RowPhase::answer) rows.push_back(e.position + (slot - e.slot));
    }
  }
  for (SpanId span : turn.profile_spans)
    out.consumer.push_back(uint32_t(rows.end() - std::lower_bound(rows.begin(), rows.end(), end[span])));
  return out;
}

std::optional<std::vector<uint16_t>> to_shares(std::span<const float> mass, const ProfileRows& rows, uint32_t heads) {
  const size_t profiles = rows.consumer.size();
  std::vector<uint16_t> out(mass.size());
  for (size_t i = 0; i < mass.size(); ++i) {
    const double triples = double(rows.of(i / profiles % 2, i % profiles)) * heads;
    if (std::isnan(mass[i])) {  // dropped by gc
      out[i] = 0x7e00;
      continue;
    }
    if (triples == 0) {
      if (mass[i] != 0) return std::nullopt;
      continue;
    }
    const double share = double(mass[i]) / triples;
    out[i] = f32_to_f16(float(share));
    const double error = std::fabs(double(f16_to_f32(out[i])) - share);
    if (!(error <= 1e-3 * std::fabs(share) || error <= 1e-6)) return std::nullopt;
  }
  return out;
}

std::vector<float> from_shares(std::span<const uint16_t> shares, const ProfileRows& rows, uint32_t heads) {
  const size_t profiles = rows.consumer.size();
  std::vector<float> out(shares.size());
  for (size_t i = 0; i < shares.size(); ++i)
    out[i] = float(double(f16_to_f32(shares[i])) * double(rows.of(i / profiles % 2, i % profiles)) * heads);
  return out;
}

}  // namespace spanscope
