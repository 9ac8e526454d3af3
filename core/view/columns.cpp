// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/view/columns.h"

namespace spanscope {
namespace {

constexpr const char* kMeasures[] = {"reads", "share", "mass", "density", "lift"};

Unit unit_of_measure(Measure m) {
  switch (m) {
    case Measure::share: return Unit::share;
    case Measure::density: return Unit::density;
    case Measure::lift: return Unit::lift;
    default: return Unit::mass;
  }
}

CellState state_of(ValueState s) {
  return s == ValueState::value ? CellState::value : s == ValueState::idle ? CellState::idle : CellState::missing;
}

// Share of all mass on sinks (sink span and learned sink) over all rows of the turn but recompute rows.
double sink_share(const SessionData& session, const TurnRecord& turn) {
  const auto sums = turn_sums(session, turn, RowSet::all);
  for (const Span& span : session.ledger.spans)
    if (span.id < sums.size() && sums[span.id].resident && sums[span.id].triples > 0) return sums[span.id].sink / sums[span.id].triples;
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

const char* measure_name(Measure m) { return kMeasures[size_t(m)]; }

Result<Measure> parse_measure(const std::string& text) {
  for (size_t i = 0; i < 5; ++i)
    if (text == kMeasures[i]) return Measure(i);
  return make_error(ErrorCode::invalid, "SPAN-USAGE", "expected reads, share, mass, density or lift, found \"" + text + "\"", "measure");
}

std::vector<SpanId> spans_at_level(const SessionData& session, Level level) {
  std::vector<SpanId> out;
  for (const Span& s : session.ledger.spans) {
    const bool parentless = s.parent == kNoSpan;
    if (level == Level::message ? (s.kind == SpanKind::parent && parentless) || (s.kind == SpanKind::content && parentless)
                                : s.kind == SpanKind::content)
      out.push_back(s.id);
  }
  return out;
}

CellTable cell_table(const SessionData& session, std::span<const SpanId> rows, const MeasureSettings& settings) {
  CellTable out;
  out.rows.assign(rows.begin(), rows.end());
  out.turns = uint32_t(session.turns.size());
  out.cells.resize(rows.size() * out.turns);
  out.row_value.assign(rows.size(), 0);
  out.row_state.assign(rows.size(), CellState::absent);
  std::vector<Sums> totals(rows.size());
  for (uint32_t t = 0; t < out.turns; ++t) {
    const TurnRecord& turn = session.turns[t];
    const TurnReads reads = reads_of_turn(session, turn, settings.reads);
    out.column_reads.push_back(reads.total);
    out.sink_share.push_back(sink_share(session, turn));
    const SpanId request = request_of(session, turn);
    std::vector<Sums> sums;
    if (settings.measure != Measure::reads) sums = turn_sums(session, turn, settings.rows);
    for (size_t r = 0; r < rows.size(); ++r) {
      const SpanId id = rows[r];
      Cell& cell = out.cells[r * out.turns + t];
      const bool resident = id < reads.reads.size() && reads.reads[id] >= 0;
      cell.request = resident && request != kNoSpan && (id == request || session.ledger.message_of(id) == request);
      if (!resident) continue;  // absent
      cell.was_read = reads.was_read[id];
      if (settings.measure == Measure::reads) {
        // A turn without answer rows has no reads, which is a number: 0 (definitions D2).
        cell.state = out.row_state[r] = CellState::value;
        cell.number = reads.reads[id];
        out.row_value[r] += cell.number;
      } else {
        const Value value = unit_of(sums[id], unit_of_measure(settings.measure), session.ledger[id].tokens, session.ledger[id].kind == SpanKind::sink);
        cell.state = state_of(value.state);
        if (value.ok()) cell.number = value.number;
        totals[r] += sums[id];
        totals[r].resident = true;
      }
    }
  }
  if (settings.measure != Measure::reads)
    for (size_t r = 0; r < rows.size(); ++r) {
      if (!totals[r].resident) continue;
      const Value value = unit_of(totals[r], unit_of_measure(settings.measure), session.ledger[rows[r]].tokens, session.ledger[rows[r]].kind == SpanKind::sink);
      out.row_state[r] = state_of(value.state);
      if (value.ok()) out.row_value[r] = value.number;
    }
  return out;
}

}  // namespace spanscope
