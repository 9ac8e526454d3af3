// SPDX-License-Identifier: GPL-3.0-or-later
// Turns small enough to be checked on paper: the worked example of the definitions, and the reference data's own. What is
// checked was recorded, written to a file, closed and opened again.
#include <fmt/format.h>

#include <cmath>

#include "core/base/files.h"
#include "core/base/json.h"
#include "core/record/reads.h"
#include "core/record/session_schema.h"
#include "core/record/units.h"
#include "tests/support/oracles.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/record/attention_feed.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {

const SpanKind kSink = SpanKind::sink, kContent = SpanKind::content;

struct Row {
  TokenPos position;
  RowPhase phase;
  std::vector<std::vector<std::vector<float>>> weights;  // [layer][head][key]
  std::vector<std::vector<float>> learned;               // [layer][head]
};

struct Case {
  std::vector<std::pair<SpanKind, LayoutEntry>> leaves;
  std::vector<Row> rows;
  uint32_t window = 0;
};

SessionData reopened(const SessionData& s) {
  const TempDir dir;
  const std::string path = dir / "small.span";
  auto writer = SessionWriter::create(path, false);
  REQUIRE(writer);
  REQUIRE(write_header(**writer, s.header));
  REQUIRE(write_ledger(**writer, s.ledger, 0, s.messages, 0));
  for (const TurnRecord& t : s.turns) REQUIRE(write_turn(**writer, t, s.header, s.ledger));
  REQUIRE((*writer)->finish());
  auto loaded = load_session(path);
  REQUIRE(loaded);
  CHECK((*loaded)->finished);
  CHECK((*loaded)->findings.empty());
  REQUIRE((*loaded)->turns.size() == s.turns.size());
  return **loaded;
}

// The session after one turn of the case. Parents: none.
SessionData run(const Case& c, TurnId turn_number = 0, Recorder* given = nullptr) {
  const uint32_t layers = uint32_t(c.rows[0].weights.size()), heads = uint32_t(c.rows[0].weights[0].size());
  SessionData s;
  s.header.layers = layers, s.header.query_heads = heads;
  s.header.window.assign(layers, c.window);
  s.header.moe_layer.assign(layers, 0);
  s.header.has_text = false;
  TurnPlan plan;
  plan.turn = turn_number;
  uint32_t keys = 0;
  for (const auto& [kind, e] : c.leaves) {
    Span span;
    span.id = e.leaf, span.kind = kind, span.tokens = e.len;
    s.ledger.spans.push_back(span);
    plan.layout.push_back(e);
    keys = std::max(keys, e.slot + e.len);
  }
  plan.cached = c.rows.front().position;
  plan.executed_end = c.rows.back().position + 1;
  for (const Row& r : c.rows) {
    plan.phase.push_back(r.phase);
    if (r.phase != RowPhase::answer) continue;
    if (plan.answer_len == 0) plan.answer_begin = r.position + 1;
    ++plan.answer_len;
  }
  plan.open = plan.answer_len == 0;
  plan.ids.assign(std::max(keys, plan.executed_end + (plan.open ? 0 : 1)), 0);
  Attention a;
  a.layers = layers, a.heads = heads, a.window.assign(layers, c.window);
  const auto row_at = [&](Slot slot) -> const Row& { return c.rows[slot - plan.cached]; };
  a.weight = [&](uint32_t l, uint32_t h, Slot row, Slot key) {
    const auto& w = row_at(row).weights[l][h];
    return key < w.size() ? w[key] : 0.0f;
  };
  a.learned = [&](uint32_t l, uint32_t h, Slot row) { return row_at(row).learned.empty() ? 0.0f : row_at(row).learned[l][h]; };
  Recipe recipe;
  recipe.layers = layers, recipe.query_heads = heads, recipe.window = a.window, recipe.learned_sink = true;
  Recorder fresh(recipe, {});
  Recorder& recorder = given ? *given : fresh;
  feed_turn(recorder, plan, s.ledger, a, 1024);
  auto turn = recorder.close_turn(plan, s.ledger);
  if (!turn) FAIL(turn.error().line());
  s.turns.push_back(std::move(*turn));
  return reopened(s);
}

