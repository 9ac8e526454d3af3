// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/file/safetensors.h"

#include "tests/support/catch.h"

using namespace spanscope;

namespace {
std::vector<uint8_t> with_header(const std::string& header, size_t data) {
  std::vector<uint8_t> out(8 + header.size() + data, 0);
  const uint64_t size = header.size();
  std::memcpy(out.data(), &size, 8);
  std::memcpy(out.data() + 8, header.data(), header.size());
  return out;
}
std::string entry(const std::string& name, const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
}
}  // namespace

TEST_CASE("a blob survives the round trip") {
  Blob blob;
  blob.metadata = {{"kind", "x"}, {"odd", "\"quoted\" \n"}};
  blob.add<double>("a/b.c-d", {2, 1}, std::vector<double>{1.5, -2});
  blob.add<uint16_t>("h", {3}, std::vector<uint16_t>{1, 2, 65535});
  blob.add<float>("empty", {0, 4}, std::vector<float>{});
  auto back = parse_safetensors(write_safetensors(blob), "t");
  REQUIRE(back);
  CHECK(back->metadata == blob.metadata);
  CHECK(*back->get<double>("a/b.c-d", 2) == std::vector<double>{1.5, -2});
  CHECK(*back->get<uint16_t>("h") == std::vector<uint16_t>{1, 2, 65535});
  CHECK(back->find("empty")->shape == std::vector<uint64_t>{0, 4});
  CHECK(!back->get<float>("h"));
  CHECK(!back->get<double>("a/b.c-d", 3));
  CHECK(!back->get<double>("none"));
}

TEST_CASE("thirty crafted headers are each refused") {
  const std::string ok = entry("a", "F32", "[2]", "[0,8]");
  REQUIRE(parse_safetensors(with_header("{" + ok + "}", 8), "t"));
  const std::vector<std::pair<std::string, size_t>> crafted = {
      {"", 0}, {"{", 0}, {"[]", 0}, {"null", 0}, {"{" + ok + "}", 7}, {"{" + ok + "}", 9},
      {"{" + ok + "," + entry("a", "F32", "[2]", "[0,8]") + "}", 8},
      {"{" + ok + "," + entry("b", "F32", "[2]", "[4,12]") + "}", 12},
      {"{" + ok + "," + entry("b", "F32", "[1]", "[12,16]") + "}", 16},
      {"{" + entry("a", "F32", "[2]", "[8,0]") + "}", 8},
      {"{" + entry("a", "F32", "[2]", "[0,18446744073709551615]") + "}", 8},
      {"{" + entry("a", "F32", "[4294967296,4294967296,4]", "[0,8]") + "}", 8},
      {"{" + entry("a", "F32", "[-2]", "[0,8]") + "}", 8},
      {"{" + entry("a", "F32", "[2.0]", "[0,8]") + "}", 8},
      {"{" + entry("a", "F32", "2", "[0,8]") + "}", 8},
      {"{" + entry("a", "F32", "[1,1,1,1,1,1,1,1,2]", "[0,8]") + "}", 8},
      {"{" + entry("a", "F31", "[2]", "[0,8]") + "}", 8},
      {"{" + entry("a", "F32", "[3]", "[0,8]") + "}", 8},
      {"{" + entry("", "F32", "[2]", "[0,8]") + "}", 8},
      {"{" + entry("a b", "F32", "[2]", "[0,8]") + "}", 8},
      {"{" + entry(std::string(129, 'n'), "F32", "[2]", "[0,8]") + "}", 8},
      {"{" + entry("a", "F32", "[2]", "[0]") + "}", 8},
      {"{" + entry("a", "F32", "[2]", "\"0,8\"") + "}", 8},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8},
      {"{\"a\":{\"dtype\":7,\"shape\":[2],\"data_offsets\":[0,8]}}", 8},
      {"{\"a\":[]}", 8},
      {"{\"__metadata__\":7," + ok + "}", 8},
      {"{\"__metadata__\":{\"k\":7}," + ok + "}", 8},
      {"{\"\xff\":0}", 8},
      {std::string(1000, '['), 8},
  };
  REQUIRE(crafted.size() == 30);
  for (const auto& [header, data] : crafted) {
    INFO(header.substr(0, 100));
    auto parsed = parse_safetensors(with_header(header, data), "t");
    REQUIRE(!parsed);
    CHECK(!parsed.error().message.empty());
  }
  std::vector<uint8_t> huge = with_header("{}", 0);
  const uint64_t size = UINT64_MAX;
  std::memcpy(huge.data(), &size, 8);
  CHECK(!parse_safetensors(huge, "t"));
  for (size_t n = 0; n < 8; ++n) CHECK(!parse_safetensors(std::vector<uint8_t>(n, 0), "t"));
  BlobLimits limits;
  limits.tensors = 1;
  CHECK(!parse_safetensors(with_header("{" + ok + "," + entry("b", "U8", "[0]", "[8,8]") + "}", 8), "t", limits));
}
