// SPDX-License-Identifier: GPL-3.0-or-later
// SentencePiece: the model file's encoding, and edges of its two models.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "core/text/stream_decoder.h"
#include "core/text/tokenizer.h"
#include "core/text/vocabulary_from_sentencepiece.h"
#include "tests/support/catch.h"

using namespace spanscope;

namespace {

const std::string kMark = "\xe2\x96\x81";

struct Proto {
  std::string bytes;
  Proto& varint(uint64_t v) {
    for (; v >= 0x80; v >>= 7) bytes.push_back(char(v | 0x80));
    bytes.push_back(char(v));
    return *this;
  }
  Proto& number(uint32_t field, uint64_t v) { return varint(field << 3).varint(v); }
  Proto& text(uint32_t field, const std::string& t) {
    varint(field << 3 | 2).varint(t.size());
    bytes += t;
    return *this;
  }
  Proto& real(uint32_t field, float v) {
    varint(field << 3 | 5);
    bytes.append(reinterpret_cast<const char*>(&v), 4);
    return *this;
  }
};

std::string piece(const std::string& text, float score, TokenKind kind = TokenKind::normal) {
  return Proto().text(1, text).real(2, score).number(3, uint64_t(kind)).bytes;
}

std::string trainer(uint64_t type, bool bytes) { return Proto().number(3, type).number(35, bytes).number(40, 0).number(41, 1).number(42, 2).bytes; }
std::string normalizer(bool dummy) { return Proto().text(1, "identity").number(3, dummy).number(4, 0).bytes; }

// Unknown, begin, end, 256 bytes, then `words`.
std::string model(uint64_t type, bool dummy, const std::vector<std::pair<std::string, float>>& words, bool bytes = true) {
  Proto out;
  out.text(1, piece("<unk>", 0, TokenKind::unknown)).text(1, piece("<s>", 0, TokenKind::control)).text(1, piece("</s>", 0, TokenKind::control));
  for (int b = 0; b < 256 && bytes; ++b) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", b);
    out.text(1, piece(name, 0, TokenKind::byte));
  }
  for (const auto& [text, score] : words) out.text(1, piece(text, score));
  return out.text(2, trainer(type, bytes)).text(3, normalizer(dummy)).bytes;
}

Result<Vocabulary> read(const std::string& bytes) {
  return vocabulary_from_sentencepiece({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, "t.model");
}

std::shared_ptr<const Tokenizer> make(const std::string& bytes) {
  auto vocabulary = read(bytes);
  if (!vocabulary) FAIL(vocabulary.error().line());
  auto tokenizer = make_tokenizer(std::move(*vocabulary));
  if (!tokenizer) FAIL(tokenizer.error().line());
  return *tokenizer;
}

const std::vector<std::pair<std::string, float>> kWords = {{"a", -1}, {"b", -2}, {"ab", -3}, {kMark, -4}, {kMark + "ab", -5}, {"ba", -6}};
constexpr TokenId kA = 259, kB = 260, kAb = 261, kSpace = 262, kSpaceAb = 263, kBa = 264;

void refused(const std::string& bytes, const char* tag, const std::string& word) {
  auto vocabulary = read(bytes);
  REQUIRE_FALSE(vocabulary);
  INFO(vocabulary.error().line());
  CHECK(vocabulary.error().tag == tag);
  CHECK(vocabulary.error().line().find(word) != std::string::npos);
}

}  // namespace

