// SPDX-License-Identifier: GPL-3.0-or-later
// Head maps: the retrieval score's worked example, counting in a hand-made session, files that are refused by name, choosing
// heads, and how much of the reads few heads hold.
#include "core/base/json.h"
#include "core/record/head_counts.h"
#include "core/record/head_criterion.h"
#include "core/record/head_map.h"
#include "core/record/head_probe.h"
#include "core/record/head_selection.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"

using namespace spanscope;
using spanscope::test::TempDir;

namespace {

Model small_model() {
  Model model;
  model.digest = "d1";
  model.recipe.name = "small";
  model.recipe.layers = 2, model.recipe.query_heads = 4, model.recipe.kv_heads = 2;
  return model;
}

// sink {0}, document {1,2,3} = tokens 11 12 13, request {4,5} = 21 22, answer {6,7,8} = 12 13 99: rows 5, 6, 7.
SessionData small_session() {
  SessionData s;
  s.header.layers = 2, s.header.query_heads = 4, s.header.kv_heads = 2;
  s.header.model_digest = "d1";
  const auto span = [&](SpanKind kind, int32_t message, SpanId parent) {
    Span x;
    x.id = SpanId(s.ledger.spans.size()), x.kind = kind, x.message = message, x.parent = parent;
    s.ledger.spans.push_back(x);
  };
  span(SpanKind::sink, -1, kNoSpan);     // 0
  span(SpanKind::content, 0, 4);         // 1
  span(SpanKind::content, 1, 5);         // 2
  span(SpanKind::content, 2, 6);         // 3
  for (int32_t m = 0; m < 3; ++m) span(SpanKind::parent, m, kNoSpan);
  s.messages = {{"user", "", ""}, {"user", "", ""}, {"assistant", "", ""}};
  TurnRecord t;
  t.message = 2;
  t.context = 9, t.executed_end = 8, t.answer_begin = 6, t.answer_len = 3;
  t.phase = {0, 0, 0, 0, 0, 1, 1, 1};
  t.layout = {{0, 0, 1, 0}, {1, 1, 3, 1}, {2, 4, 2, 4}, {3, 6, 3, 6}};
  t.new_ids = {1, 11, 12, 13, 21, 22, 12, 13, 99};
  t.profile_spans = {0, 1, 2, 3, 4, 5, 6};
  const auto event = [&](uint32_t row, SpanId leaf, uint16_t layer, uint16_t head, float mass) {
    t.events.row.push_back(row), t.events.leaf.push_back(leaf), t.events.layer.push_back(layer), t.events.head.push_back(head);
    t.events.mass.push_back(mass), t.events.habit.push_back(0);
  };
  event(5, 1, 0, 1, 0.8f);   // predicts 12, which the document holds
  event(5, 2, 0, 2, 0.7f);   // the request does not hold 12
  event(6, 1, 0, 1, 0.25f);  // below the line
  event(6, 1, 1, 3, 0.9f);   // predicts 13
  event(7, 1, 1, 3, 0.9f);   // predicts 99, which no leaf holds: a read, no copy
  s.turns.push_back(t);
  return s;
}

}  // namespace

TEST_CASE("retrieval score: the worked example, and a repeat counts once") {
  std::vector<TokenId> ids(13, 0);
  ids[10] = 7, ids[11] = 8, ids[12] = 9;
  CHECK(copy_score({{7, 10}, {8, 11}, {5, 12}}, ids, 10, 3) == Approx(2.0 / 3));
  CHECK(copy_score({{7, 10}, {8, 11}, {5, 12}, {7, 10}}, ids, 10, 3) == Approx(2.0 / 3));
  CHECK(copy_score({{7, 11}, {8, 10}}, ids, 10, 3) == 0);  // in the needle, another token
  ids[3] = 7;
  CHECK(copy_score({{7, 3}}, ids, 10, 3) == 0);            // the token, outside the needle
}

