// SPDX-License-Identifier: GPL-3.0-or-later
// The JSON of a tokenizer.json, its vocabulary and merges apart: those are most of the file and become plain arrays at once.
// Bounded in depth, in values and in sizes. Any thread.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/json.h"
#include "core/base/result.h"

namespace spanscope {

struct TokenizerJson {
  Json root;  // without model.vocab and model.merges
  bool has_vocabulary = false, has_merges = false;
  std::vector<std::pair<std::string, int64_t>> ids;     // of an object: text, id
  std::vector<std::pair<std::string, double>> scored;   // of an array: text, score
  std::vector<std::string> merges;                      // "left right"
  std::vector<uint32_t> merge_left;                     // [merges] bytes of the left part
};

// Errors: SPAN-JSON (with line and column), SPAN-JSON-DEPTH, SPAN-LIMIT.
Result<TokenizerJson> parse_tokenizer_json(std::string_view text, const std::string& where);

}  // namespace spanscope
