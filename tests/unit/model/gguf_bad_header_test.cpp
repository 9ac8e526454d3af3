// SPDX-License-Identifier: GPL-3.0-or-later
// Bad GGUF headers, each wrong in one way, from one generator: what is said about it, under which tag and at
// which byte. The byte is found by searching the file for the name of what was spoiled, so that the reader's
// own counting is checked too.
#include <algorithm>
#include <functional>

#include "core/model/gguf.h"
#include "tests/support/catch.h"
#include "tests/support/gguf_builder.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {

using File = std::vector<uint8_t>;

// Byte at which `text` begins; its length field (8 bytes before) is where an entry with this name begins.
uint64_t find_text(const File& file, const std::string& text) {
  const auto at = std::search(file.begin(), file.end(), text.begin(), text.end());
  REQUIRE(at != file.end());
  return uint64_t(at - file.begin());
}
uint64_t entry_of(const File& file, const std::string& name) { return find_text(file, name) - 8; }
// First byte of the value of a key: behind its name and type.
uint64_t value_of(const File& file, const std::string& key) { return find_text(file, key) + key.size() + 4; }

template <class T>
void overwrite(File& file, uint64_t at, T value) {
  REQUIRE(at + sizeof value <= file.size());
  std::memcpy(file.data() + at, &value, sizeof value);
}

using Where = std::function<uint64_t(const File&)>;
Where at(uint64_t byte) {
  return [byte](const File&) { return byte; };
}
Where entry(const std::string& name) {
  return [name](const File& f) { return entry_of(f, name); };
}
Where value(const std::string& key, uint64_t behind = 0) {
  return [=](const File& f) { return value_of(f, key) + behind; };
}

struct Bad {
  const char* what;
  std::function<File()> make;
  const char* tag;
  Where offset;
  std::string message;  // a part of it
};

const std::string kQ = "blk.0.attn_q.weight", kK = "blk.0.attn_k.weight";

// A change before the file is written ...
std::function<File()> built(const std::function<void(GgufBuilder&)>& change) {
  return [change] {
    GgufBuilder g = small_llama();
    change(g);
    return g.build();
  };
}
std::function<File()> tensor(const std::function<void(TensorSpec&)>& change) {
  return built([change](GgufBuilder& g) { change(*g.find(kQ)); });
}
// ... or of its bytes.
std::function<File()> patched(const std::function<void(File&)>& change) {
  return [change] {
    File file = small_llama().build();
    change(file);
    return file;
  };
}

Bytes array_of(uint32_t type, uint64_t count) { return Bytes().put(type).put(count); }

