// SPDX-License-Identifier: GPL-3.0-or-later
// Frames of other versions: newer ones are named and left alone, older ones converted; kinds and tensors that are not known
// are passed by.
#include "core/record/schema_versions.h"
#include "core/record/session_schema.h"
#include "tests/format/content/rich.h"
#include "tests/support/catch.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {

// Writes the rich session again with frames changed on the way.
template <class Change>
Bytes rewritten(const Scratch& scratch, const Bytes& bytes, Change change) {
  const auto reader = open_bytes(bytes);
  const std::string path = scratch.file("rewritten.span");
  auto writer = SessionWriter::create(path, true);
  REQUIRE(writer);
  for (size_t i = 0; i < reader->frames().size(); ++i) {
    const FrameInfo& f = reader->frames()[i];
    auto blob = reader->frame(i);
    REQUIRE(blob);
    FrameTag tag{f.kind, f.version, f.turn};
    for (const char* stamp : {"kind", "v", "session", "seq", "turn"}) blob->metadata.erase(stamp);
    change(tag, *blob);
    REQUIRE((*writer)->append(tag, std::move(*blob)));
  }
  REQUIRE((*writer)->finish());
  return read_bytes(path);
}

}  // namespace

TEST_CASE("a newer version of a kind is named with both versions and the program, and costs only what it holds") {
  const Scratch scratch;
  SessionData data = rich_session(3);
  data.header.program_version = "7.2.0";
  const Bytes bytes = session_bytes(scratch, data);
  auto newer = [&](const std::string& kind, uint32_t turn) {
    const Bytes changed = rewritten(scratch, bytes, [&](FrameTag& tag, Blob&) {
      if (tag.kind == kind && (turn == kNone32 || tag.turn == turn)) tag.version = 9;
    });
    return load_session(*open_bytes(changed));
  };
  const auto mass = newer("mass", 1);
  REQUIRE(mass);
  INFO(tags_of((*mass)->findings));
  CHECK((*mass)->turns.size() == 2);
  CHECK(has_finding((*mass)->findings, "SPAN-VERSION"));
  const std::string said = tags_of((*mass)->findings);
  CHECK(said.find("version 9") != std::string::npos);
  CHECK(said.find("up to version " + std::to_string(schema::version_of("mass"))) != std::string::npos);
  CHECK(said.find("7.2.0") != std::string::npos);
  const auto closing = newer("closing", kNone32);
  REQUIRE(closing);
  CHECK((*closing)->turns.size() == 3);
  CHECK((*closing)->closing.ema_n.empty());
  CHECK(has_finding((*closing)->findings, "SPAN-VERSION"));
  const auto header = newer("session", kNone32);
  REQUIRE(!header);
  CHECK(header.error().tag == "SPAN-VERSION");
  CHECK(header.error().message.find("version 9") != std::string::npos);
}

TEST_CASE("unknown kinds, tensors and keys change nothing") {
  const Scratch scratch;
  const SessionData data = rich_session(2);
  const Bytes bytes = session_bytes(scratch, data);
  const Bytes changed = rewritten(scratch, bytes, [&](FrameTag& tag, Blob& blob) {
    if (tag.kind == "note") tag = {"hologram", 3, 0};
    blob.metadata["mood"] = "fine";
    blob.add<float>("not.known", {2}, std::vector<float>{1, 2});
  });
  const auto reader = open_bytes(changed);
  const auto s = load_session(*reader);
  REQUIRE(s);
  CHECK(!has_loss((*s)->findings));
  REQUIRE((*s)->turns.size() == 2);
  for (size_t t = 0; t < 2; ++t) CHECK(image((*s)->turns[t]) == image(data.turns[t]));
  CHECK(image((*s)->closing) == image(data.closing));
  CHECK(std::any_of(reader->frames().begin(), reader->frames().end(), [](const FrameInfo& f) { return f.kind == "hologram"; }));
}

TEST_CASE("older versions go through every converter in turn") {
  using schema::Converter;
  static const Converter table[] = {
      {"mass", 1, [](Blob& b) -> Status { return b.metadata["path"] += "1>2 ", Status{}; }},
      {"mass", 2, [](Blob& b) -> Status { return b.metadata["path"] += "2>3 ", Status{}; }},
      {"reads", 1, [](Blob&) -> Status { return make_error(ErrorCode::corrupt, "SPAN-TENSOR", "a column is missing"); }},
      {"routing", 2, [](Blob& b) -> Status { return b.metadata["path"] += "2>3 ", Status{}; }}};
  Blob blob;
  CHECK(schema::convert(blob, "mass", 1, 3, table, "0.1.0"));
  CHECK(blob.metadata["path"] == "1>2 2>3 ");
  CHECK(schema::convert(blob, "mass", 3, 3, table, "0.1.0"));
  CHECK(blob.metadata["path"] == "1>2 2>3 ");
  CHECK(schema::convert(blob, "reads", 1, 2, table, "0.1.0").error().tag == "SPAN-TENSOR");
  const auto gap = schema::convert(blob, "routing", 1, 3, table, "0.1.0");
  CHECK(gap.error().tag == "SPAN-VERSION");
  CHECK(gap.error().message.find("0.1.0") != std::string::npos);
  CHECK(schema::convert(blob, "mass", 4, 3, table, "").error().message.find("version 4") != std::string::npos);
}

TEST_CASE("every kind that this program reads can be converted from every version there ever was") {
  for (const char* kind : {"session", "ledger", "turn_begin", "mass", "profile", "reads", "routing", "turn_end", "closing", "note", "loss"}) {
    INFO(kind);
    const uint32_t now = schema::version_of(kind);
    REQUIRE(now >= 1);
    for (uint32_t from = 1; from < now; ++from)
      CHECK(std::any_of(schema::converters().begin(), schema::converters().end(), [&](const schema::Converter& c) { return c.kind == kind && c.from == from; }));
  }
  CHECK(schema::version_of("hologram") == 0);
}
