// SPDX-License-Identifier: GPL-3.0-or-later
// Layers x heads: which heads read some spans in one turn, as numbers and as a picture. Rows are layers, columns query
// heads bracketed by the KV head they share. Counts are sums of events (definitions D5), so they add up to the reads of
// the spans. Any thread.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/record/reads.h"
#include "core/record/session_data.h"
#include "core/report/figure/display_list.h"
#include "core/report/figure/palette.h"

namespace spanscope {

struct HeadCell {
  uint32_t reads = 0;
  float spike = 0;      // largest mass among its reads
  float habit = 0;      // largest habit among its events, also of those below the strength
  bool has_habit = false;  // an event says so; otherwise the habit was not recorded for this head
  // Of the strongest read: what set its bound.
  uint32_t spike_row = 0;
  SpanId spike_leaf = kNoSpan;
};

struct HeadGrid {
  uint32_t layers = 0, heads = 0, kv_heads = 0;
  bool kv_sum = false;              // columns are KV heads
  uint32_t columns = 0;             // heads, or KV heads
  std::vector<HeadCell> cells;      // [layers][columns]
  std::vector<uint32_t> layer_reads;   // [layers]
  std::vector<uint32_t> column_reads;  // [columns]
  std::vector<uint32_t> window;        // [layers] 0: none
  uint32_t total = 0, readers = 0;     // reads; cells with at least one
  uint32_t rows_first = 0, rows_last = 0;  // answer rows looked at, absolute; both 0: the whole answer
  float theta = 0.3f;
  const HeadCell& at(uint32_t layer, uint32_t column) const { return cells[size_t(layer) * columns + column]; }
};

struct HeadGridRequest {
  std::vector<SpanId> spans;        // leaves or parents; several: the sum
  ReadSettings settings;
  bool kv_sum = false;
  // Only these answer rows (absolute positions, inclusive); both 0: all.
  uint32_t first_row = 0, last_row = 0;
};
HeadGrid head_grid(const SessionData& session, const TurnRecord& turn, const HeadGridRequest& request);

// Why a head's read counted: the parts of its bound (definitions D5), for the strongest read of the cell.
struct BoundParts {
  double strength = 0, three_habit = 0, three_uniform = 0;  // the factor is the session's own
  double bound = 0;
  const char* set_by = "the strength";
  uint64_t habit_rows = 0;  // rows that the habit was taken over
};
BoundParts bound_parts(const SessionData& session, const TurnRecord& turn, const HeadGrid& grid, uint32_t layer, uint32_t head);

struct HeadGridPicture {
  DisplayList list;
  // Where the cells are, for hit testing and overlays.
  double left = 0, top = 0, cell_w = 0, cell_h = 0, group_gap = 0;
  uint32_t group = 1;
  double x_of(uint32_t column) const { return left + column * cell_w + double(column / group) * group_gap; }
  double y_of(uint32_t layer) const { return top + layer * cell_h; }
};

// id of an item: kind << 32 | index. Cells: layer * columns + column.
enum class HeadGridItem : uint32_t { none = 0, cell = 1, layer = 2, column = 3 };
inline uint64_t head_grid_id(HeadGridItem kind, uint32_t index) { return uint64_t(kind) << 32 | index; }

// Fits the picture into width x height as long as cells stay readable; beyond that it grows (the caller scrolls).
// selected_*: -1 none.
HeadGridPicture head_grid_figure(const HeadGrid& grid, const Palette& palette, double width, double height,
                                 int selected_layer = -1, int selected_column = -1);

}  // namespace spanscope