const std::vector<Bad>& bad_headers() {
  static const std::vector<Bad> all = {
      // What kind of file it is
      {"another magic", built([](GgufBuilder& g) { g.magic = "GGJT"; }), "SPAN-GGUF-MAGIC", at(0),
       "found \"GGJT\""},
      {"a magic in lower case", built([](GgufBuilder& g) { g.magic = "gguf"; }), "SPAN-GGUF-MAGIC", at(0),
       "expected a GGUF file"},
      {"a magic of control bytes", patched([](File& f) { overwrite<uint32_t>(f, 0, 0x07ff1b00); }),
       "SPAN-GGUF-MAGIC", at(0), "found \"\\x00\\x1b"},
      {"nothing behind the magic",
       [] {
         return File{'G', 'G', 'U', 'F'};
       },
       "SPAN-TRUNCATED", at(4), "the version needs 4 bytes"},
      {"version 0", built([](GgufBuilder& g) { g.version = 0; }), "SPAN-GGUF-VERSION", at(4),
       "version 0, versions 2 and 3"},
      {"version 1", built([](GgufBuilder& g) { g.version = 1; }), "SPAN-GGUF-VERSION", at(4), "version 1"},
      {"a version to come", built([](GgufBuilder& g) { g.version = 4; }), "SPAN-GGUF-VERSION", at(4),
       "version 4"},
      {"big-endian", built([](GgufBuilder& g) { g.version = 0x03000000; }), "SPAN-GGUF-VERSION", at(4),
       "big-endian"},
      {"counts cut off",
       [] {
         File f = small_llama().build();
         f.resize(23);
         return f;
       },
       "SPAN-TRUNCATED", at(16), "the header needs 8 bytes at byte 16, 7 remain"},

      // Counts
      {"2^63 tensors", built([](GgufBuilder& g) { g.tensor_count = uint64_t(1) << 63; }), "SPAN-TRUNCATED",
       at(8), "9223372036854775808 tensors"},
      {"2^64 - 2 keys", built([](GgufBuilder& g) { g.key_count = UINT64_MAX - 1; }), "SPAN-TRUNCATED", at(16),
       "18446744073709551614 metadata keys"},
      {"a tensor in a file that ends behind its keys", built([](GgufBuilder& g) {
         g.tensors.clear();
         g.tensor_count = 1;
       }),
       "SPAN-TRUNCATED", at(8), "the header says 1 tensors of at least 32 bytes"},
      {"a key count that a 64-bit product wraps",
       built([](GgufBuilder& g) { g.key_count = UINT64_MAX / 13 + 2; }), "SPAN-TRUNCATED", at(16),
       "metadata keys"},
      {"more keys than are taken",
       [] {
         File f(24 + (size_t(1) << 20), 0);
         std::memcpy(f.data(), "GGUF", 4);
         overwrite<uint32_t>(f, 4, 3);
         overwrite<uint64_t>(f, 16, 65537);
         return f;
       },
       "SPAN-LIMIT", at(16), "65537 metadata keys, at most 65536"},

      // Keys
      {"a key's name longer than the file",
       patched([](File& f) { overwrite(f, entry_of(f, "llama.block_count"), uint64_t(1) << 40); }),
       "SPAN-TRUNCATED", entry("llama.block_count"), "1099511627776 bytes"},
      {"a key's name longer than names are", built([](GgufBuilder& g) { g.u32(std::string(70000, 'n'), 1); }),
       "SPAN-LIMIT", entry(std::string(70000, 'n')), "has 70000 bytes, at most 65536"},
      {"a key twice", built([](GgufBuilder& g) { g.duplicate_key("llama.block_count"); }), "SPAN-GGUF-KEY",
       nullptr, "\"llama.block_count\" is there twice"},
      {"a value of no type", built([](GgufBuilder& g) { g.raw("odd.key", 13, Bytes().put(0)); }),
       "SPAN-GGUF-KEY", value("odd.key"), "\"odd.key\" has value type 13"},
      {"a value of type 2^32 - 1",
       built([](GgufBuilder& g) { g.raw("odd.key", UINT32_MAX, Bytes().put(0)); }), "SPAN-GGUF-KEY",
       value("odd.key"), "value type 4294967295"},
      {"a string longer than the file",
       patched([](File& f) { overwrite(f, value_of(f, "general.name"), uint64_t(1) << 32); }),
       "SPAN-TRUNCATED", value("general.name"), "\"general.name\" says 4294967296 bytes"},
      {"a string of 2^64 - 1 bytes",
       patched([](File& f) { overwrite(f, value_of(f, "general.name"), UINT64_MAX); }), "SPAN-TRUNCATED",
       value("general.name"), "says 18446744073709551615 bytes"},
      {"an array of no type", built([](GgufBuilder& g) { g.raw("odd.key", 9, array_of(64, 1)); }),
       "SPAN-GGUF-KEY", value("odd.key"), "array of value type 64"},
      {"an array longer than the file",
       built([](GgufBuilder& g) { g.raw("odd.key", 9, array_of(4, uint64_t(1) << 62)); }), "SPAN-TRUNCATED",
       value("odd.key", 12), "4611686018427387904 elements of at least 4 bytes"},
      {"an array whose byte count wraps",
       built([](GgufBuilder& g) { g.raw("odd.key", 9, array_of(12, (uint64_t(1) << 61) + 1)); }),
       "SPAN-TRUNCATED", value("odd.key", 12), "2305843009213693953 elements"},
      {"an array of strings that ends early", patched([](File& f) {
         overwrite(f, value_of(f, "tokenizer.ggml.tokens") + 12, uint64_t(1) << 50);  // of the first token
       }),
       "SPAN-TRUNCATED", value("tokenizer.ggml.tokens", 12), "says 1125899906842624 bytes"},
      {"arrays of arrays of arrays", built([](GgufBuilder& g) {
         Bytes nested;
         for (int i = 0; i < 100; ++i) nested.put<uint32_t>(9).put<uint64_t>(1);
         g.raw("odd.key", 9, nested.put<uint32_t>(0).put<uint64_t>(0));
       }),
       "SPAN-GGUF-KEY", value("odd.key", 5 * 12), "\"odd.key\" nests arrays deeper than 4"},

      // Alignment
      {"alignment 0", built([](GgufBuilder& g) { g.u32("general.alignment", 0); }), "SPAN-GGUF-KEY",
       value("general.alignment"), "general.alignment is 0, expected a power of two"},
      {"alignment 24", built([](GgufBuilder& g) { g.u32("general.alignment", 24); }), "SPAN-GGUF-KEY",
       value("general.alignment"), "general.alignment is 24"},
      {"alignment 4", built([](GgufBuilder& g) { g.u32("general.alignment", 4); }), "SPAN-GGUF-KEY",
       value("general.alignment"), "from 8 to 1048576"},
      {"alignment 2^31", built([](GgufBuilder& g) { g.u32("general.alignment", 1u << 31); }), "SPAN-GGUF-KEY",
       value("general.alignment"), "general.alignment is 2147483648"},
      {"alignment in words", built([](GgufBuilder& g) { g.text("general.alignment", "32"); }),
       "SPAN-GGUF-KEY", value("general.alignment"), "expected a whole number from 0, found string"},
      {"alignment below zero",
       built([](GgufBuilder& g) { g.raw("general.alignment", 5, Bytes().put<int32_t>(-32)); }),
       "SPAN-GGUF-KEY", value("general.alignment"), "expected a whole number from 0, found i32"},

      // Tensors: shape
      {"no dimensions", tensor([](TensorSpec& t) { t.shape = {}; }), "SPAN-GGUF-TENSOR", entry(kQ),
       "has 0 dimensions, expected 1 to 4"},
      {"five dimensions", tensor([](TensorSpec& t) {
         t.shape = {32, 2, 2, 2, 2};
       }),
       "SPAN-GGUF-TENSOR", entry(kQ), "has 5 dimensions"},
      {"2^32 - 1 dimensions",
       patched([](File& f) { overwrite(f, find_text(f, kQ) + kQ.size(), UINT32_MAX); }), "SPAN-GGUF-TENSOR",
       entry(kQ), "has 4294967295 dimensions"},
      {"a dimension of 0", tensor([](TensorSpec& t) {
         t.shape = {32, 0};
       }),
       "SPAN-GGUF-TENSOR", entry(kQ), "shape [32 x 0]: no elements"},
      {"a product that wraps to 0", tensor([](TensorSpec& t) {
         t.shape = {uint64_t(1) << 32, uint64_t(1) << 32};
       }),
       "SPAN-GGUF-TENSOR", entry(kQ), "product does not fit"},
      {"a product that wraps to a small number", tensor([](TensorSpec& t) {
         t.shape = {uint64_t(1) << 32, (uint64_t(1) << 32) + 1};
       }),
       "SPAN-GGUF-TENSOR", entry(kQ), "product does not fit"},
      {"bytes that would wrap", tensor([](TensorSpec& t) { t.shape = {(uint64_t(1) << 62) + 256}; }),
       "SPAN-GGUF-TENSOR", entry(kQ), "does not fit"},
      {"a name twice", built([](GgufBuilder& g) { g.tensor_f32(kQ, {32}); }), "SPAN-GGUF-TENSOR", nullptr,
       "\"blk.0.attn_q.weight\" is there twice"},
      {"a name longer than names are",
       built([](GgufBuilder& g) { g.tensor_f32(std::string(70000, 'n'), {32}); }), "SPAN-LIMIT",
       entry(std::string(70000, 'n')), "the name of tensor 11 has 70000 bytes"},

      // Tensors: type and place
      {"a type number not given out", tensor([](TensorSpec& t) { t.type = 99; }), "SPAN-UNSUPPORTED-TYPE",
       entry(kQ), "has type 99; supported are F32, F16, BF16"},
      {"a type number that was withdrawn", tensor([](TensorSpec& t) { t.type = 4; }), "SPAN-UNSUPPORTED-TYPE",
       entry(kQ), "has type 4;"},
      {"a row that is no multiple of its blocks", tensor([](TensorSpec& t) { t.type = 12; }),
       "SPAN-GGUF-TENSOR", entry(kQ), "(Q4_K) has rows of 32 elements, expected a multiple of 256"},
      {"an offset between alignments", tensor([](TensorSpec& t) { t.offset = 40; }), "SPAN-GGUF-TENSOR",
       entry(kQ), "offset 40, not a multiple of 32"},
      {"an offset behind the file", tensor([](TensorSpec& t) { t.offset = uint64_t(1) << 50; }),
       "SPAN-GGUF-TENSOR", entry(kQ), "offset 1125899906842624 of the data"},
      {"an offset that wraps", tensor([](TensorSpec& t) { t.offset = UINT64_MAX - 31; }), "SPAN-GGUF-TENSOR",
       entry(kQ), "of the data"},
      {"data that ends behind the file", tensor([](TensorSpec& t) {
         t.shape = {32, 32, 32};
       }),
       "SPAN-TRUNCATED", entry(kQ), "(F32 [32 x 32 x 32]) needs 131072 bytes"},
      {"the same bytes for two tensors", built([](GgufBuilder& g) { g.find(kK)->offset = 0; }),
       "SPAN-GGUF-TENSOR", entry(kK), "inside of tensor \"token_embd.weight\""},
      {"tensors that overlap by one alignment", built([](GgufBuilder& g) {
         // Directly behind the first 736 of token_embd's 768 bytes.
         g.find(kK)->offset = 736;
       }),
       "SPAN-GGUF-TENSOR", entry(kK), "inside of tensor \"token_embd.weight\""},
  };
  return all;
}

}  // namespace

