// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/span/leaf_layout.h"

#include <algorithm>
#include <charconv>

#include "core/base/digest.h"
#include "core/span/label.h"
#include "core/span/split.h"

namespace spanscope {
namespace {

constexpr size_t kMostSinkTokens = 4;

// What a content range belongs to: a message (its index), the tool definitions, or a document.
constexpr int64_t kToolDefinitions = -1, kFirstDocument = -2;

// Content are contents, reasoning, tool calls and results, tool definitions and documents; roles, names and ids are
// template text (D1).
struct ContentRange {
  uint64_t begin, end;
  int64_t owner;
  std::string field;
  uint64_t source;  // byte of the field's text at `begin`
  bool verbatim;
};

bool content_range(const OriginRange& range, ContentRange& out) {
  const std::string_view field = range.field;
  const size_t bracket = std::min(field.find('['), field.size());
  const std::string_view root = field.substr(0, bracket);
  size_t index = 0;
  const char* digits = field.data() + std::min(bracket + 1, field.size());
  const auto [end, error] = std::from_chars(digits, field.data() + field.size(), index);
  const std::string_view rest = error == std::errc() ? field.substr(size_t(end - field.data())) : std::string_view();
  out.begin = range.begin;
  out.end = range.end;
  out.source = range.verbatim ? range.source.begin : 0;
  out.verbatim = range.verbatim;
  out.field = field;
  if (root == "tools" || root == "functions") {
    out.owner = kToolDefinitions;
    return rest.starts_with("]");
  }
  if (root == "documents") {
    out.owner = kFirstDocument - int64_t(index);
    return rest.starts_with("]");
  }
  if (root != "messages" || !rest.starts_with("].")) return false;
  const std::string_view key = rest.substr(2);
  const bool call_part = key.starts_with("tool_calls") && (key.ends_with(".name") || key.ends_with(".arguments"));
  if (!key.starts_with("content") && !key.starts_with("reasoning") && key != "thinking" && !call_part) return false;
  out.owner = int64_t(index);
  out.field = key;
  return true;
}

uint64_t mix(uint64_t h, uint64_t value) {
  h ^= value + 0x9e3779b97f4a7c15ull + (h << 6) + (h >> 2);
  h *= 0xff51afd7ed558ccdull;
  return h ^ (h >> 33);
}

}  // namespace

struct LeafLayout::Field {
  int64_t owner = 0;
  std::string field;
  size_t token_begin = 0, token_end = 0;
  uint64_t begin = 0, end = 0;  // bytes of the rendered text
  uint64_t source = 0;
  bool verbatim = true;
};

SpanId LeafLayout::owner_span(const Request& request, int64_t owner) {
  if (owner >= 0) return message_span(*request.messages, size_t(owner), request.turn);
  const auto [found, added] = owners_.emplace(owner, SpanId(ledger_.spans.size()));
  if (!added) return found->second;
  Span span;
  span.id = found->second;
  span.kind = SpanKind::parent;
  span.birth = request.turn;
  const auto dump = [](const OrderedJson& json) { return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace); };
  if (owner == kToolDefinitions) {
    span.role = "system";
    span.name = "tool definitions";
    span.pinned = true;
    span.digest = sha256_hex(request.tools ? dump(*request.tools) : std::string());
  } else {
    const auto index = size_t(kFirstDocument - owner);
    span.role = "document";
    span.taint = Taint::tainted;
    span.name = "document " + std::to_string(index + 1);
    if (request.documents && index < request.documents->size()) {
      const OrderedJson& document = (*request.documents)[index];
      span.digest = sha256_hex(document.is_string() ? document.get<std::string>() : dump(document));
      const auto title = document.is_object() ? document.find("title") : document.end();
      if (document.is_object() && title != document.end() && title->is_string()) {
        const std::string words = first_words(title->get_ref<const std::string&>());
        if (!words.empty()) span.name = words;
      }
    } else {
      span.digest = sha256_hex(std::string());
    }
  }
  ledger_.spans.push_back(std::move(span));
  return found->second;
}

