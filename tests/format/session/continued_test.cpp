// SPDX-License-Identifier: GPL-3.0-or-later
// Sessions that are continued, and sessions that are repaired: nothing is patched, nothing is lost twice, every loss is named.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "core/file/session_format.h"
#include "core/file/session_index.h"
#include "core/file/session_repair.h"
#include "tests/format/session/sample.h"
#include "tests/support/catch.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {

std::shared_ptr<const SessionReader> open_file(const std::string& path) {
  auto reader = SessionReader::open(path);
  if (!reader) FAIL(reader.error().line());
  return *reader;
}

void add_turn(SessionWriter& writer, uint32_t turn) {
  REQUIRE(writer.append({"mass", 1, turn}, numbers(int(turn) + 1, 20 + turn)));
  REQUIRE(writer.append({"turn_end", 1, turn}, numbers(int(turn) + 1, 1)));
  REQUIRE(writer.sync());
}

// The sample's content, turn by turn, in order.
void check_turns(const SessionReader& reader, uint32_t turns) {
  std::vector<const FrameInfo*> mass;
  for (size_t i = 0; i < reader.frames().size(); ++i) {
    const FrameInfo& f = reader.frames()[i];
    if (f.kind != "mass") continue;
    const auto blob = reader.frame(i);
    REQUIRE(blob);
    CHECK(*blob->get<float>("x") == *numbers(int(f.turn) + 1, 20 + f.turn).get<float>("x"));
    mass.push_back(&f);
  }
  REQUIRE(mass.size() == turns);
  for (uint32_t t = 0; t < turns; ++t) CHECK(mass[t]->turn == t);
}

bool zstd_takes(const std::string& path) {
  if (std::system("zstd --version >/dev/null 2>&1") != 0) {
    std::cout << "SKIPPED: no zstd program\n";
    return true;
  }
  return std::system(("zstd -tq '" + path + "'").c_str()) == 0;
}

bool python_takes(const std::string& path) {
  const std::string python = python_with_zstandard();
  if (python.empty()) {
    std::cout << "SKIPPED: no Python with the zstandard module\n";
    return true;
  }
  const std::string script = std::string(SPANSCOPE_SOURCE_DIR) + "/tests/format/session/read_session.py";
  return std::system((python + " '" + script + "' '" + path + "' > /dev/null").c_str()) == 0;
}

}  // namespace

TEST_CASE("a session is continued, again and again, whether it was finished or not") {
  const Folder folder;
  const std::string path = folder.file("sample.span");
  for (const bool finished_before : {true, false}) {
    make_session(folder, 2, finished_before);
    const std::string id = open_file(path)->session_id();
    uint32_t turn = 2;
    for (int round = 0; round < 3; ++round) {
      const Bytes before = read_bytes(path);
      {
        auto writer = SessionWriter::resume(path);
        if (!writer) FAIL(writer.error().line());
        CHECK((*writer)->session_id() == id);
        add_turn(**writer, turn++);
        if (round != 1) REQUIRE((*writer)->finish());  // the second one is left unfinished
      }
      const Bytes after = read_bytes(path);
      CHECK(after.size() > before.size());
      CHECK(std::equal(before.begin(), before.end(), after.begin()));  // nothing that was there has changed
      const auto reader = open_file(path);
      INFO(tags_of(reader->findings()));
      CHECK(reader->finished() == (round != 1));
      CHECK(reader->session_id() == id);
      check_turns(*reader, turn);
      for (size_t i = 1; i < reader->frames().size(); ++i) CHECK(reader->frames()[i].seq > reader->frames()[i - 1].seq);
      const VerifyReport report = verify_session(*reader);
      CHECK(report.findings.size() == (round == 1 ? 1u : 0u));
      CHECK(zstd_takes(path));
    }
    // Every sequence number is used once, the older indices' too: a reader that knows nothing of indices counts along.
    CHECK(python_takes(path));
    // Cut anywhere it is never more than its beginning; cut where it was finished before, it is that session.
    const Bytes whole = read_bytes(path);
    for (size_t size = whole.size() - 1; size > whole.size() - 600; --size) {
      const auto cut = SessionReader::from_bytes(slice(whole, 0, size), "cut");
      REQUIRE(cut);
      CHECK((!(*cut)->finished() || closed_turns(**cut) < turn));
    }
  }
}

