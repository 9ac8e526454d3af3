// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/panels/data/trajectory_data.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace spanscope::panels {

TrajectoryData trajectory_data(const SessionData& session, const std::vector<SpanId>& spans, const MeasureSettings& settings,
                               const TrajectoryOptions& options) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  TrajectoryData out;
  const CellTable table = cell_table(session, spans, settings);
  const uint32_t window = options.window && options.window < table.turns ? options.window : table.turns;
  const uint32_t first = table.turns - window;
  out.first_turn = first;
  out.turns = window;
  out.missing.assign(window, 0);
  for (uint32_t i = 0; i < window; ++i) {
    const size_t t = first + i;
    // Without answer rows reads are 0; per row there is nothing to divide by.
    const bool counted = settings.measure == Measure::reads && !options.per_row;
    out.missing[i] = t >= session.turns.size() || (!counted && session.turns[t].answer_rows() == 0);
  }
  for (size_t row = 0; row < spans.size(); ++row) {
    TrajectoryLine line;
    line.span = spans[row];
    line.y.assign(window, kNone);
    double before = kNone;
    for (uint32_t t = 0; t < table.turns; ++t) {
      const Cell& cell = table.at(row, t);
      double y = cell.state == CellState::value ? cell.number : kNone;
      if (options.per_row && settings.measure == Measure::reads && t < session.turns.size()) {
        const uint32_t rows = session.turns[t].answer_rows();
        y = rows ? y / rows : kNone;
      }
      const double drawn = options.difference ? y - before : y;
      before = y;
      if (t < first) continue;
      line.y[t - first] = drawn;
      if (cell.state == CellState::absent) continue;
      if (line.born < 0) line.born = int(t - first);
      line.gone = int(t - first);
    }
    // Born before the window, or still there at its end: no mark.
    if (line.born == 0 && first > 0 && table.at(row, first - 1).state != CellState::absent) line.born = -1;
    if (line.gone + 1 >= int(window)) line.gone = -1;
    out.lines.push_back(std::move(line));
  }
  if (options.sum && settings.measure == Measure::reads && out.lines.size() > 1) {
    TrajectoryLine sum;
    sum.y.assign(window, kNone);
    for (uint32_t i = 0; i < window; ++i)
      for (const TrajectoryLine& line : out.lines)
        if (!std::isnan(line.y[i])) sum.y[i] = std::isnan(sum.y[i]) ? line.y[i] : sum.y[i] + line.y[i];
    out.lines.push_back(std::move(sum));
  }
  for (const TrajectoryLine& line : out.lines)
    for (double y : line.y)
      if (!std::isnan(y)) out.low = std::min(out.low, y), out.high = std::max(out.high, y);
  return out;
}

}  // namespace spanscope::panels
