// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/text/jinja/lexer.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/text/jinja/characters.h"

namespace spanscope::jinja {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name(char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || uint8_t(c) >= 0x80; }

// One kind of line end, and no last one.
std::string normalised(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
      continue;
    }
    out += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : text_(normalised(source)) {}

  std::vector<Token> run() {
    while (at_ < text_.size()) data();
    add(TokenType::end, "", at_);
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(std::string message, size_t at) { throw Failure{trouble(Trouble::syntax, std::move(message), place_of(at))}; }

  Place place_of(size_t at) {
    if (at < counted_) {
      counted_ = 0;
      place_ = {};
    }
    for (; counted_ < at; ++counted_) {
      if (text_[counted_] == '\n') {
        ++place_.line;
        place_.column = 1;
      } else if ((uint8_t(text_[counted_]) & 0xc0) != 0x80) {
        ++place_.column;
      }
    }
    return place_;
  }
  void add(TokenType type, std::string text, size_t at) { tokens_.push_back({type, std::move(text), place_of(at)}); }
  bool here(std::string_view word, size_t at) const { return std::string_view(text_).substr(at, word.size()) == word; }

  // Text up to the next tag, the tag's opening, and the whole of comments and raw blocks.
  void data() {
    size_t tag = at_;
    while (tag < text_.size() && !(text_[tag] == '{' && tag + 1 < text_.size() && (text_[tag + 1] == '{' || text_[tag + 1] == '%' || text_[tag + 1] == '#')))
      ++tag;
    if (tag == text_.size()) {
      emit(at_, tag, 0, false);
      at_ = tag;
      return;
    }
    const char kind = text_[tag + 1];
    size_t inside = tag + 2;
    char sign = 0;
    if (inside < text_.size() && (text_[inside] == '-' || text_[inside] == '+')) sign = text_[inside++];
    emit(at_, tag, sign, kind != '{');
    if (kind == '#') return comment(tag, inside);
    if (kind == '%' && raw_begin(inside)) return raw(tag);
    add(kind == '%' ? TokenType::block_begin : TokenType::print_begin, "", tag);
    at_ = inside;
    code(kind == '%' ? '%' : '}', tag);
  }

  void emit(size_t begin, size_t end, char sign, bool strips_line) {
    std::string_view out = std::string_view(text_).substr(begin, end - begin);
    if (sign == '-') {
      out = strip_right(out);
    } else if (sign != '+' && strips_line) {
      const size_t line = out.rfind('\n');
      const size_t from = line == std::string_view::npos ? 0 : line + 1;
      if ((from > 0 || line_begins_) && from < out.size() && strip_right(out.substr(from)).empty()) out = out.substr(0, from);
    }
    if (!out.empty()) add(TokenType::data, std::string(out), begin);
  }

  // Behind the closing mark: white space after "-", one line end after a block or comment that has no sign.
  void close(size_t at, char sign, bool trims) {
    if (sign == '-') {
      const std::string_view rest = std::string_view(text_).substr(at);
      at += rest.size() - strip_left(rest).size();
    } else if (sign == 0 && trims && at < text_.size() && text_[at] == '\n') {
      ++at;
    }
    line_begins_ = at > 0 && text_[at - 1] == '\n';
    at_ = at;
  }

  void comment(size_t tag, size_t inside) {
    const size_t end = text_.find("#}", inside);
    if (end == std::string::npos) fail("Missing end of comment tag", tag);
    const char sign = end > inside && (text_[end - 1] == '-' || text_[end - 1] == '+') ? text_[end - 1] : char(0);
    close(end + 2, sign, true);
  }

  size_t skip_space(size_t at) const {
    const std::string_view rest = std::string_view(text_).substr(at);
    return at + rest.size() - strip_left(rest).size();
  }
  // {% raw %}: at_ is put behind it.
  bool raw_begin(size_t inside) {
    size_t at = skip_space(inside);
    if (!here("raw", at)) return false;
    at = skip_space(at + 3);
    char sign = 0;
    if (here("-", at)) sign = text_[at++];
    if (!here("%}", at)) return false;
    close(at + 2, sign, false);
    return true;
  }
  void raw(size_t tag) {
    for (size_t at = at_; (at = text_.find("{%", at)) != std::string::npos; at += 2) {
      size_t inside = at + 2;
      char sign = 0;
      if (inside < text_.size() && (text_[inside] == '-' || text_[inside] == '+')) sign = text_[inside++];
      size_t end = skip_space(inside);
      if (!here("endraw", end)) continue;
      end = skip_space(end + 6);
      char end_sign = 0;
      if (here("-", end) || here("+", end)) end_sign = text_[end++];
      if (!here("%}", end)) continue;
      emit(at_, at, sign, true);
      close(end + 2, end_sign, true);
      return;
    }
    fail("Missing end of raw directive", tag);
  }

  // Tokens up to the tag's end. Inside brackets the closing mark is read as operators.
  void code(char closing, size_t tag) {
    std::string brackets;
    for (;;) {
      at_ = skip_space(at_);
      if (at_ >= text_.size()) {
        if (!brackets.empty()) fail(fmt::format("unexpected end of template, expected '{}'", brackets.back()), at_);
        fail(closing == '%' ? "unexpected end of template, expected 'end of statement block'" : "unexpected end of template, expected 'end of print statement'", tag);
      }
      const size_t at = at_;
      const char c = text_[at];
      if (brackets.empty()) {
        const bool signed_end = (c == '-' || (c == '+' && closing == '%')) && at + 2 < text_.size() && text_[at + 1] == closing && text_[at + 2] == '}';
        if (signed_end || (c == closing && at + 1 < text_.size() && text_[at + 1] == '}')) {
          add(closing == '%' ? TokenType::block_end : TokenType::print_end, "", at);
          close(at + (signed_end ? 3 : 2), signed_end ? c : char(0), closing == '%');
          return;
        }
      }
      if (is_digit(c)) number();
      else if (is_name(c)) name();
      else if (c == '\'' || c == '"') string();
      else op(brackets);
    }
  }

  void name() {
    const size_t begin = at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    add(TokenType::name, text_.substr(begin, at_ - begin), begin);
  }

  size_t digits(size_t at) const {  // with single underscores between
    while (at < text_.size() && (is_digit(text_[at]) || (text_[at] == '_' && at + 1 < text_.size() && is_digit(text_[at + 1]) && is_digit(text_[at - 1])))) ++at;
    return at;
  }
  void number() {
    const size_t begin = at_;
    std::string out;
    const auto without_underscores = [&](size_t end) {
      for (size_t i = begin; i < end; ++i)
        if (text_[i] != '_') out += text_[i];
    };
    if (text_[begin] == '0' && begin + 1 < text_.size() && std::string_view("bBoOxX").find(text_[begin + 1]) != std::string_view::npos) {
      size_t end = begin + 2;
      while (end < text_.size() && (std::isxdigit(uint8_t(text_[end])) || text_[end] == '_')) ++end;
      without_underscores(end);
      at_ = end;
      return add(TokenType::integer, std::move(out), begin);
    }
    size_t end = digits(begin);
    bool real = false;
    if (end + 1 < text_.size() && text_[end] == '.' && is_digit(text_[end + 1]) && !(begin > 0 && text_[begin - 1] == '.')) {
      real = true;
      end = digits(end + 1);
    }
    if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
      size_t exponent = end + 1;
      if (exponent < text_.size() && (text_[exponent] == '+' || text_[exponent] == '-')) ++exponent;
      if (exponent < text_.size() && is_digit(text_[exponent])) {
        real = true;
        end = digits(exponent);
      }
    }
    without_underscores(end);
    at_ = end;
    add(real ? TokenType::real : TokenType::integer, std::move(out), begin);
  }

