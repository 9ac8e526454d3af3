// SPDX-License-Identifier: GPL-3.0-or-later
// Attention from a formula, and turns over it: for what has to hold with any numbers.
#pragma once
#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "tests/unit/record/attention_feed.h"

namespace spanscope::test {

inline uint32_t mixed(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  uint32_t x = a * 0x9e3779b1u ^ (b + 0x85ebca6bu) * 0xc2b2ae35u ^ (c + 0x27d4eb2fu) * 0x165667b1u ^ (d + 1) * 0x2545f491u;
  x ^= x >> 15, x *= 0x2c1b3c6du, x ^= x >> 12, x *= 0x297a2d39u, x ^= x >> 15;
  return x;
}

// Peaked rows that sum to 1.
struct SyntheticAttention {
  uint32_t layers, heads;
  std::vector<float> weight;  // [layers][heads][n][n]
  uint32_t n;
  SyntheticAttention(uint32_t l, uint32_t h, uint32_t slots) : layers(l), heads(h), weight(size_t(l) * h * slots * slots, 0), n(slots) {
    for (uint32_t a = 0; a < l; ++a)
      for (uint32_t b = 0; b < h; ++b)
        for (uint32_t row = 0; row < n; ++row) {
          double sum = 0;
          float* w = &weight[((size_t(a) * h + b) * n + row) * n];
          for (uint32_t key = 0; key <= row; ++key) sum += w[key] = std::exp(40.0f * float(mixed(a, b, row, key) % 1000) / 1000);
          for (uint32_t key = 0; key <= row; ++key) w[key] = float(w[key] / sum);
        }
  }
  Attention source() const {
    Attention a;
    a.layers = layers, a.heads = heads, a.window.assign(layers, 0);
    a.weight = [this](uint32_t l, uint32_t h, Slot row, Slot key) { return weight[((size_t(l) * heads + h) * n + row) * n + key]; };
    return a;
  }
  Recipe recipe() const {
    Recipe r;
    r.layers = layers, r.query_heads = heads, r.window.assign(layers, 0);
    return r;
  }
};

inline Span make_span(SpanId id, SpanKind kind, SpanId parent, uint32_t tokens, TurnId birth, int32_t message) {
  Span s;
  s.id = id, s.kind = kind, s.parent = parent, s.tokens = tokens, s.birth = birth, s.message = message;
  s.role = kind == SpanKind::sink ? "sink" : kind == SpanKind::template_text ? "template" : message % 2 ? "user" : "assistant";
  s.name = fmt::format("span {}", id);
  return s;
}

// Three turns of sink, user message, generation prompt, answer, end marker (template); token i reads "<i>".
struct SyntheticTurns {
  Ledger ledger;
  std::vector<TurnPlan> plans;
};
inline SyntheticTurns synthetic_turns(uint32_t turns, uint32_t user = 12, uint32_t answer = 6) {
  SyntheticTurns out;
  std::vector<LayoutEntry> layout;
  uint32_t slot = 0, executed = 0;
  const auto leaf = [&](SpanKind kind, SpanId parent, uint32_t len, TurnId turn, int32_t message) {
    const SpanId id = SpanId(out.ledger.spans.size());
    out.ledger.spans.push_back(make_span(id, kind, parent, len, turn, message));
    layout.push_back({id, slot, len, slot});
    slot += len;
  };
  const auto parent = [&](uint32_t len, TurnId turn, int32_t message) {
    const SpanId id = SpanId(out.ledger.spans.size());
    out.ledger.spans.push_back(make_span(id, SpanKind::parent, kNoSpan, len, turn, message));
    return id;
  };
  for (TurnId t = 0; t < turns; ++t) {
    if (t == 0) leaf(SpanKind::sink, kNoSpan, 3, 0, -1);
    else leaf(SpanKind::template_text, kNoSpan, 2, t, int32_t(2 * t));
    const SpanId message = parent(user, t, int32_t(2 * t + 1));
    leaf(SpanKind::content, message, user / 2, t, int32_t(2 * t + 1));
    leaf(SpanKind::content, message, user - user / 2, t, int32_t(2 * t + 1));
    leaf(SpanKind::template_text, kNoSpan, 3, t, int32_t(2 * t + 1));
    TurnPlan p;
    p.turn = t;
    p.message = int32_t(2 * t + 2);
    p.cached = executed;
    p.answer_begin = slot;
    const SpanId reply = parent(answer, t, int32_t(2 * t + 2));
    leaf(SpanKind::content, reply, answer, t, int32_t(2 * t + 2));
    leaf(SpanKind::template_text, kNoSpan, 1, t, int32_t(2 * t + 2));
    p.answer_len = slot - p.answer_begin;
    p.executed_end = executed = slot - 1;
    for (Slot s = p.cached; s < p.executed_end; ++s) p.phase.push_back(s + 1 >= p.answer_begin ? RowPhase::answer : RowPhase::prompt);
    p.layout = layout;
    for (Slot s = 0; s < slot; ++s) {
      p.ids.push_back(TokenId(s));
      const std::string text = fmt::format("<{}>", s);
      p.token_bytes.push_back(uint32_t(text.size()));
      p.text += text;
    }
    out.plans.push_back(p);
  }
  return out;
}

}  // namespace spanscope::test
