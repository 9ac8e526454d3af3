// SPDX-License-Identifier: GPL-3.0-or-later
// What leaves a full context, at its borders: around a conversation made of lengths, where every token id is its own place, so
// that a plan says by itself what was kept, where it stands and whether a key could have been taken over.
#include "core/span/evicting_replay.h"

#include <algorithm>
#include <set>

#include "tests/support/catch.h"

using namespace spanscope;

namespace {

struct Question {
  uint32_t tokens;
  bool pinned = false;
};
using Turns = std::vector<std::pair<Question, uint32_t>>;  // a question, and the tokens of its answer

// One turn a pair of messages, question and answer: sink of 2 tokens, then for each question a template leaf of 1 token and a
// content leaf, then the answer's leaf. Token ids count up through the whole conversation.
class Lengths final : public Replay {
 public:
  explicit Lengths(Turns turns) : all_(std::move(turns)) {
    add(SpanKind::sink, 2, kNoSpan, false);
  }
  const Ledger& ledger() const override { return ledger_; }
  const std::vector<Finding>& findings() const override { return findings_; }
  uint32_t turns() const override { return uint32_t(all_.size()); }
  uint32_t next_index() const override { return turn_; }
  bool done() const override { return turn_ == all_.size(); }
  void drop_rest() override { all_.resize(turn_); }
  Result<TurnPlan> next() override {
    const uint32_t executed = turn_ == 0 ? 0 : uint32_t(plan_.ids.size()) - 1;
    const auto& [question, answer] = all_[turn_];
    const SpanId message = parent(question.pinned);
    add(SpanKind::template_text, 1, message, question.pinned);
    add(SpanKind::content, question.tokens, message, question.pinned);
    const uint32_t begin = uint32_t(plan_.ids.size());
    add(SpanKind::content, answer, parent(false), false);
    plan_.turn = TurnId(turn_++);
    plan_.cached = executed;
    plan_.executed_end = uint32_t(plan_.ids.size()) - 1;
    plan_.answer_begin = begin;
    plan_.answer_len = answer;
    plan_.phase.clear();
    for (uint32_t i = executed; i < plan_.executed_end; ++i) plan_.phase.push_back(i + 1 < begin ? RowPhase::prompt : RowPhase::answer);
    return plan_;
  }
  Result<TurnPlan> begin_answer(uint32_t) override { return make_error(ErrorCode::unsupported, "SPAN-TEST", "nothing is generated here"); }
  Result<TurnPlan> finish_answer(const std::vector<TokenId>&, bool) override { return make_error(ErrorCode::unsupported, "SPAN-TEST", "nothing is generated here"); }

 private:
  SpanId parent(bool pinned) {
    Span s;
    s.id = SpanId(ledger_.spans.size());
    s.kind = SpanKind::parent;
    s.birth = TurnId(turn_);
    s.pinned = pinned;
    ledger_.spans.push_back(s);
    return s.id;
  }
  void add(SpanKind kind, uint32_t tokens, SpanId message, bool pinned) {
    Span s;
    s.id = SpanId(ledger_.spans.size());
    s.kind = kind;
    s.birth = TurnId(turn_);
    s.tokens = tokens;
    s.pinned = pinned;
    (kind == SpanKind::template_text ? s.attached_to : s.parent) = message;
    ledger_.spans.push_back(s);
    const Slot slot = Slot(plan_.ids.size());
    plan_.layout.push_back({s.id, slot, tokens, slot});
    for (uint32_t i = 0; i < tokens; ++i) {
      plan_.ids.push_back(TokenId(plan_.ids.size()));
      plan_.token_bytes.push_back(1);
      plan_.text += char('a' + (plan_.ids.size() - 1) % 26);
    }
  }