TEST_CASE("heads of a hand-made session, from events and from token statistics") {
  SessionData s = small_session();
  HeadMap map = count_heads(s);
  const auto value = [&](HeadMeasure m, int layer, int head) { return map[m].value[size_t(layer * 4 + head)]; };
  CHECK(value(HeadMeasure::session_reads, 0, 1) == 1);
  CHECK(value(HeadMeasure::session_reads, 0, 2) == 0);  // of the request
  CHECK(value(HeadMeasure::session_reads, 1, 3) == 2);
  // W = {12, 13}
  CHECK(value(HeadMeasure::session_copy, 0, 1) == Approx(0.5));
  CHECK(value(HeadMeasure::session_copy, 0, 2) == 0);
  CHECK(value(HeadMeasure::session_copy, 1, 3) == Approx(0.5));
  CHECK(map[HeadMeasure::sink].empty());  // no head detail: not measured, not 0
  CHECK(map[HeadMeasure::streaming].empty());

  for (uint32_t layer = 0; layer < 2; ++layer) {
    TokenStatLayer stats;
    stats.layer = layer, stats.keys = 8, stats.rows = 8;
    stats.heads = {0, 1, 2, 3};
    stats.row_argmax.assign(4 * 8, 0);
    s.turns[0].token_stats.push_back(stats);
  }
  auto& argmax = s.turns[0].token_stats[1].row_argmax;
  argmax[3 * 8 + 5] = 2, argmax[3 * 8 + 6] = 3;   // head 3: both tokens
  argmax[2 * 8 + 5] = 3, argmax[2 * 8 + 6] = 3;   // head 2: one
  argmax[1 * 8 + 6] = 7;                          // head 1: the token itself, inside the answer
  map = count_heads(s);
  CHECK(value(HeadMeasure::session_copy, 1, 3) == 1);
  CHECK(value(HeadMeasure::session_copy, 1, 2) == Approx(0.5));
  CHECK(value(HeadMeasure::session_copy, 1, 1) == 0);
  CHECK(value(HeadMeasure::session_copy, 0, 1) == 0);
  CHECK(map[HeadMeasure::session_copy].source.find("largest weight") != std::string::npos);

  // Head detail: answer rows, then consumer rows, of [sink, document, request, answer, parents].
  auto& mass = s.turns[0].head_mass;
  mass.assign(8 * 2 * 7, 0.0f);
  for (size_t i = 0; i < 8; ++i) mass[i * 14 + 0] = 1.5f, mass[i * 14 + 1] = 0.6f, mass[i * 14 + 2] = 0.3f, mass[i * 14 + 3] = 0.6f, mass[i * 14 + 4] = 0.6f;
  HeadCounter counter(s, kDisplayTheta, 2);
  counter.add(s.turns[0]);
  map = counter.finish();
  CHECK(value(HeadMeasure::sink, 1, 2) == Approx(0.5));
  CHECK(value(HeadMeasure::streaming, 1, 2) == Approx((1.5 + 0.3 + 0.6) / 3));  // the request begins at 4 > 5 - 2
  CHECK(counter.retrieval()[5] == Approx(0.6));                                 // the document alone
}

TEST_CASE("head map files: there and back, and what is refused") {
  const Model model = small_model();
  HeadMap map = empty_head_map(model);
  map[HeadMeasure::copy] = {"by hand", {0.125f, 0, 0, 0.5f, 0, 0.25f, 0, 0}};
  const HeadMap back = parse_head_map(head_map_json(map), "x").value();
  CHECK(back.model_digest == "d1");
  CHECK(back[HeadMeasure::copy].value == map[HeadMeasure::copy].value);
  CHECK(back[HeadMeasure::copy].source == "by hand");
  CHECK(back[HeadMeasure::reads].empty());

  TempDir dir;
  const std::string path = dir / "deep/er/map.json";
  REQUIRE(save_head_map(map, path, false).ok());
  CHECK(save_head_map(map, path, false).error().tag == "SPAN-EXISTS");
  CHECK(load_head_map(model, path).value()->tables[0].value == map.tables[0].value);
  CHECK(!load_head_map(model, dir / "none.json").value().has_value());
  Model other = small_model();
  other.digest = "d2";
  const auto refused = load_head_map(other, path);
  REQUIRE(!refused);
  CHECK(refused.error().tag == "SPAN-HEAD-MAP");
  CHECK(refused.error().message.find("d1") != std::string::npos);
  CHECK(refused.error().message.find("d2") != std::string::npos);
  HeadMap foreign = empty_head_map(other);
  CHECK(!merge_head_map(foreign, map));

  const auto broken = [&](auto change) {
    OrderedJson json = OrderedJson::parse(head_map_json(map));
    change(json);
    auto parsed = parse_head_map(json.dump(), "x");
    REQUIRE(!parsed);
    CHECK(parsed.error().where == "x");
  };
  broken([](OrderedJson& j) { j["format"] = "else"; });
  broken([](OrderedJson& j) { j["v"] = 2; });
  broken([](OrderedJson& j) { j["layers"] = 3; });
  broken([](OrderedJson& j) { j["layers"] = -1; });
  broken([](OrderedJson& j) { j["query_heads"] = 0; });
  broken([](OrderedJson& j) { j["copy"]["value"][1].erase(0); });
  broken([](OrderedJson& j) { j["copy"]["value"][1][0] = "1"; });
  broken([](OrderedJson& j) { j["copy"] = 1; });
  CHECK(!parse_head_map("[]", "x"));
  CHECK(!parse_head_map("{", "x"));
}

TEST_CASE("DuoAttention patterns: one number a key/value head, for all query heads of its group") {
  const Recipe recipe = small_model().recipe;
  const HeadTable gates = import_duo_gates("1.0000\t0.25\r\n\n0.5  7.5e-01\n", "t.tsv", recipe).value();
  CHECK(gates.value == std::vector<float>{1, 1, 0.25f, 0.25f, 0.5f, 0.5f, 0.75f, 0.75f});
  const auto message = [&](const char* text) {
    auto r = import_duo_gates(text, "t.tsv", recipe);
    REQUIRE(!r);
    return r.error().line();
  };
  CHECK(message("1 2 3\n1 2\n").find("expected 2 key/value heads, found 3") != std::string::npos);
  CHECK(message("1 2\n").find("expected 2 layers of gates, found 1") != std::string::npos);
  CHECK(message("1 2\n1 2\n1 2\n").find("found 3") != std::string::npos);
  CHECK(message("1 2\n1 x2\n").find("t.tsv:2") != std::string::npos);
  CHECK(message("1 nan\n1 2\n").find("expected a number") != std::string::npos);
}