SpanId LeafLayout::message_span(const std::vector<Message>& messages, size_t index, TurnId turn) {
  if (message_spans_.size() <= index) message_spans_.resize(index + 1, kNoSpan);
  if (message_spans_[index] != kNoSpan) return message_spans_[index];
  const Message& message = messages[index];
  Span span;
  span.id = SpanId(ledger_.spans.size());
  span.kind = SpanKind::parent;
  span.role = message.role;
  span.producer = message.name;
  span.name = message.role == "tool" && !message.name.empty() ? message.name : first_words(message.content);
  if (span.name.empty()) span.name = message.role;
  span.taint = message.role == "tool" || message.role == "document" ? Taint::tainted : Taint::trusted;
  span.digest = sha256_hex(message.content);
  span.message = int32_t(index);
  span.birth = turn;
  span.pinned = message.role == "system";
  ledger_.spans.push_back(std::move(span));
  return message_spans_[index] = SpanId(ledger_.spans.size() - 1);
}

SpanId LeafLayout::provisional_answer(const std::vector<Message>& messages, size_t index, TurnId turn) {
  const SpanId parent = message_span(messages, index, turn);
  Span leaf = ledger_.spans[parent];
  leaf.id = SpanId(ledger_.spans.size());
  leaf.kind = SpanKind::content;
  leaf.parent = parent;
  leaf.field = "content";
  ledger_.spans.push_back(std::move(leaf));
  return SpanId(ledger_.spans.size() - 1);
}

void LeafLayout::settle(SpanId id, const std::vector<Message>& messages, size_t index) {
  const std::string& text = messages[index].content;
  Span& leaf = ledger_.spans[id];
  Span& parent = ledger_.spans[leaf.parent];
  const std::string name = first_words(text);
  leaf.name = parent.name = name.empty() ? messages[index].role : name;
  leaf.digest = parent.digest = sha256_hex(text);
  leaf.source = {0, text.size()};
  content_[{leaf.parent, leaf.field, 0, text.size(), 0}] = id;
}

void LeafLayout::push(Answer& out, SpanId leaf, size_t begin, size_t end) const {
  out.layout.push_back({leaf, Slot(begin), uint32_t(end - begin), TokenPos(begin)});
}

