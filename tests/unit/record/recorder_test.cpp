// SPDX-License-Identifier: GPL-3.0-or-later
#include <fmt/format.h>

#include <map>

#include "core/record/reads.h"
#include "core/record/units.h"
#include "tests/support/catch.h"
#include "tests/unit/record/synthetic.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {

void same_turn(const TurnRecord& a, const TurnRecord& b) {
  CHECK(a.phase == b.phase);
  CHECK(a.query_leaves == b.query_leaves);
  CHECK(a.rows_q == b.rows_q);
  CHECK(a.new_text == b.new_text);
  CHECK(a.uniform_qk == b.uniform_qk);
  CHECK(a.profile_spans == b.profile_spans);
  const auto close = [](const std::vector<float>& x, const std::vector<float>& y) {
    REQUIRE(x.size() == y.size());
    for (size_t i = 0; i < x.size(); ++i)
      if (!(std::isnan(x[i]) && std::isnan(y[i])) && !(std::fabs(x[i] - y[i]) <= 1e-6)) FAIL_CHECK("value " << i << ": " << x[i] << ", " << y[i]);
  };
  close(a.mass_qk, b.mass_qk);
  close(a.layer_mass, b.layer_mass);
  close(a.spike, b.spike);
  CHECK(a.spike_row == b.spike_row);
  CHECK(a.events.row == b.events.row);
  CHECK(a.events.leaf == b.events.leaf);
  CHECK(a.events.head == b.events.head);
  close(a.events.habit, b.events.habit);
}

SessionData session_of(const SyntheticAttention& a, const SyntheticTurns& turns, std::vector<TurnRecord> records) {
  SessionData s;
  s.header.layers = a.layers, s.header.query_heads = a.heads;
  s.header.window.assign(a.layers, 0);
  s.ledger = turns.ledger;
  s.turns = std::move(records);
  return s;
}

}  // namespace

TEST_CASE("an answer decoded row by row gives what the replay of it gives") {
  // While an answer is generated its leaf is longer than it will become and its end marker has no leaf.
  const SyntheticTurns turns = synthetic_turns(3);
  const SyntheticAttention a(2, 3, uint32_t(turns.plans.back().ids.size()));
  Recorder replayed(a.recipe(), {}), generated(a.recipe(), {});
  for (const TurnPlan& plan : turns.plans) {
    feed_turn(replayed, plan, turns.ledger, a.source(), 1024);
    const auto expected = replayed.close_turn(plan, turns.ledger);
    REQUIRE(expected);

    TurnPlan provisional = plan;
    provisional.layout.resize(plan.layout.size() - 2);
    provisional.layout.push_back({plan.layout[plan.layout.size() - 2].leaf, plan.answer_begin, 500, plan.answer_begin});
    provisional.ids.resize(plan.answer_begin);
    generated.begin_turn(provisional, turns.ledger);
    const auto positions = positions_of(plan.layout, uint32_t(plan.ids.size()));
    const Slot border = plan.first_answer_row();
    for (Slot slot = plan.cached; slot < plan.executed_end; ++slot) {
      const RecordPlan& p = generated.plan_pass(slot, slot + 1, {slot < border ? RowPhase::prompt : RowPhase::answer});
      CHECK(p.leaves.back().slot + p.leaves.back().len == slot + 1);
      CHECK(p.query_leaves == 1);
      feed_pass(generated, p, slot, positions, a.source());
    }
    const auto got = generated.close_turn(plan, turns.ledger);
    if (!got) FAIL(got.error().line());
    same_turn(*got, *expected);
    CHECK(expected->events.size() > 0);
  }
}

TEST_CASE("an answer that is only an end marker") {
  const SyntheticTurns turns = synthetic_turns(1);
  const SyntheticAttention a(1, 2, 64);
  TurnPlan plan = turns.plans[0];
  Recorder recorder(a.recipe(), {});
  TurnPlan provisional = plan;
  provisional.layout.resize(plan.layout.size() - 2);
  provisional.layout.push_back({plan.layout[plan.layout.size() - 2].leaf, plan.answer_begin, 500, plan.answer_begin});
  plan.layout = provisional.layout;
  plan.layout.back() = {turns.plans[0].layout.back().leaf, plan.answer_begin, 1, plan.answer_begin};
  plan.answer_len = 1;
  plan.ids.resize(plan.answer_begin + 1);
  plan.token_bytes.resize(plan.ids.size());
  plan.executed_end = plan.answer_begin;
  plan.phase.resize(plan.executed_end);
  recorder.begin_turn(provisional, turns.ledger);
  const auto positions = positions_of(plan.layout, uint32_t(plan.ids.size()));
  feed_pass(recorder, recorder.plan_pass(0, plan.answer_begin - 1, std::vector<RowPhase>(plan.phase.begin(), plan.phase.end() - 1)), 0, positions, a.source());
  feed_pass(recorder, recorder.plan_pass(plan.answer_begin - 1, plan.answer_begin, {RowPhase::answer}), plan.answer_begin - 1, positions, a.source());
  const auto turn = recorder.close_turn(plan, turns.ledger);
  if (!turn) FAIL(turn.error().line());
  CHECK(turn->answer_rows() == 1);
  CHECK(turn->query_leaves.size() + 1 == plan.layout.size());
}

