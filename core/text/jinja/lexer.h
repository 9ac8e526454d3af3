// SPDX-License-Identifier: GPL-3.0-or-later
// Template text to tokens: text between tags with its white space already cut as the tags ask (trim_blocks and
// lstrip_blocks are on), and the tokens inside tags. Thread: any.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "core/text/jinja/machine.h"

namespace spanscope::jinja {

enum class TokenType : uint8_t {
  data,                       // text to print
  block_begin, block_end,     // {% %}
  print_begin, print_end,     // {{ }}
  name, string, integer, real,
  op,                         // + - ** == ( and so on: `text`
  end,
};

struct Token {
  TokenType type = TokenType::end;
  std::string text;  // of a string: its value
  Place place;
};

// Throws Failure (syntax).
std::vector<Token> tokenize(std::string_view source);
// How a token is called in errors: "end of statement block", "name".
std::string describe(const Token& token);

}  // namespace spanscope::jinja
