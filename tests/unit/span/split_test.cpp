// SPDX-License-Identifier: GPL-3.0-or-later
// Borders between leaves, one class at a time. Tokens here are words: each begins at a space or a line feed.
#include "core/span/label.h"
#include "core/span/split.h"
#include "tests/support/catch.h"

using namespace spanscope;

namespace {

// A token begins at every space, at every line feed and behind every line feed.
std::vector<uint64_t> words(const std::string& text) {
  std::vector<uint64_t> out;
  for (size_t i = 0; i < text.size(); ++i)
    if (i == 0 || text[i] == ' ' || text[i] == '\n' || text[i - 1] == '\n') out.push_back(i);
  return out;
}

std::string filler(size_t tokens) {
  std::string out = "w";
  for (size_t i = 1; i < tokens; ++i) out += " w";
  return out;
}

// The texts of the leaves.
std::vector<std::string> pieces(const std::string& text, SplitRule rule = {}) {
  const auto begins = words(text);
  std::vector<std::string> out;
  size_t at = 0;
  for (uint32_t length : split_field(text, begins, rule)) {
    REQUIRE(length > 0);
    const size_t end = at + length;
    out.push_back(text.substr(begins[at], (end < begins.size() ? begins[end] : text.size()) - begins[at]));
    at = end;
  }
  REQUIRE(at == begins.size());
  return out;
}

}  // namespace

TEST_CASE("split: up to 256 tokens is one leaf") {
  CHECK(pieces(filler(256)).size() == 1);
  CHECK(split_field("", {}, {}).empty());
}

TEST_CASE("split: without any border, at 256 tokens") {
  const auto p = split_field(filler(600), words(filler(600)), {});
  CHECK(p == std::vector<uint32_t>{256, 256, 88});
}

TEST_CASE("split: the best class wins over a later border") {
  // sentence < line end is decided by class, not by place
  const std::string body = filler(100) + ".";
  const std::string sentence = body + " " + filler(50) + "\n" + filler(200);
  CHECK(pieces(sentence)[0] == body);
  const std::string item = filler(90) + "\n- item " + filler(40) + ". " + filler(200);
  CHECK(pieces(item)[0] == filler(90) + "\n");
  const std::string numbered = filler(90) + "\n12. item " + filler(40) + ". " + filler(200);
  CHECK(pieces(numbered)[0] == filler(90) + "\n");
  const std::string blank = filler(80) + "\n\n" + filler(30) + "\n- item " + filler(200);
  CHECK(pieces(blank)[0] == filler(80) + "\n\n");
  const std::string heading = filler(70) + "\n## Heading\n\n" + filler(100) + "\n\n" + filler(200);
  CHECK(pieces(heading)[0] == filler(70) + "\n");
  const std::string line = filler(100) + "\n" + filler(300);
  CHECK(pieces(line)[0] == filler(100) + "\n");
}

TEST_CASE("split: the last border of the class, within 64 and 256 tokens") {
  const std::string text = filler(30) + "\n\n" + filler(100) + "\n\n" + filler(60) + "\n\n" + filler(200);
  CHECK(pieces(text)[0] == filler(30) + "\n\n" + filler(100) + "\n\n" + filler(60) + "\n\n");
  // A heading before the 64th token is too early; the sentence end behind it is taken.
  const std::string early = filler(20) + "\n# Heading\n" + filler(100) + ". " + filler(300);
  CHECK(pieces(early)[0] == filler(20) + "\n# Heading\n" + filler(100) + ".");
}

TEST_CASE("split: numbers and words with dots are no sentence ends") {
  const std::string text = filler(100) + " 3.5 a.b " + filler(300);
  CHECK(split_field(text, words(text), {})[0] == 256);
  const std::string quoted = filler(100) + " he said \"no.\" " + filler(300);
  CHECK(pieces(quoted)[0] == filler(100) + " he said \"no.\"");
}

TEST_CASE("split: East Asian full stops") {
  std::string text;
  for (int i = 0; i < 100; ++i) text += " \xe4\xb8\xad";
  const std::string first = text + "\xe3\x80\x82";
  CHECK(pieces(first + text + text)[0] == first);
}

