// SPDX-License-Identifier: GPL-3.0-or-later
// Edges of the byte-level tokenizer: nothing is lost, offsets are exact, hostile vocabularies are refused.
#include <chrono>
#include <random>

#include "core/base/json.h"
#include "core/model/weights.h"
#include "core/text/byte_alphabet.h"
#include "core/text/tokenizer.h"
#include "core/text/utf8.h"
#include "tests/support/oracles.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {

Vocabulary relay() {
  auto model = load_vocabulary(demo("relay-dense.gguf"));
  if (!model) FAIL(model.error().line());
  return (*model)->vocabulary;
}

std::shared_ptr<const Tokenizer> make(Vocabulary vocabulary) {
  auto tokenizer = make_tokenizer(std::move(vocabulary));
  if (!tokenizer) FAIL(tokenizer.error().line());
  return *tokenizer;
}

// Offsets and dropped ranges cover the text once, in order, and every piece is the bytes it covers.
void check_covers(const Tokenizer& tokenizer, const std::string& text, const Encoding& e) {
  REQUIRE(e.ids.size() == e.offsets.size());
  size_t at = 0, token = 0, gap = 0;
  while (at < text.size()) {
    if (gap < e.dropped.size() && e.dropped[gap].begin == at) {
      at = e.dropped[gap++].end;
      continue;
    }
    REQUIRE(token < e.ids.size());
    REQUIRE(e.offsets[token].begin == at);
    REQUIRE(tokenizer.piece(e.ids[token]) == text.substr(at, e.offsets[token].size()));
    at = e.offsets[token++].end;
  }
  REQUIRE(token == e.ids.size());
  REQUIRE(gap == e.dropped.size());
}

std::string random_text(std::mt19937& random, size_t length) {
  static const std::vector<std::string> parts = {"a", "Zz", " ", "  ", "\n", "\r\n", "\t", "'s", "'LL", "12", "\xc2\xbd", "\xe4\xb8\xad", "\xf0\x9f\x9a\x80",
                                                 "\xe2\x80\x8d", "\xcc\x81", "\xe1\xa0\x8e", "\xe2\x80\xa8", "<|im_end|>", "<|im_", "|>", "\xff", "\xc0", "\xf0\x9f", "\xed\xa0\x80",
                                                 "\xf4\x8f\xb8\x80", std::string(1, '\0'), "!?", "_", "\xc2\xa0", "\xe3\x80\x80"};
  std::string out;
  for (size_t i = 0; i < length; ++i) out += random() % 8 == 0 ? std::string(1, char(random())) : parts[random() % parts.size()];
  return out;
}

}  // namespace

TEST_CASE("tokenizer: nothing is lost, whatever the bytes") {
  const auto whole = make(relay());
  // The same vocabulary without tokens for three bytes, under the other pre-tokenizer.
  Vocabulary gaps = relay();
  gaps.pre = "smollm";
  for (size_t i = 0; i < gaps.tokens.size(); ++i)
    for (const char* byte : {"\xff", "Z", "\xf0"})
      if (gaps.tokens[i] == alphabet_text_of_bytes(byte)) gaps.tokens[i] = "<gap" + std::to_string(i) + ">";
  const auto holed = make(gaps);
  std::mt19937 random(7);
  for (int round = 0; round < 400; ++round) {
    const std::string text = random_text(random, random() % 60);
    for (const bool special : {false, true}) {
      const Encoding e = whole->encode(text, {false, special});
      check_covers(*whole, text, e);
      REQUIRE(e.dropped.empty());
      REQUIRE(whole->decode(e.ids) == text);
      const Encoding h = holed->encode(text, {false, special});
      check_covers(*holed, text, h);
      std::string kept;
      size_t at = 0;
      for (const ByteRange& d : h.dropped) {
        REQUIRE((text[d.begin] == '\xff' || text[d.begin] == 'Z' || text[d.begin] == '\xf0'));
        kept += text.substr(at, d.begin - at);
        at = d.end;
      }
      REQUIRE(holed->decode(h.ids) == kept + text.substr(at));
    }
  }
}

TEST_CASE("tokenizer: control tokens are found only when asked for, the longest first") {
  Vocabulary v = relay();
  v.tokens.push_back("<|im_end|>!");
  v.kinds.push_back(TokenKind::user_defined);
  const auto t = make(v);
  CHECK(t->encode("a<|im_end|>").ids.back() == 2);
  CHECK(t->encode("a<|im_end|>", {false, false}).ids.back() != 2);
  CHECK(t->encode("<|im_end|>!").ids == std::vector<TokenId>{TokenId(v.tokens.size() - 1)});
  CHECK(t->encode("<|im_end|>!", {false, false}).ids == std::vector<TokenId>{TokenId(v.tokens.size() - 1)});
  CHECK(t->is_control(2));
  CHECK_FALSE(t->is_control(TokenId(v.tokens.size() - 1)));
  CHECK_FALSE(t->is_control(-1));
  CHECK_FALSE(t->is_control(1 << 20));
  CHECK(t->ends_generation(2));
  CHECK_FALSE(t->ends_generation(1));
  CHECK(t->piece(-5).empty());
  CHECK(t->decode(std::vector<TokenId>{2, 1 << 30, 2}) == "<|im_end|><|im_end|>");
}

