// SPDX-License-Identifier: GPL-3.0-or-later
// Redaction: nothing that was said is left anywhere in the file, and every number is.
#include "core/base/digest.h"
#include "core/record/session_redact.h"
#include "core/record/session_schema.h"
#include "tests/format/content/rich.h"
#include "tests/support/catch.h"

#include <filesystem>

using namespace spanscope;
using namespace spanscope::test;

namespace {

// Everything that the file says, uncompressed: metadata and tensors of every frame.
std::string everything(const SessionReader& reader) {
  std::string out;
  for (size_t i = 0; i < reader.frames().size(); ++i) {
    const auto blob = reader.frame(i);
    REQUIRE(blob);
    for (const auto& [key, value] : blob->metadata) out += key + "=" + value + "\n";
    for (const Tensor& t : blob->tensors) out += t.name + ":" + std::string(t.data.begin(), t.data.end()) + "\n";
  }
  return out;
}

SessionData secret_session() {
  SessionData s = rich_session(3);
  s.ledger.spans[1].name = "hello, my PIN", s.ledger.spans[2].name = "bye, treasure", s.ledger.spans[3].name = "hello, my PIN";
  s.turns[0].new_ids = {70001, 70002, 70003, 70004};
  return s;
}

}  // namespace

TEST_CASE("redacted of text: no words, no ids, no digests that can be guessed; all numbers") {
  const Scratch scratch;
  const SessionData data = secret_session();
  const std::string in = scratch.file("in.span"), out = scratch.file("out.span");
  write_bytes(in, session_bytes(scratch, data));
  const std::string digest = data.ledger.spans[1].digest;
  for (const Redaction how : {Redaction::text, Redaction::names}) {
    const auto report = redact_session(in, out, how, true);
    if (!report) FAIL(report.error().line());
    CHECK(!report->lossy);
    const auto reader = SessionReader::open(out);
    REQUIRE(reader);
    CHECK((*reader)->finished());
    CHECK((*reader)->findings().empty());
    CHECK((*reader)->session_id() != (*SessionReader::open(in))->session_id());
    const std::string all = everything(**reader);
    for (const char* word : {"hello", "shello", "bye", "PIN", "treasure"}) CHECK(all.find(word) == std::string::npos);
    CHECK(all.find(digest) == std::string::npos);
    CHECK(all.find(sha256_hex(digest)) == std::string::npos);  // salted, not only hashed once more
    const int32_t id = 70001;
    CHECK(all.find(std::string(reinterpret_cast<const char*>(&id), 4)) == std::string::npos);
    CHECK((all.find("somebody") == std::string::npos) == (how == Redaction::names));
    CHECK((all.find("SPANSCOPE_PASS_ROWS") == std::string::npos) == (how == Redaction::names));
    const auto loaded = load_session(**reader);
    REQUIRE(loaded);
    const SessionData& s = **loaded;
    CHECK(!s.header.has_text);
    CHECK(s.header.redacted == (how == Redaction::names ? "names" : "text"));
    REQUIRE(s.turns.size() == 3);
    for (size_t t = 0; t < 3; ++t) {
      TurnRecord expected = data.turns[t];
      expected.new_ids.clear(), expected.new_token_bytes.clear(), expected.new_text.clear();
      CHECK(image(s.turns[t]) == image(expected));
    }
    CHECK(image(s.closing) == image(data.closing));
    REQUIRE(s.ledger.spans.size() == data.ledger.spans.size());
    for (SpanId i = 0; i < s.ledger.spans.size(); ++i) {
      const Span &a = s.ledger[i], &b = data.ledger[i];
      CHECK((a.kind == b.kind && a.role == b.role && a.tokens == b.tokens && a.parent == b.parent && a.message == b.message && a.field == b.field));
      CHECK(a.digest.empty() == b.digest.empty());
      if (a.kind == SpanKind::sink) CHECK(a.name == b.name);
    }
    CHECK(s.ledger[1].name == "message 0");
    CHECK(s.messages.size() == data.messages.size());
    CHECK(s.messages[0].role == "user");
    CHECK(s.findings.size() == 2);  // the dropped events and the note, without its words
    CHECK(has_finding(s.findings, "SPAN-CONTROL-IN-CONTENT"));
  }
}

TEST_CASE("two spans of one text still have one digest; two redactions have different ones") {
  const Scratch scratch;
  SessionData data = secret_session();
  data.ledger.spans[2].digest = data.ledger.spans[1].digest;
  const std::string in = scratch.file("in.span");
  write_bytes(in, session_bytes(scratch, data));
  REQUIRE(redact_session(in, scratch.file("a"), Redaction::text, false));
  REQUIRE(redact_session(in, scratch.file("b"), Redaction::text, false));
  const auto a = load_session(scratch.file("a")), b = load_session(scratch.file("b"));
  REQUIRE((a && b));
  CHECK((*a)->ledger[1].digest == (*a)->ledger[2].digest);
  CHECK((*a)->ledger[1].digest != (*b)->ledger[1].digest);
}

TEST_CASE("kinds that nobody knows are left out, losses are said on, the input is never touched") {
  const Scratch scratch;
  const SessionData data = secret_session();
  const std::string in = scratch.file("in.span"), out = scratch.file("out.span");
  {
    auto writer = SessionWriter::create(in, true);
    REQUIRE(writer);
    write_session(**writer, data);
    for (const char* kind : {"keys", "hologram"}) {
      Blob blob;
      blob.metadata["said"] = "treasure";
      REQUIRE((*writer)->append({kind, 1, 0}, std::move(blob)));
    }
  }
  const Bytes before = read_bytes(in);
  const auto report = redact_session(in, out, Redaction::text, false);
  REQUIRE(report);
  CHECK(report->left_out.size() == 2);
  CHECK(!report->was_finished);
  const auto reader = SessionReader::open(out);
  REQUIRE(reader);
  CHECK(everything(**reader).find("treasure") == std::string::npos);
  CHECK(has_finding((*reader)->findings(), "SPAN-LOSS"));
  CHECK(read_bytes(in) == before);
  CHECK(redact_session(in, in, Redaction::text, true).error().tag == "SPAN-SAME-FILE");
  CHECK(redact_session(in, out, Redaction::text, false).error().tag == "SPAN-EXISTS");

  Bytes damaged = before;
  const auto whole = open_bytes(before);
  const auto hit = std::find_if(whole->frames().begin(), whole->frames().end(), [](const FrameInfo& f) { return f.kind == "mass" && f.turn == 1; });
  damaged[hit->offset + hit->compressed_bytes / 2] ^= 0xff;
  write_bytes(scratch.file("damaged"), damaged);
  const auto lossy = redact_session(scratch.file("damaged"), scratch.file("lossy"), Redaction::names, false);
  REQUIRE(lossy);
  CHECK(lossy->lossy);
  const auto loaded = load_session(scratch.file("lossy"));
  REQUIRE(loaded);
  CHECK(has_loss((*loaded)->findings));
  CHECK((*loaded)->turns.size() == 2);
  for (const TurnRecord& t : (*loaded)->turns) CHECK(t.mass_qk == data.turns[t.turn].mass_qk);
}
