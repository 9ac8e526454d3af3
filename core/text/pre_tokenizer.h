// SPDX-License-Identifier: GPL-3.0-or-later
// Cuts text into the words inside which byte pairs may merge. Immutable; any thread.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace spanscope {

class PreTokenizer {
 public:
  // "gpt-2" or "smollm" (tokenizer.ggml.pre). Any other is refused by name.
  static Result<std::unique_ptr<const PreTokenizer>> make(const std::string& name);
  ~PreTokenizer();

  // Calls word(begin, end) for consecutive byte ranges that cover `text`. Ill-formed bytes count as private-use
  // characters, one each; they are neither replaced nor lost. Throws std::bad_alloc when memory runs out.
  void split(std::string_view text, const std::function<void(size_t begin, size_t end)>& word) const;

 private:
  PreTokenizer();
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace spanscope
