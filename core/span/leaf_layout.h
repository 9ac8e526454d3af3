// SPDX-License-Identifier: GPL-3.0-or-later
// From rendered text with origins and its tokens to leaves (definitions D1). Keeps the ledger: a message and its leaves
// keep their ids from turn to turn. Thread: one owner.
#pragma once
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "core/chat/conversation.h"
#include "core/span/replay.h"

namespace spanscope {

// The tokens of a context and the bytes of the rendered text that each covers (empty for tokens the text does not hold).
struct ContextTokens {
  std::vector<TokenId> ids;
  std::vector<ByteRange> offsets;
};

class LeafLayout {
 public:
  LeafLayout(std::shared_ptr<const Tokenizer> tokenizer, SplitRule split) : tokenizer_(std::move(tokenizer)), split_(split) {}

  struct Request {
    const Rendered* rendered = nullptr;
    const ContextTokens* tokens = nullptr;
    const std::vector<Message>* messages = nullptr;
    size_t message_count = 0;   // messages [0, count) belong to the context
    int32_t answer = -1;        // the message that this turn writes: one content leaf a field, of any length
    TurnId turn = 0;
    const OrderedJson* tools = nullptr;      // what the template got: their names, and the digest of their parent
    const OrderedJson* documents = nullptr;
  };
  struct Answer {
    std::vector<LayoutEntry> layout;
    std::vector<uint64_t> identity;  // [tokens] equal in two turns when it is the same token of the same span
    std::vector<uint32_t> control_in_content;  // messages that hold control tokens in their content
  };
  Answer build(const Request& request);

  // The span of message `index`; of the tool definitions and documents that the template got beside the messages
  // (kToolDefinitions, kFirstDocument - k). Made when it is not there yet.
  SpanId owner_span(const Request& request, int64_t owner);
  // The span of message `index`, made when it is not there yet.
  SpanId message_span(const std::vector<Message>& messages, size_t index, TurnId turn);
  // A content leaf for an answer still to be generated; settle() gives it its text.
  SpanId provisional_answer(const std::vector<Message>& messages, size_t index, TurnId turn);
  void settle(SpanId leaf, const std::vector<Message>& messages, size_t index);

  const Ledger& ledger() const { return ledger_; }

 private:
  struct Field;  // a run of tokens of one field
  void add_content(const Request& request, const Field& field, bool whole, Answer& out);
  void add_template(const Request& request, size_t begin, size_t end, const std::vector<uint64_t>& wrap_ends, Answer& out);
  std::vector<uint64_t> wrap_ends(const Request& request, const std::vector<int32_t>& owner) const;
  void push(Answer& out, SpanId leaf, size_t begin, size_t end) const;
  uint64_t& printed(SpanId parent, const std::string& field) { return printed_[{parent, field}]; }

  std::shared_ptr<const Tokenizer> tokenizer_;
  SplitRule split_;
  Ledger ledger_;
  std::vector<SpanId> message_spans_;  // [messages] kNoSpan: not made yet
  // Message, field, source range; how often that was met before in this context (templates may print a field twice).
  using ContentKey = std::tuple<SpanId, std::string, uint64_t, uint64_t, uint32_t>;
  std::map<ContentKey, SpanId> content_;
  std::map<int64_t, SpanId> owners_;  // beside the messages
  // While building: leaves met, and bytes met of fields that are not printed as they are.
  std::map<std::tuple<SpanId, std::string, uint64_t, uint64_t>, uint32_t> met_;
  std::map<std::pair<SpanId, std::string>, uint64_t> printed_;
  std::map<std::tuple<SpanId, uint32_t, std::string>, SpanId> template_;  // message, run within it, text
  std::map<SpanId, uint32_t> template_runs_;  // while building: runs met of each message
};

}  // namespace spanscope
