// SPDX-License-Identifier: GPL-3.0-or-later
// Sessions through the file: round trip, without text, unfinished, cut anywhere, with a turn lost.
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/base/files.h"
#include "core/record/session_schema.h"
#include "core/record/units.h"
#include "tests/support/catch.h"
#include "tests/unit/record/synthetic.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {

struct Scratch {
  std::string path;
  explicit Scratch(const std::string& name)
      : path((std::filesystem::temp_directory_path() / (std::to_string(::getpid()) + "-" + name)).string()) {}
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
  }
};

SessionData recorded(uint32_t count, bool text = true) {
  const SyntheticTurns turns = synthetic_turns(count);
  const SyntheticAttention a(2, 3, uint32_t(turns.plans.back().ids.size()));
  RecorderOptions options;
  options.text = text;
  options.max_events = 9;
  Recorder recorder(a.recipe(), options);
  SessionData s;
  s.header.program_version = "0.1";
  s.header.model_name = "a \"model\"\nof two lines";
  s.header.layers = 2, s.header.query_heads = 3, s.header.window = {0, 0}, s.header.moe_layer = {0, 0};
  s.header.has_text = text;
  s.header.knobs = {{"SPANSCOPE_PASS_ROWS", "64"}};
  s.ledger = turns.ledger;
  for (uint32_t m = 0; m < 2 * count + 1; ++m) s.messages.push_back({m % 2 ? "user" : "assistant", "", "id"});
  for (const TurnPlan& plan : turns.plans) {
    feed_turn(recorder, plan, turns.ledger, a.source(), 64);
    s.turns.push_back(*recorder.close_turn(plan, turns.ledger));
  }
  return s;
}

// lost: the turn whose mass frame is left out.
void write(const SessionData& s, const std::string& path, bool finish, int lost = -1) {
  auto writer = SessionWriter::create(path, true);
  REQUIRE(writer);
  REQUIRE(write_header(**writer, s.header));
  REQUIRE(write_ledger(**writer, s.ledger, 0, s.messages, 0));
  for (const TurnRecord& t : s.turns) {
    if (int(t.turn) == lost) continue;
    REQUIRE(write_turn(**writer, t, s.header, s.ledger));
  }
  REQUIRE((*writer)->sync());
  if (finish) REQUIRE((*writer)->finish());
}

// Profiles are kept as 16-bit shares (D3).
void close(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) CHECK(b[i] == Approx(a[i]).epsilon(1e-3).margin(1e-6));
}

void same(const TurnRecord& a, const TurnRecord& b) {
  CHECK(a.turn == b.turn);
  CHECK(a.message == b.message);
  CHECK(a.context == b.context);
  CHECK(a.phase == b.phase);
  CHECK(a.query_leaves == b.query_leaves);
  CHECK(a.rows_q == b.rows_q);
  CHECK(a.mass_qk == b.mass_qk);
  CHECK(a.uniform_qk == b.uniform_qk);
  close(a.layer_mass, b.layer_mass);
  close(a.head_mass, b.head_mass);
  CHECK(a.profile_spans == b.profile_spans);
  CHECK(a.learned_sink == b.learned_sink);
  CHECK(a.events.row == b.events.row);
  CHECK(a.events.mass == b.events.mass);
  CHECK(a.events.habit == b.events.habit);
  CHECK(a.events_dropped == b.events_dropped);
  CHECK(a.dropped_most == b.dropped_most);
  CHECK(a.dropped.count == b.dropped.count);
  CHECK(a.dropped.above_display == b.dropped.above_display);
  CHECK(a.new_ids == b.new_ids);
  CHECK(a.new_text == b.new_text);
  CHECK(a.spike_row == b.spike_row);
  REQUIRE(a.layout.size() == b.layout.size());
  for (size_t i = 0; i < a.layout.size(); ++i) CHECK(std::tie(a.layout[i].leaf, a.layout[i].slot, a.layout[i].len, a.layout[i].position) == std::tie(b.layout[i].leaf, b.layout[i].slot, b.layout[i].len, b.layout[i].position));
}

std::shared_ptr<const SessionData> load(const std::string& path) {
  auto s = load_session(path);
  if (!s) FAIL(s.error().line());
  return *s;
}

std::string slots_text(uint32_t begin, uint32_t end) {
  std::string out;
  for (uint32_t s = begin; s < end; ++s) out += fmt::format("<{}>", s);
  return out;
}

}  // namespace