LeafLayout::Answer LeafLayout::build(const Request& request) {
  const ContextTokens& tokens = *request.tokens;
  const size_t n = tokens.ids.size();
  Answer out;
  out.identity.assign(n, 0);
  std::vector<ContentRange> ranges;
  for (const OriginRange& range : request.rendered->ranges) {
    ContentRange content;
    if (content_range(range, content)) ranges.push_back(std::move(content));
  }

  // Owner of each token: the content range that holds most of its bytes, ties to the earlier; -1: template.
  std::vector<int32_t> owner(n, -1);
  for (size_t t = 0, first = 0; t < n; ++t) {
    const ByteRange& bytes = tokens.offsets[t];
    while (first < ranges.size() && ranges[first].end <= bytes.begin) ++first;
    uint64_t most = 0;
    for (size_t r = first; r < ranges.size() && ranges[r].begin < bytes.end; ++r) {
      const uint64_t held = std::min(bytes.end, ranges[r].end) - std::max(bytes.begin, ranges[r].begin);
      if (held > most) {
        most = held;
        owner[t] = int32_t(r);
      }
    }
  }

  std::vector<uint64_t> wraps = wrap_ends(request, owner);
  if (wraps.empty()) {  // a template that cannot tell: template text goes to the message whose content follows
    wraps.assign(request.message_count, 0);
    for (const ContentRange& r : ranges)
      if (r.owner >= 0 && size_t(r.owner) < wraps.size()) wraps[size_t(r.owner)] = r.end;
    for (size_t i = 1; i < wraps.size(); ++i) wraps[i] = std::max(wraps[i], wraps[i - 1]);
  }
  size_t at = 0;
  while (at < n && at < kMostSinkTokens && owner[at] < 0) ++at;
  if (at == 0 && n > 0) at = 1;  // content begins at position 0
  template_runs_.clear();
  met_.clear();
  printed_.clear();
  for (const auto& [owner, id] : owners_) ledger_.spans[id].tokens = 0;
  if (at > 0) {
    std::string text;
    for (size_t t = 0; t < at; ++t) text += tokenizer_->piece(tokens.ids[t]);
    const auto [found, added] = template_.emplace(std::make_tuple(kNoSpan - 1, uint32_t(at), text), SpanId(ledger_.spans.size()));
    if (added) {
      Span sink;
      sink.id = found->second;
      sink.kind = SpanKind::sink;
      sink.role = sink.name = "sink";
      sink.birth = request.turn;
      sink.tokens = uint32_t(at);
      ledger_.spans.push_back(std::move(sink));
    }
    push(out, found->second, 0, at);
    for (size_t t = 0; t < at; ++t) out.identity[t] = mix(mix(found->second, t), 1);
  }
  for (size_t i = 0; i < request.message_count; ++i) {
    const SpanId parent = message_span(*request.messages, i, request.turn);
    ledger_.spans[parent].tokens = 0;
  }

  while (at < n) {
    size_t end = at + 1;
    if (owner[at] < 0) {
      while (end < n && owner[end] < 0) ++end;
      add_template(request, at, end, wraps, out);
    } else {
      const auto same_field = [&](int32_t a, int32_t b) {
        return a == b || (a >= 0 && b >= 0 && ranges[size_t(a)].owner == ranges[size_t(b)].owner &&
                          ranges[size_t(a)].field == ranges[size_t(b)].field);
      };
      while (end < n && same_field(owner[at], owner[end])) ++end;
      const ContentRange& first = ranges[size_t(owner[at])];
      const ContentRange& last = ranges[size_t(owner[end - 1])];
      add_content(request, {first.owner, first.field, at, end, first.begin, last.end, first.source, first.verbatim},
                  request.answer >= 0 && first.owner == request.answer, out);
    }
    at = end;
  }
  return out;
}

// The byte behind the template text that wraps each message: behind its end marker where it has one, since a turn ends
// there and the line feed after it enters the context with the next message.
std::vector<uint64_t> LeafLayout::wrap_ends(const Request& request, const std::vector<int32_t>& owner) const {
  std::vector<uint64_t> out;
  const ContextTokens& tokens = *request.tokens;
  size_t t = 0;
  for (uint64_t message_end : request.rendered->message_ends) {
    uint64_t end = message_end;
    for (; t < tokens.ids.size() && tokens.offsets[t].begin < message_end; ++t)
      if (owner[t] < 0 && tokens.offsets[t].end <= message_end && tokenizer_->ends_generation(tokens.ids[t])) end = tokens.offsets[t].end;
    out.push_back(end);
  }
  return out;
}

