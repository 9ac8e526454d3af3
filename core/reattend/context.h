// SPDX-License-Identifier: GPL-3.0-or-later
// From a recorded session back to what the engine needs for a new question: the context's token ids and leaves, the
// question's tokens through the model's template, the leaves that a list of spans stands for. Any thread.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/record/session_data.h"
#include "core/text/chat_template.h"
#include "core/text/tokenizer.h"

namespace spanscope {

struct RecordedContext {
  TurnId turn = 0;
  std::vector<TokenId> ids;          // all tokens of the context, an end marker that was never fed included
  std::vector<LayoutEntry> layout;
};
// The context at the end of `turn` (kNone32: the last). Fails with a remedy when ids were not recorded (--no-text).
Result<RecordedContext> recorded_context(const SessionData& session, TurnId turn = kNone32);

// The tokens that follow the recorded context when `question` is asked as a user message: the rest of the template text
// after the context, the message, the generation prompt. The template must extend the recorded text; if it does not (it
// rewrites earlier messages), that is an error that says where the two part.
Result<std::vector<TokenId>> question_tokens(const SessionData& session, const RecordedContext& context,
                                             const Tokenizer& tokenizer, const ChatTemplate& chat_template,
                                             const std::string& question);

// Leaves of the layout that the spans (leaves or parents, nested) stand for, plus the sink. Unknown ids are an error.
Result<std::vector<uint8_t>> visible_leaves(const Ledger& ledger, const std::vector<LayoutEntry>& layout,
                                            const std::vector<SpanId>& spans);

// Compares the session's model and tokenizer digests with the ones at hand: the ids would mean something else.
Status check_same_model(const SessionData& session, const std::string& model_digest, const std::string& tokenizer_digest,
                        const std::string& model_path);

}  // namespace spanscope
