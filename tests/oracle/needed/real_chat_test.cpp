// SPDX-License-Identifier: GPL-3.0-or-later
// One real conversation with a real model: ids, span masses of every layer and head, what the file holds of them, and the
// answer that the model generates for the open turn.
#include <fmt/format.h>

#include <map>

#include "core/file/safetensors.h"
#include "tests/oracle/record/chat_case.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {

struct Real {
  std::string model, chat_text;
  OrderedJson ref;
  Blob arrays;
};

std::optional<Real> real_case() {
  const auto model = smollm2();
  if (!model) return std::nullopt;
  const auto chat = oracle("smollm2/chat.json"), ref = oracle("smollm2/ref.json"), arrays = oracle("smollm2/ref.safetensors");
  if (!chat || !ref || !arrays) return std::nullopt;
  return Real{*model, take(read_file(*chat)), read_json(*ref), take(read_safetensors_file(*arrays))};
}

// Column of the reference: 0 = sink, 1 + m = content of message m; -1: template.
int64_t reference_column(const Ledger& ledger, SpanId leaf) {
  if (ledger[leaf].kind == SpanKind::sink) return 0;
  if (ledger[leaf].kind != SpanKind::content) return -1;
  return int64_t(ledger[ledger.message_of(leaf)].message) + 1;
}

void check_masses(const std::string& path) {
  const auto real = real_case();
  if (!real) return;
  auto backend = backend_of(real->model, path);
  const Recipe& recipe = backend->model().recipe;
  Chat chat = chat_of(backend->model(), real->chat_text, "chat.json");
  Recorder recorder(recipe, {});
  auto cache = backend->new_cache(0);
  const auto ids = take(real->arrays.get<int32_t>("ids"));
  size_t turns = 0, values = 0;
  double worst = 0, worst_layer = 0;  // per row
  while (!chat.replay->done()) {
    const TurnPlan plan = take(chat.replay->next());
    for (size_t i = 0; i < plan.ids.size(); ++i) REQUIRE(plan.ids[i] == ids[i]);
    if (plan.open) {
      CHECK(plan.ids.size() == ids.size());
      break;
    }
    ++turns;
    const Ledger& ledger = chat.replay->ledger();
    const size_t columns = take(real->arrays.get<float>("turn1.answer")).size() / recipe.layers / recipe.query_heads;
    std::map<size_t, std::vector<double>> sums;  // phase -> [layers][heads][columns]
    for (size_t p : {0, 1}) sums[p].assign(size_t(recipe.layers) * recipe.query_heads * columns, 0);
    const TurnRecord turn = run_turn(*backend, *cache, recorder, plan, ledger, false, [&](const PassView&, const LayerRecord& r) {
      for (uint32_t h = 0; h < r.query_heads; ++h)
        for (uint32_t s = 0; s < r.leaves; ++s)
          if (const int64_t c = reference_column(ledger, plan.layout[s].leaf); c >= 0)
            for (size_t p : {0, 1}) sums[p][(size_t(r.layer) * recipe.query_heads + h) * columns + size_t(c)] += r.head_mass[(size_t(h) * kPhases + p) * r.leaves + s];
    });
    for (size_t p : {0, 1}) {
      const auto ref = take(real->arrays.get<float>("turn" + std::to_string(turns) + (p ? ".answer" : ".prompt")));
      const double rows = turn.rows(RowPhase(p));
      for (size_t i = 0; i < ref.size(); ++i, ++values) worst = std::max(worst, std::fabs(sums[p][i] - ref[i]) / rows);
      if (!p) continue;
      // The same numbers over heads, as the file holds them.
      for (size_t l = 0; l < recipe.layers; ++l)
        for (size_t i = 0; i < turn.layout.size(); ++i) {
          const int64_t c = reference_column(ledger, turn.layout[i].leaf);
          if (c < 0) continue;
          double sum = 0;
          for (size_t h = 0; h < recipe.query_heads; ++h) sum += ref[(l * recipe.query_heads + h) * columns + size_t(c)];
          const double mine = turn.layer_mass[(l * 2) * turn.profile_spans.size() + i];
          worst_layer = std::max(worst_layer, std::fabs(mine - sum) / (rows * recipe.query_heads));
        }
    }
  }
  fmt::print("real chat ({} path): {} masses of {} turns, worst {:.1e} a row; over heads {:.1e}\n", path, values, turns, worst, worst_layer);
  CHECK(turns == 4);
  CHECK(worst <= 1e-3);
  CHECK(worst_layer <= 1e-3);
}

void check_generation(const std::string& path) {
  const auto real = real_case();
  if (!real) return;
  auto backend = backend_of(real->model, path);
  Chat chat = chat_of(backend->model(), real->chat_text, "chat.json");
  RecordRequest request;
  request.generate = {GenerateMode::Kind::open, 0, 64};
  uint32_t closed = 0;
  request.progress = [&](const RecordProgress& p) { closed += p.turn_closed; };
  const Recorded r = record_to_file(*backend, *chat.replay, chat.tokenizer.get(), chat.messages, request, "real-chat.span");
  REQUIRE(r.outcome.generated.size() == 1);
  CHECK(r.outcome.generated[0] + "<|im_end|>" == real->ref["greedy_text"].get<std::string>());
  const SessionData& s = *r.session;
  CHECK(closed == s.turns.size());
  const TurnRecord& turn = s.turns.back();
  const auto greedy = take(real->arrays.get<int32_t>("greedy_ids"));
  CHECK(turn.generated);
  CHECK_FALSE(turn.cut);
  REQUIRE(turn.answer_len == greedy.size());
  for (uint32_t i = 0; i < turn.answer_len; ++i) CHECK(turn.new_ids[turn.answer_begin + i - turn.executed_begin] == greedy[i]);
  CHECK(turn.answer_rows() == greedy.size());  // the last token, the end marker, is not run; row a-1 is
  CHECK(s.text_of(message_span(s.ledger, turn.message)) == r.outcome.generated[0]);
  CHECK(s.messages.size() == chat.messages.size() + 1);
  CHECK(s.messages.back().role == "assistant");
  for (size_t m = 0; m < chat.messages.size(); ++m)
    CHECK(s.text_of(message_span(s.ledger, int32_t(m))) == parse_conversation(real->chat_text, "chat")->messages[m].content);
}

}  // namespace

TEST_CASE("real chat: masses of every layer and head, reference path") { check_masses("reference"); }
TEST_CASE("real chat: masses of every layer and head, fast path") { check_masses("fast"); }
TEST_CASE("real chat: the open turn is answered as the reference does, reference path") { check_generation("reference"); }
TEST_CASE("real chat: the open turn is answered as the reference does, fast path") { check_generation("fast"); }
