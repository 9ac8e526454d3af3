// SPDX-License-Identifier: GPL-3.0-or-later
// What every source of a SentencePiece vocabulary has in common. Pure functions; any thread.
#pragma once
#include <string>

#include "core/base/result.h"
#include "core/text/vocabulary.h"

namespace spanscope {

// U+2581 stands for a space, and with a dummy prefix for one in front of each stretch of text.
inline void set_sentencepiece_spaces(Vocabulary& vocabulary, bool dummy_prefix) {
  const std::string mark = "\xe2\x96\x81";
  using Kind = NormaliseStep::Kind;
  if (dummy_prefix) vocabulary.normalise.push_back({Kind::prefix, "", mark, NormaliseStep::When::always});
  vocabulary.normalise.push_back({Kind::replace, " ", mark, NormaliseStep::When::always});
  vocabulary.decode_drops_space = dummy_prefix;
}

// Rules that are not followed here must not be passed over.
inline Status refuse_sentencepiece_rules(bool remove_extra_whitespaces, bool character_map, const std::string& where) {
  const char* rule = character_map ? "a character map (NFKC rules)" : remove_extra_whitespaces ? "removal of extra white space" : nullptr;
  if (!rule) return {};
  return make_error(ErrorCode::unsupported, "SPAN-TOKENIZER", std::string("the SentencePiece model asks for ") + rule + ", which is not supported", where);
}

}  // namespace spanscope
