// SPDX-License-Identifier: GPL-3.0-or-later
// Control and user-defined tokens inside text: leftmost, then longest, with the white space that their flags take in.
// Immutable; any thread.
#pragma once
#include <bitset>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.h"
#include "core/text/byte_trie.h"
#include "core/text/vocabulary.h"

namespace spanscope {

class AddedTokens {
 public:
  struct Entry {
    std::string text;
    TokenId id;
    uint8_t flags;  // TokenFlag
  };
  static constexpr size_t kLongest = 4096;  // bytes of one text

  explicit AddedTokens(const std::vector<Entry>& entries);
  bool empty() const { return starts_.none(); }

  // gap(begin, end) for text between tokens, token(id, begin, end) for tokens, in order; empty gaps are left out.
  template <class Gap, class Token>
  void each(std::string_view text, Gap gap, Token token) const {
    size_t done = 0;
    for (size_t at = 0; at < text.size();) {
      size_t end = 0;
      const uint32_t found = starts_[uint8_t(text[at])] ? longest(text, at, end) : kNoEntry;
      if (found == kNoEntry) {
        ++at;
        continue;
      }
      const uint8_t flags = flags_[found];
      if ((flags & kWholeWord) && !stands_alone(text, at, end)) {
        at = end;  // as the original: what begins inside is not looked for
        continue;
      }
      const size_t begin = flags & kTakesSpaceBefore ? space_before(text, done, at) : at;
      if (flags & kTakesSpaceAfter) end = space_behind(text, end);
      if (begin > done) gap(done, begin);
      token(ids_[found], begin, end);
      done = at = end;
    }
    if (done < text.size()) gap(done, text.size());
  }

 private:
  uint32_t longest(std::string_view text, size_t at, size_t& end) const;
  static bool stands_alone(std::string_view text, size_t begin, size_t end);
  static size_t space_before(std::string_view text, size_t from, size_t at);
  static size_t space_behind(std::string_view text, size_t at);

  ByteTrie trie_;
  std::bitset<256> starts_;
  std::vector<TokenId> ids_;
  std::vector<uint8_t> flags_;
};

}  // namespace spanscope
