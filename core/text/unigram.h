// SPDX-License-Identifier: GPL-3.0-or-later
// SentencePiece's unigram model: the pieces whose scores add up to most (Kudo 2018, https://arxiv.org/abs/1804.10959), found
// by one pass over the word. Sums are f32, in text order; of equal sums the one whose last piece is longest wins, as in the
// original. O(bytes x longest piece); immutable; any thread.
#pragma once
#include <memory>

#include "core/base/result.h"
#include "core/text/byte_trie.h"
#include "core/text/piece_pairs.h"
#include "core/text/vocabulary.h"
#include "core/text/word_model.h"

namespace spanscope {

class Unigram : public WordModel {
 public:
  // Errors: SPAN-TOKENIZER - not one finite score per token.
  static Result<std::unique_ptr<const WordModel>> make(const Vocabulary& vocabulary);

  void encode(std::string_view word, WordScratch& scratch, std::vector<WordPart>& out) const override;

 private:
  Unigram(const Vocabulary& vocabulary, size_t bytes) : pieces_(bytes), fallback_(vocabulary) {}
  ByteTrie pieces_;
  std::vector<float> scores_;  // [tokens]
  float unknown_score_ = 0;
  ByteFallback fallback_;
};

}  // namespace spanscope