TEST_CASE("tokenizer: begin and end tokens as the model says") {
  Vocabulary v = relay();
  v.bos = 0;
  v.add_bos = v.add_eos = true;
  const auto t = make(v);
  const Encoding e = t->encode("hi", {true, true});
  CHECK(e.ids.front() == 0);
  CHECK(e.ids.back() == v.eos);
  CHECK(e.offsets.front() == ByteRange{0, 0});
  CHECK(e.offsets.back() == ByteRange{2, 2});
  CHECK(t->encode("hi").ids.size() + 2 == e.ids.size());
}

TEST_CASE("tokenizer: a very long word does not take quadratic time") {
  const auto t = make(relay());
  const auto seconds = [&](size_t n) {
    std::string word;
    for (size_t i = 0; i < n; ++i) word += char('a' + (i * 7 + i / 13) % 26);
    const auto begin = std::chrono::steady_clock::now();
    const Encoding e = t->encode(word);
    CHECK(e.offsets.back().end == n);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  const double one = seconds(100000), eight = seconds(800000);
  INFO(one << " s and " << eight << " s");
  CHECK(eight < 40 * one + 0.2);  // 8 times the work; 64 times if it were quadratic
  CHECK(t->encode(std::string(2000000, ' ')).offsets.back().end == 2000000);
}

TEST_CASE("tokenizer: what cannot be used is refused by name") {
  const auto refused = [](Vocabulary v, const char* tag, const char* word) {
    auto t = make_tokenizer(std::move(v));
    REQUIRE_FALSE(t);
    INFO(t.error().line());
    CHECK(t.error().tag == tag);
    CHECK(t.error().line().find(word) != std::string::npos);
  };
  refused({}, "SPAN-TOKENIZER", "no vocabulary");
  Vocabulary v = relay();
  v.kind = "bert";
  refused(v, "SPAN-TOKENIZER", "bert");
  v = relay();
  v.pre = "default";
  refused(v, "SPAN-PRETOKENIZER", "default");
  v.pre.clear();
  refused(v, "SPAN-PRETOKENIZER", "\"\"");
  v = relay();
  v.merges.push_back("onlyone");
  refused(v, "SPAN-MERGES", std::to_string(v.merges.size() - 1).c_str());
  v = relay();
  v.merges.push_back("\xe4\xb8\xad a");
  refused(v, "SPAN-MERGES", "alphabet");
  v = relay();
  v.kinds.pop_back();
  refused(v, "SPAN-TOKENIZER", "1023");
  v = relay();
  v.eos = 5000;
  refused(v, "SPAN-TOKENIZER", "5000");
}

TEST_CASE("tokenizer: the digest changes with every part") {
  const std::string digest = make(relay())->digest();
  CHECK(digest.size() == 64);
  CHECK(make(relay())->digest() == digest);
  Vocabulary v = relay();
  std::swap(v.merges[0], v.merges[1]);
  CHECK(make(v)->digest() != digest);
  v = relay();
  v.pre = "smollm";
  CHECK(make(v)->digest() != digest);
  v = relay();
  v.kinds[100] = TokenKind::user_defined;
  CHECK(make(v)->digest() != digest);
}

TEST_CASE("utf8: complete prefixes while streaming") {
  const auto shown = [](const std::string& s) { return utf8_complete_prefix(s); };
  CHECK(shown("") == 0);
  CHECK(shown("abc") == 3);
  CHECK(shown("a\xf0") == 1);
  CHECK(shown("a\xf0\x9f") == 1);
  CHECK(shown("a\xf0\x9f\x9a") == 1);
  CHECK(shown("a\xf0\x9f\x9a\x80") == 5);
  CHECK(shown("a\xe0\x80") == 3);      // no character begins so
  CHECK(shown("a\xed\xa0") == 3);      // half of a surrogate
  CHECK(shown("a\x80\x80\x80\x80") == 5);
  CHECK(shown("a\xff") == 2);
  CHECK(shown("\xc3\xc3") == 1);
}

TEST_CASE("byte alphabet: both ways for every byte") {
  for (int b = 0; b < 256; ++b) {
    const std::string bytes(1, char(b));
    const std::string text = alphabet_text_of_bytes(bytes);
    CHECK(find_invalid_utf8(text) == std::string::npos);
    CHECK(bytes_of_alphabet_text(text) == bytes);
  }
  CHECK(alphabet_text_of_bytes(" ") == "\xc4\xa0");
  CHECK_FALSE(bytes_of_alphabet_text("a b"));
  CHECK_FALSE(bytes_of_alphabet_text("\xff"));
}
