// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/panels/data/reattend_rows.h"

#include <algorithm>
#include <limits>
#include <map>

#include "widgets/panels/data/session_access.h"

namespace spanscope::panels {

double column_share(const ReattendResult& r, size_t column, uint32_t begin, uint32_t end) {
  end = std::min(end, r.rows);
  if (end <= begin) return std::numeric_limits<double>::quiet_NaN();
  const size_t columns = r.leaves.size() + 1, per_row = size_t(r.layers) * r.query_heads;
  double sum = 0;
  for (uint32_t row = begin; row < end; ++row)
    for (size_t lh = 0; lh < per_row; ++lh) sum += r.mass[(row * per_row + lh) * columns + column];
  return sum / (double(end - begin) * double(per_row));
}

ReattendTable reattend_table(const SessionData& session, const ReattendOutcome& outcome) {
  ReattendTable out;
  const ReattendResult& r = outcome.main.result;
  const uint32_t answer_begin = r.question_rows ? r.question_rows - 1 : 0, answer_end = answer_begin + r.answer_rows;
  out.has_answer = r.answer_rows > 0;
  const TurnRecord* turn = find_turn(session, outcome.turn);
  std::map<SpanId, ReattendRow> rows;
  for (size_t i = 0; i < r.leaves.size(); ++i) {
    const double question = column_share(r, i, 0, r.question_rows);
    const double answer = column_share(r, i, answer_begin, answer_end);
    const Span& leaf = session.ledger[r.leaves[i]];
    if (leaf.kind == SpanKind::sink) {
      out.sinks_question += question, out.sinks_answer += answer;
      continue;
    }
    if (leaf.kind == SpanKind::template_text) {
      out.template_question += question, out.template_answer += answer;
      continue;
    }
    ReattendRow& row = rows[message_or_self(session, leaf.id)];
    const LayoutEntry* place = turn ? place_of(*turn, leaf.id) : nullptr;
    row.tokens += place ? place->len : leaf.tokens;
    row.question += question;
    row.answer += answer;
    row.visible = row.visible || r.visible[i];
    if (outcome.everything) {
      const ReattendResult& e = outcome.everything->result;
      const uint32_t begin = e.question_rows ? e.question_rows - 1 : 0;
      row.everything += e.answer_rows ? column_share(e, i, begin, begin + e.answer_rows) : column_share(e, i, 0, e.question_rows);
    }
  }
  out.new_question = column_share(r, r.leaves.size(), 0, r.question_rows);
  out.new_answer = column_share(r, r.leaves.size(), answer_begin, answer_end);
  for (auto& [id, row] : rows) {
    row.span = id;
    if (!outcome.everything) row.everything = std::numeric_limits<double>::quiet_NaN();
    if (!row.visible) {
      ++out.hidden_spans;
      out.hidden_tokens += row.tokens;
    }
    out.rows.push_back(row);
  }
  std::stable_sort(out.rows.begin(), out.rows.end(), [&](const ReattendRow& a, const ReattendRow& b) {
    if (a.visible != b.visible) return a.visible;
    return out.has_answer ? a.answer > b.answer : a.question > b.question;
  });
  return out;
}

}  // namespace spanscope::panels
