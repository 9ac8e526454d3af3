// SPDX-License-Identifier: GPL-3.0-or-later
// What holds of any vocabulary that a reader accepts.
#pragma once
#include <cstdlib>
#include <string>

#include "core/text/pattern.h"
#include "core/text/tokenizer.h"

namespace spanscope {

inline void check_fuzzed_vocabulary(Vocabulary vocabulary) {
  auto made = make_tokenizer(std::move(vocabulary));
  if (!made) {
    if (made.error().tag.empty() || made.error().message.empty()) std::abort();
    return;
  }
  const Tokenizer& tokenizer = **made;
  const std::string text = "<s>Don't  12345 \xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80 e\xcc\x81\xff \t\n\xe2\x96\x81<|end|> aAbB</s>";
  for (const bool special : {false, true}) {
    Encoding encoding;
    try {
      encoding = tokenizer.encode(text, {true, special, special});
    } catch (const PatternLimit&) {
      return;
    }
    if (encoding.ids.size() != encoding.offsets.size()) std::abort();
    uint64_t at = 0, covered = 0;
    for (size_t i = 0; i < encoding.ids.size(); ++i) {
      const ByteRange r = encoding.offsets[i];
      if (r.begin < at && !(r.begin == 0 && r.end == 0)) std::abort();
      if (r.end < r.begin || r.end > text.size()) std::abort();
      if (encoding.ids[i] < 0 || size_t(encoding.ids[i]) >= tokenizer.vocabulary().tokens.size()) std::abort();
      covered += r.size();
      at = r.end;
    }
    for (const ByteRange& r : encoding.dropped) covered += r.size();
    if (covered != text.size()) std::abort();
    (void)tokenizer.decode(encoding.ids);
  }
  (void)tokenizer.digest();
}

}  // namespace spanscope
