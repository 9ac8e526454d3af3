// SPDX-License-Identifier: GPL-3.0-or-later
// Blob headers that lie, from one generator, each in a frame whose zstd side is right: behind an unfinished session, and in a
// finished one under an index that vouches for its bytes.
#include <xxhash.h>
#include <zstd.h>

#include <functional>

#include "core/file/frame_codec.h"
#include "core/file/session_format.h"
#include "core/file/session_index.h"
#include "tests/format/session/sample.h"
#include "tests/support/catch.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {

// A header as text and the bytes behind it; each lie changes one thing of a right one.
struct Crafted {
  std::string name, metadata, tensors;
  size_t data = 8;
  int64_t size_lie = 0;      // added to the header's declared size
  std::string raw;           // instead of all, when not empty
};

std::string tensor(const std::string& name, const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":" + dtype + ",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
}

std::vector<Crafted> lies(const std::string& id) {
  const std::string meta = "\"kind\":\"mass\",\"v\":\"1\",\"session\":\"" + id + "\",\"seq\":\"3\",\"turn\":\"1\"";
  const std::string good = tensor("x", "\"F32\"", "[2]", "[0,8]");
  std::vector<Crafted> out;
  auto lie = [&](std::string name, std::function<void(Crafted&)> change) {
    Crafted c{std::move(name), meta, good};
    change(c);
    out.push_back(std::move(c));
  };
  lie("size beyond the blob", [](Crafted& c) { c.size_lie = 1000; });
  lie("size of 2^63", [](Crafted& c) { c.size_lie = INT64_MAX - 4096; });
  lie("size that cuts the header", [](Crafted& c) { c.size_lie = -5; });
  lie("size that takes data in", [](Crafted& c) { c.size_lie = 4; });
  lie("size zero", [](Crafted& c) { c.raw = std::string(8, '\0'); });
  lie("shorter than its size field", [](Crafted& c) { c.raw = "abc"; });
  lie("header above a mebibyte", [](Crafted& c) { c.metadata += ",\"pad\":\"" + std::string(1 << 20, ' ') + "\""; });
  lie("nested beyond reason", [](Crafted& c) { c.tensors = "\"x\":" + std::string(5000, '[') + std::string(5000, ']'); });
  lie("4097 tensors", [](Crafted& c) {
    c.tensors.clear();
    for (int i = 0; i < 4097; ++i) c.tensors += (i ? "," : "") + tensor("t" + std::to_string(i), "\"U8\"", "[0]", "[0,0]");
    c.data = 0;
  });
  lie("nine dimensions", [](Crafted& c) { c.tensors = tensor("x", "\"F32\"", "[1,1,1,1,1,1,1,1,2]", "[0,8]"); });
  lie("shape that overflows to the right size", [](Crafted& c) { c.tensors = tensor("x", "\"F32\"", "[9223372036854775809,2]", "[0,8]"); });
  lie("shape of zero times all", [](Crafted& c) { c.tensors = tensor("x", "\"F32\"", "[0,18446744073709551615,18446744073709551615]", "[0,8]"); });
  lie("negative dimension", [](Crafted& c) { c.tensors = tensor("x", "\"F32\"", "[-2]", "[0,8]"); });
  lie("dimension with a fraction", [](Crafted& c) { c.tensors = tensor("x", "\"F32\"", "[2.0]", "[0,8]"); });
  lie("dimension beyond 64 bits", [](Crafted& c) { c.tensors = tensor("x", "\"F32\"", "[99999999999999999999999]", "[0,8]"); });
  lie("shape that is a number", [](Crafted& c) { c.tensors = tensor("x", "\"F32\"", "2", "[0,8]"); });
  lie("unknown type", [](Crafted& c) { c.tensors = tensor("x", "\"F8_E4M3\"", "[8]", "[0,8]"); });
  lie("type that is a number", [](Crafted& c) { c.tensors = tensor("x", "32", "[2]", "[0,8]"); });
  lie("offsets backwards", [](Crafted& c) { c.tensors = tensor("x", "\"F32\"", "[2]", "[8,0]"); });
  lie("offsets beyond the data", [](Crafted& c) { c.tensors = tensor("x", "\"F32\"", "[4]", "[0,16]"); });
  lie("offsets beyond 2^64", [](Crafted& c) { c.tensors = tensor("x", "\"F32\"", "[2]", "[18446744073709551608,18446744073709551616]"); });
  lie("one offset", [](Crafted& c) { c.tensors = tensor("x", "\"F32\"", "[2]", "[8]"); });
  lie("hole before", [](Crafted& c) { c.tensors = tensor("x", "\"F32\"", "[1]", "[4,8]"); });
  lie("hole behind", [](Crafted& c) { c.data = 12; });
  lie("overlap", [](Crafted& c) { c.tensors += "," + tensor("y", "\"F32\"", "[1]", "[4,8]"); });
  lie("one name twice", [](Crafted& c) { c.tensors = tensor("x", "\"F32\"", "[1]", "[0,4]") + "," + tensor("x", "\"F32\"", "[1]", "[4,8]"); });
  lie("two metadata", [&](Crafted& c) { c.tensors = "\"__metadata__\":{" + meta + "}," + good; });
  lie("empty name", [](Crafted& c) { c.tensors = tensor("", "\"F32\"", "[2]", "[0,8]"); });
  lie("name of 129 bytes", [](Crafted& c) { c.tensors = tensor(std::string(129, 'n'), "\"F32\"", "[2]", "[0,8]"); });
  lie("name with a newline", [](Crafted& c) { c.tensors = tensor("x\\ny", "\"F32\"", "[2]", "[0,8]"); });
  lie("name that is no text", [](Crafted& c) { c.tensors = tensor("\xff\xfe", "\"F32\"", "[2]", "[0,8]"); });
  lie("metadata that is a list", [](Crafted& c) { c.raw = "{\"__metadata__\":[]}"; });
  lie("metadata with a number", [](Crafted& c) { c.metadata += ",\"events\":7"; });
  lie("no metadata", [](Crafted& c) { c.raw = "{}"; });
  lie("sequence number beyond 32 bits", [&](Crafted& c) { c.metadata = "\"kind\":\"mass\",\"v\":\"1\",\"session\":\"" + id + "\",\"seq\":\"4294967299\",\"turn\":\"1\""; });
  lie("negative sequence number", [&](Crafted& c) { c.metadata = "\"kind\":\"mass\",\"v\":\"1\",\"session\":\"" + id + "\",\"seq\":\"-3\",\"turn\":\"1\""; });
  lie("turn that is a word", [&](Crafted& c) { c.metadata = "\"kind\":\"mass\",\"v\":\"1\",\"session\":\"" + id + "\",\"seq\":\"3\",\"turn\":\"one\""; });
  lie("part without parts", [](Crafted& c) { c.metadata += ",\"part\":\"0\""; });
  lie("part beyond parts", [](Crafted& c) { c.metadata += ",\"part\":\"4\",\"parts\":\"4\""; });
  lie("a million parts", [](Crafted& c) { c.metadata += ",\"part\":\"0\",\"parts\":\"1000000\""; });
  lie("trailing text", [](Crafted& c) { c.tensors += "}{"; });
  return out;
}

