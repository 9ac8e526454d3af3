// SPDX-License-Identifier: GPL-3.0-or-later
// A reader beside a writer: whole turns only, in order, the same numbers; a writer that is killed, replaced, cut short.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <thread>

#include "core/record/session_follow.h"
#include "core/record/session_schema.h"
#include "tests/format/content/rich.h"
#include "tests/support/catch.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {

FollowStep poll(SessionFollower& follower) {
  auto step = follower.poll();
  if (!step) FAIL(step.error().line());
  return *step;
}

void check_snapshot(const SessionFollower& follower, const SessionData& data, size_t turns) {
  const auto s = follower.snapshot();
  REQUIRE(s);
  REQUIRE(s->turns.size() == turns);
  REQUIRE(image(s->header).size() > 0);
  for (size_t t = 0; t < turns; ++t) REQUIRE(image(s->turns[t]) == image(data.turns[t]));
  for (const TurnRecord& t : s->turns)
    for (const LayoutEntry& e : t.layout) REQUIRE(e.leaf < s->ledger.spans.size());
}

}  // namespace

TEST_CASE("byte by byte: a turn appears when its last byte has come, and never a part of it") {
  const Scratch scratch;
  const SessionData data = rich_session(3);
  const Bytes whole = session_bytes(scratch, data);
  const auto reader = open_bytes(whole);
  std::vector<uint64_t> ends;  // of turns
  for (const FrameInfo& f : reader->frames())
    if (f.kind == "turn_end") ends.push_back(f.offset + f.compressed_bytes);
  const std::string path = scratch.file("grows.span");
  write_bytes(path, {});
  auto opened = SessionFollower::open(path);
  REQUIRE(opened);
  SessionFollower& follower = **opened;
  CHECK(!poll(follower).grew);
  CHECK(!follower.snapshot());
  std::FILE* out = std::fopen(path.c_str(), "ab");
  REQUIRE(out);
  size_t closed = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    std::fputc(whole[i], out);
    std::fflush(out);
    const FollowStep step = poll(follower);
    const size_t expected = size_t(std::count_if(ends.begin(), ends.end(), [&](uint64_t e) { return e <= i + 1; }));
    REQUIRE(step.turns_closed == expected - closed);
    closed = expected;
    REQUIRE(follower.closed_turns() == closed);
    REQUIRE(follower.finished() == (i + 1 == whole.size()));
    if (step.turns_closed) check_snapshot(follower, data, closed);
  }
  std::fclose(out);
  const auto s = follower.snapshot();
  CHECK(s->finished);
  CHECK(image(s->closing) == image(data.closing));
  CHECK(!has_loss(s->findings));
  CHECK(!follower.being_written());
}

TEST_CASE("a follower in another thread sees every turn of a running writer once") {
  const Scratch scratch;
  const SessionData data = rich_session(24);
  const std::string path = scratch.file("runs.span");
  auto writer = SessionWriter::create(path, false);
  REQUIRE(writer);
  std::atomic<bool> done = false, written = true;
  std::thread recorder([&] {
    auto must = [&](const Status& status) { written = written && status.ok(); };
    must(write_header(**writer, data.header));
    for (uint32_t t = 0; t < data.turns.size(); ++t) {
      const size_t first = t == 0 ? 0 : 3 + t;
      Ledger ledger;
      ledger.spans.assign(data.ledger.spans.begin(), data.ledger.spans.begin() + ptrdiff_t(4 + t));
      must(write_ledger(**writer, ledger, first, {data.messages.begin(), data.messages.begin() + ptrdiff_t(2 + t)}, t == 0 ? 0 : 1 + t));
      must(write_turn(**writer, data.turns[t], data.header, data.ledger));
      must((*writer)->sync());
      std::this_thread::sleep_for(std::chrono::milliseconds(t % 4));
    }
    must(write_closing(**writer, data.closing));
    must((*writer)->finish());
    done = true;
  });
  auto follower = SessionFollower::open(path);
  REQUIRE(follower);
  uint32_t seen = 0, steps = 0;
  bool ended = false, was_written = false;
  const auto start = std::chrono::steady_clock::now();
  while (!ended && std::chrono::steady_clock::now() - start < std::chrono::seconds(60)) {
    const bool last = done;
    const FollowStep step = poll(**follower);
    was_written = was_written || (*follower)->being_written();
    seen += step.turns_closed;
    steps += step.turns_closed > 0;
    if (step.turns_closed) check_snapshot(**follower, data, seen);
    ended = last && (*follower)->finished();
  }
  recorder.join();
  CHECK(written);
  CHECK(ended);
  CHECK(seen == data.turns.size());
  CHECK(steps > 3);
  CHECK(was_written);
  CHECK(!(*follower)->being_written());
  CHECK(image((*follower)->snapshot()->closing) == image(data.closing));
}

