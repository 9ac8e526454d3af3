// SPDX-License-Identifier: GPL-3.0-or-later
// The conversation through its chat template, as far as a turn needs it: prompts, whole turns, where the template refuses.
// Not for: tokens and leaves. Thread: one owner.
#pragma once
#include <memory>
#include <vector>

#include "core/chat/conversation.h"
#include "core/span/replay.h"

namespace spanscope {

class ChatPrompts {
 public:
  // `findings` gets what is done to make a template accept the conversation.
  ChatPrompts(const Conversation& conversation, std::shared_ptr<const ChatTemplate> chat_template, const ReplayOptions& options,
              std::vector<Finding>& findings);

  // The first `messages` of the conversation, which may grow and change between calls. Errors name the message's line and
  // the message at which the template refuses to go on.
  Result<Rendered> render(size_t messages, bool generation_prompt);
  // The prompt of the answer behind `messages`. Templates look at the first message, so an answer that begins the
  // conversation may have none.
  Result<Rendered> prompt(size_t messages);
  // Whether the template prints anything to begin an answer with. `prompt`: what prompt(messages) gave.
  bool has_generation_prompt(size_t messages, const Rendered& prompt);

  const TemplateInput& input() const { return input_; }
  const ChatTemplate& chat_template() const { return *template_; }

 private:
  Result<Rendered> run(size_t messages, bool generation_prompt);
  size_t refused_message(size_t messages, const Error& error);

  const Conversation& conversation_;
  std::shared_ptr<const ChatTemplate> template_;
  std::vector<Finding>& findings_;
  TemplateInput input_;             // messages as far as rendered
  bool generation_prompt_ = false;  // the template was seen to print one
  size_t accepted_ = 0;             // leading messages that were rendered before
};

}  // namespace spanscope
