// SPDX-License-Identifier: GPL-3.0-or-later
// What a damaged file says once it is a session again: turns that are all there and right, or a finding. Never another number.
#include "core/record/session_schema.h"
#include "tests/format/content/rich.h"
#include "tests/support/catch.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {

struct Original {
  Scratch scratch;
  SessionData data = rich_session();
  bool finished;
  Bytes bytes;
  explicit Original(bool finish) : finished(finish), bytes(session_bytes(scratch, data, finish)) {}

  // Everything that was read is what was written. Returns whether nothing is missing. (A compressed block has bits that
  // change nothing in what it decodes to: such a flip costs nothing, and in an unfinished file nothing can tell it.)
  bool right(const SessionData& s) const {
    REQUIRE(image(s.header) == image(data.header));
    REQUIRE(s.ledger.spans.size() <= data.ledger.spans.size());
    REQUIRE(image(s.ledger, s.ledger.spans.size()) == image(data.ledger, s.ledger.spans.size()));
    for (const TurnRecord& t : s.turns) {
      REQUIRE(t.turn < data.turns.size());
      REQUIRE(image(t) == image(data.turns[t.turn]));
    }
    const bool closed = !s.closing.ema_n.empty();
    if (closed) REQUIRE(image(s.closing) == image(data.closing));
    return (closed || !finished) && s.turns.size() == data.turns.size() && s.ledger.spans.size() == data.ledger.spans.size() && s.messages.size() == data.messages.size();
  }
};

// Bits to flip: all of them at night, else a sample that reaches every eighth byte and every place in a byte. (format/session flips
// every bit of its own small file at every run.)
template <class Check>
void flip_bits(const Bytes& bytes, Check check) {
  for (size_t bit = 0; bit < bytes.size() * 8; bit += exhaustive() ? 1 : 61) {
    INFO("bit " << bit % 8 << " of byte " << bit / 8 << " of " << bytes.size());
    Bytes flipped = bytes;
    flipped[bit / 8] = uint8_t(flipped[bit / 8] ^ (1u << (bit % 8)));
    check(flipped);
  }
}

}  // namespace

TEST_CASE("the sample holds every kind of frame and comes back bit by bit") {
  const Original original(true);
  const auto reader = open_bytes(original.bytes);
  CHECK(reader->finished());
  for (const char* kind : {"session", "ledger", "turn_begin", "mass", "profile", "reads", "routing", "turn_end", "note", "closing"})
    CHECK(std::any_of(reader->frames().begin(), reader->frames().end(), [&](const FrameInfo& f) { return f.kind == kind; }));
  const auto s = load_session(*reader);
  REQUIRE(s);
  CHECK(original.right(**s));
  CHECK(!has_loss((*s)->findings));
  CHECK(original.bytes.size() < 16000);
}

TEST_CASE("a finished session, every bit: verify names the flip and what is read is right") {
  const Original original(true);
  flip_bits(original.bytes, [&](const Bytes& flipped) {
    const auto reader = SessionReader::from_bytes(flipped, "flipped");
    if (!reader) {
      REQUIRE(!reader.error().tag.empty());
      return;
    }
    const VerifyReport report = verify_session(**reader);
    REQUIRE((!report.findings.empty() && (!report.finished || has_loss(report.findings))));
    const auto s = load_session(**reader);
    if (!s) {
      REQUIRE(!s.error().tag.empty());
      return;
    }
    // A loss that touches the sums names itself; a flip in what holds no numbers (index, tables) costs nothing.
    if (!original.right(**s)) REQUIRE(has_loss((*s)->findings));
    else REQUIRE((!(*s)->finished || !(*s)->findings.empty()));
  });
}

TEST_CASE("an unfinished session, every bit: what is read is right and the rest is named") {
  const Original original(false);
  flip_bits(original.bytes, [&](const Bytes& flipped) {
    const auto reader = SessionReader::from_bytes(flipped, "flipped");
    if (!reader) return;
    REQUIRE(!(*reader)->finished());
    const auto s = load_session(**reader);
    if (!s) return;
    REQUIRE(has_finding((*s)->findings, "SPAN-UNFINISHED"));
    if (!original.right(**s)) REQUIRE(has_loss((*s)->findings));
  });
}

TEST_CASE("cut at every byte: whole turns from the first on, never finished") {
  const Original original(true);
  size_t opened = 0, most = 0;
  for (size_t size = 0; size < original.bytes.size(); size += exhaustive() ? 1 : 5) {
    INFO("cut at " << size);
    const auto reader = SessionReader::from_bytes(Bytes(original.bytes.begin(), original.bytes.begin() + ptrdiff_t(size)), "cut");
    if (!reader) {
      REQUIRE(!reader.error().message.empty());
      continue;
    }
    const auto s = load_session(**reader);
    if (!s) continue;
    ++opened;
    REQUIRE(!(*s)->finished);
    REQUIRE(has_finding((*s)->findings, "SPAN-UNFINISHED"));
    original.right(**s);
    for (size_t t = 0; t < (*s)->turns.size(); ++t) REQUIRE((*s)->turns[t].turn == t);
    REQUIRE((*s)->turns.size() >= most);
    most = (*s)->turns.size();
  }
  CHECK(opened > original.bytes.size() / (exhaustive() ? 2 : 10));
  CHECK(most == original.data.turns.size());
}

TEST_CASE("a turn that is gone altogether is named") {
  const Scratch scratch;
  const SessionData s = rich_session(4);
  auto writer = SessionWriter::create(scratch.file("gap.span"), false);
  REQUIRE(writer);
  REQUIRE(write_header(**writer, s.header));
  for (uint32_t t : {0u, 1u, 3u}) {
    if (t == 3) REQUIRE(write_ledger(**writer, s.ledger, 5, s.messages, 3));
    if (t == 3) REQUIRE(write_turn(**writer, s.turns[3], s.header, s.ledger));
    else write_one_turn(**writer, s, t);
  }
  REQUIRE((*writer)->finish());
  const auto loaded = load_session(scratch.file("gap.span"));
  REQUIRE(loaded);
  INFO(tags_of((*loaded)->findings));
  CHECK((*loaded)->turns.size() == 3);
  CHECK(tags_of((*loaded)->findings).find("turn 3 is missing") != std::string::npos);
}
