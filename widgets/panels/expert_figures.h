// SPDX-License-Identifier: GPL-3.0-or-later
// The two pictures of the experts page as display lists. No widgets. Any thread.
#pragma once
#include "core/report/figure/display_list.h"
#include "core/report/figure/palette.h"
#include "widgets/panels/data/expert_data.h"

namespace spanscope::panels {

// ids: 1 << 32 | phase << 30 | turn << 8 | expert for lanes; 2 << 32 | layer << 8 | expert for counts; 3 << 32 | layer.
inline uint64_t lane_id(int phase, size_t turn, uint32_t expert) { return 1ull << 32 | uint64_t(phase) << 30 | uint64_t(turn) << 8 | expert; }
inline uint64_t count_id(uint32_t layer, uint32_t expert) { return 2ull << 32 | uint64_t(layer) << 8 | expert; }
inline uint64_t layer_id(uint32_t layer) { return 3ull << 32 | layer; }

// Columns: turns; colour: part of the turn's picks; dashed line: even share; below: entropy per turn.
DisplayList expert_lanes_figure(const ExpertLanes& lanes, const Palette& palette, double width, double height, int cursor);
// Rows: layers; exact counts, their sum, max over mean, entropy.
DisplayList expert_counts_figure(const ExpertCounts& counts, const Palette& palette, double width, double height, int layer);

}  // namespace spanscope::panels
