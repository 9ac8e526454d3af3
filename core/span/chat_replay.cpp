// SPDX-License-Identifier: GPL-3.0-or-later
// Replay of a conversation through its chat template, turn by turn (definitions D2).
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>

#include "core/span/chat_prompts.h"
#include "core/span/leaf_layout.h"
#include "core/span/replay.h"

namespace spanscope {
namespace {

size_t common_prefix(std::string_view a, std::string_view b) {
  const size_t n = std::min(a.size(), b.size());
  return size_t(std::mismatch(a.begin(), a.begin() + ptrdiff_t(n), b.begin()).first - a.begin());
}

// End of the last and begin of the first byte that `message` put into the text as content.
struct ContentBounds {
  uint64_t begin = 0, end = 0;
  bool any = false;
};
ContentBounds content_bounds(const Rendered& rendered, size_t message) {
  const std::string head = "messages[" + std::to_string(message) + "].";
  ContentBounds out;
  for (const OriginRange& range : rendered.ranges) {
    const std::string_view field = range.field;
    if (!field.starts_with(head)) continue;
    const std::string_view key = field.substr(head.size());
    if (key == "role" || key == "name" || key == "id" || key == "tool_call_id") continue;
    if (!out.any) out.begin = range.begin;
    out.end = range.end;
    out.any = true;
  }
  return out;
}

class ChatReplay : public Replay {
 public:
  ChatReplay(Conversation conversation, std::shared_ptr<const Tokenizer> tokenizer, std::shared_ptr<const ChatTemplate> chat_template,
             ReplayOptions options)
      : conversation_(std::move(conversation)),
        tokenizer_(std::move(tokenizer)),
        options_(std::move(options)),
        leaves_(tokenizer_, options_.split),
        findings_(conversation_.findings),
        prompts_(conversation_, std::move(chat_template), options_, findings_) {}

  const Ledger& ledger() const override { return leaves_.ledger(); }
  const std::vector<Finding>& findings() const override { return findings_; }
  uint32_t turns() const override { return turn_ + remaining_turns(); }
  uint32_t next_index() const override { return turn_; }
  bool done() const override { return consumed_ >= conversation_.messages.size(); }
  Result<TurnPlan> next() override;
  Result<TurnPlan> begin_answer(uint32_t max_tokens) override;
  Result<TurnPlan> finish_answer(const std::vector<TokenId>& generated, bool cut) override;
  std::optional<LocalTime> template_time() const override { return prompts_.input().now; }
  void drop_rest() override { conversation_.messages.resize(std::min(consumed_, conversation_.messages.size())); }

 private:
  uint32_t remaining_turns() const {
    uint32_t out = 0;
    bool open = false;
    for (size_t i = consumed_; i < conversation_.messages.size(); ++i) {
      open = conversation_.messages[i].role != "assistant";
      if (!open) ++out;
    }
    return out + (open ? 1 : 0);
  }
  // The assistant message that the next turn answers; the number of messages when there is none.
  size_t next_answer() const {
    size_t k = consumed_;
    while (k < conversation_.messages.size() && conversation_.messages[k].role != "assistant") ++k;
    return k;
  }
  ContextTokens prompt_tokens(std::string_view text);
  ContextTokens encode(std::string_view text, uint64_t base, const ContextTokens* before, bool add_special);
  Result<TurnPlan> finish_plan(Rendered rendered, ContextTokens tokens, size_t prompt_length, int32_t answer, bool generated);
  void set_rows(TurnPlan& plan, const std::vector<uint64_t>& identity, size_t answer_end);
  Status check_length(size_t tokens, size_t message) const;
  void note_printed(const std::string& field);
  void note_unprinted(const Rendered& rendered);
  void note_control(const std::vector<uint32_t>& messages);
  void note_dropped(const Rendered& rendered, const std::vector<ByteRange>& dropped);

  Conversation conversation_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  ReplayOptions options_;
  LeafLayout leaves_;
  std::vector<Finding> findings_;
  ChatPrompts prompts_;
  size_t consumed_ = 0;        // messages whose turn is over
  TurnId turn_ = 0;

  // The context at the end of the last turn.
  std::string text_;           // rendered
  ContextTokens tokens_;
  size_t run_ = 0;             // leading tokens whose keys are in the cache
  std::unordered_set<uint64_t> ran_;  // identities of all tokens that were ever run
  std::vector<ByteRange> dropped_;    // of the turn being made

