// SPDX-License-Identifier: GPL-3.0-or-later
// Accidents: files that are cut, flipped, put together wrongly. Never "finished", never another number, never a crash.
#include <algorithm>
#include <chrono>
#include <random>

#include "tests/format/session/sample.h"
#include "tests/support/catch.h"

using namespace spanscope;
using namespace spanscope::test;

TEST_CASE("cut at every byte: the right prefix or a named error, never finished") {
  const Folder folder;
  const Bytes whole = make_session(folder, 4);
  const auto original = SessionReader::from_bytes(whole, "whole");
  REQUIRE(original);
  std::vector<Blob> blobs;
  for (size_t i = 0; i < (*original)->frames().size(); ++i) blobs.push_back(*(*original)->frame(i));
  const auto& frames = (*original)->frames();
  for (size_t size = 1; size < whole.size(); ++size) {
    INFO("cut at " << size);
    const auto reader = SessionReader::from_bytes(slice(whole, 0, size), "cut");
    if (size < frames[0].offset + frames[0].compressed_bytes) {
      REQUIRE(!reader);
      REQUIRE((reader.error().tag == "SPAN-TRUNCATED" || reader.error().tag == "SPAN-NO-HEADER"));
      continue;
    }
    REQUIRE(reader);
    REQUIRE(!(*reader)->finished());
    REQUIRE(has_finding((*reader)->findings(), "SPAN-UNFINISHED"));
    // Exactly the frames that end before the cut, unchanged.
    size_t complete = 0;
    while (complete < frames.size() && frames[complete].offset + frames[complete].compressed_bytes <= size) ++complete;
    REQUIRE((*reader)->frames().size() == complete);
    for (size_t i = 0; i < complete; ++i) {
      const auto blob = (*reader)->frame(i);
      REQUIRE(blob);
      REQUIRE(*blob->get<float>("x") == *blobs[i].get<float>("x"));
    }
  }
}

TEST_CASE("unfinished says how many turns remain and where it ends") {
  const Folder folder;
  const Bytes whole = make_session(folder, 3);
  const auto original = SessionReader::from_bytes(whole, "whole");
  REQUIRE(original);
  const FrameInfo& mass = (*original)->frames()[5];  // of turn 3, counted from one
  REQUIRE((mass.kind == "mass" && mass.turn == 2));
  const auto inside = SessionReader::from_bytes(slice(whole, 0, mass.offset + mass.compressed_bytes), "inside");
  REQUIRE(inside);
  CHECK((*inside)->findings()[0].message.find("2 closed turns can be read, it ends inside turn 3") != std::string::npos);
  const auto between = SessionReader::from_bytes(slice(whole, 0, mass.offset), "between");
  REQUIRE(between);
  CHECK((*between)->findings()[0].message.find("2 closed turns can be read") != std::string::npos);
  CHECK((*between)->findings()[0].message.find("inside") == std::string::npos);
}

TEST_CASE("every bit of the file: a flip is named by verify and yields no other number") {
  const Folder folder;
  const Bytes whole = make_session(folder, 2);
  const auto original = SessionReader::from_bytes(whole, "whole");
  REQUIRE(original);
  std::vector<std::vector<float>> expected;
  for (size_t i = 0; i < (*original)->frames().size(); ++i) expected.push_back(*(*original)->frame(i)->get<float>("x"));
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    INFO("bit " << bit % 8 << " of byte " << bit / 8 << " of " << whole.size());
    Bytes flipped = whole;
    flipped[bit / 8] = uint8_t(flipped[bit / 8] ^ (1u << (bit % 8)));
    const auto reader = SessionReader::from_bytes(flipped, "flipped");
    if (!reader) continue;  // refused by name
    const VerifyReport report = verify_session(**reader);
    REQUIRE((!report.finished || !report.findings.empty()));
    for (size_t i = 0; i < (*reader)->frames().size(); ++i) {
      const auto blob = (*reader)->frame(i);
      if (blob) REQUIRE(*blob->get<float>("x") == expected.at((*reader)->frames()[i].seq));
    }
  }
}

TEST_CASE("damage in one frame leaves the others readable") {
  const Folder folder;
  Bytes whole = make_session(folder, 5);
  const auto original = SessionReader::from_bytes(whole, "whole");
  REQUIRE(original);
  const FrameInfo hit = (*original)->frames()[4];
  for (uint64_t i = 0; i < 8; ++i) whole[hit.offset + hit.compressed_bytes / 2 + i] ^= 0x5a;
  SECTION("with the index: that frame alone is refused") {
    const auto reader = SessionReader::from_bytes(whole, "damaged");
    REQUIRE(reader);
    CHECK((*reader)->finished());
    for (size_t i = 0; i < (*reader)->frames().size(); ++i) CHECK((*reader)->frame(i).ok() == (i != 4));
    CHECK((*reader)->frame(4).error().tag == "SPAN-HASH");
    const VerifyReport report = verify_session(**reader);
    CHECK(report.frames_readable + 1 == report.frames);
    CHECK(has_finding(report.findings, "SPAN-HASH"));
  }
  SECTION("without it: walking finds the way back") {
    whole.resize(whole.size() - 1);
    const auto reader = SessionReader::from_bytes(whole, "damaged");
    REQUIRE(reader);
    CHECK((*reader)->frames().size() + 1 == (*original)->frames().size());
    CHECK(has_finding((*reader)->findings(), "SPAN-DAMAGED"));
    CHECK(has_finding((*reader)->findings(), "SPAN-MISSING"));
    CHECK(closed_turns(**reader) + (hit.kind == "turn_end") == 5);
  }
  SECTION("a damaged signature costs nothing else") {
    whole = make_session(folder, 5);
    whole[9] ^= 1;
    const auto reader = SessionReader::from_bytes(whole, "damaged");
    REQUIRE(reader);
    CHECK(!(*reader)->finished());
    CHECK(closed_turns(**reader) == 5);
    CHECK(has_finding((*reader)->findings(), "SPAN-DAMAGED"));
  }
}