TEST_CASE("a writer that is killed at random moments: every closed turn, then no more, and the follower knows") {
  std::mt19937 random(7);
  const SessionData data = rich_session(60);
  for (int round = 0; round < (exhaustive() ? 100 : 12); ++round) {
    const Scratch scratch;
    const std::string path = scratch.file("killed.span");
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      ::close(ends[0]);
      auto writer = SessionWriter::create(path, false);
      if (!writer || !write_header(**writer, data.header) || ::write(ends[1], "h", 1) != 1) ::_exit(1);
      for (uint32_t t = 0; t < data.turns.size(); ++t) {
        Ledger ledger;
        ledger.spans.assign(data.ledger.spans.begin(), data.ledger.spans.begin() + ptrdiff_t(4 + t));
        if (!write_ledger(**writer, ledger, t == 0 ? 0 : 3 + t, {data.messages.begin(), data.messages.begin() + ptrdiff_t(2 + t)}, t == 0 ? 0 : 1 + t) ||
            !write_turn(**writer, data.turns[t], data.header, data.ledger) || !(*writer)->sync() || ::write(ends[1], "t", 1) != 1)
          ::_exit(1);
      }
      for (;;) ::pause();
    }
    ::close(ends[1]);
    char byte = 0;
    REQUIRE(::read(ends[0], &byte, 1) == 1);
    auto follower = SessionFollower::open(path);
    REQUIRE(follower);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 30000));
    poll(**follower);
    CHECK((*follower)->being_written());
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    uint32_t synced = 0;
    while (::read(ends[0], &byte, 1) == 1) ++synced;
    ::close(ends[0]);
    while (poll(**follower).grew) {}
    INFO("round " << round << ", " << synced << " turns were on disk");
    CHECK(!(*follower)->being_written());
    CHECK(!(*follower)->finished());
    REQUIRE((*follower)->closed_turns() >= synced);
    check_snapshot(**follower, data, (*follower)->closed_turns());
    const auto opened = load_session(path);
    REQUIRE(opened);
    CHECK((*opened)->turns.size() == (*follower)->closed_turns());
  }
}

TEST_CASE("damage, a foreign file, one that shrinks, one that is replaced") {
  const Scratch scratch;
  const SessionData data = rich_session(3);
  const Bytes whole = session_bytes(scratch, data);
  const std::string path = scratch.file("odd.span");
  SECTION("a damaged frame is passed over and named") {
    Bytes bytes = whole;
    const auto reader = open_bytes(whole);
    const auto hit = std::find_if(reader->frames().begin(), reader->frames().end(), [](const FrameInfo& f) { return f.kind == "mass" && f.turn == 1; });
    bytes[hit->offset + hit->compressed_bytes / 2] ^= 0xff;
    write_bytes(path, bytes);
    auto follower = SessionFollower::open(path);
    REQUIRE(follower);
    while (poll(**follower).grew) {}
    const auto s = (*follower)->snapshot();
    REQUIRE(s);
    CHECK(s->turns.size() == 2);
    CHECK(has_finding(s->findings, "SPAN-DAMAGED"));
    CHECK(has_finding(s->findings, "SPAN-MISSING"));
    CHECK(has_finding(s->findings, "SPAN-TURN-LOST"));
    for (const TurnRecord& t : s->turns) CHECK(image(t) == image(data.turns[t.turn]));
  }
  SECTION("no session") {
    write_bytes(path, Bytes(100, 'x'));
    auto follower = SessionFollower::open(path);
    REQUIRE(follower);
    CHECK((*follower)->poll().error().tag == "SPAN-NOT-A-SESSION");
    CHECK(SessionFollower::open(scratch.file("none")).error().tag == "SPAN-NOT-FOUND");
    CHECK(SessionFollower::open(scratch.path).error().tag == "SPAN-DIRECTORY");
  }
  SECTION("shrinks") {
    write_bytes(path, whole);
    auto follower = SessionFollower::open(path);
    REQUIRE(follower);
    poll(**follower);
    std::filesystem::resize_file(path, 100);
    CHECK((*follower)->poll().error().tag == "SPAN-SHRUNK");
    CHECK((*follower)->poll().error().tag == "SPAN-SHRUNK");
    CHECK((*follower)->snapshot()->turns.size() == 3);  // what was read stays
  }
  SECTION("replaced: the old one goes on") {
    auto writer = SessionWriter::create(path, false);
    REQUIRE(writer);
    REQUIRE(write_header(**writer, data.header));
    write_one_turn(**writer, data, 0);
    auto follower = SessionFollower::open(path);
    REQUIRE(follower);
    CHECK(poll(**follower).turns_closed == 1);
    std::filesystem::rename(path, scratch.file("moved"));
    write_bytes(path, whole);
    write_one_turn(**writer, data, 1);
    CHECK(poll(**follower).turns_closed == 1);
    CHECK(has_finding((*follower)->snapshot()->findings, "SPAN-REPLACED"));
  }
  SECTION("continued after its end") {
    {
      auto writer = SessionWriter::create(path, false);
      REQUIRE(writer);
      REQUIRE(write_header(**writer, data.header));
      write_one_turn(**writer, data, 0);
      REQUIRE((*writer)->finish());
    }
    auto follower = SessionFollower::open(path);
    REQUIRE(follower);
    CHECK(poll(**follower).turns_closed == 1);
    CHECK((*follower)->finished());
    auto writer = SessionWriter::resume(path);
    REQUIRE(writer);
    write_one_turn(**writer, data, 1);
    CHECK(poll(**follower).turns_closed == 1);
    CHECK(!(*follower)->finished());
    CHECK((*follower)->being_written());
    REQUIRE((*writer)->finish());
    CHECK(poll(**follower).changed);
    CHECK((*follower)->finished());
    check_snapshot(**follower, data, 2);
  }
}