// As many turns as masses, one answer row each, which gives its turn's mass to leaf 1 and the rest to the sink. [turns][2]:
// with a second leaf (leaf 2) the row gives to both.
SessionData one_row_turns(const std::vector<std::vector<float>>& mass) {
  SessionData s;
  s.header.layers = 1, s.header.query_heads = 1, s.header.window = {0}, s.header.moe_layer = {0};
  s.header.has_text = false;
  const uint32_t first = 1 + uint32_t(mass[0].size());  // slot of the first row
  std::vector<LayoutEntry> layout;
  const auto leaf = [&](SpanKind kind, TurnId birth) {
    Span span;
    span.id = SpanId(s.ledger.spans.size()), span.kind = kind, span.tokens = 1, span.birth = birth;
    s.ledger.spans.push_back(span);
    layout.push_back({span.id, span.id, 1, span.id});
  };
  leaf(SpanKind::sink, 0);
  for (size_t i = 0; i < mass[0].size(); ++i) leaf(kContent, 0);
  leaf(kContent, 0);
  Attention a;
  a.layers = a.heads = 1, a.window = {0};
  a.weight = [&](uint32_t, uint32_t, Slot row, Slot key) {
    if (row < first) return key == 0 ? 1.0f : 0.0f;
    const auto& m = mass[row - first];
    if (key >= 1 && key <= m.size()) return m[key - 1];
    float rest = 1;
    for (float x : m) rest -= x;
    return key == 0 ? rest : 0.0f;
  };
  a.learned = [](uint32_t, uint32_t, Slot) { return 0.0f; };
  Recipe recipe;
  recipe.layers = recipe.query_heads = 1, recipe.window = a.window;
  Recorder recorder(recipe, {});
  for (TurnId t = 0; t < mass.size(); ++t) {
    leaf(kContent, t);
    TurnPlan plan;
    plan.turn = t;
    plan.cached = t == 0 ? 0 : first + t;
    plan.executed_end = first + t + 1;
    plan.answer_begin = plan.executed_end, plan.answer_len = 1;
    plan.phase.assign(plan.executed_end - plan.cached, RowPhase::prompt);
    plan.phase.back() = RowPhase::answer;
    plan.ids.assign(plan.executed_end + 1, 0);
    plan.layout = layout;
    feed_turn(recorder, plan, s.ledger, a, 1024);
    auto turn = recorder.close_turn(plan, s.ledger);
    if (!turn) FAIL(turn.error().line());
    s.turns.push_back(std::move(*turn));
  }
  return reopened(s);
}

void same(const std::string& what, double found, const OrderedJson& expected) {
  INFO(what);
  if (expected.is_null()) CHECK(std::isnan(found));
  else CHECK(found == Approx(expected.get<double>()).epsilon(1e-6).margin(1e-7));
}

