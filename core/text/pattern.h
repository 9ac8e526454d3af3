// SPDX-License-Identifier: GPL-3.0-or-later
// Regular expressions as tokenizer files write them (Oniguruma's and Rust's dialects), run by PCRE2. Compiled once, then
// immutable; a Matcher belongs to one thread.
#pragma once
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/result.h"

namespace spanscope {

// A pattern from a file took more steps than anything honest needs. A kind of bad_alloc: a resource ran out.
struct PatternLimit : std::bad_alloc {
  const char* what() const noexcept override { return "a pattern of the tokenizer needs more steps than are allowed"; }
};

// What means another thing to PCRE2 is written out: white space (its own set has U+180E, the originals' has not), word
// characters, line ends. Nothing where a construct has no exact counterpart; `construct` then names it.
std::optional<std::string> pcre2_pattern(std::string_view pattern, std::string& construct);

class Pattern {
 public:
  // trusted: ours, linear on any text, so that no limit on steps is needed. Errors: SPAN-PATTERN, with the byte offset.
  static Result<Pattern> compile(std::string_view pattern, const std::string& where, bool trusted);
  Pattern(Pattern&&) noexcept;
  Pattern& operator=(Pattern&&) noexcept;
  ~Pattern();

  class Matcher {
   public:
    explicit Matcher(const Pattern& pattern);
    Matcher(Matcher&&) noexcept;
    ~Matcher();
    // The next match in well-formed UTF-8 that begins at `from` or behind it and is not empty. Throws std::bad_alloc.
    std::optional<std::pair<size_t, size_t>> next(std::string_view text, size_t from);

   private:
    struct State;
    std::unique_ptr<State> state_;
  };

 private:
  struct Compiled;
  explicit Pattern(std::unique_ptr<Compiled> compiled);
  std::unique_ptr<Compiled> compiled_;
};

bool is_white_space(uint32_t code_point);
// Letters, marks, decimal digits, connectors and the two joiners: \w of the original library.
bool is_word_character(uint32_t code_point);

}  // namespace spanscope