TEST_CASE("every bad header is told by tag, byte and words") {
  CHECK(bad_headers().size() >= 30);
  for (const Bad& bad : bad_headers()) {
    const File made = bad.make();
    const std::vector<uint8_t> exact(made.begin(), made.end());  // a sanitizer sees reads behind the end
    auto file = GgufFile::parse({exact.data(), exact.size()}, "bad.gguf");
    INFO(bad.what);
    REQUIRE_FALSE(file);
    INFO(file.error().line());
    CHECK(file.error().tag == bad.tag);
    CHECK(file.error().where == "bad.gguf");
    CHECK(file.error().message.find(bad.message) != std::string::npos);
    REQUIRE(file.error().offset);
    CHECK(*file.error().offset <= exact.size());
    if (bad.offset) CHECK(*file.error().offset == bad.offset(exact));
    (void)GgufFile::parse({exact.data(), exact.size()}, "bad.gguf", false);
  }
}

TEST_CASE("entries that come twice are told at the second") {
  GgufBuilder keys = small_llama();
  keys.duplicate_key("llama.block_count");
  const File a = keys.build();
  const auto key = GgufFile::parse(a, "bad.gguf");
  REQUIRE_FALSE(key);
  CHECK(*key.error().offset > entry_of(a, "llama.block_count"));
  CHECK(std::memcmp(a.data() + *key.error().offset + 8, "llama.block_count", 17) == 0);
  GgufBuilder tensors = small_llama();
  tensors.tensor_f32(kQ, {32});
  const File b = tensors.build();
  const auto tensor = GgufFile::parse(b, "bad.gguf");
  REQUIRE_FALSE(tensor);
  CHECK(*tensor.error().offset > entry_of(b, kQ));
  CHECK(std::memcmp(b.data() + *tensor.error().offset + 8, kQ.data(), kQ.size()) == 0);
}