TEST_CASE("SentencePiece: the space in front, and where text goes on") {
  for (const uint64_t type : {uint64_t(1), uint64_t(2)}) {
    const auto t = make(model(type, true, kWords));
    INFO("type " << type);
    CHECK(t->vocabulary().kind == (type == 2 ? "llama" : "unigram"));
    const Encoding e = t->encode("ab</s>ab");
    CHECK(e.ids == std::vector<TokenId>{kSpaceAb, 2, kSpaceAb});
    CHECK(e.offsets == std::vector<ByteRange>{{0, 2}, {2, 6}, {6, 8}});
    CHECK(t->encode("ab</s>ab", {false, true, true}).ids == std::vector<TokenId>{kAb, 2, kSpaceAb});
    CHECK(t->encode("</s>ab", {false, true, true}).ids == std::vector<TokenId>{2, kSpaceAb});
    CHECK(t->encode("").ids.empty());
    CHECK(t->encode("", {true, true}).ids == std::vector<TokenId>{1});
    // A token that is only the space put in has no bytes.
    const Encoding c = t->encode("c");
    CHECK(c.ids == std::vector<TokenId>{kSpace, 3 + 'c'});
    CHECK(c.offsets == std::vector<ByteRange>{{0, 0}, {0, 1}});
    CHECK(t->decode(e.ids) == "ab</s> ab");
    CHECK(t->decode(std::vector<TokenId>{kSpaceAb, kA}) == "aba");
    StreamDecoder stream(t, true);
    CHECK(stream.add(kSpaceAb) == "ab");
    CHECK(stream.add(3 + 0xf0).empty());
    CHECK(stream.add(3 + 0x9f).empty());
    CHECK(stream.finish() == "\xf0\x9f");
  }
}

TEST_CASE("SentencePiece BPE: best score first, then leftmost") {
  const auto t = make(model(2, false, {{"a", -1}, {"b", -1}, {"ab", -3}, {"ba", -2}, {"aa", -3}}));
  CHECK(t->encode("aba").ids == std::vector<TokenId>{259, 262});
  CHECK(t->encode("aaa").ids == std::vector<TokenId>{263, 259});
  // Equal scores: the leftmost pair.
  const auto same = make(model(2, false, {{"a", 0}, {"b", 0}, {"ab", -7}, {"ba", -7}}));
  CHECK(same->encode("aba").ids == std::vector<TokenId>{261, 259});
  CHECK(same->encode("bab").ids == std::vector<TokenId>{262, 260});
}

TEST_CASE("SentencePiece BPE: unused pieces are taken apart again") {
  Proto out;
  out.text(1, piece("<unk>", 0, TokenKind::unknown));
  for (const auto& [text, score, kind] : {std::tuple{"a", -1.f, TokenKind::normal}, {"b", -1.f, TokenKind::normal}, {"ab", -2.f, TokenKind::unused}, {"abab", -3.f, TokenKind::normal}})
    out.text(1, piece(text, score, kind));
  const auto t = make(out.text(2, trainer(2, false)).text(3, normalizer(false)).bytes);
  CHECK(t->encode("abab").ids == std::vector<TokenId>{4});
  CHECK(t->encode("ab").ids == std::vector<TokenId>{1, 2});
  CHECK(t->encode("ababab").ids == std::vector<TokenId>{4, 1, 2});
}

TEST_CASE("SentencePiece: characters without a piece") {
  for (const uint64_t type : {uint64_t(1), uint64_t(2)}) {
    const auto bytes = make(model(type, false, kWords));
    CHECK(bytes->encode("a\xc3\xa9").ids == std::vector<TokenId>{kA, 3 + 0xc3, 3 + 0xa9});
    CHECK(bytes->encode("a\xc3").ids == std::vector<TokenId>{kA, 3 + 0xc3});
    CHECK(bytes->encode("\xa9\xc3" "ab").ids == std::vector<TokenId>{3 + 0xa9, 3 + 0xc3, kAb});
    // Without byte pieces neighbours become one unknown token.
    const auto unknown = make(model(type, false, {{"a", -1}}, false));
    const Encoding e = unknown->encode("xya\xff\xc3\xa9");
    CHECK(e.ids == std::vector<TokenId>{0, 3, 0});
    CHECK(e.offsets == std::vector<ByteRange>{{0, 2}, {2, 3}, {3, 6}});
    // U+2581 counts as a space, with its three bytes.
    CHECK(bytes->encode(kMark + "ab").offsets == std::vector<ByteRange>{{0, 5}});
  }
}