TEST_CASE("a session comes back from its file as it was") {
  const SessionData s = recorded(4);
  const Scratch file("round.span");
  write(s, file.path, true);
  const auto back = load(file.path);
  CHECK(back->finished);
  CHECK(back->header.model_name == s.header.model_name);
  CHECK(back->header.knobs == s.header.knobs);
  CHECK(back->messages.size() == s.messages.size());
  REQUIRE(back->turns.size() == 4);
  for (size_t t = 0; t < 4; ++t) same(back->turns[t], s.turns[t]);
  REQUIRE(back->ledger.spans.size() == s.ledger.spans.size());
  for (SpanId i = 0; i < s.ledger.spans.size(); ++i) {
    CHECK(back->ledger[i].name == s.ledger[i].name);
    CHECK(back->ledger[i].parent == s.ledger[i].parent);
    CHECK(back->ledger[i].tokens == s.ledger[i].tokens);
  }
  uint64_t dropped = 0;
  for (const TurnRecord& t : s.turns) dropped += t.events_dropped > 0;
  CHECK(dropped > 0);
  CHECK(std::count_if(back->findings.begin(), back->findings.end(), [](const Finding& f) { return f.tag == "SPAN-EVENTS-DROPPED"; }) == int64_t(dropped));
}

TEST_CASE("texts of spans and slots come from the tokens of the turn that ran them") {
  const SessionData s = recorded(3);
  for (const TurnRecord& t : s.turns)
    for (const LayoutEntry& e : t.layout) CHECK(s.text_of(e.leaf) == slots_text(e.slot, e.slot + e.len));
  CHECK(s.token_text(2, 0) == "<0>");
  CHECK(s.token_text(2, s.turns[2].context - 1) == fmt::format("<{}>", s.turns[2].context - 1));
  CHECK(s.token_text(2, s.turns[2].context).empty());
  CHECK(s.token_text(7, 0).empty());
  // A message's text is that of its content leaves.
  CHECK(s.text_of(1) == slots_text(3, 15));
  // Bytes of a border token that are not the leaf's own are left out.
  SessionData cut = s;
  cut.ledger.spans[2].head_skip = 1, cut.ledger.spans[2].tail_skip = 2;
  const std::string whole = s.text_of(2);
  CHECK(cut.text_of(2) == whole.substr(1, whole.size() - 3));
}

TEST_CASE("without text there is no text") {
  const SessionData s = recorded(2, false);
  const Scratch file("secret.span");
  write(s, file.path, true);
  const auto back = load(file.path);
  REQUIRE(back->turns.size() == 2);
  CHECK(back->turns[0].new_ids.empty());
  CHECK(back->turns[0].new_text.empty());
  CHECK(back->text_of(2).empty());
  CHECK(back->turns[1].mass_qk == s.turns[1].mass_qk);
}

TEST_CASE("an unfinished session opens, and its sums are replayed") {
  const SessionData s = recorded(4);
  const Scratch file("open.span");
  write(s, file.path, false);
  const auto back = load(file.path);
  CHECK_FALSE(back->finished);
  REQUIRE(back->turns.size() == 4);
  CHECK(back->closing.ema_n.empty());
  const Recurrence a = replay_recurrence(s, RowSet::consumer, 0.9, 3), b = replay_recurrence(*back, RowSet::consumer, 0.9, 3);
  for (SpanId i = 0; i < s.ledger.spans.size(); ++i) CHECK(a.ema[i].n == b.ema[i].n);
}

TEST_CASE("a session cut anywhere gives whole turns or one error") {
  const SessionData s = recorded(5);
  const Scratch file("whole.span"), part("part.span");
  write(s, file.path, true);
  const auto bytes = read_file(file.path);
  REQUIRE(bytes);
  size_t opened = 0, most = 0;
  for (size_t i = 0; i < 200; ++i) {
    const size_t size = bytes->size() * i / 200;
    std::ofstream(part.path, std::ios::binary | std::ios::trunc) << bytes->substr(0, size);
    const auto back = load_session(part.path);
    if (!back) {
      CHECK_FALSE(back.error().message.empty());
      continue;
    }
    ++opened;
    CHECK_FALSE((*back)->finished);
    most = std::max(most, (*back)->turns.size());
    for (size_t t = 0; t < (*back)->turns.size(); ++t) {
      CHECK((*back)->turns[t].turn == t);
      CHECK((*back)->turns[t].mass_qk == s.turns[t].mass_qk);
      CHECK((*back)->turns[t].events.mass == s.turns[t].events.mass);
    }
  }
  CHECK(opened > 100);
  CHECK(most == 5);
}

TEST_CASE("across a lost turn only what is certain is said") {
  SessionData s = recorded(4);
  const Scratch file("gap.span");
  write(s, file.path, true, 1);
  const auto back = load(file.path);
  REQUIRE(back->turns.size() == 3);
  CHECK(back->turns[1].turn == 2);
  // Turn 0's leaves stand at the same place in turn 2: their tokens are known. Turn 1's are not.
  CHECK(back->token_text(2, 4) == "<4>");
  const LayoutEntry& lost = s.turns[1].layout[s.turns[0].layout.size() + 1];
  CHECK(back->token_text(2, lost.slot).empty());
  CHECK(back->text_of(lost.leaf).empty());
  CHECK(back->token_text(2, back->turns[1].context - 1) == fmt::format("<{}>", s.turns[2].context - 1));
}
