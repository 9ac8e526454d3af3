// SPDX-License-Identifier: GPL-3.0-or-later
// The steps of a tokenizer.json: normalizer, pre-tokenizer, post-processor, decoder. Any thread.
#pragma once
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/base/result.h"
#include "core/text/vocabulary.h"

namespace spanscope {

struct TokenizerSteps {
  std::vector<NormaliseStep> normalise, prepare;
  std::vector<SplitStep> split;
  bool byte_level = false;
  bool decode_drops_space = false;
};
// Steps that are not known are refused by name (SPAN-TOKENIZER).
Result<TokenizerSteps> read_tokenizer_steps(const Json& root, const std::string& where);

struct TokenizerTemplate {
  int64_t before = -1, behind = -1;  // ids put around a text
};
Result<TokenizerTemplate> read_tokenizer_template(const Json& root, const std::string& where);

}  // namespace spanscope
