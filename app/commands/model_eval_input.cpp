// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/commands/model_eval_input.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/files.h"
#include "core/base/json.h"
#include "core/chat/conversation.h"
#include "core/span/replay.h"
#include "core/text/chat_template.h"
#include "core/text/tokenizer.h"

namespace spanscope {
namespace {

Error usage(const std::string& message, const std::string& where) {
  return make_error(ErrorCode::invalid, "SPAN-USAGE", message, where);
}

Result<OrderedJson> json_file(const std::string& path) {
  auto text = read_file(path, 256u << 20);
  if (!text) return std::move(text).error();
  return parse_json(*text, path);
}

}  // namespace

Result<std::vector<TokenId>> eval_ids_file(const std::string& path, uint32_t vocab) {
  auto json = json_file(path);
  if (!json) return std::move(json).error();
  if (!json->is_array() || json->empty())
    return make_error(ErrorCode::invalid, "SPAN-IDS",
                      "expected a JSON array of token ids with at least one entry", path);
  std::vector<TokenId> out;
  for (const auto& value : *json) {
    if (!value.is_number_integer() || value.get<int64_t>() < 0 || value.get<int64_t>() >= int64_t(vocab))
      return make_error(
          ErrorCode::invalid, "SPAN-IDS",
          fmt::format("entry {} is {}, expected a token id below {}", out.size(),
                      value.dump(-1, ' ', true, OrderedJson::error_handler_t::replace).substr(0, 80), vocab),
          path);
    out.push_back(value.get<TokenId>());
  }
  return out;
}

Result<std::vector<EvalSpan>> eval_spans_file(const std::string& path, size_t tokens) {
  auto json = json_file(path);
  if (!json) return std::move(json).error();
  auto bad = [&](const std::string& message) {
    return make_error(ErrorCode::invalid, "SPAN-SPANS", message, path);
  };
  if (!json->is_object() || !json->contains("spans") || !(*json)["spans"].is_array())
    return bad("expected an object with an array \"spans\" of {\"id\", \"from\", \"len\"}");
  std::vector<EvalSpan> out;
  for (const auto& entry : (*json)["spans"]) {
    const size_t index = out.size();
    uint64_t value[2];
    const char* keys[2] = {"from", "len"};
    for (int i = 0; i < 2; ++i) {
      if (!entry.is_object() || !entry.contains(keys[i]) || !entry[keys[i]].is_number_unsigned())
        return bad(fmt::format("spans[{}].{}: expected a whole number from 0", index, keys[i]));
      value[i] = entry[keys[i]].get<uint64_t>();
    }
    if (value[1] == 0 || value[0] >= tokens || value[1] > tokens - value[0])
      return bad(fmt::format(
          "spans[{}] has {} tokens from {}, expected at least 1 inside the {} tokens of the prompt", index,
          value[1], value[0], tokens));
    out.push_back({uint32_t(value[0]), uint32_t(value[1]), uint32_t(index)});
  }
  if (out.empty()) return bad("\"spans\" is empty");
  std::sort(out.begin(), out.end(), [](const EvalSpan& a, const EvalSpan& b) { return a.from < b.from; });
  for (size_t i = 1; i < out.size(); ++i)
    if (out[i].from < out[i - 1].from + out[i - 1].len)
      return bad(fmt::format("spans[{}] and spans[{}] overlap at token {}", out[i - 1].column, out[i].column,
                             out[i].from));
  return out;
}

Result<std::vector<TokenId>> eval_prompt_ids(const EvalPrompt& o, const Model& model) {
  const int sources = !o.ids.empty() + o.has_text + !o.chat.empty();
  if (sources != 1) return usage("give one of --ids, --text and --chat", "model eval");
  if (!o.ids.empty()) return eval_ids_file(o.ids, model.recipe.vocab);
  auto tokenizer = make_tokenizer(model.vocabulary);
  if (!tokenizer) return std::move(tokenizer).error();
  if (o.chat.empty()) {
    Encoding encoding = (*tokenizer)->encode(o.text, {.add_special = true, .parse_special = true});
    if (encoding.ids.empty()) return usage("the text has no tokens", "--text");
    return std::move(encoding.ids);
  }
  // The context of the last turn, token for token as `record` runs it.
  auto conversation = read_conversation(o.chat);
  if (!conversation) return std::move(conversation).error();
  auto chat_template = make_chat_template(model.chat_template, model.vocabulary);
  if (!chat_template) return std::move(chat_template).error();
  auto replay = make_chat_replay(std::move(*conversation), *tokenizer, *chat_template);
  if (!replay) return std::move(replay).error();
  std::vector<TokenId> ids;
  while (!(*replay)->done()) {
    auto turn = (*replay)->next();
    if (!turn) return std::move(turn).error();
    ids = std::move(turn->ids);
  }
  if (ids.empty())
    return make_error(ErrorCode::invalid, "SPAN-CHAT", "the conversation has no turn to run", o.chat);
  return ids;
}

}  // namespace spanscope
