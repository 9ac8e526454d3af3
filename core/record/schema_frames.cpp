// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/record/schema_parts.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "core/base/json.h"
#include "core/model/token_stats.h"
#include "core/record/profile_shares.h"

namespace spanscope::schema {

Result<std::vector<std::string>> get_strings(const Blob& blob, const std::string& name, uint64_t count) {
  auto bytes = blob.get<uint8_t>(name + ".bytes");
  if (!bytes) return std::move(bytes).error();
  auto ends = blob.get<uint64_t>(name + ".ends", count);
  if (!ends) return std::move(ends).error();
  std::vector<std::string> out;
  uint64_t at = 0;
  for (uint64_t end : *ends) {
    if (end < at || end > bytes->size()) return make_error(ErrorCode::corrupt, "SPAN-TENSOR", "string ends that do not ascend", name);
    out.emplace_back(bytes->begin() + ptrdiff_t(at), bytes->begin() + ptrdiff_t(end));
    at = end;
  }
  return out;
}
Status read_ledger(const Blob& blob, SessionData& out) {
  auto id = blob.get<uint32_t>("id");
  if (!id) return std::move(id).error();
  const uint64_t n = id->size();
#define SPANSCOPE_COLUMN(type, name)               \
  auto name = blob.get<type>(#name, n);            \
  if (!name) return std::move(name).error();
  SPANSCOPE_COLUMN(uint8_t, kind)
  SPANSCOPE_COLUMN(uint8_t, taint)
  SPANSCOPE_COLUMN(uint32_t, parent)
  SPANSCOPE_COLUMN(uint32_t, attached_to)
  SPANSCOPE_COLUMN(int32_t, message)
  SPANSCOPE_COLUMN(uint64_t, source_begin)
  SPANSCOPE_COLUMN(uint64_t, source_end)
  SPANSCOPE_COLUMN(uint32_t, head_skip)
  SPANSCOPE_COLUMN(uint32_t, tail_skip)
  SPANSCOPE_COLUMN(uint32_t, birth)
  SPANSCOPE_COLUMN(uint32_t, tokens)
  SPANSCOPE_COLUMN(uint8_t, pinned)
  SPANSCOPE_COLUMN(uint32_t, replaces)
#undef SPANSCOPE_COLUMN
  auto role = get_strings(blob, "role", n), name = get_strings(blob, "name", n), producer = get_strings(blob, "producer", n),
       digest = get_strings(blob, "digest", n), field = get_strings(blob, "field", n);
  for (const auto* r : {&role, &name, &producer, &digest, &field})
    if (!*r) return r->error();
  for (uint64_t i = 0; i < n; ++i) {
    // Ids are dense: a frame may replace earlier spans and add the ones that follow.
    if ((*id)[i] > out.ledger.spans.size() || (*kind)[i] > 3 || (*taint)[i] > 2)
      return make_error(ErrorCode::corrupt, "SPAN-LEDGER", "span " + std::to_string((*id)[i]) + " does not follow the ones before it");
    Span s;
    s.id = (*id)[i];
    s.kind = SpanKind((*kind)[i]);
    s.taint = Taint((*taint)[i]);
    s.parent = (*parent)[i];
    s.attached_to = (*attached_to)[i];
    s.message = (*message)[i];
    s.source = {(*source_begin)[i], (*source_end)[i]};
    s.head_skip = (*head_skip)[i];
    s.tail_skip = (*tail_skip)[i];
    s.birth = (*birth)[i];
    s.tokens = (*tokens)[i];
    s.pinned = (*pinned)[i];
    s.replaces = (*replaces)[i];
    s.role = (*role)[i];
    s.name = (*name)[i];
    s.producer = (*producer)[i];
    s.digest = (*digest)[i];
    s.field = (*field)[i];
    if (s.id == out.ledger.spans.size()) out.ledger.spans.push_back(std::move(s));
    else out.ledger.spans[s.id] = std::move(s);
  }
  auto ends = blob.get<uint64_t>("message.role.ends");
  if (!ends) return std::move(ends).error();
  auto m_role = get_strings(blob, "message.role", ends->size()), m_name = get_strings(blob, "message.name", ends->size()),
       m_id = get_strings(blob, "message.id", ends->size());
  for (const auto* r : {&m_role, &m_name, &m_id})
    if (!*r) return r->error();
  const auto first = blob.metadata.find("first_message");
  if (first == blob.metadata.end() || first->second != std::to_string(out.messages.size()))
    return make_error(ErrorCode::corrupt, "SPAN-LEDGER", "messages do not follow the ones before them");
  for (size_t i = 0; i < ends->size(); ++i) out.messages.push_back({(*m_role)[i], (*m_name)[i], (*m_id)[i]});
  return {};
}
namespace {

template <class T>
T value_or(const OrderedJson& json, const char* key, T fallback) {
  const auto it = json.find(key);
  if (it == json.end()) return fallback;
  if constexpr (std::is_same_v<T, std::string>) return it->is_string() ? it->get<std::string>() : fallback;
  else if constexpr (std::is_same_v<T, bool>) return it->is_boolean() ? it->get<bool>() : fallback;
  else return it->is_number() ? it->get<T>() : fallback;
}

Error broken(const std::string& what) { return make_error(ErrorCode::corrupt, "SPAN-TURN-DATA", what); }

}  // namespace

Result<SessionHeader> read_header(const Blob& blob, const std::string& where) {
  const auto text = blob.metadata.find("header");
  if (text == blob.metadata.end()) return make_error(ErrorCode::corrupt, "SPAN-NO-HEADER", "the session frame holds no header", where);
  auto json = parse_json(text->second, where + " header");
  if (!json) return std::move(json).error();
  if (!json->is_object()) return make_error(ErrorCode::corrupt, "SPAN-NO-HEADER", "the header is not an object", where);
  const OrderedJson& j = *json;
  SessionHeader h;
  h.program_version = value_or<std::string>(j, "program_version", "");
  h.model_name = value_or<std::string>(j, "model_name", "");
  h.model_family = value_or<std::string>(j, "model_family", "");
  h.model_path = value_or<std::string>(j, "model_path", "");
  h.model_digest = value_or<std::string>(j, "model_digest", "");
  h.weight_types = value_or<std::string>(j, "weight_types", "");
  h.tokenizer_digest = value_or<std::string>(j, "tokenizer_digest", "");
  h.layers = value_or<uint32_t>(j, "layers", 0);
  h.query_heads = value_or<uint32_t>(j, "query_heads", 0);
  h.kv_heads = value_or<uint32_t>(j, "kv_heads", 0);
  h.head_dim = value_or<uint32_t>(j, "head_dim", 0);
  h.hidden = value_or<uint32_t>(j, "hidden", 0);
  h.vocab = value_or<uint32_t>(j, "vocab", 0);
  h.experts = value_or<uint32_t>(j, "experts", 0);
  h.experts_used = value_or<uint32_t>(j, "experts_used", 0);
  h.backend = value_or<std::string>(j, "backend", "");
  h.threads = value_or<uint32_t>(j, "threads", 1);
  h.detail = value_or<std::string>(j, "detail", "span");
  h.routing = value_or<bool>(j, "routing", false);
  h.has_text = value_or<bool>(j, "has_text", true);
  h.theta_rec = value_or<float>(j, "theta_rec", 0.2f);
  h.factor = value_or<float>(j, "factor", 3.0f);
  h.cap = value_or<float>(j, "cap", 0.9f);
  h.lambda = value_or<double>(j, "lambda", 0.9);
  h.habit_min_rows = value_or<uint32_t>(j, "habit_min_rows", 8);
  h.source = value_or<std::string>(j, "source", "");
  h.mode = value_or<std::string>(j, "mode", "");
  h.redacted = value_or<std::string>(j, "redacted", "");
  if (h.layers == 0 || h.query_heads == 0 || h.layers > 4096 || h.query_heads > 4096)
    return make_error(ErrorCode::corrupt, "SPAN-NO-HEADER",
                      "the header says " + std::to_string(h.layers) + " layers and " + std::to_string(h.query_heads) + " query heads", where);
  auto list = [&](const char* key, auto& out) {
    out.assign(h.layers, 0);
    if (const auto it = j.find(key); it != j.end() && it->is_array())
      for (size_t i = 0; i < it->size() && i < out.size(); ++i)
        if ((*it)[i].is_number_unsigned()) out[i] = (*it)[i].template get<typename std::decay_t<decltype(out)>::value_type>();
  };
  const auto choice = [&](const char* key, const auto& names) -> size_t {
    const std::string name = value_or<std::string>(j, key, "none");
    for (size_t i = 0; i < std::size(names); ++i)
      if (name == names[i]) return i;
    return 0;
  };
  h.rows = RowDetail(choice("rows", kRowDetails));
  h.keys = KeyDetail(choice("keys", kKeyDetails));
  h.pairs = value_or<bool>(j, "pairs", false);
  h.values = value_or<bool>(j, "values", false);
  if (const auto it = j.find("stat_windows"); it != j.end() && it->is_array())
    for (const auto& w : *it)
      if (w.is_number_unsigned() && h.stat_windows.size() < kMaxStatWindows) h.stat_windows.push_back(w.template get<uint32_t>());
  if (const auto it = j.find("kept_heads"); it != j.end() && it->is_array()) {
    h.kept_heads.assign(size_t(h.layers) * h.query_heads, 0);
    for (const auto& pair : *it)
      if (pair.is_number_unsigned() && pair.template get<uint64_t>() < h.kept_heads.size()) h.kept_heads[pair.template get<size_t>()] = 1;
  }
  list("window", h.window);
  list("moe_layer", h.moe_layer);
  if (const auto it = j.find("knobs"); it != j.end() && it->is_object())
    for (const auto& [key, value] : it->items())
      if (value.is_string()) h.knobs.emplace_back(key, value.get<std::string>());
  return h;
}

Status read_turn_begin(const Blob& blob, TurnRecord& t, const SessionData& s) {
  const auto text = blob.metadata.find("turn_data");
  if (text == blob.metadata.end()) return broken("turn data missing");
  auto json = parse_json(text->second, "turn data");
  if (!json) return std::move(json).error();
  if (!json->is_object()) return broken("turn data is not an object");
  const OrderedJson& j = *json;
  t.turn = value_or<uint32_t>(j, "turn", 0);
  t.message = value_or<int32_t>(j, "message", -1);
  t.open = value_or<bool>(j, "open", false);
  t.cut = value_or<bool>(j, "cut", false);
  t.generated = value_or<bool>(j, "generated", false);
  t.context = value_or<uint32_t>(j, "context", 0);
  t.executed_begin = value_or<uint32_t>(j, "executed_begin", 0);
  t.executed_end = value_or<uint32_t>(j, "executed_end", 0);
  t.answer_begin = value_or<uint32_t>(j, "answer_begin", 0);
  t.answer_len = value_or<uint32_t>(j, "answer_len", 0);
  t.events_dropped = value_or<uint64_t>(j, "events_dropped", 0);
  t.seconds_prompt = value_or<double>(j, "seconds_prompt", 0);
  t.seconds_answer = value_or<double>(j, "seconds_answer", 0);
  if (!s.turns.empty() && t.turn <= s.turns.back().turn) return broken("turns that do not ascend");
  if (t.executed_begin > t.executed_end || t.executed_end > t.context || uint64_t(t.answer_begin) + t.answer_len > t.context)
    return broken("positions that contradict each other");
  auto phase = blob.get<uint8_t>("phase", t.executed_end - t.executed_begin);
  if (!phase) return std::move(phase).error();
  t.phase = std::move(*phase);
  auto layout = blob.get<uint32_t>("layout");
  if (!layout) return std::move(layout).error();
  if (layout->size() % 4) return broken("a layout whose rows are cut");
  for (size_t i = 0; i < layout->size(); i += 4) {
    const LayoutEntry e{(*layout)[i], (*layout)[i + 1], (*layout)[i + 2], (*layout)[i + 3]};
    if (e.leaf >= s.ledger.spans.size()) return broken("the layout names span " + std::to_string(e.leaf) + ", the ledger has " + std::to_string(s.ledger.spans.size()));
    if (uint64_t(e.slot) + e.len > t.context || uint64_t(e.position) + e.len > 0xffffffffu) return broken("a leaf outside the context");
    if (!t.layout.empty() && (e.slot < uint64_t(t.layout.back().slot) + t.layout.back().len || e.position < uint64_t(t.layout.back().position) + t.layout.back().len))
      return broken("leaves that overlap");
    t.layout.push_back(e);
  }
  if (blob.find("kept")) {
    auto kept = blob.get<uint32_t>("kept");
    if (!kept) return std::move(kept).error();
    uint64_t sum = 0, behind = 0;
    for (size_t i = 0; i + 1 < kept->size(); i += 2) {
      const SlotRange r{(*kept)[i], (*kept)[i + 1]};
      if (r.begin < behind || r.end <= r.begin) return broken("kept slots that do not ascend");
      behind = r.end, sum += r.end - r.begin;
      t.kept.push_back(r);
    }
    if (sum != t.executed_begin || kept->size() % 2) return broken("kept slots that are not as many as were not run");
  }
  if (blob.find("evicted")) {
    auto evicted = blob.get<uint32_t>("evicted");
    if (!evicted) return std::move(evicted).error();
    for (SpanId id : *evicted)
      if (id >= s.ledger.spans.size()) return broken("an evicted span that the ledger does not have");
    t.evicted = std::move(*evicted);
  }
  if (s.header.has_text) {
    const uint64_t n = t.context - t.executed_begin;
    auto ids = blob.get<int32_t>("ids", n);
    auto bytes = blob.get<uint32_t>("token_bytes", n);
    auto chars = blob.get<uint8_t>("text");
    if (!ids) return std::move(ids).error();
    if (!bytes) return std::move(bytes).error();
    if (!chars) return std::move(chars).error();
    t.new_ids = std::move(*ids);
    t.new_token_bytes = std::move(*bytes);
    t.new_text.assign(chars->begin(), chars->end());
    t.index_text();
    if (!t.new_token_end.empty() && t.new_token_end.back() != t.new_text.size()) return broken("token lengths that do not add up to the text");
  }
  return {};
}

Status read_mass(const Blob& blob, TurnRecord& t, const SessionData& s) {
  const uint64_t c = t.layout.size(), l = s.header.layers;
#define SPANSCOPE_TAKE(target, type, name, count)   \
  {                                                  \
    auto got = blob.get<type>(name, count);          \
    if (!got) return std::move(got).error();         \
    target = std::move(*got);                        \
  }
  SPANSCOPE_TAKE(t.query_leaves, uint32_t, "query_leaves", UINT64_MAX)
  const uint64_t q = t.query_leaves.size();
  uint64_t at = 0;  // query leaves are leaves of the layout, in its order
  for (SpanId id : t.query_leaves) {
    while (at < c && t.layout[at].leaf != id) ++at;
    if (at++ == c) return broken("a query leaf that is not in the layout");
  }
  SPANSCOPE_TAKE(t.rows_q, uint32_t, "rows_q", 3 * q)
  SPANSCOPE_TAKE(t.mass_qk, float, "mass_qk", 3 * q * c)
  SPANSCOPE_TAKE(t.uniform_qk, float, "uniform_qk", 3 * q * c)
  if (blob.find("gc_mass_qk")) SPANSCOPE_TAKE(t.gc_mass_qk, float, "gc_mass_qk", 3 * q)
  SPANSCOPE_TAKE(t.learned_sink, float, "learned_sink", 3 * l)
  SPANSCOPE_TAKE(t.unattributed, float, "unattributed", 3 * l)
  if (blob.find("learned_sink_q")) SPANSCOPE_TAKE(t.learned_sink_q, float, "learned_sink_q", 3 * q)
  SPANSCOPE_TAKE(t.spike, float, "spike", c)
  SPANSCOPE_TAKE(t.spike_layer, uint16_t, "spike_layer", c)
  SPANSCOPE_TAKE(t.spike_head, uint16_t, "spike_head", c)
  SPANSCOPE_TAKE(t.spike_row, uint32_t, "spike_row", c)
  SPANSCOPE_TAKE(t.profile_spans, uint32_t, "profile_spans", UINT64_MAX)
  for (SpanId id : t.profile_spans)
    if (id >= s.ledger.spans.size()) return broken("a profile of span " + std::to_string(id) + ", which is not in the ledger");
  if (!blob.find("layer_share")) {
    SPANSCOPE_TAKE(t.layer_mass, float, "layer_mass", l * 2 * t.profile_spans.size())
    return {};
  }
  auto shares = blob.get_f16("layer_share", l * 2 * t.profile_spans.size());
  if (!shares) return std::move(shares).error();
  t.layer_mass = from_shares(*shares, profile_rows(t, s.ledger), s.header.query_heads);
  return {};
}

// Behind the turn's mass frame, which names the spans. Layers (or chosen heads) come in order and without a gap.
Status read_profile(const Blob& blob, TurnRecord& t, const SessionData& s) {
  const bool shares = blob.find("head_share");
  const Tensor* stored = blob.find(shares ? "head_share" : "head_mass");
  const bool chosen = !s.header.kept_heads.empty();
  if (!stored || stored->shape.size() != (chosen ? 3 : 4)) return broken("a profile without numbers of the right dimensions");
  const uint64_t heads = chosen ? 1 : s.header.query_heads, of_layer = heads * 2 * t.profile_spans.size();
  const std::vector<uint64_t>& shape = stored->shape;
  if (of_layer == 0 || (!chosen && shape[1] != heads) || shape[shape.size() - 2] != 2 || shape.back() != t.profile_spans.size())
    return broken("a profile of other heads or spans than the turn's");
  const auto first = blob.metadata.find(chosen ? "first_pair" : "first_layer");
  const uint64_t expected = t.head_mass.size() / of_layer, most = chosen ? s.header.pairs_kept().size() : s.header.layers;
  if (first == blob.metadata.end() || first->second != std::to_string(expected) || expected + shape[0] > most)
    return broken((chosen ? "a profile that does not begin at head " : "a profile that does not begin at layer ") + std::to_string(expected));
  Result<std::vector<float>> values = std::vector<float>();
  if (shares) {
    auto bits = blob.get_f16("head_share", shape[0] * of_layer);
    if (!bits) return std::move(bits).error();
    values = from_shares(*bits, profile_rows(t, s.ledger), 1);
  } else {
    values = blob.get<float>("head_mass", shape[0] * of_layer);
    if (!values) return std::move(values).error();
  }
  t.head_mass.insert(t.head_mass.end(), values->begin(), values->end());
  return {};
}

Status read_events(const Blob& blob, TurnRecord& t, const SessionData& s) {
  SPANSCOPE_TAKE(t.events.row, uint32_t, "row", UINT64_MAX)
  const uint64_t n = t.events.row.size();
  SPANSCOPE_TAKE(t.events.leaf, uint32_t, "leaf", n)
  SPANSCOPE_TAKE(t.events.layer, uint16_t, "layer", n)
  SPANSCOPE_TAKE(t.events.head, uint16_t, "head", n)
  SPANSCOPE_TAKE(t.events.mass, float, "mass", n)
  SPANSCOPE_TAKE(t.events.habit, float, "habit", n)
  for (uint64_t i = 0; i < n; ++i)
    if (t.events.leaf[i] >= s.ledger.spans.size() || t.events.layer[i] >= s.header.layers || t.events.head[i] >= s.header.query_heads)
      return broken("a read event outside the model or the ledger");
  if (!t.events_dropped) return {};
  SPANSCOPE_TAKE(t.dropped.leaf, uint32_t, "dropped.leaf", UINT64_MAX)
  const uint64_t d = t.dropped.leaf.size();
  SPANSCOPE_TAKE(t.dropped.layer, uint16_t, "dropped.layer", d)
  SPANSCOPE_TAKE(t.dropped.head, uint16_t, "dropped.head", d)
  SPANSCOPE_TAKE(t.dropped.count, uint32_t, "dropped.count", d)
  SPANSCOPE_TAKE(t.dropped.above_display, uint32_t, "dropped.above_display", d)
  if (const auto most = blob.metadata.find("dropped_most"); most != blob.metadata.end()) t.dropped_most = std::strtof(most->second.c_str(), nullptr);
  uint64_t sum = 0;
  for (uint64_t i = 0; i < d; ++i) {
    sum += t.dropped.count[i];
    if (t.dropped.leaf[i] >= s.ledger.spans.size() || t.dropped.layer[i] >= s.header.layers || t.dropped.head[i] >= s.header.query_heads)
      return broken("a count of dropped events outside the model or the ledger");
  }
  if (sum != t.events_dropped) return broken("counts of dropped events that do not add up");
  return {};
}

// Findings that the recorder made (of the conversation, not of the file).
Status read_findings(const Blob& blob, SessionData& s) {
  auto grade = blob.get<uint8_t>("grade");
  if (!grade) return std::move(grade).error();
  const uint64_t n = grade->size();
  auto tag = get_strings(blob, "tag", n), message = get_strings(blob, "message", n), where = get_strings(blob, "where", n);
  for (const auto* r : {&tag, &message, &where})
    if (!*r) return r->error();
  for (uint64_t i = 0; i < n; ++i)
    s.findings.push_back({Grade(std::min<uint8_t>((*grade)[i], uint8_t(Grade::error))), (*tag)[i], (*message)[i], (*where)[i], {}});
  return {};
}

Status read_routing(const Blob& blob, TurnRecord& t, const SessionData& s) {
  RoutingColumns& r = t.routing;
  r.layers = uint32_t(std::count(s.header.moe_layer.begin(), s.header.moe_layer.end(), uint8_t(1)));
  r.experts_used = s.header.experts_used;
  const uint64_t n = uint64_t(r.layers) * t.phase.size();
  SPANSCOPE_TAKE(r.ids, uint16_t, "ids", n * r.experts_used)
  SPANSCOPE_TAKE(r.weights, float, "weights", n * r.experts_used)
  SPANSCOPE_TAKE(r.margin, float, "margin", n)
  for (uint16_t id : r.ids)
    if (id >= s.header.experts && id != kNoExpert) return broken("expert " + std::to_string(id) + " of a model with " + std::to_string(s.header.experts));
  return {};
}

Status read_gc(const Blob& blob, SessionData& s) {
  GcRecord gc;
  SPANSCOPE_TAKE(gc.spans, uint32_t, "spans", UINT64_MAX)
  const uint64_t n = gc.spans.size();
  SPANSCOPE_TAKE(gc.until, uint32_t, "until", n)
  GcRecord::Picks& p = gc.picks;
  SPANSCOPE_TAKE(p.span, uint32_t, "picks.span", UINT64_MAX)
  const uint64_t k = p.span.size();
  SPANSCOPE_TAKE(p.layer, uint16_t, "picks.layer", k)
  SPANSCOPE_TAKE(p.phase, uint8_t, "picks.phase", k)
  SPANSCOPE_TAKE(p.expert, uint16_t, "picks.expert", k)
  SPANSCOPE_TAKE(p.count, uint32_t, "picks.count", k)
  SPANSCOPE_TAKE(p.weight, double, "picks.weight", k)
  for (uint64_t i = 0; i < n; ++i)
    if (gc.spans[i] >= s.ledger.spans.size() || (i && gc.spans[i] <= gc.spans[i - 1])) return broken("spans of gc that do not ascend or are not in the ledger");
  const auto layers = uint64_t(std::count(s.header.moe_layer.begin(), s.header.moe_layer.end(), uint8_t(1)));
  for (uint64_t i = 0; i < k; ++i)
    if (p.span[i] >= s.ledger.spans.size() || p.layer[i] >= layers || p.phase[i] > 1 || (p.expert[i] >= s.header.experts && p.expert[i] != kNoExpert))
      return broken("expert picks outside the model or the ledger");
  const auto policy = blob.metadata.find("policy");
  if (policy == blob.metadata.end()) return broken("gc without its policy");
  auto json = parse_json(policy->second, "gc policy");
  if (!json) return std::move(json).error();
  if (!json->is_object()) return broken("gc without its policy");
  gc.theta = value_or<double>(*json, "theta", 0);
  gc.turns = value_or<uint32_t>(*json, "turns", 0);
  gc.measure = value_or<std::string>(*json, "measure", "reads");
  gc.last = value_or<uint32_t>(*json, "last", 0);
  s.gc = std::move(gc);
  return {};
}
#undef SPANSCOPE_TAKE

Status read_closing(const Blob& blob, SessionData& s) {
  ClosingScalars c;
  for (const auto& [name, target] : {std::pair<const char*, std::vector<double>*>{"ema_n", &c.ema_n}, {"ema_triples", &c.ema_triples},
                                     {"ema_sink", &c.ema_sink}, {"ema_u", &c.ema_u}, {"sum_n", &c.sum_n}, {"sum_triples", &c.sum_triples},
                                     {"sum_sink", &c.sum_sink}, {"sum_u", &c.sum_u}}) {
    auto got = blob.get<double>(name, 3 * s.ledger.spans.size());
    if (!got) return std::move(got).error();
    *target = std::move(*got);
  }
  s.closing = std::move(c);
  return {};
}

}  // namespace spanscope::schema
