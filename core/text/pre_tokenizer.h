// SPDX-License-Identifier: GPL-3.0-or-later
// Cuts text into the words inside which tokens are made. Immutable; any thread.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/text/vocabulary.h"

namespace spanscope {

// What a name of tokenizer.ggml.pre stands for.
struct KnownPreTokenizer {
  std::string_view name;
  std::vector<SplitStep> steps;
  bool ignore_merges = false;
  bool add_bos = false;  // where the file says nothing
};
// nullptr: not known.
const KnownPreTokenizer* find_pre_tokenizer(std::string_view name);
std::string pre_tokenizer_names();

// The steps of the byte-level pre-tokenizer itself (GPT-2's pattern), and the one that cuts every digit out alone.
SplitStep gpt2_split();
SplitStep digit_split();
// Whether a step's matches leave nothing between them, whatever the text: true only of patterns known by name.
bool matches_everything(const SplitStep& step);

class PreTokenizer {
 public:
  // A name as above. Any other is refused by name.
  static Result<std::unique_ptr<const PreTokenizer>> make(const std::string& name);
  // Steps of a file, one after another on every piece. None: the text is one word. Errors: SPAN-PATTERN, SPAN-LIMIT.
  static Result<std::unique_ptr<const PreTokenizer>> make(const std::vector<SplitStep>& steps, const std::string& where);
  ~PreTokenizer();

  // Calls word(begin, end) for consecutive byte ranges that cover `text`. Ill-formed bytes count as private-use
  // characters, one each; they are neither replaced nor lost. Throws std::bad_alloc when memory runs out.
  void split(std::string_view text, const std::function<void(size_t begin, size_t end)>& word) const;

 private:
  PreTokenizer();
  struct Stage;
  struct Run;
  std::vector<Stage> stages_;
};

}  // namespace spanscope
