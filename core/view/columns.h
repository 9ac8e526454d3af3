// SPDX-License-Identifier: GPL-3.0-or-later
// Values of spans over turns in one measure, ready to be drawn or printed: one number and one state per cell. Any thread.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/record/reads.h"
#include "core/record/session_data.h"
#include "core/record/units.h"

namespace spanscope {

enum class Measure : uint8_t { reads = 0, share, mass, density, lift };
const char* measure_name(Measure m);
Result<Measure> parse_measure(const std::string& text);

// Zero, missing and absent never look alike. absent: not in the context in this turn (not yet born, or gone).
// missing: resident, but there is no row to take it from (reason says which). idle: D4.
enum class CellState : uint8_t { value, idle, missing, absent };

struct Cell {
  double number = 0;
  CellState state = CellState::absent;
  bool was_read = false;  // reads: at least read_min within 16 answer rows
  bool request = false;   // the span is (part of) the message directly before this turn's answer
};

struct CellTable {
  std::vector<SpanId> rows;
  uint32_t turns = 0;
  std::vector<Cell> cells;  // [rows][turns]
  std::vector<double> row_value;     // [rows] over all turns: reads summed, ratios of sums otherwise
  std::vector<CellState> row_state;  // [rows]
  std::vector<double> sink_share;    // [turns] share of all mass on sinks; NaN: no rows
  std::vector<int64_t> column_reads; // [turns] all reads of the turn (leaves)
  const Cell& at(size_t row, uint32_t turn) const { return cells[row * turns + turn]; }
};

struct MeasureSettings {
  Measure measure = Measure::reads;
  RowSet rows = RowSet::consumer;  // of the ratio measures
  ReadSettings reads;
};

// Which spans stand as rows: messages (outermost parents), or content leaves.
enum class Level : uint8_t { message, leaf };
std::vector<SpanId> spans_at_level(const SessionData& session, Level level);

CellTable cell_table(const SessionData& session, std::span<const SpanId> rows, const MeasureSettings& settings);

}  // namespace spanscope