TEST_CASE("every bit of a continued session counts, that of its older index and table too") {
  const Folder folder;
  const std::string path = folder.file("sample.span");
  make_session(folder, 1, true);
  {
    auto writer = SessionWriter::resume(path);
    REQUIRE(writer);
    add_turn(**writer, 1);
    REQUIRE((*writer)->finish());
  }
  const Bytes whole = read_bytes(path);
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    INFO("bit " << bit % 8 << " of byte " << bit / 8 << " of " << whole.size());
    Bytes flipped = whole;
    flipped[bit / 8] = uint8_t(flipped[bit / 8] ^ (1u << (bit % 8)));
    const auto reader = SessionReader::from_bytes(flipped, "flipped");
    if (!reader) continue;
    REQUIRE(!verify_session(**reader).findings.empty());
    for (size_t i = 0; i < (*reader)->frames().size(); ++i) {
      const FrameInfo& f = (*reader)->frames()[i];
      const auto blob = (*reader)->frame(i);
      if (blob && f.kind == "mass") REQUIRE(*blob->get<float>("x") == *numbers(int(f.turn) + 1, 20 + f.turn).get<float>("x"));
    }
  }
}

TEST_CASE("what cannot be continued is refused by name and left as it is") {
  const Folder folder;
  const std::string path = folder.file("sample.span");
  const Bytes whole = make_session(folder, 2, false);
  auto refused = [&](const Bytes& bytes, const std::string& tag) {
    write_bytes(path, bytes);
    const auto writer = SessionWriter::resume(path);
    REQUIRE(!writer);
    INFO(writer.error().line());
    CHECK(writer.error().tag == tag);
    CHECK(read_bytes(path) == bytes);
    return writer.error();
  };
  const Error torn = refused(slice(whole, 0, whole.size() - 3), "SPAN-TORN");
  REQUIRE(!torn.advice.empty());
  CHECK(torn.advice[0].find("repair") != std::string::npos);
  Bytes damaged = whole;
  damaged[whole.size() / 2] ^= 0x40;
  refused(damaged, "SPAN-TORN");
  refused(Bytes{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21}, "SPAN-NOT-A-SESSION");
  CHECK(SessionWriter::resume(folder.file("none")).error().tag == "SPAN-NOT-FOUND");
  write_bytes(path, whole);
  const auto first = SessionWriter::resume(path);
  REQUIRE(first);
  const auto second = SessionWriter::resume(path);
  REQUIRE(!second);
  CHECK(second.error().tag == "SPAN-BUSY");
}

