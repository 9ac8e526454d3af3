// SPDX-License-Identifier: GPL-3.0-or-later
// Replay of token ids with spans that somebody else laid out: the file form of the reference data.
//
// "spans": [{id, kind, role, name, parent, attached_to, tokens, birth, pinned, taint}], id = index, births 1-based.
// "turns": [{turn, context, executed [first, end), answer_tokens [first, count] or null, prompt_rows, answer_rows,
//           recompute_rows (lists of absolute positions), layout [{span, slot, len, pos}]}]; executed and answer_tokens count
//           slots. A turn whose context is not the turn before's and more brings its own "tokens", and "cached_slots" instead
//           of executed (all but the last token are run), "answer_tokens_at_slots", layout rows as [span, slot, len, pos]:
//           positions may leave gaps, and leaves may have left, come back, or moved. Keys stay where a leaf of the turn before
//           stands in the first cached_slots.
// "tokens": the ids, unless they come apart. Keys that are not named here are not read.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "core/base/json.h"
#include "core/span/replay.h"

namespace spanscope {
namespace {

class IdsReplay : public Replay {
 public:
  Status read(const std::string& ids_json, const std::string& spans_json, const std::string& where, const ReplayOptions& options);
  const Ledger& ledger() const override { return ledger_; }
  const std::vector<Finding>& findings() const override { return findings_; }
  uint32_t turns() const override { return uint32_t(plans_.size()); }
  uint32_t next_index() const override { return uint32_t(next_); }
  bool done() const override { return next_ >= plans_.size(); }
  Result<TurnPlan> next() override {
    if (done()) return make_error(ErrorCode::invalid, "SPAN-REPLAY", "there is no further turn", where_);
    TurnPlan plan = plans_[next_++];
    if (plan.ids.empty()) plan.ids.assign(ids_.begin(), ids_.begin() + ptrdiff_t(context_[next_ - 1]));
    plan.token_bytes.assign(plan.ids.size(), 0);  // ids alone have no text
    return plan;
  }
  Result<TurnPlan> begin_answer(uint32_t) override { return no_generation(); }
  Result<TurnPlan> finish_answer(const std::vector<TokenId>&, bool) override { return no_generation(); }
  void drop_rest() override { plans_.resize(next_); }
  bool moves_keys() const override { return moves_keys_; }

 private:
  Error no_generation() const {
    return make_error(ErrorCode::unsupported, "SPAN-REPLAY", "answers are generated from a conversation, not from ids and spans", where_);
  }
  Error bad(const std::string& field, const std::string& message) const {
    return make_error(ErrorCode::invalid, "SPAN-SPANS", message, where_ + " " + field);
  }
  Result<std::vector<TokenId>> read_ids(const OrderedJson& list, const std::string& where) const;
  Status read_shape(const OrderedJson& json, const std::string& field, size_t index, uint64_t& context, TurnPlan& plan);
  Status find_kept(const std::string& field, TurnPlan& plan);
  Status read_span(const OrderedJson& json, size_t index, size_t count);
  Status read_turn(const OrderedJson& json, size_t index, const ReplayOptions& options);
  Status read_rows(const OrderedJson& json, const std::string& field, const char* key, RowPhase phase, TurnPlan& plan,
                   std::vector<uint8_t>& seen) const;
  Status read_layout(const OrderedJson& json, const std::string& field, size_t context, TurnPlan& plan) const;
  // A whole number in [0, most].
  Result<uint64_t> number(const OrderedJson& json, const std::string& field, const char* key, uint64_t most) const;
  Result<std::string> text(const OrderedJson& json, const std::string& field, const char* key, std::string fallback) const;
  Result<std::pair<uint64_t, uint64_t>> pair(const OrderedJson& json, const std::string& field, const char* key, uint64_t most) const;

