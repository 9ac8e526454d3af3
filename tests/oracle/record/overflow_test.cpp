// SPDX-License-Identifier: GPL-3.0-or-later
// A context with a limit: what leaves, what stays and where it stands, recorded for real with the demo models.
#include <set>

#include "core/record/units.h"
#include "core/span/evicting_replay.h"
#include "tests/oracle/record/chat_case.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {

constexpr uint32_t kLimit = 500;

struct Setting {
  OverflowPolicy policy;
  bool compact;
};

std::unique_ptr<Replay> limited(const Model& model, const std::string& chat, Setting s, uint32_t limit = kLimit, uint32_t model_context = 0) {
  OverflowOptions o;
  o.policy = s.policy, o.compact = s.compact, o.limit = limit, o.model_context = model_context;
  return make_evicting_replay(chat_of(model, chat, "demo64.json").replay, o);
}

void check_turns(const SessionData& s) {
  std::set<SpanId> gone;
  size_t evictions = 0, moved = 0;
  for (size_t t = 0; t < s.turns.size(); ++t) {
    INFO("turn " << t + 1);
    const TurnRecord& turn = s.turns[t];
    CHECK(turn.context <= kLimit);
    CHECK(turn.rows(RowPhase::recompute) == 0);  // what stays keeps its keys
    evictions += !turn.evicted.empty();
    for (SpanId leaf : turn.evicted) {
      CHECK(gone.insert(leaf).second);
      CHECK(!s.ledger[leaf].pinned);
      CHECK(s.ledger[leaf].kind != SpanKind::sink);
      CHECK(s.ledger[leaf].birth < turn.turn);
    }
    CHECK(s.ledger[turn.layout.front().leaf].kind == SpanKind::sink);
    for (const LayoutEntry& e : turn.layout) {
      CHECK(!gone.contains(e.leaf));
      moved += e.position != e.slot;
    }
    // A message of which no content is there has no template there either.
    std::set<SpanId> content, wraps;
    for (const LayoutEntry& e : turn.layout) {
      const Span& span = s.ledger[e.leaf];
      if (span.kind == SpanKind::content) content.insert(s.ledger.message_of(e.leaf));
      else if (span.kind == SpanKind::template_text && span.attached_to != kNoSpan && span.birth < turn.turn) wraps.insert(span.attached_to);
    }
    for (SpanId message : wraps)
      if (std::any_of(gone.begin(), gone.end(), [&](SpanId leaf) { return s.ledger.message_of(leaf) == message && s.ledger[leaf].kind == SpanKind::content; }))
        CHECK(content.contains(message));
    const auto sums = turn_sums(s, turn, RowSet::all);
    for (SpanId leaf : gone) CHECK(!sums[leaf].resident);
  }
  CHECK(evictions > 10);
  size_t findings = 0;
  for (const Finding& f : s.findings) findings += f.tag == "SPAN-EVICTED";
  CHECK(findings == evictions);
}

}  // namespace

TEST_CASE("a context with a limit, both policies, positions moved together and kept") {
  const auto chat_path = demo("demo64.json");
  const std::string chat = take(read_file(chat_path));
  for (const char* name : {"relay-dense.gguf", "relay-moe.gguf"})
    for (const Setting setting : {Setting{OverflowPolicy::slide, true}, {OverflowPolicy::slide, false}, {OverflowPolicy::evict_coldest, true}, {OverflowPolicy::evict_coldest, false}}) {
      INFO(name << ", " << (setting.policy == OverflowPolicy::slide ? "slide" : "coldest") << (setting.compact ? ", compact" : ", kept"));
      auto backend = backend_of(demo(name), "fast", 2);
      auto replay = limited(backend->model(), chat, setting);
      const Chat plain = chat_of(backend->model(), chat, "demo64.json");
      const Recorded r = record_to_file(*backend, *replay, plain.tokenizer.get(), plain.messages, {}, "overflow.span");
      const SessionData& s = *r.session;
      REQUIRE(s.turns.size() == 64);
      check_turns(s);
      TokenPos last = 0;
      for (const LayoutEntry& e : s.turns.back().layout) last = e.position + e.len;
      CHECK((last == s.turns.back().context) == setting.compact);
      // Words are found although their tokens moved up, turn after turn: every slot is what the full conversation has there.
      for (const TurnRecord& turn : s.turns)
        for (const LayoutEntry& e : turn.layout) {
          const Span& span = s.ledger[e.leaf];
          if (span.kind != SpanKind::content) continue;
          std::string text;
          for (Slot slot = e.slot; slot < e.slot + e.len; ++slot) text += s.token_text(turn.turn, slot);
          REQUIRE(text.size() >= span.head_skip + span.tail_skip);
          REQUIRE(text.substr(span.head_skip, text.size() - span.head_skip - span.tail_skip) == s.text_of(e.leaf));
        }
      if (setting.policy != OverflowPolicy::slide) continue;
      // The oldest first: of two leaves that may go, the one before never outlives the other.
      for (const TurnRecord& turn : s.turns) {
        SpanId newest = 0;
        for (SpanId leaf : turn.evicted)
          if (s.ledger[leaf].kind == SpanKind::content) newest = std::max(newest, leaf);
        for (const LayoutEntry& e : turn.layout)
          if (!turn.evicted.empty() && s.ledger[e.leaf].kind == SpanKind::content && !s.ledger[e.leaf].pinned) CHECK(s.ledger[e.leaf].birth >= s.ledger[newest].birth);
      }
    }
}

TEST_CASE("generated answers get the room that they may need") {
  const auto chat_path = demo("demo64.json");
  auto backend = backend_of(demo("relay-dense.gguf"), "fast", 2);
  const std::string chat = take(read_file(chat_path));
  for (const bool compact : {true, false}) {
    auto replay = limited(backend->model(), chat, {OverflowPolicy::evict_coldest, compact});
    const Chat plain = chat_of(backend->model(), chat, "demo64.json");
    RecordRequest request;
    request.generate.kind = GenerateMode::Kind::all;
    request.generate.max_tokens = 40;
    const Recorded r = record_to_file(*backend, *replay, plain.tokenizer.get(), plain.messages, request, "overflow-generate.span");
    REQUIRE(r.session->turns.size() == 64);
    check_turns(*r.session);
    for (const TurnRecord& turn : r.session->turns) CHECK(turn.answer_len <= 40);
  }
}

TEST_CASE("what does not fit whatever leaves is refused with both numbers") {
  const auto chat_path = demo("demo64.json");
  const auto model = take(load_model(demo("relay-dense.gguf")));
  const std::string chat = take(read_file(chat_path));
  auto small = limited(*model, chat, {OverflowPolicy::slide, true}, 30);
  const auto refused = small->next();
  REQUIRE(!refused);
  CHECK(refused.error().tag == "SPAN-CONTEXT");
  CHECK(refused.error().message.find("the limit is 30") != std::string::npos);
  auto kept = limited(*model, chat, {OverflowPolicy::slide, false}, kLimit, 800);
  Result<TurnPlan> plan = TurnPlan();
  while (!kept->done() && plan) plan = kept->next();
  REQUIRE(!plan);
  CHECK(plan.error().message.find("the model was made for 800") != std::string::npos);
}