TEST_CASE("split: a code block is cut only when it alone is too long") {
  std::string code = "```py\n";
  while (words(code).size() < 150) code += "x = 1\n\n# no heading\n";
  code += "```\n";
  const std::string text = filler(180) + "\n" + code + filler(50);
  const auto p = pieces(text);
  REQUIRE(p.size() == 2);
  CHECK(p[0] == filler(180) + "\n");
  CHECK(p[1] == code + filler(50));

  // It begins before the 64th token and nearly fills a leaf: it gets a leaf of its own.
  std::string large = "~~~\n";
  while (words(large).size() < 240) large += "y = 2\n";
  large += "~~~\n";
  const auto q = pieces(filler(30) + "\n" + large + filler(100));
  CHECK(q[0] == filler(30) + "\n");
  CHECK(q[1].substr(0, large.size()) == large);

  // Longer than a leaf: cut at its blank lines, never at "# ..." as if it were a heading.
  std::string huge = "```\n";
  while (words(huge).size() < 500) huge += "z = 3\n# comment\n\n";
  huge += "```\n";
  for (const std::string& piece : pieces(huge)) CHECK(piece.substr(0, 1) != "#");
  // Unclosed: to the end of the text.
  const auto open = pieces(filler(200) + "\n```\n" + filler(100));
  REQUIRE(open.size() == 2);
  CHECK(open[1] == "```\n" + filler(100));
}

TEST_CASE("split: JSON at its outermost level") {
  std::string json = "[";
  for (int i = 0; i < 20; ++i) json += std::string(i ? ", " : "") + "{\"a, b\": [1, 2, 3, 4, 5, 6], \"c\": \"x } y\"}";
  json += "]";
  const auto p = pieces(json, {SplitRule::Kind::tokens, 64});
  REQUIRE(p.size() > 2);
  for (size_t i = 1; i < p.size(); ++i) CHECK(p[i].substr(0, 3) == " {\"");
  const std::string broken = json.substr(0, json.size() - 1);  // not one value: its commas are no borders
  CHECK(split_field(broken, words(broken), {SplitRule::Kind::tokens, 64})[0] == 64);
}

TEST_CASE("split: a token over a border goes where most of its bytes are") {
  const std::string text = std::string(100, 'a') + "\n\n" + std::string(100, 'b');
  // Tokens of one byte, but one token covers "\n\nbbb" (2 of 5 bytes before the border) or "aa\n\nb".
  std::vector<uint64_t> begins;
  for (uint64_t i = 0; i < text.size(); ++i)
    if (i <= 100 || i > 104) begins.push_back(i);
  CHECK(split_field(text, begins, {SplitRule::Kind::tokens, 128})[0] == 100);
  begins.clear();
  for (uint64_t i = 0; i < text.size(); ++i)
    if (i <= 98 || i > 102) begins.push_back(i);
  CHECK(split_field(text, begins, {SplitRule::Kind::tokens, 128})[0] == 99);
}

TEST_CASE("split: other rules") {
  const std::string text = "one two\n\nthree\nfour\n\n\nfive";
  CHECK(pieces(text, {SplitRule::Kind::paragraph}) == std::vector<std::string>{"one two\n\n", "three\nfour\n\n\n", "five"});
  CHECK(pieces(filler(5000), {SplitRule::Kind::message}).size() == 1);
  CHECK(parse_split_rule("128")->max_tokens == 128);
  CHECK(parse_split_rule("message")->kind == SplitRule::Kind::message);
  CHECK(parse_split_rule("paragraph")->kind == SplitRule::Kind::paragraph);
  for (const char* text_of_rule : {"", "0", "3", "-5", "12x", "1e3", "99999999999", "Message"}) CHECK_FALSE(parse_split_rule(text_of_rule));
}

TEST_CASE("labels: the first words on one line, always well-formed") {
  CHECK(first_words("  Hello \n world ") == "Hello world");
  CHECK(first_words("").empty());
  CHECK(first_words("\n\t ").empty());
  CHECK(first_words("a\xff\xf0\x9f" "b") == "ab");
  CHECK(first_words("one two three four five six seven eight nine ten") == "one two three four five six seven eight\xe2\x80\xa6");
  CHECK(first_words(std::string(200, 'x')) == std::string(40, 'x') + "\xe2\x80\xa6");
}