TEST_CASE("rows and leaves that do not fit the final plan are errors, not numbers") {
  const SyntheticTurns turns = synthetic_turns(1);
  const SyntheticAttention a(1, 1, 64);
  Recorder recorder(a.recipe(), {});
  TurnPlan plan = turns.plans[0];
  feed_turn(recorder, plan, turns.ledger, a.source(), 1024);
  TurnPlan other = plan;
  other.phase[3] = RowPhase::recompute;
  auto turn = recorder.close_turn(other, turns.ledger);
  REQUIRE_FALSE(turn);
  CHECK(turn.error().tag == "SPAN-RECORDER");
  other = plan;
  other.layout[1].len -= 1, other.layout[2].slot -= 1, other.layout[2].len += 1;
  turn = recorder.close_turn(other, turns.ledger);
  REQUIRE_FALSE(turn);
  CHECK(turn.error().tag == "SPAN-RECORDER");
  CHECK(recorder.close_turn(plan, turns.ledger));
}

TEST_CASE("beyond the limit the strongest events stay and the counts stay exact") {
  const SyntheticTurns turns = synthetic_turns(2, 12, 40);
  const SyntheticAttention a(3, 4, uint32_t(turns.plans.back().ids.size()));
  RecorderOptions few;
  few.max_events = 25;
  Recorder all(a.recipe(), {}), limited(a.recipe(), few);
  std::vector<TurnRecord> whole, cut;
  for (const TurnPlan& plan : turns.plans) {
    feed_turn(all, plan, turns.ledger, a.source(), 5);
    feed_turn(limited, plan, turns.ledger, a.source(), 5);
    whole.push_back(*all.close_turn(plan, turns.ledger));
    cut.push_back(*limited.close_turn(plan, turns.ledger));
  }
  const SessionData reference = session_of(a, turns, whole), s = session_of(a, turns, cut);
  for (size_t t = 0; t < 2; ++t) {
    const TurnRecord &w = reference.turns[t], &c = s.turns[t];
    REQUIRE(w.events.size() > 60);
    CHECK(c.events.size() == 25);
    CHECK(c.events_dropped == w.events.size() - 25);
    auto masses = w.events.mass;
    std::sort(masses.rbegin(), masses.rend());
    CHECK(*std::min_element(c.events.mass.begin(), c.events.mass.end()) == masses[24]);
    CHECK(c.dropped_most == masses[25]);
    for (float theta : {0.20f, 0.30f, c.dropped_most + 0.01f}) {
      const TurnReads x = reads_of_turn(reference, w, {theta, 0, 0}), y = reads_of_turn(s, c, {theta, 0, 0});
      CHECK(x.reads == y.reads);
      CHECK(x.total == y.total);
      for (SpanId span = 0; span < s.ledger.spans.size(); ++span) {
        std::map<std::pair<int, int>, uint32_t> one, two;
        for (const Reader& r : readers_of(reference, w, span, {theta, 0, 0})) one[{r.layer, r.head}] = r.reads;
        for (const Reader& r : readers_of(s, c, span, {theta, 0, 0})) two[{r.layer, r.head}] = r.reads;
        CHECK(one == two);
      }
    }
  }
}