TEST_CASE("frames out of place are named") {
  const Folder folder;
  const Bytes whole = make_session(folder, 3), other = make_session(folder, 3);
  const auto reader = SessionReader::from_bytes(whole, "whole"), foreign = SessionReader::from_bytes(other, "other");
  REQUIRE((reader && foreign));
  auto piece = [&](size_t i) {
    const FrameInfo& f = (*reader)->frames()[i];
    return slice(whole, f.offset, f.compressed_bytes);
  };
  const FrameInfo& f2 = (*foreign)->frames()[2];
  const Bytes stranger = slice(other, f2.offset, f2.compressed_bytes);
  auto opened = [&](const Bytes& frames) {
    auto r = SessionReader::from_bytes(slice(whole, 0, 16) + frames, "built");
    REQUIRE(r);
    CHECK(!(*r)->finished());
    return *r;
  };
  SECTION("swapped") {
    const auto r = opened(piece(0) + piece(2) + piece(1) + piece(3));
    CHECK(has_finding(r->findings(), "SPAN-SWAPPED"));
    REQUIRE(r->frames().size() == 4);
    for (size_t i = 0; i < 4; ++i) CHECK(r->frames()[i].seq == i);
  }
  SECTION("repeated") {
    const auto r = opened(piece(0) + piece(1) + piece(1) + piece(2));
    CHECK(has_finding(r->findings(), "SPAN-REPEATED"));
    CHECK(r->frames().size() == 3);
  }
  SECTION("dropped") {
    const auto r = opened(piece(0) + piece(1) + piece(3));
    CHECK(has_finding(r->findings(), "SPAN-MISSING"));
    CHECK(r->frames().size() == 3);
  }
  SECTION("foreign") {
    const auto r = opened(piece(0) + piece(1) + stranger + piece(2));
    CHECK(has_finding(r->findings(), "SPAN-FOREIGN"));
    CHECK(r->frames().size() == 3);
  }
  SECTION("a frame of the same size put in another's place under a right index") {
    // Frames of equal length exist only by chance; overwrite one with the head of another instead.
    Bytes mixed = whole;
    const FrameInfo &a = (*reader)->frames()[1], &b = (*reader)->frames()[3];
    std::copy_n(whole.begin() + ptrdiff_t(b.offset), std::min(a.compressed_bytes, b.compressed_bytes),
                mixed.begin() + ptrdiff_t(a.offset));
    const auto r = SessionReader::from_bytes(mixed, "mixed");
    REQUIRE(r);
    CHECK(!(*r)->frame(1));
    CHECK(has_finding(verify_session(**r).findings, "SPAN-HASH"));
  }
  SECTION("bytes after the end") {
    const auto r = SessionReader::from_bytes(whole + Bytes{1, 2, 3}, "longer");
    REQUIRE(r);
    CHECK(!(*r)->finished());
    CHECK(closed_turns(**r) == 3);
  }
  SECTION("no header") {
    const auto r = SessionReader::from_bytes(slice(whole, 0, 16) + piece(1) + piece(2), "headless");
    REQUIRE(!r);
    CHECK(r.error().tag == "SPAN-NO-HEADER");
  }
}

TEST_CASE("random damage of every size never crashes, and what is read is right") {
  const Folder folder;
  const Bytes whole = make_session(folder, 4);
  const auto original = SessionReader::from_bytes(whole, "whole");
  REQUIRE(original);
  std::vector<std::vector<float>> expected;
  for (size_t i = 0; i < (*original)->frames().size(); ++i) expected.push_back(*(*original)->frame(i)->get<float>("x"));
  std::mt19937 random(20240607);
  auto below = [&](size_t n) { return size_t(random() % n); };
  for (int round = 0; round < 3000; ++round) {
    Bytes bytes = whole;
    for (size_t hits = 1 + below(4); hits > 0; --hits) {
      const size_t at = below(bytes.size()), n = std::min(bytes.size() - at, size_t(1) << below(8));
      const auto begin = bytes.begin() + ptrdiff_t(at), end = begin + ptrdiff_t(n);
      switch (below(3)) {
        case 0: std::generate(begin, end, [&] { return uint8_t(random()); }); break;
        case 1: bytes.erase(begin, end); break;
        default: {
          const Bytes copy(begin, end);
          bytes.insert(bytes.begin() + ptrdiff_t(below(bytes.size())), copy.begin(), copy.end());
        }
      }
      if (bytes.empty()) bytes.push_back(0);
    }
    INFO("round " << round);
    const auto reader = SessionReader::from_bytes(bytes, "random");
    if (!reader) continue;
    if (bytes != whole) REQUIRE((!(*reader)->finished() || !verify_session(**reader).findings.empty()));
    for (size_t i = 0; i < (*reader)->frames().size(); ++i) {
      const auto blob = (*reader)->frame(i);
      if (blob) REQUIRE(*blob->get<float>("x") == expected.at((*reader)->frames()[i].seq));
    }
  }
}
