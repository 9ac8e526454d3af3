// SPDX-License-Identifier: GPL-3.0-or-later
// Malice: bombs, lying sizes, floods of false frames, an index that points anywhere. Bounded time and memory.
#include <sys/resource.h>

#include <chrono>

#include "core/file/session_format.h"
#include "tests/format/session/sample.h"
#include "tests/support/catch.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {

long peak_kib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

template <class T>
void put(Bytes& out, T value) {
  const auto* p = reinterpret_cast<const uint8_t*>(&value);
  out.insert(out.end(), p, p + sizeof value);
}

Bytes seek_table(const std::vector<std::pair<uint32_t, uint32_t>>& entries) {
  Bytes out;
  put(out, kSeekTableFrameMagic);
  put(out, uint32_t(entries.size() * 8 + 9));
  for (auto [compressed, content] : entries) put(out, compressed), put(out, content);
  put(out, uint32_t(entries.size()));
  put(out, uint8_t(0));
  put(out, kSeekTableMagic);
  return out;
}

}  // namespace

TEST_CASE("four gigabytes of zeros are refused before anything is allocated") {
  const Folder folder;
  const Bytes prefix = make_session(folder, 2, false);
  for (const uint64_t declared : {uint64_t(4) << 30, UINT64_MAX, uint64_t(1000), uint64_t(64) << 20}) {
    const Bytes bytes = prefix + bomb(declared);
    const long before = peak_kib();
    const auto start = std::chrono::steady_clock::now();
    const auto reader = SessionReader::from_bytes(bytes, "bomb");
    REQUIRE(reader);
    INFO("declared " << declared);
    CHECK(closed_turns(**reader) == 2);
    CHECK((*reader)->frames().size() == 5);
    CHECK((has_finding((*reader)->findings(), "SPAN-DAMAGED") || has_finding((*reader)->findings(), "SPAN-TRUNCATED")));
    CHECK(peak_kib() - before < 200 * 1024);
    CHECK(seconds_since(start) < 30);
  }
}

TEST_CASE("a flood of false frame starts ends after a bounded number of findings") {
  const Folder folder;
  Bytes bytes = make_session(folder, 1, false);
  for (int i = 0; i < 200000; ++i) put(bytes, kZstdMagic);
  const auto start = std::chrono::steady_clock::now();
  const auto reader = SessionReader::from_bytes(bytes, "flood");
  REQUIRE(reader);
  CHECK(closed_turns(**reader) == 1);
  CHECK(has_finding((*reader)->findings(), "SPAN-LIMIT"));
  CHECK((*reader)->findings().size() < 2 * kMaxDamages);
  CHECK(seconds_since(start) < 30);
}

