// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/text/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "core/text/utf8.h"

namespace spanscope {
namespace {

#define SPANSCOPE_WS "\\x09-\\x0d\\x20\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define SPANSCOPE_WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200c}\\x{200d}"

constexpr uint32_t kSteps = 100'000'000;  // of a pattern that a file brings
constexpr uint32_t kNoLimit = 0xffffffffu;

std::string message_of(int code) {
  PCRE2_UCHAR text[256];
  return pcre2_get_error_message(code, text, sizeof text) < 0 ? "code " + std::to_string(code) : reinterpret_cast<const char*>(text);
}

}  // namespace

std::optional<std::string> pcre2_pattern(std::string_view pattern, std::string& construct) {
  std::string out;
  bool in_class = false;
  const auto refuse = [&](std::string_view what) {
    construct = what;
    return std::nullopt;
  };
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char e = pattern[++i];
      const std::string_view both = pattern.substr(i - 1, 2);
      switch (e) {
        case 's':
          out += in_class ? SPANSCOPE_WS : "[" SPANSCOPE_WS "]";
          break;
        case 'S':
          if (in_class) return refuse("\\S in a class");
          out += "[^" SPANSCOPE_WS "]";
          break;
        case 'w':
          out += in_class ? SPANSCOPE_WORD : "[" SPANSCOPE_WORD "]";
          break;
        case 'W':
          if (in_class) return refuse("\\W in a class");
          out += "[^" SPANSCOPE_WORD "]";
          break;
        case 'b': case 'B': case 'h': case 'H': case 'R': case 'X': case 'K': case 'y': case 'Y': case 'O': case 'g': case 'G':
        case 'C': case 'Q': case 'E': case 'Z': case 'N': case 'v': case 'V':
          return refuse(both);
        default:
          out += both;
      }
      continue;
    }
    if (in_class) {
      if (c == ']') in_class = false;
      if (c == '[' && pattern.substr(i, 2) != "[:") return refuse("a class in a class");
      if (c == '[') return refuse("a named class");
      if (c == '&' && pattern.substr(i, 2) == "&&") return refuse("an intersection of classes");
      out += c;
      continue;
    }
    if (c == '[') {
      in_class = true;
      out += c;
      if (pattern.substr(i + 1, 1) == "^") out += pattern[++i];
      if (pattern.substr(i + 1, 1) == "]") return refuse("a class that begins with ]");
      continue;
    }
    if (c == '(' && pattern.substr(i + 1, 1) == "?") {
      // Groups, look-around and case are the same everywhere; other options are not.
      static constexpr std::string_view kSame[] = {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?i)"};
      bool same = false;
      for (std::string_view group : kSame) same = same || pattern.substr(i, group.size()) == group;
      if (!same) return refuse(pattern.substr(i, 4));
    }
    if (c == '(' && pattern.substr(i + 1, 1) == "*") return refuse("(*");
    out += c;
  }
  return out;
}

struct Pattern::Compiled {
  pcre2_code* code = nullptr;
  bool trusted = false;
  ~Compiled() { pcre2_code_free(code); }
};

Pattern::Pattern(std::unique_ptr<Compiled> compiled) : compiled_(std::move(compiled)) {}
Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;
Pattern::~Pattern() = default;

Result<Pattern> Pattern::compile(std::string_view pattern, const std::string& where, bool trusted) {
  if (pattern.size() > 1 << 14)
    return make_error(ErrorCode::limit, "SPAN-PATTERN", "the pattern has " + std::to_string(pattern.size()) + " bytes, more than 16384", where);
  std::string construct;
  const auto translated = pcre2_pattern(pattern, construct);
  if (!translated)
    return make_error(ErrorCode::unsupported, "SPAN-PATTERN", "the pattern uses " + construct + ", which is not known here", where);
  std::unique_ptr<pcre2_compile_context, void (*)(pcre2_compile_context*)> context(pcre2_compile_context_create(nullptr),
                                                                                   pcre2_compile_context_free);
  if (!context) throw std::bad_alloc();
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(context.get(), 64);
  auto compiled = std::make_unique<Compiled>();
  compiled->trusted = trusted;
  int error = 0;
  PCRE2_SIZE at = 0;
  // In the original dialect ^ and $ are the borders of lines.
  compiled->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated->data()), translated->size(),
                                 PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &at, context.get());
  if (!compiled->code)
    return make_error(ErrorCode::unsupported, "SPAN-PATTERN", "the regular expression library refuses the pattern: " + message_of(error), where, at);
  // Without JIT (not built in, or not allowed by the system) matching is the same, only slower.
  pcre2_jit_compile(compiled->code, PCRE2_JIT_COMPLETE);
  return Pattern(std::move(compiled));
}

struct Pattern::Matcher::State {
  const pcre2_code* code;
  pcre2_match_data* data;
  pcre2_match_context* context;
  ~State() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
  }
};

Pattern::Matcher::Matcher(const Pattern& pattern)
    : state_(new State{pattern.compiled_->code, pcre2_match_data_create(1, nullptr), pcre2_match_context_create(nullptr)}) {
  if (!state_->data || !state_->context) throw std::bad_alloc();
  const uint32_t limit = pattern.compiled_->trusted ? kNoLimit : kSteps;
  pcre2_set_match_limit(state_->context, limit);
  pcre2_set_depth_limit(state_->context, limit);
  pcre2_set_heap_limit(state_->context, pattern.compiled_->trusted ? kNoLimit : 1 << 20);  // KiB
}
Pattern::Matcher::Matcher(Matcher&&) noexcept = default;
Pattern::Matcher::~Matcher() = default;

std::optional<std::pair<size_t, size_t>> Pattern::Matcher::next(std::string_view text, size_t from) {
  const auto* bytes = reinterpret_cast<PCRE2_SPTR>(text.data());
  while (from < text.size()) {
    uint32_t options = PCRE2_NO_UTF_CHECK;
    int found = pcre2_match(state_->code, bytes, text.size(), from, options, state_->data, state_->context);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT)
      found = pcre2_match(state_->code, bytes, text.size(), from, options | PCRE2_NO_JIT, state_->data, state_->context);
    if (found == PCRE2_ERROR_NOMATCH) return std::nullopt;
    if (found == PCRE2_ERROR_MATCHLIMIT || found == PCRE2_ERROR_DEPTHLIMIT || found == PCRE2_ERROR_HEAPLIMIT) throw PatternLimit();
    if (found < 0) throw std::bad_alloc();
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(state_->data);
    if (range[1] > range[0] && range[0] >= from) return std::pair{size_t(range[0]), size_t(range[1])};
    from = std::max<size_t>(from, range[1]);  // an empty match: on by one character
    from += std::max<size_t>(utf8_sequence(text, from), 1);
  }
  return std::nullopt;
}

bool is_white_space(uint32_t c) {
  return (c >= 0x09 && c <= 0x0d) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
         c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool is_word_character(uint32_t c) {
  static const Pattern pattern = [] {
    auto made = Pattern::compile("\\w", "", true);
    if (!made) throw std::bad_alloc();
    return std::move(*made);
  }();
  std::string text;
  append_utf8(text, c);
  return Pattern::Matcher(pattern).next(text, 0).has_value();
}

}  // namespace spanscope
