// SPDX-License-Identifier: GPL-3.0-or-later
// Dead weight on the 64-turn demos against the truth: by reads (definitions D5), by mean share, by the words that question and
// message have in common. And the heads that look things up, from the session and from needle prompts.
#include <fmt/format.h>

#include <cctype>
#include <cmath>
#include <set>

#include "core/record/head_counts.h"
#include "core/record/head_criterion.h"
#include "core/record/head_probe.h"
#include "core/record/reads.h"
#include "core/record/units.h"
#include "tests/oracle/relay/relay_case.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {

std::set<std::string> words_of(const std::string& text) {
  std::set<std::string> out;
  std::string word;
  for (const char c : text + " ") {
    if (std::isalnum(static_cast<unsigned char>(c))) word += char(std::tolower(static_cast<unsigned char>(c)));
    else if (!word.empty()) out.insert(word), word.clear();
  }
  return out;
}

struct Judged {
  int32_t message;
  bool dead;       // no question ever needs it
  double share;    // cumulative, answer rows
  double overlap;  // the largest part of a later question's words that it holds
};

struct Score {
  size_t called = 0, found = 0, wrong = 0;  // messages called dead; dead ones and needed ones among them
  double precision() const { return called ? double(found) / double(called) : 0; }
  double recall(size_t dead) const { return double(found) / double(dead); }
  double f1(size_t dead) const { return called ? 2.0 * double(found) / double(called + dead) : 0; }
};

template <class Called>
Score score(const std::vector<Judged>& all, Called called) {
  Score out;
  for (const Judged& j : all)
    if (called(j)) ++out.called, (j.dead ? out.found : out.wrong) += 1;
  return out;
}

// Every threshold of a measure, low values dead: the best by F1, and the best that calls nothing needed dead.
struct Best {
  Score by_f1, safe;
};
template <class Measure>
Best best(const std::vector<Judged>& all, size_t dead, Measure measure) {
  Best out;
  for (const Judged& at : all) {
    const Score s = score(all, [&](const Judged& j) { return measure(j) <= measure(at); });
    if (s.f1(dead) > out.by_f1.f1(dead)) out.by_f1 = s;
    if (s.wrong == 0 && s.found > out.safe.found) out.safe = s;
  }
  return out;
}

using Heads = std::set<std::pair<uint32_t, uint32_t>>;
Heads first_heads(const HeadMap& map, HeadMeasure measure, size_t count) {
  Heads out;
  for (uint32_t i : top_heads(map[measure], count)) out.insert({i / map.query_heads, i % map.query_heads});
  return out;
}