TEST_CASE("parents that overlap without nesting have their own consumer rows") {
  // Two parents whose leaves alternate: A B A B; a section S holds the second leaf of A.
  Ledger ledger;
  ledger.spans = {make_span(0, SpanKind::sink, kNoSpan, 2, 0, -1), make_span(1, SpanKind::parent, kNoSpan, 10, 0, 0),
                  make_span(2, SpanKind::parent, kNoSpan, 9, 0, 1), make_span(3, SpanKind::content, 1, 5, 0, 0),
                  make_span(4, SpanKind::content, 2, 4, 0, 1),      make_span(5, SpanKind::content, 6, 5, 0, 0),
                  make_span(6, SpanKind::parent, 1, 5, 0, 0),       make_span(7, SpanKind::content, 2, 5, 0, 1),
                  make_span(8, SpanKind::parent, kNoSpan, 4, 0, 2), make_span(9, SpanKind::content, 8, 4, 0, 2)};
  TurnPlan plan;
  plan.layout = {{0, 0, 2, 0}, {3, 2, 5, 2}, {4, 7, 4, 7}, {5, 11, 5, 11}, {7, 16, 5, 16}, {9, 21, 4, 21}};
  plan.executed_end = 24;
  plan.answer_begin = 21, plan.answer_len = 4;
  for (Slot s = 0; s < 24; ++s) plan.phase.push_back(s >= 20 ? RowPhase::answer : RowPhase::prompt);
  plan.ids.assign(25, 0);
  const SyntheticAttention a(2, 2, 25);
  const std::map<SpanId, TokenPos> end{{1, 16}, {2, 21}, {6, 16}, {8, 25}, {0, 2}, {3, 7}, {4, 11}, {5, 16}, {7, 21}, {9, 25}};
  for (uint32_t rows : {1u, 4u, 100u}) {
    Recorder recorder(a.recipe(), {});
    feed_turn(recorder, plan, ledger, a.source(), rows);
    const auto turn = recorder.close_turn(plan, ledger);
    REQUIRE(turn);
    REQUIRE(turn->profile_spans.size() == 10);
    for (size_t i = 0; i < 10; ++i)
      for (uint32_t l = 0; l < 2; ++l) {
        const SpanId span = turn->profile_spans[i];
        double answer = 0, consumer = 0;
        for (const LayoutEntry& e : plan.layout) {
          bool mine = e.leaf == span;
          for (SpanId p : ledger.ancestors(e.leaf)) mine |= p == span;
          if (!mine) continue;
          for (Slot row = 0; row < 24; ++row)
            for (uint32_t h = 0; h < 2; ++h)
              for (Slot key = e.slot; key < e.slot + e.len && key <= row; ++key) {
                const double w = a.source().weight(l, h, row, key);
                if (row >= 20) answer += w;
                if (row >= end.at(span)) consumer += w;
              }
        }
        INFO("span " << span << ", layer " << l << ", passes of " << rows);
        CHECK(turn->layer_mass[(l * 2) * 10 + i] == Approx(answer).margin(1e-6));
        CHECK(turn->layer_mass[(l * 2 + 1) * 10 + i] == Approx(consumer).margin(1e-6));
      }
  }
}

TEST_CASE("a larger factor on a recorded session gives what recording with it gives") {
  const SyntheticTurns turns = synthetic_turns(3, 12, 20);
  const SyntheticAttention a(3, 4, uint32_t(turns.plans.back().ids.size()));
  RecorderOptions strict;
  strict.factor = 5;
  Recorder normal(a.recipe(), {}), strong(a.recipe(), strict);
  std::vector<TurnRecord> x, y;
  for (const TurnPlan& plan : turns.plans) {
    feed_turn(normal, plan, turns.ledger, a.source(), 64);
    feed_turn(strong, plan, turns.ledger, a.source(), 64);
    x.push_back(*normal.close_turn(plan, turns.ledger));
    y.push_back(*strong.close_turn(plan, turns.ledger));
  }
  SessionData s = session_of(a, turns, x), other = session_of(a, turns, y);
  other.header.factor = 5;
  int64_t fewer = 0;
  for (size_t t = 0; t < 3; ++t) {
    CHECK(reads_of_turn(s, s.turns[t], {0.2f, 5, 0}).reads == reads_of_turn(other, other.turns[t], {0.2f, 0, 0}).reads);
    fewer += reads_of_turn(s, s.turns[t], {0.2f, 0, 0}).total - reads_of_turn(other, other.turns[t], {0.2f, 0, 0}).total;
  }
  CHECK(fewer > 0);
}

TEST_CASE("a read needs its moments close together") {
  SessionData s;
  s.header.layers = 1, s.header.query_heads = 2;
  s.ledger.spans = {make_span(0, SpanKind::sink, kNoSpan, 1, 0, -1), make_span(1, SpanKind::content, kNoSpan, 4, 0, 0)};
  TurnRecord t;
  t.layout = {{0, 0, 1, 0}, {1, 1, 4, 1}};
  t.phase.assign(40, uint8_t(RowPhase::answer));
  const auto with = [&](std::vector<uint32_t> rows) {
    t.events = {};
    for (uint32_t row : rows) {
      t.events.row.push_back(row), t.events.leaf.push_back(1), t.events.layer.push_back(0), t.events.head.push_back(0);
      t.events.mass.push_back(.5f), t.events.habit.push_back(0);
    }
    return reads_of_turn(s, t, {});
  };
  CHECK(with({10, 25}).was_read[1] == 1);   // 16 consecutive rows hold both
  CHECK(with({10, 26}).was_read[1] == 0);
  CHECK(with({10, 26}).reads[1] == 2);
  CHECK(with({10}).was_read[1] == 0);       // read_min is at least 2
  CHECK(with({5, 30, 31}).was_read[1] == 1);
}
