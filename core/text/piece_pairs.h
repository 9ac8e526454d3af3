// SPDX-License-Identifier: GPL-3.0-or-later
// BPE over characters: SentencePiece's (neighbours join when together they are a token, best score first) and that of
// tokenizer.json (a list of merges). Characters without a token fall back to their bytes' tokens. O(n log n) in the word's
// characters; immutable; any thread.
#pragma once
#include <array>
#include <memory>
#include <optional>

#include "core/base/result.h"
#include "core/text/vocabulary.h"
#include "core/text/word_model.h"

namespace spanscope {

// The byte that a piece like "<0x0A>" stands for.
std::optional<uint8_t> byte_of_piece(std::string_view text);

// What becomes of bytes that no piece covers; the same for BPE and unigram.
class ByteFallback {
 public:
  explicit ByteFallback(const Vocabulary& vocabulary);
  // One character [begin, end) without a token, or one ill-formed byte: its bytes' tokens, or the unknown token, or -1.
  // after_unknown: whether `out` ends with an unknown token of this word, which takes in its neighbours.
  void append(std::string_view word, uint32_t begin, uint32_t end, bool ill_formed, bool& after_unknown, std::vector<WordPart>& out) const;

 private:
  std::array<TokenId, 256> bytes_;
  TokenId unknown_;
  bool fallback_, fuse_;
};

class PiecePairs : public WordModel {
 public:
  // Keeps views into vocabulary.tokens. Errors: SPAN-MERGES - a merge that is not two tokens which make a third;
  // SPAN-TOKENIZER - neither merges nor one score per token, or a score that is not a number.
  static Result<std::unique_ptr<const WordModel>> make(const Vocabulary& vocabulary);

  void encode(std::string_view word, WordScratch& scratch, std::vector<WordPart>& out) const override;

 private:
  explicit PiecePairs(const Vocabulary& vocabulary) : fallback_(vocabulary) {}
  PairMerge joined(std::string_view word, const PairNode& left, const PairNode& right) const;

  TextTable pieces_;
  PairTable merges_;
  bool by_score_ = false, ignore_merges_ = false, has_unused_ = false;
  std::vector<uint32_t> rank_of_token_;  // by score: equal scores, equal ranks
  std::vector<bool> normal_;             // [tokens]
  std::vector<bool> unused_;             // [tokens] found while merging, then taken apart again
  size_t longest_ = 0;
  ByteFallback fallback_;
};

}  // namespace spanscope