void check_model(const std::string& model, const Heads& expected) {
  INFO(model);
  const Relay r = relay(model, "demo64");
  auto backend = backend_of(r.model, "fast", 1);
  Chat chat = chat_of(backend->model(), r.demo_text, "demo64");
  RecordRequest request;
  request.recorder.heads = request.recorder.tokens = true;
  const Recorded recorded = record_to_file(*backend, *chat.replay, chat.tokenizer.get(), chat.messages, request, model + "-dead.span");
  const SessionData& s = *recorded.session;
  const TurnId last = TurnId(s.turns.size() - 1);

  // Conservation from the file, at every turn, layer and head; profiles are kept as 16-bit shares.
  double worst = 0;
  for (const TurnRecord& t : s.turns) {
    const size_t spans = t.profile_spans.size(), pairs = size_t(s.header.layers) * s.header.query_heads;
    REQUIRE(t.head_mass.size() == pairs * 2 * spans);
    for (size_t i = 0; i < pairs; ++i) {
      double sum = 0;
      for (size_t p = 0; p < spans; ++p)
        if (s.ledger[t.profile_spans[p]].leaf()) sum += t.head_mass[i * 2 * spans + p];
      if (t.answer_rows()) worst = std::max(worst, std::fabs(sum / t.answer_rows() - 1));
    }
  }
  CHECK(worst <= 1e-3);

  // Who can be judged: resident, born two turns before the last, needed or dead by the facts.
  const std::set<int32_t> dead_facts = r.facts["dead_messages"].get<std::set<int32_t>>(), needed_facts = r.facts["needed_messages"].get<std::set<int32_t>>();
  const auto cumulative = replay_recurrence(s, RowSet::answer, 1.0, last).cumulative;
  std::vector<Judged> all;
  size_t dead = 0;
  for (int32_t m = 0; m < int32_t(r.messages.size()); ++m) {
    if (!dead_facts.count(m) && !needed_facts.count(m)) continue;
    const SpanId id = message_span(s.ledger, m);
    if (s.ledger[id].birth + 2 > last) continue;
    Judged j{m, dead_facts.count(m) != 0, unit_of(cumulative[id], Unit::share, s.ledger[id].tokens, false).number, 0};
    const auto words = words_of(r.messages[size_t(m)]["content"]);
    for (const auto& q : r.facts["questions"]) {
      if (q["question"].get<int32_t>() <= m) continue;
      const auto asked = words_of(r.messages[q["question"].get<size_t>()]["content"]);
      size_t common = 0;
      for (const std::string& w : asked) common += words.count(w);
      j.overlap = std::max(j.overlap, double(common) / double(asked.size()));
    }
    dead += j.dead;
    all.push_back(j);
  }
  std::set<int32_t> list;
  for (SpanId id : dead_weight(s, read_history(s, {}), last, true))
    if (s.ledger[id].parent == kNoSpan) list.insert(s.ledger[id].message);
  const Score by_reads = score(all, [&](const Judged& j) { return list.count(j.message) != 0; });
  const Best by_share = best(all, dead, [](const Judged& j) { return j.share; }), by_words = best(all, dead, [](const Judged& j) { return j.overlap; });
  fmt::print("{}: {} messages to judge, {} of them dead\n  {:<44} {:>6} {:>6} {:>13} {:>9} {:>6}\n", model, all.size(), dead, "dead weight", "called", "found", "needed called", "precision", "recall");
  const auto line = [&](const char* name, const Score& x) {
    fmt::print("  {:<44} {:>6} {:>6} {:>13} {:>9.3f} {:>6.3f}\n", name, x.called, x.found, x.wrong, x.precision(), x.recall(dead));
  };
  line("never read (D5)", by_reads);
  line("mean share, best threshold by F1", by_share.by_f1);
  line("mean share, best that calls none needed", by_share.safe);
  line("words shared with a question, best by F1", by_words.by_f1);
  line("words shared, best that calls none needed", by_words.safe);
  CHECK(all.size() == dead + needed_facts.size());
  CHECK(by_reads.wrong == 0);
  CHECK(by_reads.recall(dead) >= 0.92);
  CHECK(by_reads.found > by_share.safe.found);

  const HeadMap counted = count_heads(s);
  auto tokenizer = take(make_tokenizer(backend->model().vocabulary));
  const ProbeOutcome probe = take(probe_heads(*backend, *tokenizer, {}));
  const size_t count = expected.size();
  CHECK(first_heads(counted, HeadMeasure::session_copy, count) == expected);
  CHECK(first_heads(counted, HeadMeasure::session_reads, count) == expected);
  CHECK(first_heads(probe.map, HeadMeasure::copy, count) == expected);
  CHECK(first_heads(probe.map, HeadMeasure::reads, count) == expected);
  CHECK(counted[HeadMeasure::session_copy].source.find("largest weight") != std::string::npos);
  // Without token statistics: from events, by leaf.
  SessionData bare = s;
  for (TurnRecord& t : bare.turns) t.drop_details();
  CHECK(first_heads(count_heads(bare), HeadMeasure::session_copy, count) == expected);
  // Both sources say the same of the sink and of streaming only roughly (other rows); each is a share.
  for (const HeadMap* map : {&counted, &probe.map})
    for (HeadMeasure measure : {HeadMeasure::sink, HeadMeasure::streaming})
      for (float x : (*map)[measure].value) CHECK((x >= 0 && x <= 1.0005f));
  // The same seed asks the same.
  CHECK(take(probe_heads(*backend, *tokenizer, {})).map[HeadMeasure::copy].value == probe.map[HeadMeasure::copy].value);

  HeadCounter counter(s);
  for (const TurnRecord& t : s.turns) counter.add(t);
  const HeadCriterion c = head_criterion(counter.reads(), counter.retrieval(), &probe.map[HeadMeasure::copy], &probe.map[HeadMeasure::reads], 0, 0, 0);
  fmt::print("  heads: {}; {} heads hold half of the reads\n", c.verdict, c.heads_for_half);
}

}  // namespace

TEST_CASE("relay-dense: dead weight and retrieval heads against the truth") { check_model("relay-dense", {{1, 3}, {2, 3}}); }
TEST_CASE("relay-moe: dead weight and retrieval heads against the truth") { check_model("relay-moe", {{1, 1}, {1, 3}, {2, 1}}); }
