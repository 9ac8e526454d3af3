// SPDX-License-Identifier: GPL-3.0-or-later
// Everything a recording derives, from the reference attention of five families (windows, a learned sink, nested parents),
// at three pass sizes.
#include "core/record/recorder.h"
#include "core/span/replay.h"
#include "tests/oracle/record/derived_check.h"
#include "tests/unit/record/attention_feed.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {

struct Given {
  Attention attention;
  std::vector<float> weights, learned;
  uint32_t n = 0;
};

std::shared_ptr<Given> attention_of(const Derived& d) {
  const auto path = oracle("derived/" + d.family + "/attention.safetensors");
  if (!path) return nullptr;
  auto blob = read_safetensors_file(*path);
  if (!blob) FAIL(blob.error().line());
  auto g = std::make_shared<Given>();
  g->weights = *blob->get<float>("attention");
  g->learned = *blob->get<float>("learned_sink");
  Attention& a = g->attention;
  a.layers = d.spans["layers"];
  a.heads = d.spans["query_heads"];
  g->n = d.spans["executed_rows"];
  for (const auto& w : d.spans["windows"]) a.window.push_back(w.is_null() ? 0 : w.get<uint32_t>());
  Given* raw = g.get();
  a.weight = [raw](uint32_t l, uint32_t h, Slot row, Slot key) {
    return raw->weights[((size_t(l) * raw->attention.heads + h) * raw->n + row) * raw->n + key];
  };
  a.learned = [raw](uint32_t l, uint32_t h, Slot row) { return raw->learned[(size_t(l) * raw->attention.heads + h) * raw->n + row]; };
  return g;
}

SessionHeader header_for(const Attention& a) {
  SessionHeader h;
  h.layers = a.layers, h.query_heads = a.heads;
  h.window = a.window;
  h.moe_layer.assign(a.layers, 0);
  return h;
}

void check_family(const std::string& family, uint32_t pass_rows) {
  INFO(family << ", passes of " << pass_rows);
  const auto d = load_derived(family);
  if (!d) return;
  const auto given = attention_of(*d);
  REQUIRE(given);
  const Attention& a = given->attention;
  auto replay = make_ids_replay("", d->spans_json, family);
  if (!replay) FAIL(replay.error().line());
  Recipe recipe;
  recipe.layers = a.layers, recipe.query_heads = a.heads;
  recipe.window = a.window;
  recipe.learned_sink = family == "gpt-oss";
  Recorder recorder(recipe, {});
  SessionData session;
  session.header = header_for(a);
  Comparison habits;
  while (!(*replay)->done()) {
    auto plan = (*replay)->next();
    if (!plan) FAIL(plan.error().line());
    const std::string t = "t0" + std::to_string(plan->turn + 1) + ".";
    const auto habit = d->f64(t + "habit");
    const size_t spans = (*replay)->ledger().spans.size();
    feed_turn(recorder, *plan, (*replay)->ledger(), a, pass_rows, [&](const RecordPlan& p, Slot begin) {
      const bool answers = p.row_phase[0] == RowPhase::answer;
      CHECK(p.habit.empty() != answers);
      CHECK(begin + p.row_phase.size() <= plan->executed_end);
      if (!answers) return;
      for (size_t pair = 0; pair < size_t(a.layers) * a.heads; ++pair)
        for (size_t k = 0; k < p.leaves.size(); ++k)
          habits.value(at("habit", pair, k), p.habit[pair * p.leaves.size() + k], habit[pair * spans + plan->layout[k].leaf]);
    });
    auto turn = recorder.close_turn(*plan, (*replay)->ledger());
    if (!turn) FAIL(turn.error().line());
    session.turns.push_back(std::move(*turn));
    session.ledger = (*replay)->ledger();
  }
  habits.finish(family + " habit");
  check_session(session, *d, false);
}

}  // namespace

TEST_CASE("what a recording derives equals the reference") {
  for (const char* family : {"llama-gqa", "mixtral", "mistral", "gpt-oss", "gemma3-text"}) {
    if (!have_full_oracles() && std::string(family) != "llama-gqa" && std::string(family) != "mixtral") continue;
    for (uint32_t rows : {1u, 3u, 1024u}) check_family(family, rows);
  }
}
