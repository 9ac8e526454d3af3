// SPDX-License-Identifier: GPL-3.0-or-later
// Splits text into pre-tokens, the pieces inside which byte-level BPE merges. Byte-exact on any input: a byte outside a
// well-formed UTF-8 sequence is one unit of no class (no letter, digit, space, punctuation). Any thread.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace spanscope {

class PreTokenizer {
 public:
  // name: tokenizer.ggml.pre. Known: "gpt-2", "smollm". Others are refused by name.
  static Result<std::shared_ptr<const PreTokenizer>> make(const std::string& name);
  virtual ~PreTokenizer() = default;
  // Ascending end offsets of the pre-tokens in bytes of `text`; the last one is text.size().
  virtual std::vector<size_t> ends(std::string_view text) const = 0;
  static std::vector<std::string> known();
};

}  // namespace spanscope