void check(const std::string& name, const Case& c, const OrderedJson& expected) {
  INFO(name);
  const SessionData s = run(c);
  const TurnRecord& t = s.turns[0];
  const size_t spans = s.ledger.spans.size();
  const RowSet sets[] = {RowSet::prompt, RowSet::answer, RowSet::all, RowSet::consumer};
  for (size_t r = 0; r < 4; ++r) {
    const auto sums = turn_sums(s, t, sets[r]);
    for (size_t i = 0; i < spans; ++i) {
      const std::string at = fmt::format(" {} {}", r, i);
      same("N" + at, sums[i].n, expected["N"][r][i]);
      same("triples" + at, sums[i].triples, expected["triples"][r][i]);
      same("sink_mass" + at, sums[i].sink, expected["sink_mass"][r][i]);
      same("U" + at, sums[i].u, expected["U"][r][i]);
      for (size_t u = 0; u < 4; ++u) {
        const Value v = unit_of(sums[i], Unit(u), s.ledger[SpanId(i)].tokens, s.ledger[SpanId(i)].kind == SpanKind::sink);
        same(fmt::format("unit {}{}", u, at), v.number, expected["unit"][u][r][i]);
        if (Unit(u) == Unit::lift) CHECK(int(v.state) == expected["lift_state"][r][i].get<int>());
      }
    }
  }
  const TurnReads reads = reads_of_turn(s, t, {});
  for (size_t i = 0; i < spans; ++i) {
    same("spike", reads.spike[i], expected["spike"][i]);
    CHECK(reads.reads[i] == expected["reads"][i].get<int>());
    if (expected["spike"][i].is_null()) continue;
    CHECK(int(reads.spike_layer[i]) == expected["spike_at"][i][0].get<int>());
    CHECK(int(reads.spike_head[i]) == expected["spike_at"][i][1].get<int>());
    CHECK(int(reads.spike_row[i]) == expected["spike_at"][i][2].get<int>());
  }
  for (size_t p = 0; p < 3; ++p) {
    same("learned", t.learned_sink[p], expected["learned_sink"][p][0]);
    same("unattributed", t.unattributed[p], expected["unattributed"][p][0]);
  }
  REQUIRE(t.events.size() == expected["events"].size());
  for (size_t i = 0; i < t.events.size(); ++i) {
    const auto& e = expected["events"][i];
    CHECK(int(t.events.row[i]) == e[0].get<int>());
    CHECK(int(t.events.leaf[i]) == e[1].get<int>());
    CHECK(int(t.events.layer[i]) == e[2].get<int>());
    CHECK(int(t.events.head[i]) == e[3].get<int>());
    same("event mass", t.events.mass[i], e[4]);
  }
}

RowPhase phase_of(const OrderedJson& name) {
  return name == "prompt" ? RowPhase::prompt : name == "answer" ? RowPhase::answer : RowPhase::recompute;
}

std::vector<Row> rows_of(const OrderedJson& list) {
  std::vector<Row> out;
  for (const auto& r : list) {
    Row row{r[0], phase_of(r[1]), r[2].get<decltype(Row::weights)>(), {}};
    if (r.size() > 3) row.learned = r[3].get<decltype(Row::learned)>();
    out.push_back(row);
  }
  return out;
}

Case worked_example(RowPhase answer) {
  const std::vector<std::vector<float>> h0{{1, 0, 0, 0}, {.75f, .25f, 0, 0}, {.5f, .25f, .25f, 0}},
      h1{{1, 0, 0, 0}, {.5f, .5f, 0, 0}, {.25f, .5f, .25f, 0}};
  Case c;
  c.leaves = {{kSink, {0, 0, 1, 0}}, {kContent, {1, 1, 1, 1}}, {kContent, {2, 2, 2, 2}}};
  for (uint32_t i = 0; i < 3; ++i) c.rows.push_back({i, i == 0 ? RowPhase::prompt : answer, {{h0[i], h1[i]}}, {}});
  return c;
}

// Row i: head 0 gives `a` to key 1, head 1 `b`; the rest goes to key 0.
Row resting(uint32_t i, RowPhase phase, float a, float b) {
  std::vector<float> x(i + 1, 0), y(i + 1, 0);
  x[0] = 1 - a, y[0] = 1 - b;
  if (i >= 1) x[1] = a, y[1] = b;
  return {i, phase, {{x, y}}, {}};
}

Case resting_heads() {
  Case c;
  c.leaves = {{kSink, {0, 0, 1, 0}}, {kContent, {1, 1, 1, 1}}, {kContent, {2, 2, 42, 2}}};
  c.rows = {resting(0, RowPhase::prompt, 0, 0), resting(1, RowPhase::prompt, .5f, .5f)};
  for (uint32_t i = 2; i < 40; ++i) c.rows.push_back(resting(i, RowPhase::prompt, .25f, .0625f));
  for (uint32_t i = 40; i < 44; ++i) c.rows.push_back(resting(i, RowPhase::answer, i == 43 ? .95f : .5f, .625f));
  return c;
}

}  // namespace

