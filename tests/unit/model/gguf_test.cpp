// SPDX-License-Identifier: GPL-3.0-or-later
// The GGUF container: cut files, absurd numbers, contradictions. Each is one clear error, never a crash.
#include <functional>
#include <random>

#include "core/base/files.h"
#include "core/model/gguf.h"
#include "tests/support/catch.h"
#include "tests/support/oracles.h"
#include "tests/support/gguf_builder.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {

// An allocation of exactly the bytes, so that a sanitizer sees a read behind the end.
Result<GgufFile> parse(const std::vector<uint8_t>& bytes, bool check_tensors = true) {
  return GgufFile::parse({bytes.data(), bytes.size()}, "test.gguf", check_tensors);
}

void refused(const std::vector<uint8_t>& bytes, const std::string& tag, const std::string& part) {
  auto file = parse(bytes);
  INFO(tag << ": " << part);
  REQUIRE_FALSE(file);
  INFO(file.error().line());
  CHECK(file.error().tag == tag);
  CHECK(file.error().where == "test.gguf");
  CHECK(file.error().message.find(part) != std::string::npos);
}

std::vector<uint8_t> real_file() {
  auto mapped = MappedFile::open(demo("relay-moe.gguf"));
  if (!mapped) FAIL(mapped.error().line());
  return {(*mapped)->bytes().begin(), (*mapped)->bytes().end()};
}

}  // namespace

TEST_CASE("a well-formed file gives its keys and tensors") {
  for (uint32_t version : {2u, 3u}) {
    GgufBuilder g = small_llama();
    g.version = version;
    const auto bytes = g.build();
    auto file = parse(bytes);
    REQUIRE(file);
    CHECK(file->version() == version);
    CHECK(file->text("general.architecture").value() == "llama");
    CHECK(file->unsigned_value("llama.block_count").value() == 1);
    CHECK(file->number("llama.rope.freq_base").value() == 10000.0);
    CHECK(file->boolean("tokenizer.ggml.add_bos_token", false).value());
    CHECK(file->texts("tokenizer.ggml.tokens").value().size() == 6);
    CHECK(file->integers("tokenizer.ggml.token_type").value() == std::vector<int64_t>{1, 1, 1, 1, 3, 3});
    CHECK(file->unsigned_value("not.there", 7).value() == 7);
    CHECK(file->texts("not.there").value().empty());
    const GgufTensor* t = file->tensor("blk.0.attn_k.weight");
    REQUIRE(t);
    CHECK(t->shape == std::vector<uint64_t>{32, 16});
    CHECK(t->bytes == 32 * 16 * 4);
    CHECK(t->data % 32 == 0);
    CHECK(file->tensor("blk.1.attn_k.weight") == nullptr);
  }
}

TEST_CASE("a key of another type is named with what was expected and found") {
  const auto bytes = small_llama().build();
  auto file = parse(bytes);
  REQUIRE(file);
  auto check = [](const Error& e, const char* part) {
    CHECK(e.tag == "SPAN-GGUF-KEY");
    INFO(e.message);
    CHECK(e.message.find(part) != std::string::npos);
  };
  check(file->unsigned_value("general.name").error(), "found string");
  check(file->unsigned_value("not.there").error(), "missing");
  check(file->text("llama.block_count").error(), "found u32");
  check(file->number("general.name").error(), "found string");
  check(file->boolean("llama.block_count", true).error(), "found u32");
  check(file->texts("tokenizer.ggml.token_type").error(), "found array of i32");
  check(file->integers("tokenizer.ggml.tokens").error(), "found array of string");
}

TEST_CASE("a file cut anywhere is refused") {
  const std::vector<uint8_t> whole = real_file();
  const auto complete = parse(whole);
  REQUIRE(complete);
  uint64_t last_end = 0;
  for (const GgufTensor& t : complete->tensors()) last_end = std::max(last_end, t.data + t.bytes);
  auto cut = [&](uint64_t size) {
    if (size >= last_end) return;
    const std::vector<uint8_t> bytes(whole.begin(), whole.begin() + ptrdiff_t(size));
    auto file = parse(bytes);
    INFO("cut at byte " << size);
    REQUIRE_FALSE(file);
    CHECK((file.error().tag == "SPAN-TRUNCATED" || file.error().tag == "SPAN-GGUF-TENSOR" ||
           (size < 4 && file.error().tag == "SPAN-GGUF-MAGIC")));
    CHECK(file.error().offset.has_value());
    (void)parse(bytes, false);  // the vocabulary-only reader must survive it too
  };
  for (uint64_t size = 0; size < std::min<uint64_t>(4096, whole.size()); ++size) cut(size);
  for (uint64_t size = 0; size < whole.size(); size += 997) cut(size);
  cut(last_end - 1);
}

TEST_CASE("changed bytes never crash the reader") {
  const std::vector<uint8_t> whole = small_llama().build();
  const uint64_t header = parse(whole)->header_bytes();
  std::mt19937 random(20240917);
  for (int round = 0; round < 4000; ++round) {
    std::vector<uint8_t> bytes = whole;
    for (int change = 0; change < 1 + round % 3; ++change) {
      const uint8_t values[] = {0, 1, 0x7f, 0x80, 0xff, uint8_t(random())};
      bytes[random() % header] = values[random() % 6];
    }
    auto file = parse(bytes);
    if (!file) {
      CHECK_FALSE(file.error().message.empty());
      continue;
    }
    for (const GgufTensor& t : file->tensors()) CHECK(t.data + t.bytes <= bytes.size());
    (void)file->texts("tokenizer.ggml.tokens");
    (void)file->integers("tokenizer.ggml.token_type");
  }
}