  Turns all_;
  Ledger ledger_;
  std::vector<Finding> findings_;
  TurnPlan plan_;
  uint32_t turn_ = 0;
};

// Every promise of a plan that needs no knowledge of which leaves went. before: what ran in the turn before, as token ids.
void check_plan(const TurnPlan& p, const Ledger& ledger, const OverflowOptions& options, const std::vector<TokenId>& before, const std::set<SpanId>& gone) {
  CHECK(p.ids.size() <= options.limit);
  CHECK(std::is_sorted(p.ids.begin(), p.ids.end()));  // what stays keeps its order
  Slot at = 0;
  TokenPos last = 0;
  for (const LayoutEntry& e : p.layout) {  // leaves partition the context
    CHECK(e.slot == at);
    CHECK(e.len == ledger[e.leaf].tokens);
    CHECK((at == 0 || e.position >= last));
    CHECK(e.position == (options.compact ? e.slot : TokenPos(p.ids[e.slot])));
    CHECK_FALSE(gone.contains(e.leaf));
    at += e.len;
    last = e.position + e.len;
  }
  CHECK(at == p.ids.size());
  CHECK(p.token_bytes.size() == p.ids.size());
  REQUIRE(p.text.size() == p.ids.size());
  for (size_t i = 0; i < p.ids.size(); ++i) CHECK(p.text[i] == char('a' + p.ids[i] % 26));
  CHECK(p.phase.size() == p.executed_end - p.cached);
  CHECK(p.executed_end + 1 == p.ids.size());
  // Kept slots ascend, are apart, were there, and hold the same tokens.
  std::vector<TokenId> kept;
  if (p.kept.empty()) kept.assign(before.begin(), before.begin() + std::min<size_t>(p.cached, before.size()));
  for (size_t i = 0; i < p.kept.size(); ++i) {
    CHECK(p.kept[i].begin < p.kept[i].end);
    if (i) CHECK(p.kept[i].begin > p.kept[i - 1].end);  // else they would be one
    REQUIRE(p.kept[i].end <= before.size());
    kept.insert(kept.end(), before.begin() + p.kept[i].begin, before.begin() + p.kept[i].end);
  }
  CHECK(kept == std::vector<TokenId>(p.ids.begin(), p.ids.begin() + p.cached));
}

struct Run {
  std::vector<TurnPlan> plans;
  std::vector<std::vector<SpanId>> evicted;
  std::string error;  // of the turn that did not fit
};
Run run(Turns turns, OverflowOptions options, WarmthFunction warmth = {}) {
  auto replay = make_evicting_replay(std::make_unique<Lengths>(std::move(turns)), options);
  if (warmth) replay->set_warmth(warmth);
  Run out;
  std::vector<TokenId> before;
  std::set<SpanId> gone;
  while (!replay->done()) {
    auto plan = replay->next();
    if (!plan) {
      out.error = plan.error().line();
      break;
    }
    for (SpanId leaf : plan->evicted) {
      CHECK(gone.insert(leaf).second);  // for good, once
      CHECK_FALSE(replay->ledger()[leaf].pinned);
      CHECK(replay->ledger()[leaf].kind != SpanKind::sink);
    }
    check_plan(*plan, replay->ledger(), options, before, gone);
    before.assign(plan->ids.begin(), plan->ids.begin() + plan->executed_end);
    out.evicted.push_back(plan->evicted);
    out.plans.push_back(std::move(*plan));
  }
  return out;
}

// Ids of Lengths: 0 sink; turn t: 1 + 5 t message, + 1 template, + 2 question, + 3 message, + 4 answer.
SpanId template_of(uint32_t t) { return SpanId(1 + 5 * t + 1); }
SpanId question(uint32_t t) { return SpanId(1 + 5 * t + 2); }
SpanId answer(uint32_t t) { return SpanId(1 + 5 * t + 4); }

}  // namespace

TEST_CASE("what fits exactly stays, one token more takes the oldest with its template") {
  const Turns turns = {{{10}, 5}, {{10}, 5}};  // 2 + 16 + 16
  for (const bool compact : {true, false}) {
    const Run all = run(turns, {OverflowPolicy::slide, compact, 34, 0});
    REQUIRE(all.plans.size() == 2);
    CHECK(all.evicted[1].empty());
    CHECK(all.plans[1].kept.empty());
    CHECK(all.plans[1].ids.size() == 34);
    const Run less = run(turns, {OverflowPolicy::slide, compact, 33, 0});
    REQUIRE(less.plans.size() == 2);
    CHECK(less.evicted[1] == std::vector<SpanId>{question(0), template_of(0)});
    CHECK(less.plans[1].ids.size() == 34 - 11);
    CHECK(less.plans[1].kept.size() == 2);  // the sink, then the answer without its last token
  }
}

TEST_CASE("a turn that does not fit whatever goes is an error with both numbers") {
  CHECK(run({{{10}, 5}}, {OverflowPolicy::slide, true, 17, 0}).error.find("18 tokens") != std::string::npos);
  CHECK(run({{{10}, 5}}, {OverflowPolicy::slide, true, 17, 0}).error.find("the limit is 17") != std::string::npos);
  CHECK(run({{{10}, 5}}, {OverflowPolicy::slide, true, 18, 0}).error.empty());
  CHECK_FALSE(run({{{1}, 1}}, {OverflowPolicy::slide, true, 0, 0}).error.empty());  // no room at all
  // The second turn is larger than the room even when everything else has gone.
  const Run large = run({{{10}, 5}, {{40}, 5}}, {OverflowPolicy::slide, true, 40, 0});
  CHECK(large.plans.size() == 1);
  CHECK(large.error.find("turn 2") != std::string::npos);
  CHECK(large.error.find("SPAN-CONTEXT") != std::string::npos);
}

