// SPDX-License-Identifier: GPL-3.0-or-later
// Models in several files: found from any of them; missing, foreign and renamed shards are named.
#include "core/model/gguf_shards.h"

#include <filesystem>

#include "tests/support/gguf_split.h"
#include "tests/support/oracles.h"
#include "tests/support/temp_dir.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {

std::string last_part(const std::string& path) { return std::filesystem::path(path).filename().string(); }

// Opening from each shard that is there fails in the same way.
void refused(const std::function<void(std::vector<ShardSpec>&)>& change, ErrorCode code,
             const std::string& part, const std::string& where) {
  const TempDir dir;
  const auto paths = split_gguf(dir.write("whole.gguf", small_llama().build()), dir / "small", 3, change);
  for (const std::string& path : paths) {
    if (!std::filesystem::exists(path)) continue;
    INFO("opened by " << last_part(path) << ", expected: " << part);
    auto parts = open_gguf_parts(path);
    REQUIRE_FALSE(parts);
    INFO(parts.error().line());
    CHECK(parts.error().tag == "SPAN-GGUF-SPLIT");
    CHECK(parts.error().code == code);
    CHECK(parts.error().message.find(part) != std::string::npos);
    if (!where.empty()) CHECK(last_part(parts.error().where) == where);
  }
}

}  // namespace

TEST_CASE("names of shards") {
  const auto name = gguf_shard_name("some dir/qwen-of-00001-00012-of-00345.gguf");
  REQUIRE(name);
  CHECK(name->prefix == "some dir/qwen-of-00001");
  CHECK(name->number == 12);
  CHECK(name->count == 345);
  for (const char* no :
       {"", "model.gguf", "m-00001-of-00003.ggu", "m-00001-of-0003.gguf", "m-00004-of-00003.gguf",
        "m-00000-of-00003.gguf", "m-0000a-of-00003.gguf", "m_00001-of-00003.gguf", "-00001-of-00003.gguf",
        "m-00001_of-00003.gguf", "m-00001-of--0003.gguf"})
    CHECK_FALSE(gguf_shard_name(no));
}

TEST_CASE("one file is one part, whatever its name") {
  const TempDir dir;
  for (const char* name : {"model.gguf", "sha256-00ff", "m-00001-of-00001.gguf"}) {
    const std::string path = dir.write(name, small_llama().build());
    auto parts = open_gguf_parts(path);
    REQUIRE(parts);
    REQUIRE(parts->size() == 1);
    CHECK((*parts)[0].file.text("general.name").value() == "small");
    CHECK((*parts)[0].mapped->path() == path);
  }
  GgufBuilder g = small_llama();
  g.raw("split.count", 2, Bytes().put<uint16_t>(1)).raw("split.no", 2, Bytes().put<uint16_t>(0));
  CHECK(open_gguf_parts(dir.write("one.gguf", g.build())).value().size() == 1);
}

TEST_CASE("any shard gives the whole model") {
  for (uint32_t version : {2u, 3u})
    for (uint32_t count : {2u, 3u, 12u}) {
      const TempDir dir;
      GgufBuilder g = small_llama();
      g.version = version;
      const std::string whole = dir.write("whole.gguf", g.build());
      const auto paths = split_gguf(whole, dir / "small", count);
      auto mapped = MappedFile::open(whole);
      REQUIRE(mapped);
      auto file = GgufFile::parse((*mapped)->bytes(), whole);
      REQUIRE(file);
      for (const std::string& path : paths) {
        auto parts = open_gguf_parts(path);
        if (!parts) FAIL(parts.error().line());
        REQUIRE(parts->size() == count);
        size_t tensors = 0;
        for (size_t i = 0; i < count; ++i) {
          const GgufPart& part = (*parts)[i];
          CHECK(part.mapped->path() == paths[i]);
          CHECK(part.file.where() == paths[i]);
          CHECK(part.file.version() == version);
          for (const GgufTensor& t : part.file.tensors()) {
            ++tensors;
            const GgufTensor* original = file->tensor(t.name);
            REQUIRE(original);
            CHECK(t.shape == original->shape);
            REQUIRE(t.bytes == original->bytes);
            CHECK(std::memcmp(part.mapped->bytes().data() + t.data,
                              (*mapped)->bytes().data() + original->data, t.bytes) == 0);
          }
        }
        CHECK(tensors == file->tensors().size());
        CHECK((*parts)[0].file.texts("tokenizer.ggml.tokens").value().size() == 6);
        auto metadata = open_gguf_metadata(path);
        REQUIRE(metadata);
        CHECK(metadata->file.where() == paths[0]);
        CHECK(metadata->file.text("general.architecture").value() == "llama");
      }
    }
}

