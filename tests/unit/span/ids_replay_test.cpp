// SPDX-License-Identifier: GPL-3.0-or-later
// Ids and spans from a file: good ones, and one clear error for each way of being wrong.
#include <functional>

#include "core/base/files.h"
#include "core/base/json.h"
#include "core/span/replay.h"
#include "tests/support/oracles.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {

OrderedJson small() {
  return OrderedJson::parse(R"({
    "tokens": [5, 6, 7, 8, 9, 10],
    "spans": [{"id": 0, "kind": "sink", "role": "sink", "name": "sink", "parent": null, "attached_to": null, "tokens": 1, "birth": 1, "pinned": false, "taint": "trusted"},
              {"id": 1, "kind": "parent", "role": "user", "name": "q", "tokens": 2, "birth": 1},
              {"id": 2, "kind": "content", "role": "user", "name": "q#0", "parent": 1, "tokens": 2, "birth": 1},
              {"id": 3, "kind": "content", "role": "assistant", "name": "a#0", "tokens": 2, "birth": 1},
              {"id": 4, "kind": "template", "role": "template", "name": "end", "attached_to": 1, "tokens": 1, "birth": 2}],
    "turns": [{"turn": 1, "context": 5, "executed": [0, 4], "answer_tokens": [3, 2], "prompt_rows": [0, 1], "answer_rows": [2, 3], "recompute_rows": [],
               "layout": [{"span": 0, "slot": 0, "len": 1, "pos": 0}, {"span": 2, "slot": 1, "len": 2, "pos": 1}, {"span": 3, "slot": 3, "len": 2, "pos": 3}]},
              {"turn": 2, "context": 6, "executed": [3, 6], "answer_tokens": null, "prompt_rows": [4, 5], "answer_rows": [], "recompute_rows": [3],
               "layout": [{"span": 0, "slot": 0, "len": 1}, {"span": 2, "slot": 1, "len": 2}, {"span": 3, "slot": 3, "len": 2}, {"span": 4, "slot": 5, "len": 1}]}]})");
}

void bad(const std::function<void(OrderedJson&)>& change, const std::string& word, ReplayOptions options = {}) {
  OrderedJson json = small();
  change(json);
  auto out = make_ids_replay("", json.dump(), "spans.json", options);
  REQUIRE_FALSE(out);
  INFO(out.error().line());
  CHECK(out.error().line().find(word) != std::string::npos);
}

}  // namespace

TEST_CASE("ids and spans: two turns") {
  auto out = make_ids_replay("", small().dump(), "spans.json");
  if (!out) FAIL(out.error().line());
  Replay& replay = **out;
  CHECK(replay.turns() == 2);
  auto a = replay.next();
  REQUIRE(a);
  CHECK(a->ids == std::vector<TokenId>{5, 6, 7, 8, 9});
  CHECK(a->answer_begin == 3);
  CHECK_FALSE(a->open);
  CHECK_FALSE(replay.begin_answer(3));
  auto b = replay.next();
  REQUIRE(b);
  CHECK(b->open);
  CHECK(b->phase == std::vector<RowPhase>{RowPhase::recompute, RowPhase::prompt, RowPhase::prompt});
  CHECK(replay.done());
  CHECK_FALSE(replay.next());
  const Ledger& ledger = replay.ledger();
  CHECK(ledger.message_of(2) == 1);
  CHECK(ledger.message_of(4) == 1);
  CHECK(ledger.message_of(0) == kNoSpan);
  CHECK(ledger.message_of(99) == kNoSpan);
  // Ids apart, as a list or in an object.
  for (const char* ids : {"[5,6,7,8,9,10]", "{\"ids\":[5,6,7,8,9,10]}"}) CHECK(make_ids_replay(ids, small().dump(), "spans.json"));
}