TEST_CASE("repair keeps every good frame byte for byte and says what is gone") {
  const Folder folder;
  const std::string path = folder.file("sample.span"), out = folder.file("out.span");
  const Bytes whole = make_session(folder, 4);
  const auto original = SessionReader::from_bytes(whole, "whole");
  REQUIRE(original);
  auto repaired = [&](const Bytes& bytes, bool lossy) {
    write_bytes(path, bytes);
    std::filesystem::remove(out);
    const auto report = repair_session(path, out, false);
    if (!report) FAIL(report.error().line());
    CHECK(report->lossy == lossy);
    CHECK(read_bytes(path) == bytes);
    const auto reader = open_file(out);
    INFO(tags_of(reader->findings()));
    CHECK(reader->finished());
    CHECK(reader->session_id() == (*original)->session_id());
    bool loss = false;
    for (const Finding& f : reader->findings()) loss = loss || f.grade >= Grade::loss;
    CHECK(loss == lossy);
    // What the reader says on opening is all that verify says: every frame that was kept is good.
    CHECK(verify_session(*reader).findings.size() == reader->findings().size());
    CHECK(zstd_takes(out));
    for (const FrameInfo& f : reader->frames()) {
      if (f.kind == "loss") continue;
      const FrameInfo& old = (*original)->frames().at(f.seq);
      CHECK(slice(read_bytes(out), f.offset, f.compressed_bytes) == slice(whole, old.offset, old.compressed_bytes));
    }
    // Repairing what is whole changes nothing any more.
    const std::string again = folder.file("again.span");
    std::filesystem::remove(again);
    REQUIRE(repair_session(out, again, false));
    CHECK(read_bytes(again) == read_bytes(out));
    return std::pair(*report, reader);
  };
  SECTION("a whole session comes out as it is") {
    repaired(whole, false);
    CHECK(read_bytes(out) == whole);
  }
  SECTION("unfinished at a frame's border: finished, nothing lost, and it still says so") {
    const FrameInfo& last = (*original)->frames().back();
    const auto [report, reader] = repaired(slice(whole, 0, last.offset + last.compressed_bytes), false);
    CHECK(!report.was_finished);
    check_turns(*reader, 4);
    CHECK(has_finding(reader->findings(), "SPAN-LOSS"));
    CHECK(tags_of(reader->findings()).find("was not finished: 4 closed turns") != std::string::npos);
  }
  SECTION("torn inside a frame") {
    const FrameInfo& torn = (*original)->frames()[7];
    const auto [report, reader] = repaired(slice(whole, 0, torn.offset + torn.compressed_bytes / 2), true);
    CHECK(report.bytes_left == torn.compressed_bytes / 2);
    CHECK(closed_turns(*reader) == 3);
  }
  SECTION("a damaged frame in the middle, with the index") {
    Bytes bytes = whole;
    const FrameInfo& hit = (*original)->frames()[3];
    bytes[hit.offset + hit.compressed_bytes / 2] ^= 0xff;
    const auto [report, reader] = repaired(bytes, true);
    CHECK(report.lost.at("mass") == 1);
    CHECK(report.kept.at("mass") == 3);
    CHECK(has_finding(reader->findings(), "SPAN-MISSING"));
    CHECK(has_finding(reader->findings(), "SPAN-LOSS"));
  }
  SECTION("a damaged frame, without the index") {
    Bytes bytes = whole;
    const FrameInfo& hit = (*original)->frames()[3];
    bytes[hit.offset + hit.compressed_bytes / 2] ^= 0xff;
    bytes.resize(bytes.size() - 5);
    const auto [report, reader] = repaired(bytes, true);
    CHECK(report.kept.at("mass") == 3);
    CHECK(has_finding(reader->findings(), "SPAN-MISSING"));
  }
  SECTION("a damaged signature, a damaged seek table") {
    Bytes bytes = whole;
    bytes[9] ^= 1;
    repaired(bytes, true);
    bytes = whole;
    bytes[bytes.size() - 20] ^= 1;
    const auto [report, reader] = repaired(bytes, false);
    check_turns(*reader, 4);
  }
  SECTION("swapped, repeated and foreign frames are put right or left out") {
    auto piece = [&](size_t i) { return slice(whole, (*original)->frames()[i].offset, (*original)->frames()[i].compressed_bytes); };
    const Folder other;
    const Bytes stranger_file = make_session(other, 2);
    const auto stranger = SessionReader::from_bytes(stranger_file, "stranger");
    REQUIRE(stranger);
    const FrameInfo& f = (*stranger)->frames()[1];
    const auto [report, reader] = repaired(slice(whole, 0, 16) + piece(0) + piece(2) + piece(1) + piece(1) +
                                               slice(stranger_file, f.offset, f.compressed_bytes) + piece(3) + piece(4), true);
    check_turns(*reader, 2);
    CHECK(closed_turns(*reader) == 2);
  }
  SECTION("a continued session") {
    write_bytes(path, whole);
    {
      auto writer = SessionWriter::resume(path);
      REQUIRE(writer);
      add_turn(**writer, 4);
    }
    const Bytes continued = read_bytes(path);
    std::filesystem::remove(out);
    const auto report = repair_session(path, out, false);
    REQUIRE(report);
    CHECK(!report->lossy);
    const auto reader = open_file(out);
    check_turns(*reader, 5);
    INFO(tags_of(reader->findings()));
    CHECK(!has_finding(reader->findings(), "SPAN-MISSING"));
    CHECK(python_takes(out));
    // And what repair made can be continued.
    auto writer = SessionWriter::resume(out);
    if (!writer) FAIL(writer.error().line());
    add_turn(**writer, 5);
    REQUIRE((*writer)->finish());
    check_turns(*open_file(out), 6);
  }
}

TEST_CASE("repair never writes over its input, and leaves nothing behind when it fails") {
  const Folder folder;
  const std::string path = folder.file("sample.span");
  const Bytes whole = make_session(folder, 1);
  CHECK(repair_session(path, path, true).error().tag == "SPAN-SAME-FILE");
  std::filesystem::create_symlink(path, folder.file("link"));
  CHECK(repair_session(path, folder.file("link"), true).error().tag == "SPAN-SAME-FILE");
  std::filesystem::create_hard_link(path, folder.file("hard"));
  CHECK(repair_session(path, folder.file("hard"), true).error().tag == "SPAN-SAME-FILE");
  CHECK(read_bytes(path) == whole);
  write_bytes(folder.file("there"), {1, 2, 3});
  CHECK(repair_session(path, folder.file("there"), false).error().tag == "SPAN-EXISTS");
  CHECK(read_bytes(folder.file("there")) == Bytes{1, 2, 3});
  CHECK(repair_session(path, folder.path, true).error().tag == "SPAN-DIRECTORY");
  CHECK(repair_session(path, folder.file("no/where"), false).error().tag == "SPAN-WRITE");
  Bytes headless = whole;
  headless[16 + 8] ^= 0xff;
  headless.resize(headless.size() - 1);
  write_bytes(folder.file("headless"), headless);
  CHECK(repair_session(folder.file("headless"), folder.file("new"), false).error().tag == "SPAN-NO-HEADER");
  size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path)) ++files;
  CHECK(files == 5);  // sample, link, hard, there, headless
  REQUIRE(repair_session(path, folder.file("there"), true));
  CHECK(read_bytes(folder.file("there")) == whole);
}
