// SPDX-License-Identifier: GPL-3.0-or-later
// tokenizer.json: what it may ask for, and what is refused.
#include "core/base/json.h"
#include "core/text/byte_alphabet.h"
#include "core/text/tokenizer.h"
#include "core/text/vocabulary_from_json.h"
#include "tests/support/catch.h"

using namespace spanscope;

namespace {

// Byte-level BPE over all bytes, two merges, one control and one user-defined token.
Json small() {
  Json vocab = Json::object();
  for (int b = 0; b < 256; ++b) vocab[alphabet_text_of_bytes(std::string(1, char(b)))] = b;
  vocab["ab"] = 256;
  vocab["abc"] = 257;
  return {{"added_tokens", {{{"id", 258}, {"content", "<end>"}, {"special", true}, {"normalized", false}},
                            {{"id", 259}, {"content", "call"}, {"special", false}, {"normalized", false}}}},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
          {"post_processor", nullptr},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", {"a b", Json::array({"ab", "c"})}}}}};
}

std::shared_ptr<const Tokenizer> make(const Json& json) {
  auto vocabulary = vocabulary_from_tokenizer_json(json.dump(), "t.json");
  if (!vocabulary) FAIL(vocabulary.error().line());
  auto tokenizer = make_tokenizer(std::move(*vocabulary));
  if (!tokenizer) FAIL(tokenizer.error().line());
  return *tokenizer;
}

void refused(const std::string& text, const char* tag, const std::string& word) {
  auto vocabulary = vocabulary_from_tokenizer_json(text, "t.json");
  Error error;
  if (vocabulary) {
    auto tokenizer = make_tokenizer(std::move(*vocabulary));
    REQUIRE_FALSE(tokenizer);
    error = tokenizer.error();
  } else {
    error = vocabulary.error();
  }
  INFO(error.line());
  CHECK(error.tag == tag);
  CHECK(error.line().find(word) != std::string::npos);
}

}  // namespace

TEST_CASE("tokenizer.json: merges as lines and as pairs") {
  const auto t = make(small());
  CHECK(t->encode("abc").ids == std::vector<TokenId>{257});
  CHECK(t->encode("xab<end>call").ids == std::vector<TokenId>{'x', 256, 258, 259});
  CHECK(t->encode("<end>call", {false, false}).ids == std::vector<TokenId>{'<', 'e', 'n', 'd', '>', 259});
  CHECK(t->vocabulary().eos == -1);
}

TEST_CASE("tokenizer.json: pieces that hold a space need pairs") {
  Json j = small();
  j["pre_tokenizer"] = {{"type", "Metaspace"}, {"prepend_scheme", "never"}, {"split", false}};
  j["normalizer"] = {{"type", "Replace"}, {"pattern", {{"String", "\xe2\x96\x81"}}}, {"content", " "}};
  j["model"]["vocab"] = {{"a", 0}, {" ", 1}, {"b", 2}, {"a ", 3}, {"a b", 4}, {"\xe2\x96\x81", 5}, {"a\xe2\x96\x81", 6}};
  j["model"]["merges"] = Json::array({Json::array({"a", " "}), Json::array({"a ", "b"}), Json::array({"a", "\xe2\x96\x81"})});
  const auto t = make(j);
  CHECK(t->vocabulary().merge_left == std::vector<uint32_t>{1, 2, 1});
  CHECK(t->encode("a ").ids == std::vector<TokenId>{6});  // the space is replaced before words are made
}

TEST_CASE("tokenizer.json: the template says what is put around a text") {
  Json j = small();
  const Json special = {{"<end>", {{"id", "<end>"}, {"ids", {258}}, {"tokens", {"<end>"}}}}};
  const Json token = {{"SpecialToken", {{"id", "<end>"}, {"type_id", 0}}}}, text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  j["post_processor"] = {{"type", "TemplateProcessing"}, {"single", {token, text, token}}, {"special_tokens", special}};
  CHECK(make(j)->encode("x", {true, true}).ids == std::vector<TokenId>{258, 'x', 258});
  j["post_processor"]["single"] = {token, token, text};
  refused(j.dump(), "SPAN-TOKENIZER", "more than one token");
  j["post_processor"]["single"] = {token};
  refused(j.dump(), "SPAN-TOKENIZER", "without the text");
  j["post_processor"]["single"] = {text, token};
  j["post_processor"]["special_tokens"]["<end>"]["ids"] = {9000};
  refused(j.dump(), "SPAN-TOKENIZER", "9000");
  j["post_processor"] = {{"type", "BertProcessing"}};
  refused(j.dump(), "SPAN-TOKENIZER", "BertProcessing");
}

TEST_CASE("tokenizer.json: normalised text keeps the bytes it came from") {
  Json j = small();
  j["normalizer"] = {{"type", "NFC"}};
  const auto t = make(j);
  // e + acute becomes one character of two bytes; the offsets are those of the three bytes that were read.
  const std::string text = "xe\xcc\x81y";
  const Encoding e = t->encode(text);
  CHECK(e.ids == std::vector<TokenId>{'x', 0xc3, 0xa9, 'y'});
  CHECK(e.offsets == std::vector<ByteRange>{{0, 1}, {1, 2}, {2, 4}, {4, 5}});
  CHECK(t->encode("\xc3\xa9").ids == std::vector<TokenId>{0xc3, 0xa9});
  CHECK(t->encode("e\xff\xcc\x81").ids == std::vector<TokenId>{'e', 0xff, 0xcc, 0x81});  // an ill-formed byte stands between
  // Marks in another order, Hangul by its letters, a composition that is excluded.
  CHECK(t->decode(t->encode("a\xcc\x81\xcc\xa3").ids) == "\xe1\xba\xa1\xcc\x81");
  CHECK(t->decode(t->encode("\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8").ids) == "\xea\xb0\x81");
  CHECK(t->decode(t->encode("\xe0\xa5\x98").ids) == "\xe0\xa4\x95\xe0\xa4\xbc");
  j["normalizer"] = {{"type", "Lowercase"}};
  CHECK(make(j)->decode(make(j)->encode("A\xc3\x89\xc4\xb0").ids) == "a\xc3\xa9i\xcc\x87");
  // Many marks on one letter must not take quadratic time.
  j["normalizer"] = {{"type", "NFC"}};
  std::string marks = "a";
  for (int i = 0; i < 200000; ++i) marks += i % 2 ? "\xcc\x81" : "\xcc\xa3";
  CHECK(make(j)->encode(marks).offsets.back().end == marks.size());
}

TEST_CASE("tokenizer.json: what is not supported is refused by name") {
  const auto with = [](const char* key, Json value) {
    Json j = small();
    j[key] = std::move(value);
    return j.dump();
  };
  const auto with_model = [](const char* key, Json value) {
    Json j = small();
    j["model"][key] = std::move(value);
    return j.dump();
  };
  refused(with_model("type", "WordPiece"), "SPAN-TOKENIZER", "WordPiece");
  refused(with("normalizer", {{"type", "Precompiled"}}), "SPAN-TOKENIZER", "Precompiled");
  refused(with("normalizer", {{"type", "Replace"}, {"pattern", {{"Regex", "a"}}}, {"content", "b"}}), "SPAN-TOKENIZER", "Replace");
  refused(with("pre_tokenizer", {{"type", "BertPreTokenizer"}}), "SPAN-TOKENIZER", "BertPreTokenizer");
  refused(with("pre_tokenizer", {{"type", "Split"}, {"pattern", {{"Regex", "a"}}}, {"behavior", "Removed"}, {"invert", false}}), "SPAN-TOKENIZER", "Removed");
  refused(with_model("dropout", 0.1), "SPAN-TOKENIZER", "dropout");
  refused(with_model("continuing_subword_prefix", "##"), "SPAN-TOKENIZER", "continuing_subword_prefix");
  for (const char* pattern : {"[a[bc]]", "\\bword", "(?m:a.b)", "[\\S]", "(?<name>a)", "(*UTF)a", "(", "a{2,1}"}) {
    const Json split = {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}};
    refused(with("pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {split, {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}}),
            "SPAN-PATTERN", "pattern");
  }
}

TEST_CASE("tokenizer.json: a file that contradicts itself or goes too far") {
  const auto with_model = [](const char* key, Json value) {
    Json j = small();
    j["model"][key] = std::move(value);
    return j.dump();
  };
  refused("{\"model\": {\n\"vocab\": nope", "SPAN-JSON", "t.json:2:");
  refused("[1]", "SPAN-JSON", "object");
  refused("{}", "SPAN-TOKENIZER", "model");
  refused("", "SPAN-JSON", "t.json:1:");
  refused("{\"a\":\"\xff\"}", "SPAN-JSON", "t.json:1:");
  refused(std::string(100000, '['), "SPAN-JSON-DEPTH", "64");
  refused("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1},\"merges\":[]}}", "SPAN-JSON", "ids from 0");
  refused("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0.5},\"merges\":[]}}", "SPAN-JSON", "ids from 0");
  refused("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":99999999999999999999},\"merges\":[]}}", "SPAN-JSON", "ids from 0");
  refused("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":2000000000},\"merges\":[]}}", "SPAN-LIMIT", "2000000000");
  refused("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}}", "SPAN-TOKENIZER", "twice");
  refused("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"a\":1},\"merges\":[]}}", "SPAN-TOKENIZER", "same text");
  refused("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"vocab\":{\"b\":0},\"merges\":[]}}", "SPAN-JSON", "twice");
  refused("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":[0]},\"merges\":[]}}", "SPAN-JSON", "vocab");
  refused("{\"model\":{\"type\":\"BPE\",\"vocab\":[[\"a\",0]],\"merges\":[]}}", "SPAN-TOKENIZER", "list");
  refused("{\"model\":{\"type\":\"Unigram\",\"vocab\":{\"a\":0}}}", "SPAN-TOKENIZER", "object");
  refused("{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",0]],\"unk_id\":7}}", "SPAN-TOKENIZER", "unk_id");
  refused("{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\"]]}}", "SPAN-JSON", "score");
  refused("{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",\"b\"]]}}", "SPAN-JSON", "score");
  refused("{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",1e300]]}}", "SPAN-TOKENIZER", "score");
  refused(with_model("merges", {"ab"}), "SPAN-JSON", "merges");
  refused(with_model("merges", {Json::array({"a"})}), "SPAN-JSON", "merges");
  refused(with_model("merges", {Json::array({"a", "b", "c"})}), "SPAN-JSON", "merges");
  refused(with_model("merges", {Json::array({"a", 1})}), "SPAN-JSON", "merges");
  refused(with_model("merges", {"\xe4\xb8\xad a"}), "SPAN-MERGES", "alphabet");
  refused(with_model("merges", nullptr), "SPAN-TOKENIZER", "merges");
  refused(with_model("unk_token", "<nothing>"), "SPAN-TOKENIZER", "<nothing>");
  refused(with_model("ignore_merges", 1), "SPAN-TOKENIZER", "ignore_merges");
  Json j = small();
  j["added_tokens"][1]["id"] = 258;
  refused(j.dump(), "SPAN-TOKENIZER", "258");
  j["added_tokens"][1]["id"] = 65;
  refused(j.dump(), "SPAN-TOKENIZER", "belongs to");
  j["added_tokens"][1]["id"] = -4;
  refused(j.dump(), "SPAN-LIMIT", "-4");
  j["added_tokens"][1]["id"] = 400000000;
  refused(j.dump(), "SPAN-LIMIT", "400000000");
  j["added_tokens"] = "x";
  refused(j.dump(), "SPAN-TOKENIZER", "added_tokens");
  j = small();
  j["added_tokens"][0]["content"] = std::string(5000, 'x');
  refused(j.dump(), "SPAN-LIMIT", "5000");
}

TEST_CASE("tokenizer.json: a pattern that never ends is stopped") {
  Json j = small();
  const Json split = {{"type", "Split"}, {"pattern", {{"Regex", "(?:a|aa)+(?:b|c)"}}}, {"behavior", "Isolated"}};
  j["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {split, {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
  const auto t = make(j);
  CHECK(t->encode("xaac").ids.size() == 4);
  CHECK_THROWS_AS(t->encode(std::string(200, 'a')), std::bad_alloc);
}