TEST_CASE("pinned leaves and the turn's own never go") {
  const Turns turns = {{{10, true}, 5}, {{10}, 5}, {{10}, 5}};
  const Run fits = run(turns, {OverflowPolicy::slide, true, 40, 0});  // 50 in all
  REQUIRE(fits.plans.size() == 3);
  CHECK(fits.evicted[2] == std::vector<SpanId>{answer(0), question(1), template_of(1)});
  // All pinned: nothing may go, and that is said.
  const Run pinned = run({{{10, true}, 5}, {{10, true}, 5}}, {OverflowPolicy::slide, true, 28, 0});
  CHECK(pinned.plans.size() == 1);
  // Not even the answer just given: its last token has not run yet, so it is not in the context as a whole.
  CHECK(pinned.error.find("34 tokens") != std::string::npos);
}

TEST_CASE("the coldest go first, young ones last, equals by place") {
  const Turns turns = {{{8}, 4}, {{8}, 4}, {{8}, 4}, {{8}, 4}};  // 2 + 13 a turn
  const auto warmth = [] {
    std::vector<Warmth> w(40);
    w[size_t(question(0))] = {5, 9};
    w[size_t(answer(0))] = {1, 9};
    w[size_t(question(1))] = {1, 3};
    w[size_t(answer(1))] = {1, 3};
    return w;
  };
  // The fourth turn (index 3): leaves of turns 0 and 1 are old, those of 2 young although they have no mass at all.
  const OverflowOptions cold{OverflowPolicy::evict_coldest, true, 42, 0};
  const Run one = run(turns, cold, warmth);  // 54 in all
  REQUIRE(one.plans.size() == 4);
  CHECK(one.evicted[3] == std::vector<SpanId>{question(1), template_of(1), answer(1)});
  const Run more = run(turns, {OverflowPolicy::evict_coldest, true, 41, 0}, warmth);
  CHECK(more.evicted[3] == std::vector<SpanId>{question(1), template_of(1), answer(1)});
  const Run most = run(turns, {OverflowPolicy::evict_coldest, true, 29, 0}, warmth);
  REQUIRE(most.plans.size() == 4);
  // The third turn already had to give (41 > 29); without enough warmth known it still goes by the same order.
  std::set<SpanId> all;
  for (const auto& gone : most.evicted) all.insert(gone.begin(), gone.end());
  CHECK(all.contains(question(1)));
  CHECK_FALSE(all.contains(question(3)));
  // Without anybody to ask, the oldest go.
  const Run unasked = run(turns, cold);
  CHECK(unasked.evicted[3].front() == question(0));
}

TEST_CASE("a key is taken over only where every token before it was there too") {
  // What leaves is in the middle: the sink and the pinned question stay a prefix, what follows is kept too, at other slots.
  const Run r = run({{{6, true}, 3}, {{6}, 3}, {{6}, 3}, {{6}, 3}}, {OverflowPolicy::slide, true, 32, 0});
  REQUIRE(r.plans.size() == 4);
  CHECK(r.plans[3].ids.size() <= 32);
  for (const TurnPlan& p : r.plans) CHECK(std::count(p.phase.begin(), p.phase.end(), RowPhase::recompute) == 0);
}

TEST_CASE("positions that are kept only grow, and a model that has no more says so") {
  const Turns turns(8, {{10}, 5});
  const Run kept = run(turns, {OverflowPolicy::slide, false, 50, 100});
  CHECK(kept.plans.size() == 6);  // 2 + 16 * 6 = 98 positions; the seventh turn would reach 114
  CHECK(kept.error.find("--evict-positions") != std::string::npos);
  CHECK(kept.error.find("114") != std::string::npos);
  CHECK(run(turns, {OverflowPolicy::slide, true, 50, 100}).error.empty());
}

TEST_CASE("any lengths, any limit: every plan keeps its promises") {
  uint64_t state = 9;
  const auto random = [&](uint32_t below) { return uint32_t((state = state * 6364136223846793005u + 1442695040888963407u) >> 33) % below; };
  uint32_t evictions = 0, full = 0;
  for (uint32_t round = 0; round < 400; ++round) {
    Turns turns;
    for (uint32_t t = 0, n = 2 + random(9); t < n; ++t) turns.push_back({{1 + random(20), random(6) == 0}, 1 + random(9)});
    const OverflowOptions options{random(2) ? OverflowPolicy::slide : OverflowPolicy::evict_coldest, random(2) == 0, 20 + random(90), 0};
    const uint64_t seed = state;
    const Run r = run(turns, options, [&, seed] {
      std::vector<Warmth> w(64);
      for (size_t i = 0; i < w.size(); ++i) w[i] = {double((seed >> (i % 40)) % 7), double(i % 3)};
      return w;
    });
    for (const auto& gone : r.evicted) evictions += uint32_t(gone.size());
    full += !r.error.empty();
  }
  CHECK(evictions > 500);
  CHECK(full > 10);
}