  struct Pending {
    Rendered prompt;
    ContextTokens tokens;
    size_t message = 0;
    bool open = false;
    SpanId leaf = kNoSpan;
    Message replaced;
  };
  std::optional<Pending> pending_;

  std::set<std::string> printed_;                           // fields of messages
  std::map<std::string, std::set<std::string>> unprinted_;  // key -> fields
  std::map<std::string, size_t> unprinted_finding_;         // key -> index in findings_
  std::set<uint32_t> control_noted_, dropped_noted_;
};

ContextTokens ChatReplay::encode(std::string_view text, uint64_t base, const ContextTokens* before, bool add_special) {
  EncodeOptions options{add_special, true};
  options.continues = before && !before->ids.empty() && !tokenizer_->is_control(before->ids.back());
  Encoding encoding = tokenizer_->encode(text, options);
  if (add_special && tokenizer_->vocabulary().add_eos && !encoding.ids.empty() && encoding.ids.back() == tokenizer_->vocabulary().eos &&
      encoding.offsets.back().size() == 0) {  // a prompt goes on
    encoding.ids.pop_back();
    encoding.offsets.pop_back();
  }
  for (ByteRange& range : encoding.offsets) range = {range.begin + base, range.end + base};
  for (const ByteRange& range : encoding.dropped) dropped_.push_back({range.begin + base, range.end + base});
  return {std::move(encoding.ids), std::move(encoding.offsets)};
}

// Ids of text that is already in the context are kept as they are, also where they were generated and the tokenizer would
// cut the text otherwise; the rest is tokenised apart. Where the text departs from the context inside a run of ordinary
// text, that run is tokenised anew from the control token before it.
ContextTokens ChatReplay::prompt_tokens(std::string_view text) {
  const size_t common = common_prefix(text_, text);
  size_t keep = 0;
  while (keep < tokens_.ids.size() && tokens_.offsets[keep].end <= common) ++keep;
  uint64_t from = keep == 0 ? 0 : tokens_.offsets[keep - 1].end;
  if (common == text_.size() && keep == tokens_.ids.size()) {
    from = keep == 0 ? 0 : text_.size();
  } else if (keep > 0) {
    EncodeOptions behind;
    behind.continues = !tokenizer_->is_control(tokens_.ids[keep - 1]);
    const Encoding ahead = tokenizer_->encode(text.substr(from, 64), behind);
    const bool control_follows = !ahead.ids.empty() && ahead.offsets[0].begin == 0 && tokenizer_->is_control(ahead.ids[0]);
    if (!control_follows) {
      while (keep > 0 && !tokenizer_->is_control(tokens_.ids[keep - 1])) --keep;
      from = keep == 0 ? 0 : tokens_.offsets[keep - 1].end;
    }
  }
  ContextTokens out;
  out.ids.assign(tokens_.ids.begin(), tokens_.ids.begin() + ptrdiff_t(keep));
  out.offsets.assign(tokens_.offsets.begin(), tokens_.offsets.begin() + ptrdiff_t(keep));
  ContextTokens rest = encode(text.substr(from), from, &out, keep == 0);
  out.ids.insert(out.ids.end(), rest.ids.begin(), rest.ids.end());
  out.offsets.insert(out.offsets.end(), rest.offsets.begin(), rest.offsets.end());
  return out;
}

Status ChatReplay::check_length(size_t tokens, size_t message) const {
  if (options_.context == 0 || tokens <= options_.context) return {};
  const size_t index = std::min(message, conversation_.messages.size() - 1);
  return make_error(ErrorCode::limit, "SPAN-CONTEXT",
                    fmt::format("turn {} needs {} tokens of context, the limit is {}", turn_ + 1, tokens, options_.context),
                    conversation_.messages[index].where);
}

Result<TurnPlan> ChatReplay::next() {
  if (pending_) return make_error(ErrorCode::invalid, "SPAN-REPLAY", "an answer is being generated; finish it first");
  if (done()) return make_error(ErrorCode::invalid, "SPAN-REPLAY", "the conversation has no further turn");
  dropped_.clear();
  const size_t k = next_answer();
  if (k == conversation_.messages.size()) {
    auto rendered = prompts_.render(k, true);
    if (!rendered) return std::move(rendered).error();
    ContextTokens tokens = prompt_tokens(rendered->text);
    const size_t length = tokens.ids.size();
    return finish_plan(std::move(*rendered), std::move(tokens), length, -1, false);
  }
  auto prompt = prompts_.prompt(k);
  if (!prompt) return std::move(prompt).error();
  auto whole = prompts_.render(k + 1, false);
  if (!whole) return std::move(whole).error();

  const ContentBounds content = content_bounds(*whole, k);
  uint64_t earlier_end = 0;
  for (size_t i = 0; i < k; ++i) earlier_end = std::max(earlier_end, content_bounds(*whole, i).end);
  uint64_t c = common_prefix(prompt->text, whole->text);
  // Without a generation prompt the answer begins with its content.
  if (content.any && (c < earlier_end || !prompts_.has_generation_prompt(k, *prompt))) c = content.begin;
  const uint64_t last = content.any ? std::max(c, content.end) : c;
  ContextTokens tokens = prompt_tokens(std::string_view(whole->text).substr(0, c));
  const size_t prompt_length = tokens.ids.size();
  // The end marker belongs to the answer when it is a token that ends a generation.
  uint64_t e = last;
  EncodeOptions behind;
  behind.continues = last > 0;
  const Encoding tail = tokenizer_->encode(std::string_view(whole->text).substr(last), behind);
  if (!tail.ids.empty() && tail.offsets[0].begin == 0 && tokenizer_->ends_generation(tail.ids[0])) e = last + tail.offsets[0].end;
  const ContextTokens answer = encode(std::string_view(whole->text).substr(c, e - c), c, &tokens, false);
  tokens.ids.insert(tokens.ids.end(), answer.ids.begin(), answer.ids.end());
  tokens.offsets.insert(tokens.offsets.end(), answer.offsets.begin(), answer.offsets.end());
  whole->text.resize(e);  // template text behind the end marker is not in the context
  return finish_plan(std::move(*whole), std::move(tokens), prompt_length, int32_t(k), false);
}

void ChatReplay::set_rows(TurnPlan& plan, const std::vector<uint64_t>& identity, size_t answer_end) {
  const size_t n = plan.ids.size();
  size_t same = 0;
  while (same < n && same < tokens_.ids.size() && plan.ids[same] == tokens_.ids[same]) ++same;
  const bool answered = answer_end > plan.answer_begin;
  plan.executed_end = uint32_t(answered && n == answer_end ? n - 1 : n);
  size_t cached = std::min({same, run_, size_t(plan.executed_end)});
  // The row that predicts the first token of an answer runs in the answer's turn, also when its key is there already.
  if (answered || plan.generated) cached = std::min<size_t>(cached, plan.first_answer_row());
  plan.cached = uint32_t(cached);
  for (size_t p = cached; p < plan.executed_end; ++p) {
    const bool is_answer = (answered || plan.generated) && p >= plan.first_answer_row() && p + 1 < std::max(answer_end, size_t(plan.answer_begin) + 1);
    plan.phase.push_back(is_answer ? RowPhase::answer : ran_.contains(identity[p]) ? RowPhase::recompute : RowPhase::prompt);
  }
}

Result<TurnPlan> ChatReplay::finish_plan(Rendered rendered, ContextTokens tokens, size_t prompt_length, int32_t answer, bool generated) {
  const size_t reached = answer >= 0 ? size_t(answer) + 1 : conversation_.messages.size();
  SPANSCOPE_TRY(check_length(tokens.ids.size(), reached - 1));
  TurnPlan plan;
  plan.turn = turn_;
  plan.message = answer;
  plan.open = answer < 0;
  plan.generated = generated;
  LeafLayout::Answer leaves = leaves_.build({&rendered, &tokens, &conversation_.messages, reached, answer, turn_, &prompts_.input().tools, &prompts_.input().documents});
  plan.layout = std::move(leaves.layout);
  plan.ids = tokens.ids;
  for (TokenId id : plan.ids) {
    const std::string piece = tokenizer_->piece(id);
    plan.token_bytes.push_back(uint32_t(piece.size()));
    plan.text += piece;
  }
  if (answer >= 0 && tokens.ids.size() > prompt_length) {
    plan.answer_begin = uint32_t(prompt_length);
    plan.answer_len = uint32_t(tokens.ids.size() - prompt_length);
  }
  const bool was_generated = plan.generated;
  plan.generated = false;  // set_rows lists the answer's rows when they are known
  set_rows(plan, leaves.identity, plan.answer_len > 0 ? tokens.ids.size() : 0);
  plan.generated = was_generated;

  note_unprinted(rendered);
  note_control(leaves.control_in_content);
  note_dropped(rendered, dropped_);
  for (size_t p = plan.cached; p < plan.executed_end; ++p) ran_.insert(leaves.identity[p]);
  run_ = plan.executed_end;
  text_ = std::move(rendered.text);
  tokens_ = std::move(tokens);
  consumed_ = reached;
  ++turn_;
  return plan;
}

Result<TurnPlan> ChatReplay::begin_answer(uint32_t max_tokens) {
  if (pending_) return make_error(ErrorCode::invalid, "SPAN-REPLAY", "an answer is being generated; finish it first");
  if (done() && (conversation_.messages.empty() || conversation_.messages.back().role == "assistant"))
    return make_error(ErrorCode::invalid, "SPAN-REPLAY", "the conversation has no open turn to answer", conversation_.source);
  dropped_.clear();
  const size_t k = next_answer();
  auto prompt = prompts_.render(k, true);
  if (!prompt) return std::move(prompt).error();
  ContextTokens tokens = prompt_tokens(prompt->text);
  SPANSCOPE_TRY(check_length(tokens.ids.size() + 1, k));
  Pending pending;
  pending.message = k;
  pending.open = k == conversation_.messages.size();
  Message message;
  message.role = "assistant";
  message.json = {{"role", "assistant"}, {"content", ""}};
  if (!pending.open) {
    pending.replaced = conversation_.messages[k];
    message.where = pending.replaced.where;
    conversation_.messages[k] = message;
  } else {
    message.where = conversation_.messages.empty() ? conversation_.source : conversation_.messages.back().where;
    conversation_.messages.push_back(message);
  }
  TurnPlan plan;
  plan.turn = turn_;
  plan.message = int32_t(k);
  plan.generated = true;
  LeafLayout::Answer leaves = leaves_.build({&*prompt, &tokens, &conversation_.messages, k + 1, int32_t(k), turn_, &prompts_.input().tools, &prompts_.input().documents});
  plan.layout = std::move(leaves.layout);
  plan.ids = tokens.ids;
  for (TokenId id : plan.ids) {
    const std::string piece = tokenizer_->piece(id);
    plan.token_bytes.push_back(uint32_t(piece.size()));
    plan.text += piece;
  }
  plan.answer_begin = uint32_t(plan.ids.size());
  set_rows(plan, leaves.identity, 0);
  uint32_t room = max_tokens;
  if (options_.context > 0) room = std::min<uint32_t>(room, options_.context - uint32_t(plan.ids.size()));
  pending.leaf = leaves_.provisional_answer(conversation_.messages, k, turn_);
  plan.layout.push_back({pending.leaf, Slot(plan.ids.size()), room, TokenPos(plan.ids.size())});
  pending.prompt = std::move(*prompt);
  pending.tokens = std::move(tokens);
  pending_ = std::move(pending);
  return plan;
}

Result<TurnPlan> ChatReplay::finish_answer(const std::vector<TokenId>& generated, bool cut) {
  if (!pending_) return make_error(ErrorCode::invalid, "SPAN-REPLAY", "no answer was begun");
  Pending pending = std::move(*pending_);
  pending_.reset();
  const size_t k = pending.message;
  const bool marked = !cut && !generated.empty() && tokenizer_->ends_generation(generated.back());
  const std::span<const TokenId> words(generated.data(), generated.size() - (marked ? 1 : 0));
  Message& message = conversation_.messages[k];
  message.content = tokenizer_->decode(words);
  message.json["content"] = message.content;

  // The context is the prompt and what was generated, whatever the template would print now.
  Rendered rendered = std::move(pending.prompt);
  ContextTokens tokens = std::move(pending.tokens);
  const size_t prompt_length = tokens.ids.size();
  const uint64_t begin = rendered.text.size();
  for (TokenId id : generated) {
    const uint64_t at = rendered.text.size();
    rendered.text += tokenizer_->piece(id);
    tokens.ids.push_back(id);
    tokens.offsets.push_back({at, rendered.text.size()});
  }
  const uint64_t length = message.content.size();
  if (length > 0)
    rendered.ranges.push_back({begin, begin + length, "messages[" + std::to_string(k) + "].content", true, {0, length}});
  if (!rendered.message_ends.empty() || k == 0) rendered.message_ends.push_back(rendered.text.size());
  leaves_.settle(pending.leaf, conversation_.messages, k);
  auto plan = finish_plan(std::move(rendered), std::move(tokens), prompt_length, int32_t(k), true);
  if (plan) plan->cut = cut;
  return plan;
}

// What an earlier turn printed was read then: templates leave out the reasoning of earlier turns.
void ChatReplay::note_printed(const std::string& field) {
  const size_t dot = field.find("].");
  if (dot == std::string::npos) return;
  const std::string key = field.substr(0, std::min(field.find_first_of(".[", dot + 2), field.size()));
  printed_.insert(key);
  if (key.ends_with(".thinking") || key.ends_with(".reasoning_content"))  // one reasoning under several names
    for (const char* name : {".thinking", ".reasoning_content", ".reasoning"}) printed_.insert(key.substr(0, key.rfind('.')) + name);
}

// One finding a key: how often the template leaves it out, and where first.
void ChatReplay::note_unprinted(const Rendered& rendered) {
  std::set<std::string> grown;
  for (const OriginRange& range : rendered.ranges) note_printed(range.field);
  for (const std::string& field : rendered.unprinted) {
    if (printed_.contains(field)) continue;
    const size_t dot = field.find("].");
    const std::string key = dot == std::string::npos ? field : field.substr(dot + 2);
    if (unprinted_[key].insert(field).second) grown.insert(key);
  }
  for (const std::string& key : grown) {
    const auto [at, added] = unprinted_finding_.emplace(key, findings_.size());
    if (added) {
      std::string first;
      for (const std::string& field : rendered.unprinted)
        if (first.empty() && unprinted_[key].contains(field)) first = field;
      const size_t index = first.starts_with("messages[") ? size_t(std::atoll(first.c_str() + 9)) : conversation_.messages.size();
      const std::string file = index < conversation_.messages.size() ? conversation_.messages[index].where : conversation_.source;
      const bool metadata = key == "name" || key == "tool_call_id";
      findings_.push_back({metadata ? Grade::info : Grade::loss, "SPAN-NOT-RENDERED", {}, file + (file.empty() ? "" : " ") + first, {}});
    }
    findings_[at->second].message = fmt::format("the chat template ({}) does not print \"{}\" ({} {}): the model does not read it",
                                                prompts_.chat_template().name(), key, unprinted_[key].size(),
                                                unprinted_[key].size() == 1 ? "time" : "times");
  }
}

void ChatReplay::note_control(const std::vector<uint32_t>& messages) {
  for (uint32_t index : messages)
    if (control_noted_.insert(index).second)
      findings_.push_back({Grade::warning, "SPAN-CONTROL-IN-CONTENT", "the content holds text of a control token; the model reads it as that token",
                           conversation_.messages[index].where + " messages[" + std::to_string(index) + "].content", {}});
}

void ChatReplay::note_dropped(const Rendered& rendered, const std::vector<ByteRange>& dropped) {
  std::map<uint32_t, uint64_t> count;
  for (const ByteRange& bytes : dropped)
    for (size_t i = 0; i < rendered.message_ends.size(); ++i)
      if (bytes.begin < rendered.message_ends[i]) {
        count[uint32_t(i)] += bytes.size();
        break;
      }
  for (const auto& [index, bytes] : count)
    if (dropped_noted_.insert(index).second)
      findings_.push_back({Grade::loss, "SPAN-DROPPED-BYTES",
                           fmt::format("{} {} without a token in the vocabulary: the model does not read {}", bytes,
                                       bytes == 1 ? "byte is" : "bytes are", bytes == 1 ? "it" : "them"),
                           conversation_.messages[index].where + " messages[" + std::to_string(index) + "]", {}});
}

}  // namespace

Result<std::unique_ptr<Replay>> make_chat_replay(Conversation conversation, std::shared_ptr<const Tokenizer> tokenizer,
                                                 std::shared_ptr<const ChatTemplate> chat_template, ReplayOptions options) {
  if (conversation.messages.empty())
    return make_error(ErrorCode::invalid, "SPAN-CHAT", "the conversation has no messages", conversation.source);
  if (!tokenizer || !chat_template) return make_error(ErrorCode::invalid, "SPAN-REPLAY", "a tokenizer and a chat template are needed");
  return std::unique_ptr<Replay>(std::make_unique<ChatReplay>(std::move(conversation), std::move(tokenizer), std::move(chat_template), options));
}

}  // namespace spanscope
