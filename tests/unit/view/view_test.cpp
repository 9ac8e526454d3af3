// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/view/view.h"

#include "core/view/predicate.h"
#include "tests/support/catch.h"
#include "tests/support/small_session.h"

namespace spanscope {
namespace {

std::vector<SpanId> spans_of(const View& v) {
  std::vector<SpanId> out;
  for (const ViewRef& r : v.refs) out.push_back(r.span);
  return out;
}

View view_of(const SessionData& s, const std::string& predicate, Measure measure = Measure::reads, TurnId turn = kNone32) {
  ViewQuery q;
  q.predicate = predicate;
  q.settings.measure = measure;
  q.level = Level::leaf;
  q.turn = turn;
  auto v = run_view(s, q);
  INFO(predicate);
  REQUIRE(v);
  return *v;
}

// Reads of span 1 (message "a") by the only answer, put in as events.
void add_reads(SessionData& s, uint32_t n) {
  EventColumns& e = s.turns[0].events;
  for (uint32_t i = 0; i < n; ++i) {
    e.row.push_back(2), e.leaf.push_back(1), e.layer.push_back(0), e.head.push_back(uint16_t(i));
    e.mass.push_back(0.95f - 0.1f * float(i)), e.habit.push_back(0);
  }
}

TEST_CASE("cells: the worked example in every measure") {
  const SessionData s = test::small_session();
  const std::vector<SpanId> rows = {0, 1, 2};
  auto cell = [&](Measure m, RowSet set, size_t row) {
    MeasureSettings settings;
    settings.measure = m, settings.rows = set;
    return cell_table(s, rows, settings).at(row, 0);
  };
  CHECK(cell(Measure::mass, RowSet::answer, 1).number == Approx(1.5));
  CHECK(cell(Measure::share, RowSet::consumer, 1).number == Approx(0.375));
  CHECK(cell(Measure::density, RowSet::answer, 2).number == Approx(0.125 / 2));
  CHECK(cell(Measure::lift, RowSet::answer, 1).number == Approx(1.0));
  CHECK(cell(Measure::lift, RowSet::answer, 2).number == Approx(1.0));
  CHECK(cell(Measure::lift, RowSet::answer, 0).state == CellState::missing);  // a sink has no lift
  CHECK(cell(Measure::share, RowSet::consumer, 2).state == CellState::missing);  // no row lies behind b
  CHECK(cell(Measure::reads, RowSet::answer, 1).state == CellState::value);
  CHECK(cell(Measure::reads, RowSet::answer, 1).request);
  CHECK_FALSE(cell(Measure::reads, RowSet::answer, 2).request);
  const CellTable t = cell_table(s, rows, {});
  REQUIRE(t.sink_share.size() == 1);
  CHECK(t.sink_share[0] == Approx(4.0 / 6.0));
}

TEST_CASE("cells: absent, missing and zero are three things; totals are ratios of sums") {
  SessionData s = test::small_session();
  test::add_open_turn_without(s, 1);
  const std::vector<SpanId> rows = {1, 2, 4};
  MeasureSettings share;
  share.measure = Measure::share, share.rows = RowSet::all;
  const CellTable reads = cell_table(s, rows, {}), shares = cell_table(s, rows, share);
  CHECK(reads.at(0, 0).state == CellState::value);
  CHECK(reads.at(0, 0).number == 0);
  CHECK(reads.at(0, 1).state == CellState::absent);   // left the context
  CHECK(reads.at(2, 0).state == CellState::absent);   // not yet born
  CHECK(reads.at(1, 1).state == CellState::value);  // resident; a turn without answer rows has no reads: 0 (D2)
  CHECK(reads.at(1, 1).number == 0);
  CHECK(shares.at(1, 1).state == CellState::value);
  CHECK(shares.at(1, 1).number == 0);
  // b: 0.5 of 6 rows x heads in turn 1, 0 of 2 in turn 2: one ratio, not a mean of two.
  CHECK(shares.row_value[1] == Approx(0.5 / 8.0));
  // Over answer rows the open turn has none: missing, and it weighs nothing.
  share.rows = RowSet::answer;
  const CellTable answers = cell_table(s, rows, share);
  CHECK(answers.at(1, 1).state == CellState::missing);
  CHECK(answers.row_value[1] == Approx(0.125));
}

TEST_CASE("a missing value is never greater, smaller, equal or unequal; not turns that round") {
  const SessionData s = test::small_session();
  for (const char* p : {"spike > 0", "spike <= 1", "spike = 0.5", "spike != 0.5"}) {
    const auto ids = spans_of(view_of(s, p));
    CHECK(std::find(ids.begin(), ids.end(), 2u) == ids.end());
  }
  CHECK(spans_of(view_of(s, "missing(spike)")) == std::vector<SpanId>{2});
  CHECK(spans_of(view_of(s, "not spike > 0.1")) == std::vector<SpanId>{2});
  CHECK(spans_of(view_of(s, "not missing(spike) and spike >= 50 %")) == std::vector<SpanId>{1});
  CHECK(spans_of(view_of(s, "share > 0.3 and share < 0.4")) == std::vector<SpanId>{1});
  CHECK(spans_of(view_of(s, "birth > turn - 1")) == std::vector<SpanId>{1, 2});
  CHECK(spans_of(view_of(s, "birth < turn")).empty());
  CHECK(spans_of(view_of(s, "text ~ \"HELLO\"")) == std::vector<SpanId>{1});
  CHECK(spans_of(view_of(s, "name ~ \"b\" or role = user")) == std::vector<SpanId>{1, 2});
  CHECK(spans_of(view_of(s, "layer[0] > 0.3")) == std::vector<SpanId>{1});
}

TEST_CASE("refs come strongest first, smallest first for <, in context order without a comparison") {
  const SessionData s = test::small_session();
  auto mass = [&](const char* p) {
    ViewQuery q;
    q.predicate = p, q.level = Level::leaf, q.with_sinks = true, q.settings.rows = RowSet::answer;
    auto v = run_view(s, q);
    REQUIRE(v);
    return spans_of(*v);
  };
  CHECK(mass("mass >= 0") == std::vector<SpanId>{0, 1, 2});
  CHECK(mass("mass < 9") == std::vector<SpanId>{2, 1, 0});
  CHECK(mass("tokens > 0") == std::vector<SpanId>{2, 0, 1});
  CHECK(mass("spike > 0.1 or tokens > 0") == std::vector<SpanId>{0, 1, 2});  // b has no spike: last
  CHECK(mass("kind != template") == std::vector<SpanId>{0, 1, 2});
}

TEST_CASE("no stored text matches no text") {
  SessionData s = test::small_session();
  s.header.has_text = false;
  CHECK(spans_of(view_of(s, "text ~ \"\"")).empty());
  CHECK(spans_of(view_of(s, "not text ~ \"x\"")) == std::vector<SpanId>{1, 2});
}

TEST_CASE("refs: place from the turn's layout, FAULT for what left, REFUSE for the quarantined, no sinks unless asked for") {
  SessionData s = test::small_session();
  test::add_open_turn_without(s, 1);
  s.ledger.spans[2].taint = Taint::quarantined;
  const View at_first = view_of(s, "", Measure::reads, 0);
  REQUIRE(spans_of(at_first) == std::vector<SpanId>{1, 2, 4});
  CHECK(at_first.refs[0].from == 1);
  CHECK(at_first.refs[0].len == 1);
  CHECK(at_first.refs[0].verdict == Verdict::hit);
  CHECK(at_first.refs[1].verdict == Verdict::refuse);
  CHECK(at_first.refs[1].from == 2);
  CHECK(at_first.refs[1].len == 2);
  const View at_second = view_of(s, "total_reads >= 0", Measure::reads, 1);
  CHECK(at_second.refs[0].verdict == Verdict::fault);
  CHECK(at_second.refs[0].len == 0);
  CHECK(at_second.refs[0].tier == Tier::kept);
  CHECK(at_second.refs[1].from == 1);  // moved down
  CHECK(at_second.tokens == 3);
  ViewQuery q;
  q.level = Level::leaf, q.with_sinks = true, q.turn = 0;
  auto with = run_view(s, q);
  REQUIRE(with);
  CHECK(spans_of(*with).front() == 0);
  // The default turn is the last with an answer.
  q.turn = kNone32;
  CHECK(run_view(s, q)->turn == 0);
  q.turn = 7;
  auto none = run_view(s, q);
  REQUIRE_FALSE(none);
  CHECK(none.error().tag == "SPAN-TURN");
}

TEST_CASE("presets: hottest leaves the request out and says so; dead weight is a hypothesis") {
  SessionData s = test::small_session();
  add_reads(s, 3);
  ViewQuery q;
  q.preset = "hottest", q.level = Level::leaf;
  auto hottest = run_view(s, q);
  REQUIRE(hottest);
  CHECK(hottest->refs.empty());
  CHECK(hottest->caption.find("request") != std::string::npos);
  q.with_request = true;
  hottest = run_view(s, q);
  REQUIRE(hottest);
  REQUIRE(spans_of(*hottest) == std::vector<SpanId>{1});
  CHECK(hottest->refs[0].value == 3);
  CHECK(hottest->refs[0].scalar == "reads");
  q.settings.reads.theta = 0.8f;
  CHECK(run_view(s, q)->refs[0].value == 2);

  SessionData later = test::small_session();
  for (int i = 0; i < 2; ++i) test::add_open_turn_without(later, kNoSpan);
  q = {};
  q.preset = "dead-weight", q.level = Level::leaf, q.turn = 2;
  auto dead = run_view(later, q);
  REQUIRE(dead);
  CHECK(spans_of(*dead) == std::vector<SpanId>{2, 1});  // longest first; the later ones are too young
  REQUIRE(dead->findings.size() == 1);
  CHECK(dead->findings[0].tag == "SPAN-HYPOTHESIS");
  q.predicate = "role = user";
  CHECK(spans_of(*run_view(later, q)) == std::vector<SpanId>{1});
  q.preset = "coldest";
  CHECK_FALSE(run_view(later, q));
}

TEST_CASE("predicates that do not parse say where; hostile ones end") {
  const SessionData s = test::small_session();
  struct Case {
    const char* text;
    uint64_t offset;
    const char* why;
  };
  for (const Case& c : std::vector<Case>{{"reads >", 7, "expected num"},
                                         {"reads", 5, "expected > >= < <= = or !="},
                                         {"atended > 1", 0, "attended"},
                                         {"head[0.1] > 0.2", 0, "not captured"},
                                         {"expert[3] > 1", 7, "outside the model"},
                                         {"layer[0..9] > 1", 6, "layers 0..0"},
                                         {"layer[-1] > 1", 6, "expected a number"},
                                         {"text ~ \"open", 7, "no end"},
                                         {"role = ", 7, "expected a word"},
                                         {"missing(reads", 13, "expected )"},
                                         {"reads > 1e", 9, "unexpected input"},
                                         {"reads in 3..9", 6, "expected > >= < <= = or !="},
                                         {"top 0.5 by reads", 4, "expected an integer"},
                                         {"\xff\xfe", 0, "expected a column"},
                                         {"", 0, ""}}) {
    if (!*c.text) continue;
    ViewQuery q;
    q.predicate = c.text;
    auto v = run_view(s, q);
    INFO(c.text);
    REQUIRE_FALSE(v);
    CHECK(v.error().tag == "SPAN-PREDICATE");
    REQUIRE(v.error().offset);
    CHECK(*v.error().offset == c.offset);
    CHECK(v.error().message.find(c.why) != std::string::npos);
  }
  const std::string deep(100000, '('), nots = [] { std::string t; for (int i = 0; i < 30000; ++i) t += "not "; return t + "reads > 1"; }();
  std::string wide = "reads > 1";
  for (int i = 0; i < 5000; ++i) wide += " or reads > 1";
  for (const std::string& text : {deep, nots}) {
    ViewQuery q;
    q.predicate = text;
    auto v = run_view(s, q);
    REQUIRE_FALSE(v);
    CHECK(v.error().message.find("nested deeper") != std::string::npos);
  }
  CHECK(spans_of(view_of(s, wide)).empty());
  CHECK(spans_of(view_of(s, std::string("name ~ \"\0\"", 10))).empty());
}

TEST_CASE("a session without turns is an error, not an empty view") {
  SessionData s = test::small_session();
  s.turns.clear();
  auto v = run_view(s, {});
  REQUIRE_FALSE(v);
  CHECK(v.error().tag == "SPAN-NO-TURNS");
}

}  // namespace
}  // namespace spanscope