TEST_CASE("the worked example of the definitions") {
  const SessionData s = run(worked_example(RowPhase::answer));
  const TurnRecord& t = s.turns[0];
  const auto answer = turn_sums(s, t, RowSet::answer), consumer = turn_sums(s, t, RowSet::consumer);
  CHECK(answer[0].n == 2.0);
  CHECK(answer[1].n == 1.5);
  CHECK(answer[2].n == 0.5);
  CHECK(answer[1].triples == 4);
  CHECK(consumer[1].n == 0.75);
  CHECK(unit_of(consumer[1], Unit::share, 1, false).number == 0.375);
  CHECK(answer[1].u == 3);
  CHECK(answer[2].u == 1);
  CHECK(unit_of(answer[1], Unit::lift, 1, false).number == Approx(1.0));
  CHECK(unit_of(answer[2], Unit::lift, 2, false).number == Approx(1.0));
  CHECK(unit_of(answer[0], Unit::lift, 1, true).state == ValueState::missing);
  CHECK(unit_of(consumer[2], Unit::share, 2, false).state == ValueState::missing);
  const TurnReads r = reads_of_turn(s, t, {});
  CHECK(r.spike[1] == 0.5f);
  CHECK(r.spike_head[1] == 1);
  CHECK(r.spike_row[1] == 2);
  CHECK(std::isnan(r.spike[2]));
  CHECK(r.reads == std::vector<int32_t>{0, 0, 0});
}

TEST_CASE("hand-sized cases of the reference data") {
  const auto path = oracle("derived/units/units.json");
  if (!path) return;
  const OrderedJson j = *parse_json(*read_file(*path), *path);
  check("D8", worked_example(RowPhase::answer), j["D8"]["expected"]);
  check("open turn", worked_example(RowPhase::prompt), j["open_turn"]["expected"]);

  Case c;
  c.leaves = {{kSink, {0, 0, 1, 0}}, {kContent, {1, 2, 2, 2}}};
  c.rows = rows_of(j["unattributed"]["rows"]);
  check("keys outside of all leaves", c, j["unattributed"]["expected"]);

  c.leaves = {{kSink, {0, 0, 1, 0}}, {kContent, {1, 1, 1, 1}}, {kContent, {2, 2, 1, 2}}};
  c.rows = rows_of(j["learned_sink"]["rows"]);
  check("learned sink", c, j["learned_sink"]["expected"]);
  c.rows = rows_of(j["idle"]["rows"]);
  check("idle", c, j["idle"]["expected"]);

  c.leaves[2].second.len = 2;
  c.rows = rows_of(j["window2"]["rows"]);
  c.window = 2;
  check("window", c, j["window2"]["expected"]);

  check("habit", resting_heads(), j["habit"]["expected"]);
  Case few = resting_heads();
  few.leaves[2].second.len = 10;
  few.rows.resize(8);
  few.rows.push_back(resting(8, RowPhase::answer, .5f, .5f));
  few.rows.push_back(resting(9, RowPhase::answer, .5f, .5f));
  check("fewer than 8 rows make no habit", few, j["habit_too_short"]["expected"]);
}

TEST_CASE("recompute rows are kept apart and make no habit") {
  Case c = resting_heads();
  for (size_t i = 2; i < 40; ++i) c.rows[i].phase = RowPhase::recompute;
  Recipe recipe;
  recipe.layers = 1, recipe.query_heads = 2, recipe.learned_sink = true;
  Recorder recorder(recipe, {});
  const SessionData s = run(c, 0, &recorder);
  CHECK(turn_sums(s, s.turns[0], RowSet::all)[1].n == Approx(.5 * 2 + .5 * 3 + .95 + .625 * 4));
  CHECK(turn_sums(s, s.turns[0], RowSet::consumer)[1].triples == 8);
  // No habit: a head that rested on the leaf in recompute rows reads it now. Bound .3: 4 + 4 events.
  CHECK(reads_of_turn(s, s.turns[0], {}).reads[1] == 8);
  CHECK(s.turns[0].rows(RowPhase::recompute) == 38);
  CHECK(recorder.habit(3)[1] == 0);  // 4 answer rows so far: fewer than 8
}