TEST_CASE("choosing heads: all, the map's, a list") {
  Recipe recipe = small_model().recipe;
  const auto mask = [&](const std::string& spec, const HeadMap* map = nullptr) { return choose_heads(spec, recipe, map).value().mask; };
  CHECK(mask("all").empty());
  CHECK(mask("").empty());
  CHECK(choose_heads("map", recipe, nullptr).error().tag == "SPAN-NO-HEAD-MAP");
  CHECK(mask("1.0,0.3") == std::vector<uint8_t>{0, 0, 0, 1, 1, 0, 0, 0});
  CHECK(mask("1.*") == std::vector<uint8_t>{0, 0, 0, 0, 1, 1, 1, 1});
  CHECK(mask("0..1.1..2") == std::vector<uint8_t>{0, 1, 1, 0, 0, 1, 1, 0});
  CHECK(mask("*.0") == std::vector<uint8_t>{1, 0, 0, 0, 1, 0, 0, 0});
  for (const char* bad : {"2.0", "0.4", "1", "1.", ".1", "1.0,", "1..0.1", "a.b", "-1.0", "1.1.1", "1..2.0", "99999999999.0"}) {
    INFO(bad);
    CHECK(choose_heads(bad, recipe, nullptr).error().tag == "SPAN-USAGE");
  }

  HeadMap map = empty_head_map(small_model());
  CHECK(mask("", &map).empty());  // nothing was measured
  CHECK(choose_heads("map", recipe, &map).error().tag == "SPAN-NO-HEAD-MAP");
  map[HeadMeasure::session_copy] = {"", {0, 0, 0, 0.5f, 0, 0.25f, 0, 0}};
  map[HeadMeasure::copy] = {"", {0, 0, 0, 0.5f, 0, 0.75f, 0, 0}};  // needle prompts come before recorded answers
  map[HeadMeasure::session_reads] = {"", {9, 0, 0, 0, 0, 0, 0, 0}};
  CHECK(mask("map", &map) == std::vector<uint8_t>{1, 0, 0, 0, 0, 1, 0, 0});
  CHECK(mask("", &map) == mask("map", &map));
  CHECK(choose_heads("", recipe, &map).value().sentence.find("2 of 8 heads") == 0);
  CHECK(mask("all", &map).empty());
  CHECK(head_count(270, 0.05) == 14);
  CHECK(head_count(20, 0.05) == 1);
  CHECK(top_heads(HeadTable{"", {1, 3, 3, 0}}, 4) == std::vector<uint32_t>{1, 2, 0});
}

TEST_CASE("how much of the reads few heads hold") {
  std::vector<double> reads(40, 0.5), mass(40, 1.0);  // 5 % of 40 = 2
  reads[7] = 30, reads[9] = 25, reads[11] = 6;        // others 37 x 0.5 = 18.5; together 79.5
  mass[20] = 11;
  HeadTable copy{"needles", std::vector<float>(40, 0)}, map_reads = copy;
  copy.value[7] = 0.9f, copy.value[11] = 0.8f, copy.value[12] = 0.1f;
  map_reads.value[9] = 5;
  const HeadCriterion c = head_criterion(reads, mass, &copy, &map_reads, 1000, 4000, 40);
  REQUIRE(c.shares.size() == 5);
  CHECK(c.top == 2);
  CHECK(c.shares[0].heads == std::vector<uint32_t>{7, 11});
  CHECK(c.shares[0].reads == Approx(36 / 79.5));
  CHECK(*c.shares[0].mass == Approx(2.0 / 50));
  CHECK(c.shares[1].reads == Approx(25 / 79.5));
  CHECK(c.shares[2].heads == std::vector<uint32_t>{7, 11, 9});
  CHECK(c.shares[2].reads == Approx(61 / 79.5));
  CHECK(c.shares[3].reads == Approx(55 / 79.5));
  CHECK(*c.shares[4].mass == Approx(12.0 / 50));
  CHECK(c.judged == 2);
  CHECK(c.heads_for_half == 2);
  CHECK(c.earns);
  // Without a map and without head detail: this session's own choice; the mass is not known.
  const HeadCriterion bare = head_criterion(std::vector<double>(40, 1.0), {}, nullptr, nullptr, 1000, 0, 0);
  REQUIRE(bare.shares.size() == 1);
  CHECK(!bare.mass);
  CHECK(!bare.shares[0].mass);
  CHECK(bare.shares[0].reads == Approx(0.05));
  CHECK(bare.heads_for_half == 20);
  CHECK(!bare.earns);
  CHECK(head_criterion(std::vector<double>(40, 0.0), {}, nullptr, nullptr, 0, 0, 0).verdict.find("no reads") == 0);
}