TEST_CASE("an index that lies is not believed") {
  const Folder folder;
  const std::string id(32, 'a');
  const Bytes preamble = slice(make_session(folder, 1), 0, kPreambleBytes);
  const Bytes header = frame_of(numbers(0, 3), id, 0, "session"), mass = frame_of(numbers(1, 20), id, 1, "mass");
  struct Lie {
    std::vector<uint64_t> offset, compressed, content;
    std::vector<uint32_t> kind, part, parts;
    std::string kinds;
    uint32_t version;
  };
  const uint64_t o1 = kPreambleBytes + header.size();
  const uint64_t c0 = 3 * 4, c1 = 20 * 4;  // not the content sizes: only the tables have to agree with each other
  const Lie truth{{kPreambleBytes, o1}, {header.size(), mass.size()}, {c0, c1}, {0, 1}, {0, 0}, {1, 1}, "session,mass", 1};
  auto open = [&](const Lie& lie) {
    Blob index;
    index.add<uint64_t>("offset", {lie.offset.size()}, lie.offset);
    index.add<uint64_t>("compressed", {lie.compressed.size()}, lie.compressed);
    index.add<uint64_t>("content", {lie.content.size()}, lie.content);
    index.add<uint64_t>("xxh64", {2}, std::vector<uint64_t>{0, 0});
    index.add<uint32_t>("kind", {2}, lie.kind);
    index.add<uint32_t>("version", {2}, std::vector<uint32_t>{1, 1});
    index.add<uint32_t>("turn", {2}, std::vector<uint32_t>{0xffffffffu, 0});
    index.add<uint32_t>("part", {2}, lie.part);
    index.add<uint32_t>("parts", {2}, lie.parts);
    index.metadata["kinds"] = lie.kinds;
    const uint64_t content = write_safetensors([&] {
                               Blob full = index;
                               full.metadata.insert({{"kind", "index"}, {"v", std::to_string(lie.version)}, {"session", id}, {"seq", "2"}});
                               return full;
                             }()).size();
    const Bytes frame = frame_of(index, id, 2, "index", lie.version);
    const Bytes table = seek_table({{kPreambleBytes, 0},
                                    {uint32_t(header.size()), uint32_t(c0)},
                                    {uint32_t(mass.size()), uint32_t(c1)},
                                    {uint32_t(frame.size()), uint32_t(content)}});
    auto reader = SessionReader::from_bytes(preamble + header + mass + frame + table, "lie");
    REQUIRE(reader);
    return *reader;
  };
  CHECK(open(truth)->finished());
  CHECK(!open(truth)->frame(1));  // but its hash is wrong
  std::vector<Lie> lies(9, truth);
  lies[0].offset[1] = UINT64_MAX - 3;
  lies[1].compressed[1] = UINT64_MAX;
  lies[2].content[1] = uint64_t(1) << 40;
  lies[3].kind[1] = 0xffffffffu;
  lies[4].parts[1] = 0;
  lies[5].parts[1] = 0xffffffffu;
  lies[6].offset.pop_back();
  lies[7].kinds = "mass,session";
  lies[8].version = 7;
  for (size_t i = 0; i < lies.size(); ++i) {
    INFO("lie " << i);
    const auto reader = open(lies[i]);
    CHECK(!reader->finished());
    CHECK(reader->frames().size() == 2);  // walked: the frames themselves are right
    CHECK(reader->frame(1));
  }
  CHECK(tags_of(open(lies[8])->findings()).find("version 7, this program reads 2") != std::string::npos);
}

TEST_CASE("seek tables that lie are ignored") {
  const Folder folder;
  const Bytes unfinished = make_session(folder, 1, false);
  for (const auto& entries : std::vector<std::vector<std::pair<uint32_t, uint32_t>>>{
           {}, {{16, 0}}, {{16, 0}, {uint32_t(unfinished.size() - 16), 0}}, {{0xffffffffu, 0}, {0xffffffffu, 0}, {1, 1}}}) {
    const auto reader = SessionReader::from_bytes(unfinished + seek_table(entries), "lie");
    REQUIRE(reader);
    CHECK(!(*reader)->finished());
    CHECK(closed_turns(**reader) == 1);
  }
  Bytes huge = unfinished;
  put(huge, kSeekTableFrameMagic), put(huge, uint32_t(0xfffffff0u)), put(huge, uint32_t(0x1fffffff)), put(huge, uint8_t(0)),
      put(huge, kSeekTableMagic);
  const auto reader = SessionReader::from_bytes(huge, "huge");
  REQUIRE(reader);
  CHECK(!(*reader)->finished());
}

TEST_CASE("frames that any zstd would take but this format does not are refused by name") {
  const Folder folder;
  const Bytes session = make_session(folder, 1, false);
  const auto whole = SessionReader::from_bytes(session, "whole");
  REQUIRE(whole);
  const std::string id = (*whole)->session_id();
  const uint32_t next = 3;
  auto findings = [&](const Bytes& frame) {
    const auto reader = SessionReader::from_bytes(session + frame, "odd");
    REQUIRE(reader);
    CHECK((*reader)->frames().size() == 3);
    return tags_of((*reader)->findings());
  };
  Bytes no_checksum = frame_of(numbers(1, 2), id, next, "mass");
  no_checksum[4] &= uint8_t(~0x04u);
  no_checksum.resize(no_checksum.size() - 4);
  CHECK(findings(no_checksum).find("no checksum") != std::string::npos);
  Blob anonymous = numbers(1, 2);
  CHECK(findings(frame_of(anonymous, "short", next, "mass")).find("metadata without") != std::string::npos);
  Blob wrong_part = numbers(1, 2);
  wrong_part.metadata = {{"part", "2"}, {"parts", "2"}};
  CHECK(findings(frame_of(wrong_part, id, next, "mass")).find("part and parts") != std::string::npos);
  Blob orphan = numbers(1, 2);
  orphan.metadata = {{"part", "1"}, {"parts", "3"}};
  CHECK(findings(frame_of(orphan, id, next, "mass")).find("SPAN-PARTS") != std::string::npos);
}
