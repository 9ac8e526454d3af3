// SPDX-License-Identifier: GPL-3.0-or-later
// The demo models look things up, and what they must look up is known. So reads, dead weight, heads and generated answers of
// a recording can be held against the truth.
#include <fmt/format.h>

#include <map>
#include <set>

#include "core/record/reads.h"
#include "tests/oracle/relay/relay_case.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {

// Turns (0-based) whose answer needs message m, by the questions.
std::map<int32_t, std::set<size_t>> needing_turns(const SessionData& s, const OrderedJson& facts) {
  std::map<int32_t, std::set<size_t>> out;
  for (const auto& q : facts["questions"]) out[q["needed"].get<int32_t>()].insert(turn_index(s, q["answer_message"]));
  return out;
}

void check_reads(const std::string& model, const std::string& path, const std::string& demo_name) {
  INFO(model << " " << path << " " << demo_name);
  const Relay r = relay(model, demo_name);
  auto backend = backend_of(r.model, path, 1);  // a tiny model: a second thread only waits
  Chat chat = chat_of(backend->model(), r.demo_text, demo_name);
  RecordRequest request;
  request.recorder.routing = true;
  const Recorded recorded = record_to_file(*backend, *chat.replay, chat.tokenizer.get(), chat.messages, request, model + demo_name + ".span");
  const SessionData& s = *recorded.session;
  CHECK(s.finished);
  CHECK(s.header.routing == (model == "relay-moe"));
  const ReadHistory history = read_history(s, {});
  size_t first = 0, questions = 0;
  for (const auto& q : r.facts["questions"]) {
    const TurnReads& reads = history.turns[turn_index(s, q["answer_message"])];
    int32_t best = -1, most = -1;
    for (int32_t m = 0; m < q["question"].get<int32_t>(); ++m) {
      const std::string role = r.messages[size_t(m)]["role"];
      if (role != "user" && role != "tool") continue;
      const int32_t n = reads.reads[message_span(s.ledger, m)];
      if (n > most) most = n, best = m;
    }
    ++questions;
    first += best == q["needed"].get<int32_t>();
  }
  CHECK(first == questions);
  CHECK(questions == r.facts["questions"].size());

  // Dead weight calls no message dead that was needed after its birth turn; how many of the dead it finds is printed.
  const TurnId last = TurnId(s.turns.size() - 1);
  std::set<int32_t> called;
  for (SpanId id : dead_weight(s, history, last, true))
    if (s.ledger[id].parent == kNoSpan && s.ledger[id].message >= 0) called.insert(s.ledger[id].message);
  size_t wrong = 0, found = 0, dead = 0, dead_user = 0, found_user = 0;
  for (const auto& m : r.facts["needed_messages"]) wrong += called.count(m.get<int32_t>());
  for (const auto& m : r.facts["dead_messages"]) {
    const int32_t message = m;
    if (s.ledger[message_span(s.ledger, message)].birth + 2 > last) continue;  // too young to be judged
    const std::string role = r.messages[size_t(message)]["role"];
    ++dead;
    found += called.count(message);
    if (role == "user" || role == "tool") ++dead_user, found_user += called.count(message);
  }
  // At every turn: a message that a later or this turn's question needs was read when it was, so it is never listed after.
  size_t early = 0;
  for (const auto& [message, turns] : needing_turns(s, r.facts))
    for (TurnId t = 0; t <= last; ++t) {
      const SpanId id = message_span(s.ledger, message);
      const size_t birth = s.ledger[id].birth;
      const bool needed_by_now = std::any_of(turns.begin(), turns.end(), [&](size_t n) { return n <= t && n > birth; });
      if (!needed_by_now) continue;
      const auto list = dead_weight(s, history, t, true);
      early += std::find(list.begin(), list.end(), id) != list.end();
    }
  const double seconds = recorded.outcome.seconds_prompt + recorded.outcome.seconds_answer;
  fmt::print("{} {} ({} path): most reads on the needed message in {} of {} questions; dead weight: {} needed called dead, {} of {} dead found ({} of {} user and tool); {} rows in {:.1f} s, file {} KiB\n",
             model, demo_name, path, first, questions, wrong, found, dead, found_user, dead_user, recorded.outcome.prompt_rows + recorded.outcome.answer_rows, seconds, s.file_bytes / 1024);
  CHECK(wrong == 0);
  CHECK(early == 0);
  CHECK(found > 0);
}

// The first token of the answer message that overlaps the asked value.
Slot value_slot(const TurnPlan& plan, const Ledger& ledger, int32_t message, const std::string& content, const std::string& value) {
  const size_t at = content.rfind(value);
  if (at == std::string::npos) FAIL("the answer does not hold " << value);
  uint64_t byte = 0;
  for (const LayoutEntry& e : plan.layout) {
    const bool mine = ledger[e.leaf].kind == SpanKind::content && ledger[ledger.message_of(e.leaf)].message == message;
    for (Slot slot = e.slot; mine && slot < e.slot + e.len; ++slot) {
      byte += plan.token_bytes[slot] - (slot == e.slot ? ledger[e.leaf].head_skip : 0);
      if (byte > at) return slot;
    }
  }
  FAIL("no token holds " << value);
  return 0;
}