TEST_CASE("things that are no GGUF file") {
  refused({}, "SPAN-GGUF-MAGIC", "found \"\"");
  const std::string text = "This is a text file that somebody renamed to model.gguf\n";
  refused({text.begin(), text.end()}, "SPAN-GGUF-MAGIC", "found \"This\"");
  GgufBuilder g = small_llama();
  g.magic = "GGML";
  refused(g.build(), "SPAN-GGUF-MAGIC", "found \"GGML\"");
  g = small_llama();
  g.version = 1;
  refused(g.build(), "SPAN-GGUF-VERSION", "version 1");
  g.version = 4;
  refused(g.build(), "SPAN-GGUF-VERSION", "version 4");
  g.version = 0x03000000;
  refused(g.build(), "SPAN-GGUF-VERSION", "big-endian");
}

TEST_CASE("absurd counts are compared with the bytes that remain") {
  for (uint64_t count : {uint64_t(1) << 40, UINT64_MAX - 1, UINT64_MAX / 13, uint64_t(100000)}) {
    GgufBuilder g = small_llama();
    g.key_count = count;
    refused(g.build(), "SPAN-TRUNCATED", std::to_string(count) + " metadata keys");
    g = small_llama();
    g.tensor_count = count;
    refused(g.build(), "SPAN-TRUNCATED", std::to_string(count) + " tensors");
    g = small_llama();
    g.raw("long", 9, Bytes().put<uint32_t>(8).put<uint64_t>(count));
    refused(g.build(), "SPAN-TRUNCATED", std::to_string(count) + " elements");
    g = small_llama();
    g.raw("long", 9, Bytes().put<uint32_t>(10).put<uint64_t>(count));
    refused(g.build(), "SPAN-TRUNCATED", std::to_string(count) + " elements");
    g = small_llama();
    g.raw("long", 8, Bytes().put<uint64_t>(count));
    refused(g.build(), "SPAN-TRUNCATED", std::to_string(count) + " bytes");
  }
}

TEST_CASE("metadata that contradicts itself") {
  GgufBuilder g = small_llama();
  refused(g.duplicate_key("general.name").build(), "SPAN-GGUF-KEY", "\"general.name\" is there twice");
  g = small_llama();
  refused(g.raw("odd", 77, Bytes().put(0)).build(), "SPAN-GGUF-KEY", "value type 77");
  g = small_llama();
  refused(g.raw("odd", 9, Bytes().put<uint32_t>(99).put<uint64_t>(0)).build(), "SPAN-GGUF-KEY",
          "array of value type 99");
  g = small_llama();
  Bytes nested;
  for (int i = 0; i < 40; ++i) nested.put<uint32_t>(9).put<uint64_t>(1);
  refused(g.raw("deep", 9, nested.put<uint32_t>(0).put<uint64_t>(0)).build(), "SPAN-GGUF-KEY",
          "deeper than 4");
  for (uint32_t alignment : {0u, 7u, 1u << 31}) {
    g = small_llama();
    refused(g.u32("general.alignment", alignment).build(), "SPAN-GGUF-KEY",
            "general.alignment is " + std::to_string(alignment));
  }
}

TEST_CASE("tensors must lie inside the file") {
  auto with = [](const std::function<void(TensorSpec&)>& change) {
    GgufBuilder g = small_llama();
    change(*g.find("blk.0.attn_q.weight"));
    return g.build();
  };
  refused(with([](TensorSpec& t) { t.offset = uint64_t(1) << 40; }), "SPAN-GGUF-TENSOR",
          "begins at offset 1099511627776");
  refused(with([](TensorSpec& t) { t.offset = UINT64_MAX - 31; }), "SPAN-GGUF-TENSOR", "begins at offset");
  refused(with([](TensorSpec& t) { t.offset = 33; }), "SPAN-GGUF-TENSOR", "not a multiple of 32");
  refused(with([](TensorSpec& t) { t.shape = {32, 1 << 20}; }), "SPAN-TRUNCATED", "needs 134217728 bytes");
  refused(with([](TensorSpec& t) {
            t.shape = {uint64_t(1) << 33, uint64_t(1) << 33};
          }),
          "SPAN-GGUF-TENSOR", "does not fit");
  refused(with([](TensorSpec& t) { t.shape = {uint64_t(1) << 62, 4}; }), "SPAN-GGUF-TENSOR", "does not fit");
  refused(with([](TensorSpec& t) { t.shape = {uint64_t(1) << 61}; }), "SPAN-GGUF-TENSOR", "does not fit");
  refused(with([](TensorSpec& t) { t.shape = {32, 0}; }), "SPAN-GGUF-TENSOR", "no elements");
  refused(with([](TensorSpec& t) { t.shape = {}; }), "SPAN-GGUF-TENSOR", "0 dimensions");
  refused(with([](TensorSpec& t) { t.shape = {2, 2, 2, 2, 2}; }), "SPAN-GGUF-TENSOR", "5 dimensions");
  refused(with([](TensorSpec& t) {
            t.type = 8;
            t.shape = {31, 32};
          }),
          "SPAN-GGUF-TENSOR", "multiple of 32");
  GgufBuilder g = small_llama();
  g.tensor_f32("blk.0.attn_q.weight", {32});
  refused(g.build(), "SPAN-GGUF-TENSOR", "is there twice");
  g = small_llama();
  g.tensor_f32(std::string("bad\x01\n") + std::string(200, 'x'), {0});
  refused(g.build(), "SPAN-GGUF-TENSOR", "bad\\x01\\x0a");
}
