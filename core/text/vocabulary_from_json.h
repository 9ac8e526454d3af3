// SPDX-License-Identifier: GPL-3.0-or-later
// A tokenizer.json (the file of the tokenizers library) as a Vocabulary. A pure function of bytes. Any thread.
#pragma once
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/text/vocabulary.h"

namespace spanscope {

// BPE (over bytes or characters) and unigram models, with the normalizers, pre-tokenizers and post-processors that language
// models use; any other is refused by name. Which tokens end a generation this file does not say (vocabulary_from_hf.h).
// Errors: SPAN-JSON, SPAN-JSON-DEPTH, SPAN-LIMIT, SPAN-TOKENIZER (what the file asks for is not supported, or it
// contradicts itself).
Result<Vocabulary> vocabulary_from_tokenizer_json(std::string_view text, const std::string& where);

}  // namespace spanscope
