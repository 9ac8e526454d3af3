// SPDX-License-Identifier: GPL-3.0-or-later
// The worked example of definitions D8 as a recorded session: one layer, two heads, sink = {0}, a = {1}, b = {2,3}, every
// mass by hand; span 3 is the message of a. Further turns can be put behind it.
#pragma once
#include <cmath>
#include <limits>
#include <string>

#include "core/record/session_data.h"

namespace spanscope::test {

inline Span small_span(SpanId id, SpanKind kind, const std::string& role, const std::string& name, int32_t message, uint32_t tokens, TurnId birth) {
  Span s;
  s.id = id, s.kind = kind, s.role = role, s.name = name, s.message = message, s.tokens = tokens, s.birth = birth;
  return s;
}

inline SessionData small_session() {
  SessionData s;
  s.header.program_version = "0.1.0", s.header.session_id = "0011", s.header.model_name = "hand", s.header.model_family = "llama";
  s.header.layers = 1, s.header.query_heads = 2, s.header.kv_heads = 1, s.header.window = {0}, s.header.moe_layer = {0};
  s.header.backend = "by hand", s.header.mode = "replay";
  s.ledger.spans = {small_span(0, SpanKind::sink, "sink", "sink", -1, 1, 0), small_span(1, SpanKind::content, "user", "a", 0, 1, 0),
                    small_span(2, SpanKind::content, "assistant", "b", 1, 2, 0), small_span(3, SpanKind::parent, "user", "a", 0, 1, 0)};
  s.ledger.spans[1].parent = 3;
  s.messages = {{"user", "", ""}, {"assistant", "", ""}};
  TurnRecord t;
  t.turn = 0, t.message = 1, t.context = 4, t.executed_begin = 0, t.executed_end = 3, t.answer_begin = 2, t.answer_len = 2;
  t.phase = {uint8_t(RowPhase::prompt), uint8_t(RowPhase::answer), uint8_t(RowPhase::answer)};
  t.layout = {{0, 0, 1, 0}, {1, 1, 1, 1}, {2, 2, 2, 2}};
  t.new_ids = {1, 2, 3, 4}, t.new_token_bytes = {1, 5, 3, 3}, t.new_text = "shelloby bye";
  t.query_leaves = {0, 1, 2};
  t.rows_q = {1, 0, 0, /**/ 0, 1, 1, /**/ 0, 0, 0};
  // [prompt, answer, recompute][q][s], both heads added
  t.mass_qk = {2, 0, 0, 0, 0, 0, 0, 0, 0, /**/ 0, 0, 0, 1.25f, 0.75f, 0, 0.75f, 0.75f, 0.5f, /**/ 0, 0, 0, 0, 0, 0, 0, 0, 0};
  t.uniform_qk = {0, 0, 0, 0, 0, 0, 0, 0, 0, /**/ 0, 0, 0, 0, 2, 0, 0, 1, 1, /**/ 0, 0, 0, 0, 0, 0, 0, 0, 0};
  t.learned_sink = {0, 0, 0}, t.unattributed = {0, 0, 0};
  t.profile_spans = {0, 1, 2};
  t.layer_mass = {2, 1.5f, 0.5f, /**/ 2, 0.75f, 0};
  t.spike = {0.75f, 0.5f, std::numeric_limits<float>::quiet_NaN()};
  t.spike_layer = {0, 0, 0}, t.spike_head = {0, 1, 0}, t.spike_row = {1, 2, 0};
  t.index_text();
  s.turns.push_back(std::move(t));
  s.finished = true;
  s.path = "small.span";
  return s;
}

// An open turn behind the last one: span `gone` leaves the context, nothing is answered.
inline void add_open_turn_without(SessionData& s, SpanId gone) {
  TurnRecord t;
  t.turn = s.turns.back().turn + 1, t.open = true;
  uint32_t slot = 0;
  for (const LayoutEntry& e : s.turns.back().layout)
    if (e.leaf != gone) {
      t.layout.push_back({e.leaf, slot, e.len, slot});
      slot += e.len;
    }
  const SpanId id = SpanId(s.ledger.spans.size());
  s.ledger.spans.push_back(small_span(id, SpanKind::content, "user", "new", int32_t(s.messages.size()), 1, t.turn));
  s.messages.push_back({"user", "", ""});
  t.layout.push_back({id, slot, 1, slot});
  t.context = slot + 1, t.executed_begin = slot, t.executed_end = slot + 1;
  t.phase = {uint8_t(RowPhase::prompt)};
  const size_t leaves = t.layout.size();
  t.query_leaves = {id};
  t.rows_q = {1, 0, 0};
  t.mass_qk.assign(3 * leaves, 0), t.uniform_qk.assign(3 * leaves, 0);
  t.mass_qk[0] = 2;  // all on the first leaf
  t.learned_sink = {0, 0, 0}, t.unattributed = {0, 0, 0};
  for (const LayoutEntry& e : t.layout) t.profile_spans.push_back(e.leaf);
  t.layer_mass.assign(2 * leaves, 0);
  t.spike.assign(leaves, std::numeric_limits<float>::quiet_NaN());
  t.spike_layer.assign(leaves, 0), t.spike_head.assign(leaves, 0), t.spike_row.assign(leaves, 0);
  t.new_ids = {9}, t.new_token_bytes = {3}, t.new_text = "new";
  t.index_text();
  s.turns.push_back(std::move(t));
}

}  // namespace spanscope::test