void check_heads(const std::string& model, const std::string& path) {
  INFO(model << " " << path);
  const Relay r = relay(model, "demo64");
  auto backend = backend_of(r.model, path, 1);  // a tiny model: a second thread only waits
  const Recipe& recipe = backend->model().recipe;
  Chat chat = chat_of(backend->model(), r.demo_text, "demo64");
  std::map<int32_t, OrderedJson> asked;  // by answer message
  for (const auto& q : r.facts["questions"]) asked[q["answer_message"].get<int32_t>()] = q;
  Recorder recorder(recipe, {});
  auto cache = backend->new_cache(0);
  std::vector<size_t> hits(recipe.layers * recipe.query_heads, 0);
  std::vector<double> mass_on_needed(hits.size(), 0);
  while (!chat.replay->done()) {
    const TurnPlan plan = take(chat.replay->next());
    const Ledger& ledger = chat.replay->ledger();
    const auto q = asked.find(plan.message);
    const Slot row = q == asked.end() ? 0 : value_slot(plan, ledger, plan.message, r.messages[size_t(plan.message)]["content"], q->second["answer"]) - 1;
    run_turn(*backend, *cache, recorder, plan, ledger, q != asked.end(), [&](const PassView& view, const LayerRecord& layer) {
      if (q == asked.end() || !layer.row_mass || row < view.begin || row >= view.begin + layer.rows) return;
      for (uint32_t h = 0; h < layer.query_heads; ++h) {
        std::vector<double> message(size_t(plan.message) + 1, 0);
        const float* mass = layer.row_mass + (size_t(row - view.begin) * layer.query_heads + h) * (layer.leaves + 2);
        for (uint32_t s = 0; s < layer.leaves; ++s) {
          const Span& leaf = ledger[plan.layout[s].leaf];
          if (leaf.kind == SpanKind::content) message[size_t(ledger[ledger.message_of(leaf.id)].message)] += mass[s];
        }
        const int32_t needed = q->second["needed"];
        const size_t i = size_t(layer.layer) * recipe.query_heads + h;
        hits[i] += std::max_element(message.begin(), message.end()) - message.begin() == needed;
        mass_on_needed[i] += message[size_t(needed)];
      }
    });
  }
  const double n = double(asked.size());
  const auto& attention = r.eval["attention"];
  for (uint32_t l = 0; l < recipe.layers; ++l)
    for (uint32_t h = 0; h < recipe.query_heads; ++h) {
      INFO("layer " << l << ", head " << h);
      CHECK(double(hits[l * recipe.query_heads + h]) / n == Approx(attention["needed_message_is_top_per_layer_head"][l][h].get<double>()).margin(1e-4));
      CHECK(mass_on_needed[l * recipe.query_heads + h] / n == Approx(attention["mean_mass_on_needed_per_layer_head"][l][h].get<double>()).margin(1e-3));
    }
  std::string line;
  for (const auto& best : attention["best_heads"]) {
    const size_t i = best["layer"].get<size_t>() * recipe.query_heads + best["head"].get<size_t>();
    line += fmt::format(" L{}H{} {}/{}", best["layer"].get<int>(), best["head"].get<int>(), hits[i], asked.size());
  }
  fmt::print("{} ({} path), needed message first on the first-value row:{}\n", model, path, line);
}

void check_answers(const std::string& model, const std::string& path) {
  INFO(model << " " << path);
  for (const char* demo_name : {"demo12", "demo64"}) {
    const Relay r = relay(model, demo_name);
    auto backend = backend_of(r.model, path, 1);  // a tiny model: a second thread only waits
    std::map<int32_t, std::string> greedy;
    for (const auto& a : r.eval["answers"]) greedy[a["question"].get<int32_t>()] = a["greedy"];
    size_t right = 0;
    for (const auto& q : r.facts["questions"]) {
      // The turn that answers this question: assistant messages up to it.
      RecordRequest request;
      request.generate = {GenerateMode::Kind::turn, 0, 32};
      for (int32_t m = 0; m <= q["answer_message"].get<int32_t>(); ++m) request.generate.turn += r.messages[size_t(m)]["role"] == "assistant";
      Chat chat = chat_of(backend->model(), r.demo_text, demo_name);
      auto outcome = take(record_session(*backend, *chat.replay, chat.tokenizer.get(), nullptr, {}, chat.messages, request));
      REQUIRE(outcome.generated.size() == 1);
      const std::string& expected = greedy[q["question"].get<int32_t>()];
      CHECK(outcome.generated[0] == expected);
      CHECK(outcome.session->turns.size() == request.generate.turn);
      CHECK(outcome.session->turns.back().generated);
      right += outcome.generated[0] == expected;
    }
    fmt::print("{} {} ({} path): {} of {} generated answers as in eval.json\n", model, demo_name, path, right, r.facts["questions"].size());
  }
}

}  // namespace

TEST_CASE("relay: the needed message has the most reads") {
  for (const char* model : {"relay-dense", "relay-moe"})
    for (const char* demo_name : {"demo12", "demo64"}) {
      check_reads(model, "fast", demo_name);
      check_reads(model, "reference", demo_name);
    }
}
TEST_CASE("relay: the heads that look it up") {
  for (const char* model : {"relay-dense", "relay-moe"}) check_heads(model, "fast");
}
TEST_CASE("relay: generated answers") {
  for (const char* model : {"relay-dense", "relay-moe"}) check_answers(model, "fast");
}
