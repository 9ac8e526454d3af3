// SPDX-License-Identifier: GPL-3.0-or-later
// What the sections of a report share while it is built. Inner header of this room.
#pragma once
#include "core/report/pictures.h"
#include "core/report/report.h"
#include "core/report/text.h"
#include "core/view/columns.h"

namespace spanscope {

struct ReportBuilder {
  ReportBuilder(const SessionData& s, const ReportOptions& o) : session(s), options(o) {}
  const SessionData& session;
  const ReportOptions& options;
  uint32_t read_min = 2;
  size_t last = 0;                  // index of the last turn that has an answer; session.turns.size(): none has
  CellTable table;                  // messages x turns, reads
  ReadHistory history;
  std::vector<double> free_reads;   // [table rows] reads over the session, those of each answer's own request left out
  SpanId request = kNoSpan;         // of the last answer
  std::vector<SpanId> dead;         // parents, at the last turn
  std::vector<size_t> view_rows;    // rows of the map, in context order
  std::string view_caption;
  size_t figures = 0, tables = 0;

  bool answered() const { return last < session.turns.size(); }
  const TurnRecord& turn() const { return session.turns[last]; }
  std::string name_of(SpanId id) const;
  ReportCell span_cell(SpanId id) const;
  ReportText caption(const char* kind, size_t number, std::string text) const;
  // Spans of the table that the last answer read most, falling, without those that it did not read at all.
  std::vector<std::pair<SpanId, int64_t>> most_read() const;

  ReportSection facts();
  ReportSection map();
  ReportSection last_answer();
  ReportSection how_to_read() const;
  ReportSection trajectories();
  ReportSection readers();
  ReportSection experts();
  ReportSection dead_weight();
  ReportSection missing() const;
  ReportSection glossary() const;
  ReportSection commands() const;
  ReportSection provenance() const;
};

ReportRun run(std::string text);
ReportRun strong(std::string text);
ReportRun name_run(std::string text);
ReportRun code(std::string text);
ReportRun badge(Badge b);

}  // namespace spanscope
