// SPDX-License-Identifier: GPL-3.0-or-later
// Turn by turn: the same numbers as the session read whole, bounded memory, any number of threads, damage named where it is met.
#include <atomic>
#include <random>
#include <thread>

#include "core/record/session_lazy.h"
#include "core/record/session_schema.h"
#include "tests/format/content/rich.h"
#include "tests/support/catch.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {
std::shared_ptr<const LazySession> lazy(const Bytes& bytes, uint64_t cache) {
  auto s = LazySession::open(open_bytes(bytes), cache);
  if (!s) FAIL(s.error().line());
  return *s;
}
}  // namespace

TEST_CASE("lazily read turns are those of the whole session") {
  const Scratch scratch;
  const SessionData data = rich_session(8);
  for (const bool finish : {true, false}) {
    const Bytes bytes = session_bytes(scratch, data, finish);
    const auto whole = load_session(*open_bytes(bytes));
    REQUIRE(whole);
    const auto s = lazy(bytes, 1 << 20);
    CHECK(image(s->base().header) == image((*whole)->header));
    CHECK(image(s->base().ledger, s->base().ledger.spans.size()) == image((*whole)->ledger, (*whole)->ledger.spans.size()));
    CHECK(s->base().messages.size() == (*whole)->messages.size());
    CHECK(s->base().finished == finish);
    CHECK(s->base().turns.empty());
    REQUIRE(s->turns() == 8);
    for (size_t i = 8; i-- > 0;) {  // in any order
      CHECK(s->turn_id(i) == i);
      const auto turn = s->turn(i), head = s->turn_head(i);
      REQUIRE((turn && head));
      CHECK(image(**turn) == image((*whole)->turns[i]));
      CHECK((*head)->new_text == (*whole)->turns[i].new_text);
      CHECK((*head)->layout.size() == (*whole)->turns[i].layout.size());
      CHECK((*head)->mass_qk.empty());
      CHECK(*s->turn_events(i) == (*whole)->turns[i].events.size());
      CHECK(s->turn_bytes(i) > 0);
    }
    CHECK(image(*s->closing()) == image((*whole)->closing));
    CHECK(s->turn(8).error().tag == "SPAN-TURN");
  }
}

TEST_CASE("the cache stays below its bound, and a turn that is kept is not read twice") {
  const Scratch scratch;
  const SessionData data = rich_session(20);
  const Bytes bytes = session_bytes(scratch, data);
  const uint64_t one = bytes_of(data.turns[10]);
  const auto s = lazy(bytes, 4 * one);
  for (int round = 0; round < 3; ++round)
    for (size_t i = 0; i < s->turns(); ++i) {
      REQUIRE(s->turn(i));
      CHECK(s->cached_bytes() <= 4 * one);
    }
  CHECK(s->cached_bytes() > 0);
  const auto a = s->turn(19), b = s->turn(19);
  CHECK(a->get() == b->get());
  const auto none = lazy(bytes, 0);
  CHECK(none->turn(0)->get() != none->turn(0)->get());
  CHECK(none->cached_bytes() == 0);
}

TEST_CASE("eight threads over one lazy session") {
  const Scratch scratch;
  const SessionData data = rich_session(16);
  const auto s = lazy(session_bytes(scratch, data), 3 * bytes_of(data.turns[5]));
  std::vector<std::string> expected;
  for (const TurnRecord& t : data.turns) expected.push_back(image(t));
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 300; ++i) {
        const size_t at = random() % 16;
        if (i % 3 == 0) {
          const auto head = s->turn_head(at);
          if (!head || (*head)->turn != at) ++wrong;
        } else {
          const auto turn = s->turn(at);
          if (!turn || image(**turn) != expected[at]) ++wrong;
        }
      }
    });
  for (auto& t : threads) t.join();
  CHECK(wrong == 0);
}

TEST_CASE("damage is named where it is met, and costs nothing else") {
  const Scratch scratch;
  const SessionData data = rich_session(5);
  Bytes bytes = session_bytes(scratch, data);
  const auto reader = open_bytes(bytes);
  const auto hit = std::find_if(reader->frames().begin(), reader->frames().end(), [](const FrameInfo& f) { return f.kind == "mass" && f.turn == 2; });
  bytes[hit->offset + hit->compressed_bytes / 2] ^= 1;
  {
    const auto s = lazy(bytes, 1 << 20);
    REQUIRE(s->turns() == 5);
    for (size_t i = 0; i < 5; ++i) {
      const auto turn = s->turn(i);
      CHECK(turn.ok() == (i != 2));
      if (turn) CHECK(image(**turn) == image(data.turns[i]));
      else CHECK(turn.error().tag == "SPAN-HASH");
    }
    CHECK(s->turn_head(2));  // what is good of it can still be shown
  }
  bytes.resize(bytes.size() - 1);  // walked: the frame is not there at all
  const auto s = lazy(bytes, 1 << 20);
  CHECK(s->turns() == 4);
  CHECK(has_finding(s->base().findings, "SPAN-TURN-LOST"));
  for (size_t i = 0; i < 4; ++i) CHECK(image(**s->turn(i)) == image(data.turns[s->turn_id(i)]));
}

TEST_CASE("every bit: a turn that lazy reading hands out is right") {
  const Scratch scratch;
  const SessionData data = rich_session(2);
  const Bytes whole = session_bytes(scratch, data);
  for (size_t bit = 0; bit < whole.size() * 8; bit += exhaustive() ? 1 : 53) {
    INFO("bit " << bit);
    Bytes flipped = whole;
    flipped[bit / 8] = uint8_t(flipped[bit / 8] ^ (1u << (bit % 8)));
    auto reader = SessionReader::from_bytes(flipped, "flipped");
    if (!reader) continue;
    const auto s = LazySession::open(*reader, 1 << 20);
    if (!s) continue;
    size_t right = 0;
    for (size_t i = 0; i < (*s)->turns(); ++i)
      if (const auto turn = (*s)->turn(i)) {
        REQUIRE(image(**turn) == image(data.turns[(*s)->turn_id(i)]));
        ++right;
      }
    if ((*s)->turns() < 2) REQUIRE(has_loss((*s)->base().findings));
  }
}