Bytes content_of(const Crafted& c) {
  std::string header = "{\"__metadata__\":{" + c.metadata + "}" + (c.tensors.empty() ? "" : ",") + c.tensors + "}";
  if (c.raw.size() && c.raw.front() == '{') header = c.raw;
  else if (!c.raw.empty()) return Bytes(c.raw.begin(), c.raw.end());
  const uint64_t size = uint64_t(int64_t(header.size()) + c.size_lie);
  Bytes out(8);
  std::memcpy(out.data(), &size, 8);
  out.insert(out.end(), header.begin(), header.end());
  out.resize(out.size() + (c.raw.empty() ? c.data : 0));
  return out;
}

Bytes compress(const Bytes& content) {
  Bytes out(ZSTD_compressBound(content.size()));
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  out.resize(ZSTD_compress2(context, out.data(), out.size(), content.data(), content.size()));
  ZSTD_freeCCtx(context);
  return out;
}

}  // namespace

TEST_CASE("crafted blob headers are refused by name, walked to and indexed") {
  const Folder folder;
  const Bytes session = make_session(folder, 1, false);
  const auto whole = SessionReader::from_bytes(session, "whole");
  REQUIRE(whole);
  const std::string id = (*whole)->session_id();
  const auto crafted = lies(id);
  CHECK(crafted.size() >= 30);
  // The generator's right form is taken: what is refused below is refused for its lie.
  const Crafted right{"right", crafted[0].metadata, crafted[0].tensors};
  REQUIRE((*SessionReader::from_bytes(session + compress(content_of(right)), "right"))->frames().size() == 4);

  std::vector<PhysicalFrame> rows;
  for (const FrameInfo& f : (*whole)->frames())
    rows.push_back({f.offset, f.compressed_bytes, f.content_bytes, XXH64(session.data() + f.offset, f.compressed_bytes, 0), f.kind, f.version, f.seq, f.turn});
  for (const Crafted& c : crafted) {
    INFO(c.name);
    const Bytes content = content_of(c), frame = compress(content);
    const auto walked = SessionReader::from_bytes(session + frame, "walked");
    REQUIRE(walked);
    CHECK((*walked)->frames().size() == 3);
    bool lost = false;
    for (const Finding& f : (*walked)->findings()) lost = lost || f.grade >= Grade::loss;
    CHECK(lost);

    auto listed = rows;
    listed.push_back({session.size(), frame.size(), content.size(), XXH64(frame.data(), frame.size(), 0), "mass", 1, 3, 1});
    uint64_t index_content = 0;
    const auto index = index_frame(listed, id, 4, index_content);
    REQUIRE(index);
    const auto indexed = SessionReader::from_bytes(session + frame + *index + seek_table(listed, index->size(), index_content), "indexed");
    REQUIRE(indexed);
    REQUIRE((*indexed)->finished());
    REQUIRE((*indexed)->frames().size() == 4);
    const auto blob = (*indexed)->frame(3);
    REQUIRE(!blob);
    CHECK(!blob.error().message.empty());
    const VerifyReport report = verify_session(**indexed);
    CHECK(report.frames_readable == 3);
    CHECK(!report.findings.empty());
  }
}
