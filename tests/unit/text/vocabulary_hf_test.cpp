// SPDX-License-Identifier: GPL-3.0-or-later
// The files of a Hugging Face directory: which one holds the vocabulary, what the ones beside it add.
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/base/json.h"
#include "core/model/vocabulary_from_hf.h"
#include "core/text/tokenizer.h"
#include "tests/support/catch.h"

using namespace spanscope;
namespace fs = std::filesystem;

namespace {

struct Folder {
  fs::path root;
  Folder() {
    std::string name = (fs::temp_directory_path() / "spanscope-hf-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()));
    root = name;
  }
  ~Folder() { fs::remove_all(root); }
  void put(const std::string& file, const std::string& text) const { std::ofstream(root / file, std::ios::binary) << text; }
  Result<Vocabulary> read() const { return vocabulary_from_directory(root.string()); }
  Result<std::string> chat_template() const { return chat_template_of_directory(root.string()); }
};

const char* kTokenizer = R"({"added_tokens":[{"id":3,"content":"<s>","special":true},{"id":4,"content":"</s>","special":true},{"id":5,"content":"<turn>","special":true}],
  "pre_tokenizer":{"type":"Metaspace","prepend_scheme":"never","split":false},"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}})";

// Two pieces behind an unknown one; BPE, no space in front, spaces kept.
std::string sentencepiece() {
  std::string out;
  const auto piece = [&](const std::string& text, char type) {
    const std::string body = std::string("\x0a") + char(text.size()) + text + "\x18" + type;
    out += std::string("\x0a") + char(body.size()) + body;
  };
  piece("<unk>", 2);
  piece("a", 1);
  piece("b", 1);
  out += std::string("\x12\x02\x18\x02", 4);      // trainer_spec: model_type BPE
  out += std::string("\x1a\x04\x18\x00\x20\x00", 6);  // normalizer_spec: no dummy prefix, white space kept
  return out;
}

}  // namespace

TEST_CASE("HF directory: special tokens from the files beside the vocabulary") {
  const Folder f;
  f.put("tokenizer.json", kTokenizer);
  f.put("tokenizer_config.json", R"({"bos_token":{"content":"<s>"},"eos_token":"</s>","pad_token":null,"add_bos_token":true})");
  f.put("generation_config.json", R"({"eos_token_id":[4,5,90000]})");
  auto v = f.read();
  if (!v) FAIL(v.error().line());
  CHECK(v->bos == 3);
  CHECK(v->eos == 4);
  CHECK(v->pad == -1);
  CHECK(v->ends == std::vector<int32_t>{4, 5});  // ids behind the vocabulary are padding
  const auto t = make_tokenizer(*v);
  if (!t) FAIL(t.error().line());
  CHECK((*t)->encode("ab<turn>", {true, true}).ids == std::vector<TokenId>{3, 2, 5});
  CHECK((*t)->ends_generation(5));
  CHECK_FALSE((*t)->ends_generation(3));
  f.put("tokenizer_config.json", R"({"eos_token":"<nothing>"})");
  REQUIRE_FALSE(f.read());
  CHECK(f.read().error().line().find("<nothing>") != std::string::npos);
  f.put("tokenizer_config.json", "{");
  CHECK(f.read().error().where.find("tokenizer_config.json:1:") != std::string::npos);
  fs::remove(f.root / "tokenizer_config.json");
  f.put("special_tokens_map.json", R"({"bos_token":"<s>"})");
  CHECK(f.read()->bos == 3);
  CHECK(f.read()->eos == 4);  // the first of generation_config.json
  f.put("generation_config.json", R"({"eos_token_id":-1})");
  CHECK_FALSE(f.read());
  fs::remove(f.root / "generation_config.json");
  f.put("config.json", R"({"eos_token_id":5})");
  CHECK(f.read()->eos == 5);
}

TEST_CASE("HF directory: tokens added to a SentencePiece model") {
  const Folder f;
  f.put("tokenizer.model", sentencepiece());
  f.put("tokenizer_config.json", R"({"added_tokens_decoder":{"3":{"content":"<turn>","special":true,"rstrip":true}},"eos_token":"<turn>","add_bos_token":false})");
  f.put("added_tokens.json", R"({"<turn>":3,"<more>":5})");
  auto v = f.read();
  if (!v) FAIL(v.error().line());
  CHECK(v->kind == "llama");
  CHECK(v->tokens.size() == 6);
  CHECK(v->eos == 3);
  const auto t = make_tokenizer(*v);
  if (!t) FAIL(t.error().line());
  const Encoding e = (*t)->encode("a<turn>  b<more>", {true, true});
  CHECK(e.ids == std::vector<TokenId>{1, 3, 2, 5});
  CHECK(e.offsets == std::vector<ByteRange>{{0, 1}, {1, 9}, {9, 10}, {10, 16}});
  f.put("added_tokens.json", R"({"<turn>":1})");
  CHECK(f.read().error().line().find("\"a\"") != std::string::npos);
  f.put("added_tokens.json", R"({"<turn>":99999999})");
  CHECK(f.read().error().tag == "SPAN-LIMIT");
}

TEST_CASE("HF directory: which chat template holds") {
  const Folder f;
  REQUIRE(f.chat_template());
  CHECK(f.chat_template()->empty());
  f.put("tokenizer_config.json", R"({"chat_template":"one"})");
  CHECK(*f.chat_template() == "one");
  f.put("tokenizer_config.json", R"({"chat_template":[{"name":"tool_use","template":"t"},{"name":"default","template":"d"}]})");
  CHECK(*f.chat_template() == "d");
  f.put("tokenizer_config.json", R"({"chat_template":[{"name":"x","template":"t"},{"name":"y","template":"d"}]})");
  CHECK(f.chat_template().error().line().find("x, y") != std::string::npos);
  f.put("chat_template.json", R"({"chat_template":"from json"})");
  CHECK(*f.chat_template() == "from json");
  f.put("chat_template.jinja", "{{ messages }}\n");
  CHECK(*f.chat_template() == "{{ messages }}\n");
}

TEST_CASE("HF directory: none, or no vocabulary in it") {
  const Folder f;
  CHECK(f.read().error().code == ErrorCode::not_found);
  CHECK(vocabulary_from_directory((f.root / "none").string()).error().code == ErrorCode::not_found);
  CHECK(vocabulary_from_file((f.root / "none").string()).error().code == ErrorCode::not_found);
  f.put("tokenizer.model", "hello");
  CHECK(f.read().error().tag == "SPAN-PROTO");
  CHECK(f.read().error().where == f.root.string() + "/tokenizer.model");
}