  std::string where_;
  std::vector<TokenId> ids_;
  std::vector<TurnPlan> plans_;
  std::vector<size_t> context_;  // [turns] tokens
  bool moves_keys_ = false;
  Ledger ledger_;
  std::vector<Finding> findings_;
  size_t next_ = 0;
};

bool whole_number(const OrderedJson& value, uint64_t most, uint64_t& out) {
  if (!value.is_number_integer()) return false;
  if (value.is_number_unsigned()) {
    out = value.get<uint64_t>();
  } else {
    const int64_t number = value.get<int64_t>();
    if (number < 0) return false;
    out = uint64_t(number);
  }
  return out <= most;
}

Result<uint64_t> IdsReplay::number(const OrderedJson& json, const std::string& field, const char* key, uint64_t most) const {
  const auto value = json.find(key);
  uint64_t out = 0;
  if (value == json.end()) return bad(field, fmt::format("\"{}\" is missing", key));
  if (!whole_number(*value, most, out))
    return bad(field + "." + key, fmt::format("expected a whole number from 0 to {}, found {}", most, value->dump()));
  return out;
}

Result<std::string> IdsReplay::text(const OrderedJson& json, const std::string& field, const char* key, std::string fallback) const {
  const auto value = json.find(key);
  if (value == json.end() || value->is_null()) return fallback;
  if (!value->is_string()) return bad(field + "." + key, "expected text");
  return value->get<std::string>();
}

Result<std::pair<uint64_t, uint64_t>> IdsReplay::pair(const OrderedJson& json, const std::string& field, const char* key,
                                                      uint64_t most) const {
  const auto value = json.find(key);
  std::pair<uint64_t, uint64_t> out;
  if (value == json.end() || !value->is_array() || value->size() != 2 || !whole_number((*value)[0], most, out.first) ||
      !whole_number((*value)[1], most, out.second))
    return bad(field + "." + key, fmt::format("expected two whole numbers up to {}", most));
  return out;
}

Result<std::vector<TokenId>> IdsReplay::read_ids(const OrderedJson& json, const std::string& where) const {
  const OrderedJson* list = &json;
  if (json.is_object())
    for (const char* key : {"ids", "tokens"})
      if (json.contains(key)) list = &json[key];
  if (!list->is_array()) return make_error(ErrorCode::invalid, "SPAN-IDS", "expected a list of token ids", where);
  std::vector<TokenId> out;
  for (const OrderedJson& value : *list) {
    uint64_t id = 0;
    if (!whole_number(value, 0x7fffffff, id))
      return make_error(ErrorCode::invalid, "SPAN-IDS", "expected a token id, found " + value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace),
                        where + " [" + std::to_string(out.size()) + "]");
    out.push_back(TokenId(id));
  }
  if (out.empty()) return make_error(ErrorCode::invalid, "SPAN-IDS", "the list of token ids is empty", where);
  return out;
}

Status IdsReplay::read_span(const OrderedJson& json, size_t index, size_t count) {
  const std::string field = "spans[" + std::to_string(index) + "]";
  if (!json.is_object()) return bad(field, "expected an object");
  auto id = number(json, field, "id", 0xfffffff0u);
  if (!id) return std::move(id).error();
  if (*id != index) return bad(field + ".id", fmt::format("expected {} (ids count up from 0), found {}", index, *id));
  Span span;
  span.id = SpanId(*id);
  auto kind = text(json, field, "kind", "content");
  if (!kind) return std::move(kind).error();
  if (*kind == "sink") span.kind = SpanKind::sink;
  else if (*kind == "template") span.kind = SpanKind::template_text;
  else if (*kind == "content") span.kind = SpanKind::content;
  else if (*kind == "parent") span.kind = SpanKind::parent;
  else return bad(field + ".kind", "expected sink, template, content or parent, found \"" + *kind + "\"");
  for (const auto& [key, target] : {std::pair<const char*, std::string*>{"role", &span.role}, {"name", &span.name},
                                    {"producer", &span.producer}, {"digest", &span.digest}}) {
    auto value = text(json, field, key, "");
    if (!value) return std::move(value).error();
    *target = std::move(*value);
  }
  auto taint = text(json, field, "taint", "trusted");
  if (!taint) return std::move(taint).error();
  if (*taint == "trusted") span.taint = Taint::trusted;
  else if (*taint == "tainted") span.taint = Taint::tainted;
  else if (*taint == "quarantined") span.taint = Taint::quarantined;
  else return bad(field + ".taint", "expected trusted, tainted or quarantined, found \"" + *taint + "\"");
  for (const auto& [key, target] : {std::pair<const char*, SpanId*>{"parent", &span.parent}, {"attached_to", &span.attached_to}}) {
    const auto value = json.find(key);
    if (value == json.end() || value->is_null()) continue;
    auto other = number(json, field, key, count - 1);
    if (!other) return std::move(other).error();
    if (*other == index) return bad(field + "." + key, "a span cannot hold itself");
    *target = SpanId(*other);
  }
  auto tokens = number(json, field, "tokens", 0xffffffffu);
  if (!tokens) return std::move(tokens).error();
  span.tokens = uint32_t(*tokens);
  if (json.contains("birth")) {
    auto birth = number(json, field, "birth", 0xffffffu);
    if (!birth) return std::move(birth).error();
    if (*birth == 0) return bad(field + ".birth", "turns count from 1");
    span.birth = TurnId(*birth - 1);
  }
  if (const auto pinned = json.find("pinned"); pinned != json.end()) {
    if (!pinned->is_boolean()) return bad(field + ".pinned", "expected true or false");
    span.pinned = pinned->get<bool>();
  }
  ledger_.spans.push_back(std::move(span));
  return {};
}

Status IdsReplay::read_rows(const OrderedJson& json, const std::string& field, const char* key, RowPhase phase, TurnPlan& plan,
                            std::vector<uint8_t>& seen) const {
  const auto rows = json.find(key);
  if (rows == json.end()) return {};
  if (!rows->is_array()) return bad(field + "." + key, "expected a list of positions");
  std::vector<TokenPos> positions;  // of the rows, ascending
  for (const LayoutEntry& e : plan.layout)
    for (Slot slot = std::max<Slot>(e.slot, plan.cached); slot < std::min<Slot>(e.slot + e.len, plan.executed_end); ++slot)
      positions.push_back(e.position + (slot - e.slot));
  for (const OrderedJson& value : *rows) {
    uint64_t row = 0;
    const bool number = whole_number(value, 0xffffffffu, row);
    const auto at = std::lower_bound(positions.begin(), positions.end(), TokenPos(row));
    if (!number || at == positions.end() || *at != row)
      return bad(field + "." + key, fmt::format("expected positions of rows that are run ({}), found {}",
                                                positions.empty() ? "there are none" : fmt::format("{} to {}", positions.front(), positions.back()), value.dump()));
    if (seen[size_t(at - positions.begin())]++) return bad(field + "." + key, fmt::format("position {} is listed twice", row));
    plan.phase[size_t(at - positions.begin())] = phase;
  }
  return {};
}

Status IdsReplay::read_layout(const OrderedJson& json, const std::string& field, size_t context, TurnPlan& plan) const {
  const auto layout = json.find("layout");
  if (layout == json.end() || !layout->is_array()) return bad(field + ".layout", "expected a list of leaves");
  uint64_t at = 0;
  std::vector<uint8_t> used(ledger_.spans.size(), 0);
  for (size_t i = 0; i < layout->size(); ++i) {
    const std::string entry_field = field + ".layout[" + std::to_string(i) + "]";
    const OrderedJson& entry = (*layout)[i];
    uint64_t part[4] = {};  // span, slot, len, position
    if (entry.is_array()) {
      if (entry.size() != 4) return bad(entry_field, "expected [span, slot, length, position]");
      for (size_t k = 0; k < 4; ++k)
        if (!whole_number(entry[k], k == 0 ? ledger_.spans.size() - 1 : 0xffffffffu, part[k])) return bad(entry_field, "expected four whole numbers, found " + entry.dump());
    } else {
      if (!entry.is_object()) return bad(entry_field, "expected an object");
      static constexpr const char* keys[] = {"span", "slot", "len", "pos"};
      for (size_t k = 0; k < 4; ++k) {
        if (k == 3 && !entry.contains("pos")) {
          part[3] = part[1];
          break;
        }
        auto value = number(entry, entry_field, keys[k], k == 0 ? ledger_.spans.size() - 1 : 0xffffffffu);
        if (!value) return std::move(value).error();
        part[k] = *value;
      }
    }
    const auto [span, slot, len, position] = std::tuple(part[0], part[1], part[2], part[3]);
    if (!ledger_.spans[span].leaf()) return bad(entry_field + ".span", fmt::format("span {} is a parent, a layout holds leaves", span));
    if (used[span]++) return bad(entry_field + ".span", fmt::format("span {} stands in the layout twice", span));
    if (slot != at || len == 0)
      return bad(entry_field, fmt::format("leaves cover the context without holes: expected slot {} and a length, found slot {} and length {}", at, slot, len));
    const uint64_t free_from = plan.layout.empty() ? 0 : uint64_t(plan.layout.back().position) + plan.layout.back().len;
    if (position < free_from || position + len > 0xffffffffu)
      return bad(entry_field + ".pos", fmt::format("positions ascend: expected {} or more, found {}", free_from, position));
    plan.layout.push_back({SpanId(span), Slot(slot), uint32_t(len), TokenPos(position)});
    at += len;
    if (at > context) break;
  }
  if (at != context) return bad(field + ".layout", fmt::format("expected leaves of {} tokens in all, found {}", context, at));
  return {};
}

// Which slots are there, which of them run, and where the answer stands.
Status IdsReplay::read_shape(const OrderedJson& json, const std::string& field, size_t index, uint64_t& context, TurnPlan& plan) {
  if (json.contains("tokens")) {
    auto ids = read_ids(json["tokens"], where_ + " " + field + ".tokens");
    if (!ids) return std::move(ids).error();
    plan.ids = std::move(*ids);
    context = plan.ids.size();
  } else {
    auto count = number(json, field, "context", ids_.size());
    if (!count) return std::move(count).error();
    context = *count;
  }
  uint64_t first = 0, end = 0;
  if (json.contains("cached_slots")) {
    auto cached = number(json, field, "cached_slots", context);
    if (!cached) return std::move(cached).error();
    first = *cached, end = context ? std::max(context - 1, first) : 0;
  } else {
    auto executed = pair(json, field, "executed", context);
    if (!executed) return std::move(executed).error();
    std::tie(first, end) = *executed;
    if (first > end) return bad(field + ".executed", "the end lies before the begin");
  }
  plan.cached = uint32_t(first);
  plan.executed_end = uint32_t(end);
  if (index == 0 && plan.cached != 0) return bad(field + ".executed", "the first turn begins at 0");
  if (index > 0 && plan.ids.empty() && plan.cached > plans_.back().executed_end)
    return bad(field + ".executed", fmt::format("begins at {}, but only {} positions were run before", plan.cached, plans_.back().executed_end));

  const char* key = json.contains("answer_tokens_at_slots") ? "answer_tokens_at_slots" : "answer_tokens";
  const auto answer = json.find(key);
  plan.open = answer == json.end() || answer->is_null();
  if (plan.open) return {};
  auto range = pair(json, field, key, context);
  if (!range) return std::move(range).error();
  if (range->first + range->second > context)
    return bad(field + "." + key, fmt::format("ends at {}, behind the context of {} tokens", range->first + range->second, context));
  plan.open = range->second == 0;
  if (range->second > 0) {
    plan.answer_begin = uint32_t(range->first);
    plan.answer_len = uint32_t(range->second);
  }
  return {};
}

// The keys of the first cached slots are those of the same leaves in the turn before.
Status IdsReplay::find_kept(const std::string& field, TurnPlan& plan) {
  if (plans_.empty()) return {};
  const TurnPlan& before = plans_.back();
  for (const LayoutEntry& e : plan.layout) {
    if (e.slot >= plan.cached) break;
    const uint32_t len = std::min(e.len, plan.cached - e.slot);
    const auto old = std::find_if(before.layout.begin(), before.layout.end(), [&](const LayoutEntry& o) { return o.leaf == e.leaf; });
    if (old == before.layout.end() || old->len < len || old->slot + len > before.executed_end)
      return bad(field, fmt::format("span {} stands in cached slots, but its {} tokens were not run in the turn before", e.leaf, len));
    if (!before.ids.empty() && !plan.ids.empty() && !std::equal(plan.ids.begin() + e.slot, plan.ids.begin() + e.slot + len, before.ids.begin() + old->slot))
      return bad(field, fmt::format("span {} has other tokens than in the turn before", e.leaf));
    if (!plan.kept.empty() && old->slot < plan.kept.back().end) return bad(field, fmt::format("span {} changed its place among cached ones", e.leaf));
    if (!plan.kept.empty() && plan.kept.back().end == old->slot) plan.kept.back().end += len;
    else plan.kept.push_back({old->slot, old->slot + len});
    moves_keys_ = moves_keys_ || old->position != e.position;
  }
  if (plan.kept.size() == 1 && plan.kept[0].begin == 0) plan.kept.clear();  // the usual prefix
  return {};
}

Status IdsReplay::read_turn(const OrderedJson& json, size_t index, const ReplayOptions& options) {
  const std::string field = "turns[" + std::to_string(index) + "]";
  if (!json.is_object()) return bad(field, "expected an object");
  TurnPlan plan;
  plan.turn = TurnId(index);
  uint64_t context = 0;
  SPANSCOPE_TRY(read_shape(json, field, index, context, plan));
  if (options.context > 0 && context > options.context)
    return make_error(ErrorCode::limit, "SPAN-CONTEXT",
                      fmt::format("turn {} needs {} tokens of context, the limit is {}", index + 1, context, options.context), where_ + " " + field);
  SPANSCOPE_TRY(read_layout(json, field, context, plan));
  if (!plan.ids.empty()) SPANSCOPE_TRY(find_kept(field, plan));
  const size_t rows = plan.executed_end - plan.cached;
  plan.phase.assign(rows, RowPhase::prompt);
  std::vector<uint8_t> seen(rows, 0);
  SPANSCOPE_TRY(read_rows(json, field, "prompt_rows", RowPhase::prompt, plan, seen));
  SPANSCOPE_TRY(read_rows(json, field, "answer_rows", RowPhase::answer, plan, seen));
  SPANSCOPE_TRY(read_rows(json, field, "recompute_rows", RowPhase::recompute, plan, seen));
  for (size_t i = 0; i < rows; ++i) {
    const uint64_t slot = plan.cached + i;
    if (!seen[i]) return bad(field, fmt::format("the token in slot {} is run but stands in no list of rows", slot));
    // The recorder breaks its passes at the first answer row, so the lists must agree with the answer's place.
    const bool inside = plan.answer_len > 0 && slot >= plan.first_answer_row() && slot + 1 < uint64_t(plan.answer_begin) + plan.answer_len;
    if (inside != (plan.phase[i] == RowPhase::answer))
      return bad(field + ".answer_rows", fmt::format("the row in slot {} does not agree with the answer's place", slot));
  }
  plans_.push_back(std::move(plan));
  context_.push_back(context);
  return {};
}

Status IdsReplay::read(const std::string& ids_json, const std::string& spans_json, const std::string& where, const ReplayOptions& options) {
  where_ = where;
  auto document = parse_json(spans_json, where);
  if (!document) return std::move(document).error();
  if (!document->is_object()) return bad("", "expected an object with \"spans\" and \"turns\"");
  const auto turns_bring_tokens = [&] {
    const auto turns = document->find("turns");
    return turns != document->end() && turns->is_array() && !turns->empty() &&
           std::all_of(turns->begin(), turns->end(), [](const OrderedJson& turn) { return turn.is_object() && turn.contains("tokens"); });
  };
  if (!ids_json.empty() || document->contains("tokens")) {
    const bool apart = !ids_json.empty();
    Result<OrderedJson> json = OrderedJson();
    if (apart) json = parse_json(ids_json, "--ids");
    if (!json) return std::move(json).error();
    auto ids = read_ids(apart ? *json : (*document)["tokens"], apart ? "--ids" : where + " tokens");
    if (!ids) return std::move(ids).error();
    ids_ = std::move(*ids);
  } else if (!turns_bring_tokens()) {
    return bad("tokens", "the file has no \"tokens\", and no ids were given");
  }
  for (const char* key : {"spans", "turns"})
    if (!document->contains(key) || !(*document)[key].is_array() || (*document)[key].empty())
      return bad(key, "expected a list that is not empty");
  const OrderedJson& spans = (*document)["spans"];
  for (size_t i = 0; i < spans.size(); ++i) SPANSCOPE_TRY(read_span(spans[i], i, spans.size()));
  for (const Span& span : ledger_.spans) {
    for (SpanId other : {span.parent, span.attached_to})
      if (other != kNoSpan && ledger_.spans[other].leaf())
        return bad(fmt::format("spans[{}]", span.id), fmt::format("its parent {} is a leaf", other));
    const std::vector<SpanId> up = ledger_.ancestors(span.id);
    if (!up.empty() && ledger_.spans[up.back()].parent != kNoSpan) return bad(fmt::format("spans[{}].parent", span.id), "parents form a circle");
  }
  const OrderedJson& turns = (*document)["turns"];
  for (size_t i = 0; i < turns.size(); ++i) SPANSCOPE_TRY(read_turn(turns[i], i, options));
  return {};
}

}  // namespace

Result<std::unique_ptr<Replay>> make_ids_replay(const std::string& ids_json, const std::string& spans_json, const std::string& where,
                                                ReplayOptions options) {
  auto out = std::make_unique<IdsReplay>();
  if (auto read = out->read(ids_json, spans_json, where, options); !read) return std::move(read).error();
  return std::unique_ptr<Replay>(std::move(out));
}

}  // namespace spanscope