TEST_CASE("headers that are unusual and right") {
  for (uint32_t version : {2u, 3u}) {
    for (size_t alignment : {8, 16, 64, 4096}) {
      GgufBuilder g = small_llama();
      g.version = version;
      g.alignment = alignment;
      g.u32("general.alignment", uint32_t(alignment));
      const File f = g.build();
      const auto file = GgufFile::parse(f, "good.gguf");
      if (!file) FAIL(file.error().line());
      CHECK(file->alignment() == alignment);
      for (const GgufTensor& t : file->tensors()) CHECK(t.data % alignment == 0);
    }
    GgufBuilder g = small_llama();
    g.version = version;
    // Nested and empty arrays, an empty name, and tensors whose order in the directory is not that of the
    // data.
    g.raw("nested", 9,
          array_of(9, 2).put<uint32_t>(4).put<uint64_t>(1).put(7u).put<uint32_t>(8).put<uint64_t>(0));
    g.raw("empty", 9, array_of(6, 0)).text("", "no name").text("nothing", "");
    g.find("token_embd.weight")->offset = 768 + 128;
    g.find("output_norm.weight")->offset = 0;
    TensorSpec& embedding = *g.find("token_embd.weight");
    embedding.data.resize(768 + 128);
    g.find("output_norm.weight")->data.clear();
    g.find("output_norm.weight")->data.resize(768);
    const File f = g.build();
    const auto file = GgufFile::parse(f, "good.gguf");
    if (!file) FAIL(file.error().line());
    CHECK(file->find("nested")->count == 2);
    CHECK(file->find("empty")->count == 0);
    CHECK(file->text("").value() == "no name");
    CHECK(file->text("nothing").value().empty());
  }
}