TEST_CASE("ids and spans: errors name the field") {
  bad([](OrderedJson& j) { j.erase("tokens"); }, "tokens");
  bad([](OrderedJson& j) { j["tokens"][2] = -1; }, "-1");
  bad([](OrderedJson& j) { j["tokens"] = OrderedJson::array(); }, "empty");
  bad([](OrderedJson& j) { j.erase("spans"); }, "spans");
  bad([](OrderedJson& j) { j["turns"] = OrderedJson::array(); }, "turns");
  bad([](OrderedJson& j) { j["spans"][2]["id"] = 7; }, "spans[2].id");
  bad([](OrderedJson& j) { j["spans"][2]["kind"] = "word"; }, "word");
  bad([](OrderedJson& j) { j["spans"][2]["parent"] = 77; }, "spans[2].parent");
  bad([](OrderedJson& j) { j["spans"][2]["parent"] = 3; }, "is a leaf");
  bad([](OrderedJson& j) { j["spans"][1]["parent"] = 1; }, "hold itself");
  bad([](OrderedJson& j) { j["spans"][2]["taint"] = "dirty"; }, "dirty");
  bad([](OrderedJson& j) { j["spans"][2]["birth"] = 0; }, "count from 1");
  bad([](OrderedJson& j) { j["turns"][0]["context"] = 99; }, "turns[0].context");
  bad([](OrderedJson& j) { j["turns"][0]["context"] = 1e300; }, "turns[0].context");
  bad([](OrderedJson& j) { j["turns"][0]["executed"] = {3, 1}; }, "executed");
  bad([](OrderedJson& j) { j["turns"][1]["executed"] = {5, 6}; }, "were run before");
  bad([](OrderedJson& j) { j["turns"][0]["answer_tokens"] = {3, 9}; }, "answer_tokens");
  bad([](OrderedJson& j) { j["turns"][0]["prompt_rows"] = {0}; }, "slot 1");
  bad([](OrderedJson& j) { j["turns"][0]["prompt_rows"] = {0, 1, 2}; }, "twice");
  bad([](OrderedJson& j) { j["turns"][0]["answer_rows"] = {3}; j["turns"][0]["prompt_rows"] = {0, 1, 2}; }, "does not agree");
  bad([](OrderedJson& j) { j["turns"][0]["layout"][1]["len"] = 1; }, "without holes");
  bad([](OrderedJson& j) { j["turns"][0]["layout"][2]["len"] = 9; }, "in all");
  bad([](OrderedJson& j) { j["turns"][0]["layout"][1]["span"] = 1; }, "parent");
  bad([](OrderedJson& j) { j["turns"][0]["layout"][1]["span"] = 50; }, "layout[1].span");
  bad([](OrderedJson& j) { j["turns"][0]["layout"][1]["pos"] = 9; }, "positions ascend");
  bad([](OrderedJson& j) { j["turns"][0]["layout"][1]["span"] = 0; }, "twice");
  ReplayOptions options;
  options.context = 5;
  bad([](OrderedJson&) {}, "turn 2 needs 6 tokens of context, the limit is 5", options);
  CHECK_FALSE(make_ids_replay("", "[]", "x"));
  CHECK_FALSE(make_ids_replay("", "{", "x"));
  CHECK_FALSE(make_ids_replay("", "", "x"));
  CHECK_FALSE(make_ids_replay("{}", small().dump(), "x"));
}

TEST_CASE("ids and spans: circles of parents end") {
  bad([](OrderedJson& j) {
    j["spans"][1]["parent"] = 5;
    j["spans"].push_back({{"id", 5}, {"kind", "parent"}, {"tokens", 0}, {"parent", 1}});
  }, "circle");
  Ledger ledger;
  ledger.spans.resize(3);
  ledger.spans[0].parent = 1;
  ledger.spans[1].parent = 2;
  ledger.spans[2].parent = 1;
  CHECK(ledger.ancestors(0).size() == 2);
  ledger.spans[2].parent = 77;
  CHECK(ledger.ancestors(0) == std::vector<SpanId>{1, 2});
}

TEST_CASE("ids and spans: a file cut anywhere is an error, never a crash") {
  const auto path = oracle("derived/mixtral/spans.json");
  if (!path) return;
  const auto text = read_file(*path);
  REQUIRE(text);
  for (size_t cut = 0; cut + 2 < text->size(); cut += 97) CHECK_FALSE(make_ids_replay("", text->substr(0, cut), "cut"));
}