  void string() {
    const size_t begin = at_;
    const char quote = text_[at_++];
    std::string out;
    for (;;) {
      if (at_ >= text_.size()) fail(fmt::format("a string that begins with {} has no end", quote), begin);
      const char c = text_[at_++];
      if (c == quote) break;
      if (c != '\\') {
        out += c;
        continue;
      }
      if (at_ >= text_.size()) fail(fmt::format("a string that begins with {} has no end", quote), begin);
      escape(out);
    }
    add(TokenType::string, std::move(out), begin);
  }
  void escape(std::string& out) {
    const size_t begin = at_ - 1;
    const char c = text_[at_++];
    constexpr std::string_view kFrom = "ntr\\'\"abfv", kTo = "\n\t\r\\'\"\a\b\f\v";
    if (const size_t k = kFrom.find(c); k != std::string_view::npos) {
      out += kTo[k];
    } else if (c == '\n') {  // the line goes on
    } else if (c >= '0' && c <= '7') {
      uint32_t code = uint32_t(c - '0');
      for (int k = 0; k < 2 && at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '7'; ++k) code = code * 8 + uint32_t(text_[at_++] - '0');
      append_utf8(out, code);
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const int length = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      uint32_t code = 0;
      for (int k = 0; k < length; ++k, ++at_) {
        if (at_ >= text_.size() || !std::isxdigit(uint8_t(text_[at_]))) fail(fmt::format("an escape \\{} takes {} hexadecimal digits", c, length), begin);
        code = code * 16 + uint32_t(is_digit(text_[at_]) ? text_[at_] - '0' : (text_[at_] | 0x20) - 'a' + 10);
        if (code > 0x10ffff) fail("an escape names a character that Unicode does not have", begin);
      }
      if (code >= 0xd800 && code <= 0xdfff) fail("an escape names half of a surrogate pair, which is no character", begin);
      append_utf8(out, code);
    } else if (c == 'N') {
      fail("escapes by character name (\\N{...}) are not supported", begin);
    } else {
      out += '\\';
      out += c;
    }
  }

