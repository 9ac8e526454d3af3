// SPDX-License-Identifier: GPL-3.0-or-later
// A re-attention result as a table: per message the share of the question's and the answer's rows, mean over layers and
// heads (re-run, so shares, not recorded reads). No Qt. Any thread.
#pragma once
#include <vector>

#include "core/reattend/reattend.h"
#include "core/record/session_data.h"
#include "widgets/engine/reattend_job.h"

namespace spanscope::panels {

struct ReattendRow {
  SpanId span = kNoSpan;        // a message
  uint32_t tokens = 0;          // in the context
  double question = 0, answer = 0;  // share; NaN answer: no answer rows
  double everything = 0;        // answer share (question share without an answer) under E; NaN: not run
  bool visible = false;
};
struct ReattendTable {
  std::vector<ReattendRow> rows;  // content by `answer` falling (question if there is no answer), visible first
  double sinks_question = 0, sinks_answer = 0;
  double template_question = 0, template_answer = 0;
  double new_question = 0, new_answer = 0;  // question and answer themselves
  uint32_t hidden_spans = 0;
  uint64_t hidden_tokens = 0;
  bool has_answer = false;
};
// Share of result column `column` over rows [begin, end).
double column_share(const ReattendResult& result, size_t column, uint32_t begin, uint32_t end);
ReattendTable reattend_table(const SessionData& session, const ReattendOutcome& outcome);

}  // namespace spanscope::panels