TEST_CASE("the answer joins the habit for the turns after it") {
  Recipe recipe;
  recipe.layers = 1, recipe.query_heads = 2, recipe.learned_sink = true;
  Recorder recorder(recipe, {});
  run(resting_heads(), 0, &recorder);
  const auto habit = recorder.habit(3);
  CHECK(habit[1] == Approx((38 * .25 + 3 * .5 + .95) / 42).epsilon(1e-6));
  CHECK(habit[3 + 1] == Approx((38 * .0625 + 4 * .625) / 42).epsilon(1e-6));
}

TEST_CASE("mass that does not add up is an error that names the place") {
  Case c = worked_example(RowPhase::answer);
  c.rows[2].weights[0][1][0] += .01f;
  SessionData s;
  s.header.layers = 1, s.header.query_heads = 2;
  Recipe recipe;
  recipe.layers = 1, recipe.query_heads = 2;
  Recorder recorder(recipe, {});
  TurnPlan plan;
  plan.turn = 4;
  for (const auto& [kind, e] : c.leaves) {
    Span span;
    span.id = e.leaf, span.kind = kind;
    s.ledger.spans.push_back(span);
    plan.layout.push_back(e);
  }
  plan.executed_end = 3;
  plan.phase = {RowPhase::prompt, RowPhase::answer, RowPhase::answer};
  plan.answer_begin = 2, plan.answer_len = 2;
  plan.ids.assign(4, 0);
  Attention a;
  a.layers = 1, a.heads = 2, a.window = {0};
  a.weight = [&](uint32_t l, uint32_t h, Slot row, Slot key) { return c.rows[row].weights[l][h][key]; };
  feed_turn(recorder, plan, s.ledger, a, 1);
  const auto turn = recorder.close_turn(plan, s.ledger);
  REQUIRE_FALSE(turn);
  CHECK(turn.error().code == ErrorCode::conservation);
  CHECK(turn.error().message.find("turn 5, layer 0, head 1") != std::string::npos);
  CHECK(turn.error().message.find("2 answer rows") != std::string::npos);
}

TEST_CASE("decay, ring: from the file, lambda 0, 0.5, 0.9, 1") {
  // Six turns in which one leaf has mass first and the other last; and 74 turns for a ring of 64.
  const SessionData six = one_row_turns({{1, 0}, {1, 0}, {1, 0}, {0, 1}, {0, 1}, {0, 1}});
  const Recurrence r = replay_recurrence(six, RowSet::answer, 0.5, 5);
  CHECK(r.ema[1].n == 0.21875);
  CHECK(r.ema[2].n == 1.75);
  CHECK(r.cumulative[1].n == 3);
  CHECK(r.cumulative[2].n == 3);

  std::vector<std::vector<float>> many;
  for (int t = 0; t < 74; ++t) many.push_back({float(t + 1) / 1000});
  const SessionData long_one = one_row_turns(many);
  const auto ring = ring_of(long_one, 1, RowSet::answer, 73);
  REQUIRE(ring.size() == 64);
  for (size_t i = 0; i < 64; ++i) {
    CHECK(ring[i].n == Approx((double(i) + 11) / 1000).epsilon(1e-6));
    CHECK(ring[i].triples == 1);
  }
  for (const double lambda : {0.0, 0.5, 0.9, 1.0}) {
    INFO("lambda " << lambda);
    double n = 0, triples = 0, sum = 0;
    for (int t = 0; t < 74; ++t) n = lambda * n + (t + 1) / 1000.0, triples = lambda * triples + 1, sum += (t + 1) / 1000.0;
    const Recurrence all = replay_recurrence(long_one, RowSet::answer, lambda, 73);
    CHECK(all.ema[1].n == Approx(n).epsilon(1e-6));
    CHECK(all.ema[1].triples == Approx(triples).epsilon(1e-12));
    CHECK(all.cumulative[1].n == Approx(sum).epsilon(1e-6));
    if (lambda == 0) CHECK(all.ema[1].n == ring.back().n);
    if (lambda == 1) CHECK(all.ema[1].n == all.cumulative[1].n);
  }
}
