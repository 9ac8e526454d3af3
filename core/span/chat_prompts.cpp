// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/span/chat_prompts.h"

#include <fmt/format.h>

#include <algorithm>

namespace spanscope {

ChatPrompts::ChatPrompts(const Conversation& conversation, std::shared_ptr<const ChatTemplate> chat_template, const ReplayOptions& options,
                         std::vector<Finding>& findings)
    : conversation_(conversation), template_(std::move(chat_template)), findings_(findings) {
  input_.tools = conversation.tools;
  input_.documents = options.documents;
  input_.extra = options.variables;
  input_.now = options.now ? *options.now : local_time_now();
}

Result<Rendered> ChatPrompts::run(size_t messages, bool generation_prompt) {
  // The last message handed over may have been an answer that was generated since.
  while (!input_.messages.empty() && (input_.messages.size() > messages ||
                                      input_.messages.back() != conversation_.messages[input_.messages.size() - 1].json))
    input_.messages.erase(input_.messages.size() - 1);
  while (input_.messages.size() < messages) input_.messages.push_back(conversation_.messages[input_.messages.size()].json);
  input_.add_generation_prompt = generation_prompt;
  return template_->render(input_);
}

// The message at which the template refuses to go on: the last of the shortest conversation that it refuses alike.
size_t ChatPrompts::refused_message(size_t messages, const Error& error) {
  for (size_t n = accepted_ + 1; n < messages; ++n)
    if (auto shorter = run(n, false); !shorter && shorter.error().message == error.message) return n - 1;
  return messages == 0 ? 0 : messages - 1;
}

Result<Rendered> ChatPrompts::render(size_t messages, bool generation_prompt) {
  auto rendered = run(messages, generation_prompt);
  if (rendered) {
    accepted_ = std::max(accepted_, messages);
    return rendered;
  }
  Error error = std::move(rendered).error();
  // A template that takes texts only raises on a list of parts. The parts' texts one after another are what programs hand
  // to such a template, and a finding says so.
  const bool has_parts = std::any_of(input_.messages.begin(), input_.messages.end(), [](const OrderedJson& message) {
    const auto content = message.is_object() ? message.find("content") : message.end();
    return message.is_object() && content != message.end() && content->is_array();
  });
  if (has_parts && !input_.join_text_parts && error.code != ErrorCode::limit && error.code != ErrorCode::memory) {
    input_.join_text_parts = true;
    auto joined = run(messages, generation_prompt);
    if (joined) {
      findings_.push_back({Grade::info, "SPAN-PARTS-JOINED", "the chat template takes no lists of text parts; it got their texts one after another",
                           conversation_.source, {}});
      return joined;
    }
    input_.join_text_parts = false;
  }
  // The template names a place of its own or a field; the conversation knows the line.
  std::string place = error.where;
  size_t index = 0;
  if (place.starts_with("messages[")) {
    index = size_t(std::atoll(place.c_str() + 9));
  } else {
    index = refused_message(messages, error);
    place = fmt::format("messages[{}], {}", index, place);
  }
  error.where = index < conversation_.messages.size() && !conversation_.messages[index].where.empty()
                    ? conversation_.messages[index].where : conversation_.source;
  if (!place.empty()) error.where += (error.where.empty() ? "" : " ") + place;
  return error;
}

Result<Rendered> ChatPrompts::prompt(size_t messages) {
  if (messages > 0) return render(messages, true);
  auto rendered = run(0, true);
  return rendered ? std::move(rendered) : Result<Rendered>(Rendered{});
}

bool ChatPrompts::has_generation_prompt(size_t messages, const Rendered& prompt) {
  if (!generation_prompt_) {
    const auto bare = run(messages, false);
    generation_prompt_ = bare ? bare->text != prompt.text : !prompt.text.empty();
  }
  return generation_prompt_;
}

}  // namespace spanscope
