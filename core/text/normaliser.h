// SPDX-License-Identifier: GPL-3.0-or-later
// Rewrites text before it is cut into words, and remembers where every byte came from. Ill-formed bytes pass unchanged.
// Immutable; any thread. Unicode data: utf8proc.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/text/vocabulary.h"

namespace spanscope {

struct MappedText {
  std::string text;
  // [text.size() + 1]: byte of the input at which byte i of `text` begins; the last one: where the text ends. Never falls.
  // Text that a step puts in has no bytes; of a rewritten character the first bytes go one to one, the rest is empty.
  std::vector<uint64_t> origin;
};
MappedText unmapped(std::string_view text, uint64_t base);
MappedText part_of(const MappedText& text, size_t begin, size_t end);

class Normaliser {
 public:
  // Errors: SPAN-TOKENIZER - a replacement of nothing.
  static Result<Normaliser> make(std::vector<NormaliseStep> steps, const std::string& where);
  bool empty() const { return steps_.empty(); }
  // first: the text begins the input; continues: it goes on where other text stopped, so no prefix is put in front.
  MappedText apply(MappedText text, bool first, bool continues) const;

 private:
  std::vector<NormaliseStep> steps_;
};

}  // namespace spanscope
