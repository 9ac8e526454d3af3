// SPDX-License-Identifier: GPL-3.0-or-later
// The map: which span did each turn read. Rows are spans, columns the turns that read them; from top: reads per turn by
// role, sinks apart, the rows with their sums, the rest, the turn axis. The same list is painted on screen and written as
// SVG. More turns than pixels are max-pooled, so the strongest cell survives every zoom. Any thread.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/record/session_data.h"
#include "core/report/figure/display_list.h"
#include "core/view/columns.h"

namespace spanscope {

struct MapFigureOptions {
  bool dark = false;
  double width = 900;
  double row_height = 13;
  std::vector<size_t> rows;       // indices into the table's rows, in drawing order
  uint32_t read_min = 2;
  MeasureSettings settings;
  double threshold = -1;          // of the row sums; below 0: none
  uint32_t cursor = kNone32;      // turn index marked on the axis
  std::vector<SpanId> marked;     // rows drawn as selected
};

struct MapFigure {
  DisplayList list;
  // Geometry, for hit testing and overlays.
  double cells_x = 0, cells_y = 0, cells_w = 0, row_height = 0, bars_x = 0, bars_w = 0, axis_y = 0;
  uint32_t turns = 0, bins = 0;   // bins: columns drawn (turns pooled when there are more turns than pixels)
  double bar_max = 1;             // row sum at the right end of the bars
  size_t row_at(double y) const;  // SIZE_MAX: no row
  uint32_t turn_at(double x) const;  // kNone32: no column; of a pooled column the first turn
  double turn_x(uint32_t turn) const;
  double column_width() const { return bins ? cells_w / bins : 0; }
};

MapFigure build_map_figure(const SessionData& session, const CellTable& table, const MapFigureOptions& options);

// The strongest cell of turns [begin, end) in one row: value beats idle beats missing beats absent; largest number wins.
Cell pool_cells(const CellTable& table, size_t row, uint32_t begin, uint32_t end);

}  // namespace spanscope
