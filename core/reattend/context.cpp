// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/reattend/context.h"

#include <algorithm>

namespace spanscope {

Result<RecordedContext> recorded_context(const SessionData& session, TurnId turn) {
  if (session.turns.empty())
    return make_error(ErrorCode::not_found, "SPAN-NO-TURNS", "the session has no closed turn", session.path);
  if (!session.header.has_text)
    return make_error(ErrorCode::not_found, "SPAN-NO-TEXT",
                      "token ids were not captured (recorded with --no-text); record again without it to re-attend",
                      session.path);
  RecordedContext out;
  out.turn = turn == kNone32 ? session.turns.back().turn : turn;
  bool found = false;
  for (const TurnRecord& t : session.turns) {
    if (t.executed_begin > out.ids.size() || t.new_ids.size() != size_t(t.context) - t.executed_begin)
      return make_error(ErrorCode::corrupt, "SPAN-CONTEXT",
                        "the tokens before turn " + std::to_string(t.turn + 1) + " are missing", session.path);
    // A re-run puts tokens at position = slot and knows nothing of what left; keys recorded after that did.
    const bool moved = std::any_of(t.layout.begin(), t.layout.end(), [](const LayoutEntry& e) { return e.position != e.slot; });
    if (!t.kept.empty() || !t.evicted.empty() || moved)
      return make_error(ErrorCode::unsupported, "SPAN-MOVED",
                        "spans left the context or stand elsewhere than in one run from the start as of turn " + std::to_string(t.turn + 1) +
                            ": only contexts before that turn can be re-attended",
                        session.path);
    out.ids.resize(t.executed_begin);
    out.ids.insert(out.ids.end(), t.new_ids.begin(), t.new_ids.end());
    if (t.turn == out.turn) {
      out.layout = t.layout;
      found = true;
      break;
    }
  }
  if (!found)
    return make_error(ErrorCode::not_found, "SPAN-TURN",
                      "turn " + std::to_string(out.turn + 1) + " is not in the session (it has " +
                          std::to_string(session.turns.size()) + ")",
                      session.path);
  return out;
}

Result<std::vector<TokenId>> question_tokens(const SessionData& session, const RecordedContext& context,
                                             const Tokenizer& tokenizer, const ChatTemplate& chat_template,
                                             const std::string& question) {
  if (question.empty())
    return make_error(ErrorCode::invalid, "SPAN-QUESTION", "the question is empty", "--ask");
  // Messages as they stand in the context, from the spans' own bytes.
  const auto message_span = [&](int32_t index) {
    for (const Span& s : session.ledger.spans)
      if (s.kind == SpanKind::parent && s.message == index && s.parent == kNoSpan) return s.id;
    return kNoSpan;
  };
  int32_t last_message = -1;
  for (const LayoutEntry& e : context.layout) {
    const Span& s = session.ledger[e.leaf];
    if (s.kind == SpanKind::content) last_message = std::max(last_message, s.message);
  }
  TemplateInput input;
  for (int32_t m = 0; m <= last_message && size_t(m) < session.messages.size(); ++m) {
    const SpanId id = message_span(m);
    OrderedJson message;
    message["role"] = session.messages[size_t(m)].role;
    message["content"] = id == kNoSpan ? std::string() : session.text_of(id);
    input.messages.push_back(std::move(message));
  }
  OrderedJson ask;
  ask["role"] = "user";
  ask["content"] = question;
  input.messages.push_back(std::move(ask));
  input.add_generation_prompt = true;
  auto rendered = chat_template.render(input);
  if (!rendered) return std::move(rendered).error();

  const std::string before = tokenizer.decode(context.ids);
  if (rendered->text.compare(0, before.size(), before) != 0) {
    size_t at = 0;
    while (at < before.size() && at < rendered->text.size() && before[at] == rendered->text[at]) ++at;
    return make_error(ErrorCode::unsupported, "SPAN-TEMPLATE-REWRITES",
                      "with the question added the template gives another text for the recorded context; "
                      "--ask-ids takes token ids instead",
                      session.path, at);
  }
  EncodeOptions options;
  options.continues = !context.ids.empty() && !tokenizer.is_control(context.ids.back());
  return tokenizer.encode(std::string_view(rendered->text).substr(before.size()), options).ids;
}

Result<std::vector<uint8_t>> visible_leaves(const Ledger& ledger, const std::vector<LayoutEntry>& layout,
                                            const std::vector<SpanId>& spans) {
  std::vector<uint8_t> chosen(ledger.spans.size(), 0);
  for (SpanId id : spans) {
    if (id >= chosen.size())
      return make_error(ErrorCode::not_found, "SPAN-SPAN",
                        "span " + std::to_string(id) + " is not in the session (it has " + std::to_string(chosen.size()) +
                            ")");
    chosen[id] = 1;
  }
  std::vector<uint8_t> visible(layout.size(), 0);
  for (size_t i = 0; i < layout.size(); ++i) {
    const SpanId leaf = layout[i].leaf;
    visible[i] = ledger[leaf].kind == SpanKind::sink || chosen[leaf];
    for (SpanId parent : ledger.ancestors(leaf)) visible[i] = visible[i] || chosen[parent];
  }
  return visible;
}

Status check_same_model(const SessionData& session, const std::string& model_digest, const std::string& tokenizer_digest,
                        const std::string& model_path) {
  auto differ = [&](const char* what, const std::string& expected, const std::string& found) {
    Error error = make_error(ErrorCode::invalid, "SPAN-OTHER-MODEL",
                             std::string("the session was recorded with another ") + what + ": expected digest " +
                                 expected.substr(0, 16) + ", found " + found.substr(0, 16),
                             model_path);
    error.advice.push_back("recorded with " + session.header.model_path);
    return error;
  };
  if (!session.header.model_digest.empty() && session.header.model_digest != model_digest)
    return differ("model", session.header.model_digest, model_digest);
  if (!session.header.tokenizer_digest.empty() && session.header.tokenizer_digest != tokenizer_digest)
    return differ("tokenizer", session.header.tokenizer_digest, tokenizer_digest);
  return {};
}

}  // namespace spanscope
