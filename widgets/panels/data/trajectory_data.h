// SPDX-License-Identifier: GPL-3.0-or-later
// Values of a few spans over the last turns, ready for a line plot: NaN where there is nothing to draw. No Qt. Any thread.
#pragma once
#include <cstdint>
#include <vector>

#include "core/view/columns.h"

namespace spanscope::panels {

struct TrajectoryLine {
  SpanId span = kNoSpan;
  std::vector<double> y;           // [turns] NaN: a gap (missing, idle or not in the context)
  int born = -1, gone = -1;        // index of its first turn, and of the last one before it left; -1: outside
};
struct TrajectoryData {
  uint32_t first_turn = 0, turns = 0;  // first_turn: 0-based turn of index 0
  std::vector<TrajectoryLine> lines;
  std::vector<uint8_t> missing;    // [turns] no captured rows in this turn
  double low = 0, high = 0;        // of what is drawn
};
struct TrajectoryOptions {
  uint32_t window = 64;            // last turns; 0: all
  bool difference = false;         // change from the turn before
  bool per_row = false;            // reads: divided by the turn's answer rows
  bool sum = false;                // adds a line that sums the others (reads only): span kNoSpan
};
TrajectoryData trajectory_data(const SessionData& session, const std::vector<SpanId>& spans, const MeasureSettings& settings,
                               const TrajectoryOptions& options);

}  // namespace spanscope::panels