void LeafLayout::add_content(const Request& request, const Field& field, bool whole, Answer& out) {
  const ContextTokens& tokens = *request.tokens;
  const std::string_view all = request.rendered->text;
  std::vector<uint64_t> starts;
  for (size_t t = field.token_begin; t < field.token_end; ++t)
    starts.push_back(std::max(tokens.offsets[t].begin, field.begin) - field.begin);
  std::vector<uint32_t> lengths = {uint32_t(starts.size())};
  if (!whole) lengths = split_field(all.substr(field.begin, field.end - field.begin), starts, split_);
  const SpanId parent = owner_span(request, field.owner);
  // Of a field that is not printed as it is, the bytes printed so far stand for the place in it.
  uint64_t base = field.source;
  if (!field.verbatim) {
    base = printed(parent, field.field);
    printed(parent, field.field) += field.end - field.begin;
  }
  size_t at = field.token_begin;
  for (uint32_t length : lengths) {
    const ByteRange first = tokens.offsets[at], last = tokens.offsets[at + length - 1];
    // Own bytes end where the next leaf's first token begins, so that dropped bytes stay with the text before them.
    const uint64_t begin = std::max(first.begin, field.begin);
    const bool ends_field = at + length == field.token_end;
    const uint64_t end = ends_field ? field.end : std::min(tokens.offsets[at + length].begin, field.end);
    const ByteRange source{base + begin - field.begin, base + end - field.begin};
    const uint32_t before = met_[{parent, field.field, source.begin, source.end}]++;
    const auto [found, added] = content_.emplace(ContentKey{parent, field.field, source.begin, source.end, before}, SpanId(ledger_.spans.size()));
    const SpanId id = found->second;
    if (added) {
      const Span& message = ledger_.spans[parent];
      Span leaf = message;
      leaf.id = id;
      leaf.kind = SpanKind::content;
      leaf.parent = parent;
      leaf.field = field.field;
      leaf.source = source;
      leaf.digest = sha256_hex(all.substr(begin, end - begin));
      if (lengths.size() > 1) leaf.name = first_words(all.substr(begin, end - begin));
      if (leaf.name.empty()) leaf.name = message.name;
      ledger_.spans.push_back(std::move(leaf));
    }
    Span& leaf = ledger_.spans[id];
    leaf.tokens = length;
    leaf.head_skip = uint32_t(begin - first.begin);
    leaf.tail_skip = uint32_t(last.end > end ? last.end - end : 0);
    ledger_.spans[parent].tokens += length;
    push(out, id, at, at + length);
    at += length;
  }
  uint64_t head = mix(parent, std::hash<std::string>{}(field.field));
  bool control = false;
  for (size_t t = field.token_begin; t < field.token_end; ++t) {
    out.identity[t] = mix(mix(head, base + starts[t - field.token_begin]), uint64_t(tokens.ids[t]) + 2);
    control = control || tokenizer_->is_control(tokens.ids[t]);
  }
  if (control && field.owner >= 0) out.control_in_content.push_back(uint32_t(field.owner));
}

void LeafLayout::add_template(const Request& request, size_t begin, size_t end, const std::vector<uint64_t>& wraps, Answer& out) {
  const ContextTokens& tokens = *request.tokens;
  const auto message_of = [&](size_t t) {
    return size_t(std::upper_bound(wraps.begin(), wraps.end(), tokens.offsets[t].begin) - wraps.begin());
  };
  while (begin < end) {
    const size_t message = message_of(begin);
    size_t stop = begin + 1;
    while (stop < end && message_of(stop) == message) ++stop;
    // The header of an answer that nobody has given yet wraps no message.
    const SpanId attached = message < request.message_count ? message_span(*request.messages, message, request.turn) : kNoSpan;
    std::string text;
    for (size_t t = begin; t < stop; ++t) text += tokenizer_->piece(tokens.ids[t]);
    const uint32_t run = template_runs_[attached]++;
    const auto [found, added] = template_.emplace(std::make_tuple(attached, run, text), SpanId(ledger_.spans.size()));
    if (added) {
      Span leaf;
      leaf.id = found->second;
      leaf.kind = SpanKind::template_text;
      leaf.role = "template";
      const bool ends = tokenizer_->ends_generation(tokens.ids[begin]);
      leaf.name = attached == kNoSpan ? "generation prompt" : ledger_.spans[attached].role + (ends ? " end" : " header");
      leaf.attached_to = attached;
      leaf.message = attached == kNoSpan ? -1 : int32_t(message);
      leaf.birth = request.turn;
      ledger_.spans.push_back(std::move(leaf));
    }
    // The same text may be cut otherwise than when it was part of an answer.
    ledger_.spans[found->second].tokens = uint32_t(stop - begin);
    push(out, found->second, begin, stop);
    for (size_t t = begin; t < stop; ++t) out.identity[t] = mix(mix(found->second, t - begin), 3);
    begin = stop;
  }
}

}  // namespace spanscope
