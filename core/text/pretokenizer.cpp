// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/text/pretokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "core/base/json.h"

namespace spanscope {
namespace {

// PCRE2's \s takes in U+180E, which is no white space since Unicode 6.3; the set is written out instead.
#define WS "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
constexpr const char* kGpt2 =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" WS "\\p{L}\\p{N}]+|[" WS "]+(?![^" WS "])|[" WS "]+";
constexpr const char* kDigit = "\\p{N}";
#undef WS

// Invalid bytes become private-use characters U+10FE00 + byte for matching; `origin` maps back.
struct Subject {
  std::string text;
  std::vector<size_t> origin;  // [text.size() + 1] byte offset in the input; empty when the input is well-formed
  size_t to_input(size_t at) const { return origin.empty() ? at : origin[at]; }
};

size_t sequence_length(std::string_view s, size_t at) {
  const uint8_t c = uint8_t(s[at]);
  const size_t length = c < 0x80 ? 1 : c >= 0xc2 && c <= 0xdf ? 2 : c >= 0xe0 && c <= 0xef ? 3 : c >= 0xf0 && c <= 0xf4 ? 4 : 0;
  if (length == 0 || at + length > s.size()) return 0;
  return find_invalid_utf8(s.substr(at, length)) == std::string_view::npos ? length : 0;
}

Subject make_subject(std::string_view input) {
  Subject out;
  if (find_invalid_utf8(input) == std::string_view::npos) {
    out.text = std::string(input);
    return out;
  }
  size_t at = 0;
  while (at < input.size()) {
    const size_t length = sequence_length(input, at);
    if (length) {
      for (size_t i = 0; i < length; ++i) out.origin.push_back(at + i);
      out.text.append(input.substr(at, length));
      at += length;
    } else {
      const uint32_t code = 0x10FE00u + uint8_t(input[at]);
      const char bytes[4] = {char(0xf0 | (code >> 18)), char(0x80 | ((code >> 12) & 0x3f)),
                             char(0x80 | ((code >> 6) & 0x3f)), char(0x80 | (code & 0x3f))};
      out.text.append(bytes, 4);
      out.origin.insert(out.origin.end(), 4, at);
      ++at;
    }
  }
  out.origin.push_back(input.size());
  return out;
}

class Pattern {
 public:
  explicit Pattern(const char* text) {
    int error = 0;
    PCRE2_SIZE at = 0;
    code_ = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text), PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &error, &at,
                          nullptr);
    if (code_) pcre2_jit_compile(code_, PCRE2_JIT_COMPLETE);  // without JIT the interpreter gives the same borders
  }
  ~Pattern() { pcre2_code_free(code_); }
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;
  bool ok() const { return code_ != nullptr; }

  // Calls piece(begin, end, matched) for matches and the gaps between them, in order.
  template <class F>
  void split(std::string_view subject, F&& piece) const {
    pcre2_match_data* data = pcre2_match_data_create_from_pattern(code_, nullptr);
    size_t at = 0;
    while (at < subject.size()) {
      const int n = pcre2_match(code_, reinterpret_cast<PCRE2_SPTR>(subject.data()), subject.size(), at,
                                PCRE2_NO_UTF_CHECK, data, nullptr);
      if (n < 0) break;
      const PCRE2_SIZE* range = pcre2_get_ovector_pointer(data);
      if (range[1] <= at && range[1] == range[0]) break;  // patterns here never match nothing
      if (range[0] > at) piece(at, size_t(range[0]), false);
      piece(size_t(range[0]), size_t(range[1]), true);
      at = range[1];
    }
    if (at < subject.size()) piece(at, subject.size(), false);
    pcre2_match_data_free(data);
  }

 private:
  pcre2_code* code_ = nullptr;
};

class BytePreTokenizer : public PreTokenizer {
 public:
  explicit BytePreTokenizer(bool single_digits) : single_digits_(single_digits), words_(kGpt2), digit_(kDigit) {}
  bool ok() const { return words_.ok() && digit_.ok(); }

  std::vector<size_t> ends(std::string_view text) const override {
    const Subject subject = make_subject(text);
    std::vector<size_t> out;
    auto add = [&](size_t end) { out.push_back(subject.to_input(end)); };
    auto words = [&](size_t begin, size_t end) {
      words_.split(std::string_view(subject.text).substr(begin, end - begin),
                   [&](size_t, size_t piece_end, bool) { add(begin + piece_end); });
    };
    if (single_digits_) {
      digit_.split(subject.text, [&](size_t begin, size_t end, bool digit) {
        if (digit) add(end);
        else words(begin, end);
      });
    } else {
      words(0, subject.text.size());
    }
    return out;
  }

 private:
  bool single_digits_;
  Pattern words_, digit_;
};

}  // namespace

std::vector<std::string> PreTokenizer::known() { return {"gpt-2", "smollm"}; }

Result<std::shared_ptr<const PreTokenizer>> PreTokenizer::make(const std::string& name) {
  if (name != "gpt-2" && name != "smollm") {
    std::string list;
    for (const auto& k : known()) list += (list.empty() ? "" : ", ") + k;
    return make_error(ErrorCode::unsupported, "SPAN-PRETOKENIZER",
                      "pre-tokenizer \"" + name + "\" is not supported; known are " + list, "tokenizer.ggml.pre");
  }
  auto out = std::make_shared<BytePreTokenizer>(name == "smollm");
  if (!out->ok()) return make_error(ErrorCode::invalid, "SPAN-PRETOKENIZER", "the pattern does not compile", name);
  return std::shared_ptr<const PreTokenizer>(std::move(out));
}

}  // namespace spanscope