  void op(std::string& brackets) {
    constexpr std::string_view kTwo[] = {"//", "**", "==", "!=", "<=", ">="};
    const size_t begin = at_;
    for (std::string_view two : kTwo)
      if (here(two, begin)) {
        at_ += 2;
        return add(TokenType::op, std::string(two), begin);
      }
    const char c = text_[begin];
    if (std::string_view("+-/*%~[](){}<>=.,:|;").find(c) == std::string_view::npos)
      fail(fmt::format("unexpected char '{}'", text_.substr(begin, character_length(text_, begin))), begin);
    if (c == '(' || c == '[' || c == '{') brackets += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (c == ')' || c == ']' || c == '}') {
      if (brackets.empty()) fail(fmt::format("unexpected '{}'", c), begin);
      if (brackets.back() != c) fail(fmt::format("unexpected '{}', expected '{}'", c, brackets.back()), begin);
      brackets.pop_back();
    }
    ++at_;
    add(TokenType::op, std::string(1, c), begin);
  }

  std::string text_;
  size_t at_ = 0;
  bool line_begins_ = true;
  size_t counted_ = 0;  // bytes that `place_` is behind
  Place place_;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

std::string describe(const Token& token) {
  switch (token.type) {
    case TokenType::data: return "template data";
    case TokenType::block_begin: return "begin of statement block";
    case TokenType::block_end: return "end of statement block";
    case TokenType::print_begin: return "begin of print statement";
    case TokenType::print_end: return "end of print statement";
    case TokenType::string: return "string";
    case TokenType::integer: return "integer";
    case TokenType::real: return "float";
    case TokenType::end: return "end of template";
    case TokenType::name:
    case TokenType::op: break;
  }
  return token.text;
}

}  // namespace spanscope::jinja
