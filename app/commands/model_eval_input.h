// SPDX-License-Identifier: GPL-3.0-or-later
// What `model eval` reads besides the model: prompt, ids to feed, spans. Errors name file and entry.
#pragma once
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/model/weights.h"

namespace spanscope {

struct EvalPrompt {
  std::string ids, text, chat;  // exactly one source: file of ids, text, conversation
  bool has_text = false;        // --text was given (it may be empty)
};

struct EvalSpan {
  uint32_t from = 0, len = 0;
  uint32_t column = 0;  // place in the spans file
};

Result<std::vector<TokenId>> eval_prompt_ids(const EvalPrompt& prompt, const Model& model);
// A JSON array of token ids below `vocab`, at least one.
Result<std::vector<TokenId>> eval_ids_file(const std::string& path, uint32_t vocab);
// {"spans": [{"id", "from", "len"}, ...]} inside a prompt of `tokens`. Comes back ascending and disjoint, as
// the kernel wants it; `column` keeps the file's order.
Result<std::vector<EvalSpan>> eval_spans_file(const std::string& path, size_t tokens);

}  // namespace spanscope
