// SPDX-License-Identifier: GPL-3.0-or-later
// Byte-level BPE: byte-pair merging inside one word. O(n log n) in the word's bytes. Immutable; any thread.
#pragma once
#include <array>
#include <memory>
#include <string>
#include <unordered_map>

#include "core/base/result.h"
#include "core/text/vocabulary.h"
#include "core/text/word_model.h"

namespace spanscope {

class BytePairs : public WordModel {
 public:
  // Keeps views into vocabulary.tokens: it must outlive this. Only normal tokens are made by merging.
  // Errors: SPAN-MERGES - a merge that is not two pieces of the byte alphabet.
  static Result<std::unique_ptr<const WordModel>> make(const Vocabulary& vocabulary);

  void encode(std::string_view word, WordScratch& scratch, std::vector<WordPart>& out) const override;

 private:
  uint32_t symbol_of(std::string_view text);
  TokenId token_of(uint32_t symbol) const { return symbol < tokens_ ? TokenId(symbol) : -1; }
  TokenId whole_word(std::string_view word) const;

  uint32_t tokens_ = 0;          // symbols below are tokens, the others are made by merges on the way to a token
  TextTable symbols_;            // by text in the byte alphabet
  std::unordered_map<std::string, uint32_t> extra_;  // rare
  PairTable merges_;
  std::array<uint32_t, 256> byte_symbol_{};
  std::array<std::string, 256> byte_text_;  // in the alphabet
  bool ignore_merges_ = false;
  size_t longest_ = 0;           // bytes of the longest token's text
};

}  // namespace spanscope
