// SPDX-License-Identifier: GPL-3.0-or-later
// Profiles in a file: shares (mass / (rows x heads)) as f16 where that stays within 1e-3 of the mass, or 1e-6 of the share
// (definitions D3), else masses as f32. Any thread.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/record/session_data.h"

namespace spanscope {

// How many rows stand behind each profile of a turn: its answer rows, and for each span the prompt and answer rows at or
// behind its end. A parent ends with its last content leaf in the layout.
struct ProfileRows {
  uint32_t answer = 0;
  std::vector<uint32_t> consumer;  // [P]
  uint32_t of(size_t set, size_t profile) const { return set == 0 ? answer : consumer[profile]; }
};
ProfileRows profile_rows(const TurnRecord& turn, const Ledger& ledger);

// mass [lines][answer, consumer][P], each line over `heads` heads. Nothing when a share would not be close enough.
std::optional<std::vector<uint16_t>> to_shares(std::span<const float> mass, const ProfileRows& rows, uint32_t heads);
std::vector<float> from_shares(std::span<const uint16_t> shares, const ProfileRows& rows, uint32_t heads);

}  // namespace spanscope
