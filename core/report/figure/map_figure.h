// SPDX-License-Identifier: GPL-3.0-or-later
// The map: which span did each turn read. Rows are spans, columns the turns that read them; from top: legend, reads per
// turn by role, sinks apart, the rows with their sums, the rest, the turn axis. The same list is painted on screen and
// written as SVG. More turns than pixels, or rows lower than a pixel, are max-pooled: the strongest cell survives every
// zoom. A turn that is not in the session (damaged, say) keeps its column and is hatched. Any thread.
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
  double height = 0;              // of the whole figure: rows that do not fit are left out; 0: as high as it needs
  double row_height = 13;         // below 1: several rows share a pixel
  std::vector<size_t> rows;       // indices into the table's rows, in drawing order
  size_t first_row = 0;           // first of `rows` that is drawn
  uint32_t read_min = 2;
  MeasureSettings settings;
  double threshold = -1;          // of the row sums; below 0: none
  uint32_t cursor = kNone32;      // turn index marked on the axis
  std::vector<SpanId> marked;     // rows drawn as selected
  std::vector<SpanId> pinned;     // rows with a pin
  std::vector<uint8_t> dimmed;    // [rows of the table] 1: stands back, outside of the filter; empty: none
  double legend_left = 8;         // room for a control at the left of the legend
  bool filtered = false;          // `rows` are what a filter keeps: the rest row says so
};

struct MapFigure {
  DisplayList list;
  // Geometry, for hit testing and overlays.
  double cells_x = 0, cells_y = 0, cells_w = 0, row_height = 0, bars_x = 0, bars_w = 0, rows_end = 0, axis_y = 0;
  uint32_t turns = 0;             // of the table
  uint32_t columns = 0;           // turns from the first to the last one, missing ones included
  uint32_t bins = 0;              // columns drawn
  uint32_t first_turn = 0;        // number of column 0
  size_t first_row = 0, shown_rows = 0, all_rows = 0;
  double bar_max = 1;             // row sum at the right end of the bars
  std::vector<uint32_t> column_turn;  // [columns] index into the table's turns; kNone32: not in the session
  size_t row_at(double y) const;      // index into options.rows; SIZE_MAX: no row
  uint32_t column_at(double x) const; // kNone32: outside; of a pooled column the first
  uint32_t turn_at(double x) const;   // index into the table's turns; kNone32: none
  double turn_x(uint32_t turn) const; // left edge of its column
  double row_y(size_t row) const { return cells_y + (double(row) - double(first_row)) * row_height; }
  double column_width() const { return bins ? cells_w / bins : 0; }
};

MapFigure build_map_figure(const SessionData& session, const CellTable& table, const MapFigureOptions& options);

// The strongest cell of turns [begin, end) in one row: value beats idle beats missing beats absent; largest number wins.
Cell pool_cells(const CellTable& table, size_t row, uint32_t begin, uint32_t end);
Cell stronger(const Cell& a, const Cell& b);

}  // namespace spanscope