TEST_CASE("SentencePiece unigram: the best sum") {
  const auto t = make(model(1, false, {{"a", -1}, {"b", -1}, {"ab", -1.5f}, {"ba", -3}}));
  CHECK(t->encode("ab").ids == std::vector<TokenId>{261});
  CHECK(t->encode("aba").ids == std::vector<TokenId>{261, 259});
  CHECK(t->encode("ba").ids == std::vector<TokenId>{260, 259});
}

TEST_CASE("SentencePiece: long words do not take quadratic time") {
  for (const uint64_t type : {uint64_t(1), uint64_t(2)}) {
    const auto t = make(model(type, true, {{"a", -1}, {"aa", -2}, {"aaaa", -3}, {kMark, -4}, {kMark + kMark, -5}}));
    const auto seconds = [&](const std::string& text) {
      const auto begin = std::chrono::steady_clock::now();
      CHECK(t->encode(text).offsets.back().end == text.size());
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    const double one = seconds(std::string(125000, 'a')), eight = seconds(std::string(1000000, 'a'));
    INFO(one << " s and " << eight << " s");
    CHECK(eight < 40 * one + 0.2);
    CHECK(seconds(std::string(1000000, ' ')) < 40 * one + 0.5);
  }
}

TEST_CASE("SentencePiece: a broken file is told with its byte") {
  const std::string whole = model(2, true, kWords);
  refused("", "SPAN-PROTO", "no pieces");
  refused("hello", "SPAN-PROTO", "byte");
  // Cut anywhere: either still whole fields, or an error; never a crash.
  for (size_t n = 0; n < whole.size(); n += 7) {
    auto cut = read(whole.substr(0, n));
    if (!cut) CHECK(cut.error().where == "t.model");
  }
  refused(Proto().varint(1 << 3 | 2).varint(uint64_t(1) << 60).bytes, "SPAN-PROTO", "are left");
  refused(Proto().varint(1 << 3 | 3).bytes, "SPAN-PROTO", "wire type 3");
  refused(Proto().number(1, 5).bytes, "SPAN-PROTO", "wire type");
  refused(std::string(11, char(0xff)), "SPAN-PROTO", "does not end");
  refused(Proto().varint(0).bytes, "SPAN-PROTO", "from 1");
  refused(Proto().text(1, Proto().text(1, "a").number(3, 9).bytes).bytes, "SPAN-PROTO", "type 9");
  refused(Proto().text(1, Proto().text(1, "\xff").bytes).bytes, "SPAN-PROTO", "UTF-8");
  refused(Proto().text(1, Proto().text(1, "a").number(2, 5).bytes).bytes, "SPAN-PROTO", "score");
  refused(Proto().text(1, piece("a", NAN)).bytes, "SPAN-PROTO", "finite");
  refused(Proto().text(1, piece(std::string(70000, 'x'), 0)).bytes, "SPAN-LIMIT", "70000");
}

TEST_CASE("SentencePiece: rules that are not followed are refused by name") {
  const std::string words = Proto().text(1, piece("a", 0)).bytes;
  const auto with = [&](const std::string& trainer_spec, const std::string& normalizer_spec) { return words + Proto().text(2, trainer_spec).text(3, normalizer_spec).bytes; };
  refused(words, "SPAN-TOKENIZER", "extra white space");  // what the format means where it says nothing
  refused(with(trainer(3, false), normalizer(true)), "SPAN-TOKENIZER", "type 3");
  refused(with(trainer(2, false), Proto().text(2, "map").number(4, 0).bytes), "SPAN-TOKENIZER", "character map");
  refused(with(trainer(2, false), Proto().number(4, 0).number(5, 0).bytes), "SPAN-TOKENIZER", "spaces as they are");
  refused(with(Proto().number(3, 2).number(24, 1).bytes, normalizer(true)), "SPAN-TOKENIZER", "end of words");
}
