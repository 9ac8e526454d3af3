// SPDX-License-Identifier: GPL-3.0-or-later
// Turns a conversation (or ids and spans) into turns: which tokens stand in the context, which rows run, what phase each
// row has, and the leaves (definitions D1, D2). Not for: running a model. Thread: one owner.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/chat/conversation.h"
#include "core/model/record_plan.h"
#include "core/span/span.h"
#include "core/text/chat_template.h"
#include "core/text/tokenizer.h"

namespace spanscope {

struct TurnPlan {
  TurnId turn = 0;
  int32_t message = -1;  // the assistant message answered (index in the conversation); -1 with `open`
  bool open = false;     // messages after the last assistant message: prompt rows only
  bool cut = false;      // generation stopped at the limit, without an end marker
  bool generated = false;
  std::vector<TokenId> ids;         // the whole context in slot order, answer included
  std::vector<uint32_t> token_bytes;  // [ids] bytes of each token; `text` is their concatenation
  std::string text;
  uint32_t cached = 0;        // leading slots whose keys stay in the cache
  // Which slots of the turn before those are, ascending, `cached` in all; empty: [0, cached). When the layout gives them
  // other positions than they had, their keys are rotated anew.
  std::vector<SlotRange> kept;
  std::vector<SpanId> evicted;  // leaves that left the context with this turn because it was full
  uint32_t executed_end = 0;  // slots [cached, executed_end) are run in this turn; the last token of an answer is not
  std::vector<RowPhase> phase;  // [executed_end - cached]
  uint32_t answer_begin = 0, answer_len = 0;  // tokens [a, a+m), end marker included; 0, 0 without an answer
  std::vector<LayoutEntry> layout;  // leaves in slot order; partitions [0, ids.size())
  uint32_t first_answer_row() const { return answer_begin > 0 ? answer_begin - 1 : 0; }
};

// --split: N tokens (default 256), one leaf per message, or paragraphs.
struct SplitRule {
  enum class Kind : uint8_t { tokens, message, paragraph } kind = Kind::tokens;
  uint32_t max_tokens = 256;
};
Result<SplitRule> parse_split_rule(const std::string& text);

// How much a span was attended so far: decayed and plain sums of consumer mass (definitions D5).
struct Warmth {
  double ema = 0, cumulative = 0;
};
using WarmthFunction = std::function<std::vector<Warmth>()>;  // index = span id; as of the last closed turn

class Replay {
 public:
  virtual ~Replay() = default;
  virtual const Ledger& ledger() const = 0;        // grows with every turn
  virtual const std::vector<Finding>& findings() const = 0;
  virtual uint32_t turns() const = 0;              // of the whole conversation, the open turn included
  virtual uint32_t next_index() const = 0;         // the turn that comes next
  virtual bool done() const = 0;

  // Teacher-forced: the next turn with the conversation's own answer (or the open turn's prompt).
  virtual Result<TurnPlan> next() = 0;

  // Generation of the next turn's answer: begin_answer() gives the prompt with a provisional answer leaf of
  // max_tokens (+ its rows are not listed in `phase`: only prompt and recompute rows and the first answer row are);
  // the caller decodes and calls finish_answer with the generated ids (end marker included unless cut). The answer's
  // message is inserted (open turn) or replaced; finish_answer returns the completed plan.
  virtual Result<TurnPlan> begin_answer(uint32_t max_tokens) = 0;
  virtual Result<TurnPlan> finish_answer(const std::vector<TokenId>& generated, bool cut) = 0;
  // Drops every message after the answer just generated (--generate N).
  virtual void drop_rest() = 0;

  // Some turn gives keys that stay other positions: caches have to keep them from before rotation.
  virtual bool moves_keys() const { return false; }
  // What a replay that evicts the coldest asks; without it the oldest go first.
  virtual void set_warmth(WarmthFunction) {}

  // The time that the chat template prints as the current one, the same in every turn; nothing without a template.
  virtual std::optional<LocalTime> template_time() const { return std::nullopt; }
};

struct ReplayOptions {
  SplitRule split;
  uint32_t context = 0;  // most tokens; 0: no limit. A longer chat is an error that says both numbers and the turn.
  // Of the chat template: the current time (absent: this machine's clock when the replay is made), documents, and further
  // variables such as "enable_thinking".
  std::optional<LocalTime> now;
  OrderedJson documents;
  OrderedJson variables = OrderedJson::object();
};

Result<std::unique_ptr<Replay>> make_chat_replay(Conversation conversation, std::shared_ptr<const Tokenizer> tokenizer,
                                                 std::shared_ptr<const ChatTemplate> chat_template,
                                                 ReplayOptions options = {});
// The file form of oracles/derived/<family>/spans.json ("tokens" may come from a separate ids array).
Result<std::unique_ptr<Replay>> make_ids_replay(const std::string& ids_json, const std::string& spans_json,
                                                const std::string& where, ReplayOptions options = {});

}  // namespace spanscope
