// SPDX-License-Identifier: GPL-3.0-or-later
// Byte-pair merging inside one word. O(n log n) in the word's bytes. Immutable; any thread.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/text/vocabulary.h"

namespace spanscope {

class BytePairs {
 public:
  // pieces [tokens]: bytes of every token. Control and user-defined tokens are never made by merging.
  static Result<BytePairs> make(const Vocabulary& vocabulary, const std::vector<std::string>& pieces);

  // Appends the word's tokens with offsets base + [begin, end); bytes without a token go to `dropped`.
  struct Part {
    TokenId id;  // -1: no token
    uint32_t begin, end;
  };
  void merge(std::string_view word, std::vector<Part>& out) const;

 private:
  struct Merge {
    uint32_t rank;
    uint32_t symbol;
  };
  uint32_t symbol_of(const std::string& bytes);
  std::array<uint32_t, 256> byte_symbol_{};
  std::vector<TokenId> token_of_symbol_;  // [symbols] -1: not in the vocabulary
  std::unordered_map<std::string, uint32_t> symbols_;
  std::unordered_map<uint64_t, Merge> merges_;  // left symbol << 32 | right symbol
};

}  // namespace spanscope
