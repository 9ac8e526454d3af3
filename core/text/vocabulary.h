// SPDX-License-Identifier: GPL-3.0-or-later
// What a tokenizer is made from, as the model file states it. Plain data.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace spanscope {

enum class TokenKind : uint8_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

struct Vocabulary {
  std::string kind;  // tokenizer.ggml.model: "gpt2"
  std::string pre;   // tokenizer.ggml.pre: "gpt-2", "smollm"
  std::vector<std::string> tokens;   // byte-level encoded text, as stored
  std::vector<TokenKind> kinds;      // [tokens]
  std::vector<std::string> merges;   // "left right"
  int32_t bos = -1, eos = -1, eot = -1, unknown = -1, pad = -1;
  bool add_bos = false, add_eos = false;
};

}  // namespace spanscope