TEST_CASE("a first shard may hold metadata alone") {
  const TempDir dir;
  const auto paths =
      split_gguf(dir.write("whole.gguf", small_llama().build()), dir / "small", 2, [](auto& shards) {
        auto& moved = shards[0].tensors;
        shards[1].tensors.insert(shards[1].tensors.begin(), moved.begin(), moved.end());
        moved.clear();
      });
  auto parts = open_gguf_parts(paths[1]);
  if (!parts) FAIL(parts.error().line());
  CHECK((*parts)[0].file.tensors().empty());
  CHECK((*parts)[1].file.tensors().size() == 11);
}

TEST_CASE("an alignment of its own holds in every shard") {
  const TempDir dir;
  GgufBuilder g = small_llama();
  g.alignment = 128;
  g.u32("general.alignment", 128);
  const auto paths = split_gguf(dir.write("whole.gguf", g.build()), dir / "small", 3);
  auto parts = open_gguf_parts(paths[2]);
  if (!parts) FAIL(parts.error().line());
  for (const GgufPart& part : *parts)
    for (const GgufTensor& t : part.file.tensors()) CHECK(t.data % 128 == 0);
}

TEST_CASE("shards that are not there") {
  refused([](auto& s) { s[1].written = false; }, ErrorCode::not_found,
          "1 of 3 shards are not beside this one: small-00002-of-00003.gguf", "");
  refused([](auto& s) { s[0].written = s[2].written = false; }, ErrorCode::not_found,
          "small-00001-of-00003.gguf, small-00003-of-00003.gguf", "small-00002-of-00003.gguf");
  const TempDir dir;
  const auto paths = split_gguf(dir.write("whole.gguf", small_llama().build()), dir / "small", 9);
  for (int i = 1; i < 9; ++i) std::filesystem::remove(paths[size_t(i)]);
  auto parts = open_gguf_parts(paths[0]);
  REQUIRE_FALSE(parts);
  CHECK(parts.error().message.find("8 of 9 shards") != std::string::npos);
  CHECK(parts.error().message.find(
            "small-00002-of-00009.gguf, small-00003-of-00009.gguf, small-00004-of-00009.gguf and 5 more") !=
        std::string::npos);
  CHECK(open_gguf_metadata(paths[0]).ok());  // has the metadata; the vocabulary needs nothing else
}

TEST_CASE("shards of something else") {
  refused([](auto& s) { s[1].no = 2; }, ErrorCode::corrupt, "", "small-00002-of-00003.gguf");
  refused([](auto& s) { s[2].tensors_count = 12; }, ErrorCode::corrupt,
          "split.tensors.count is 12, 11 in the first shard", "small-00003-of-00003.gguf");
  refused([](auto& s) { s[1].tensors.push_back(s[0].tensors[0]); }, ErrorCode::corrupt,
          "tensor \"token_embd.weight\" is in an earlier shard too", "small-00002-of-00003.gguf");
  refused([](auto& s) { s[2].tensors.pop_back(); }, ErrorCode::corrupt,
          "the 3 shards have 10 tensors together, expected 11", "small-00001-of-00003.gguf");
  const TempDir dir;
  const std::string whole = dir.write("whole.gguf", small_llama().build());
  // One that says it is of another model, or of none.
  auto paths = split_gguf(whole, dir / "a", 3, [](auto& s) { s[1].count = 4; });
  auto parts = open_gguf_parts(paths[0]);
  REQUIRE_FALSE(parts);
  CHECK(parts.error().message == "foreign shard: it says it is of 4 files, this model has 3");
  CHECK(parts.error().where == paths[1]);
  REQUIRE(parts.error().offset);
  paths = split_gguf(whole, dir / "b", 3, [](auto& s) { s[2].keys = false; });
  parts = open_gguf_parts(paths[0]);
  REQUIRE_FALSE(parts);
  CHECK(parts.error().message == "foreign shard: nothing in it says that it is one of 3 files");
  CHECK(parts.error().where == paths[2]);
}

TEST_CASE("renamed shards say what name they need") {
  const TempDir dir;
  const auto paths = split_gguf(dir.write("whole.gguf", small_llama().build()), dir / "small", 3);
  std::filesystem::copy_file(paths[1], dir / "renamed.gguf");
  auto parts = open_gguf_parts(dir / "renamed.gguf");
  REQUIRE_FALSE(parts);
  CHECK(parts.error().tag == "SPAN-GGUF-SPLIT");
  CHECK(parts.error().message ==
        "the file is shard 2 of 3; to find the others its name must end in -00002-of-00003.gguf");
  std::filesystem::copy_file(paths[1], dir / "other-00003-of-00003.gguf");
  parts = open_gguf_parts(dir / "other-00003-of-00003.gguf");
  REQUIRE_FALSE(parts);
  CHECK(parts.error().message == "the name says shard 3 of 3, the file says it is shard 2 of 3");
  const GgufBuilder broken = [] {
    GgufBuilder g = small_llama();
    g.u32("split.count", 3);
    return g;
  }();
  parts = open_gguf_parts(dir.write("m-00001-of-00003.gguf", broken.build()));
  REQUIRE_FALSE(parts);
  CHECK(parts.error().message.find("\"split.no\"") != std::string::npos);
}
