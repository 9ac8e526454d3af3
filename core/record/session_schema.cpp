// SPDX-License-Identifier: GPL-3.0-or-later
// What the frames hold. Every kind is at version 1.
//   session     metadata "header": JSON of SessionHeader
//   ledger      arrays over spans (replacing earlier rows of the same id), strings as one byte array with ends; messages
//   turn_begin  metadata "turn": JSON; layout u32 [S,4], phase u8 [rows]; ids i32, token_bytes u32, text u8 unless --no-text
//   mass        query_leaves, rows_q, mass_qk, uniform_qk, learned_sink, unattributed, spike ..., profile_spans, layer_mass
//   reads       events
//   routing     ids, weights, margin
//   turn_end    closes the turn: a turn without it was not finished and is not read
//   closing     sums through time
#include "core/record/session_schema.h"

#include <algorithm>
#include <cmath>

#include "core/base/json.h"

namespace spanscope {
namespace {

constexpr uint32_t kVersion = 1;

struct Strings {
  std::vector<uint8_t> bytes;
  std::vector<uint64_t> ends;
  void add(const std::string& s) {
    bytes.insert(bytes.end(), s.begin(), s.end());
    ends.push_back(bytes.size());
  }
  void put(Blob& blob, const std::string& name) const {
    blob.add<uint8_t>(name + ".bytes", {bytes.size()}, bytes);
    blob.add<uint64_t>(name + ".ends", {ends.size()}, ends);
  }
};

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

template <class T, class Get>
void column(Blob& blob, const std::string& name, const std::vector<Span>& spans, Get get) {
  std::vector<T> values;
  for (const Span& s : spans) values.push_back(T(get(s)));
  blob.add<T>(name, {values.size()}, values);
}

Status write_spans(SessionWriter& writer, const std::vector<Span>& spans, const std::vector<MessageInfo>& messages, size_t first_message) {
  Blob blob;
  column<uint32_t>(blob, "id", spans, [](const Span& s) { return s.id; });
  column<uint8_t>(blob, "kind", spans, [](const Span& s) { return s.kind; });
  column<uint8_t>(blob, "taint", spans, [](const Span& s) { return s.taint; });
  column<uint32_t>(blob, "parent", spans, [](const Span& s) { return s.parent; });
  column<uint32_t>(blob, "attached_to", spans, [](const Span& s) { return s.attached_to; });
  column<int32_t>(blob, "message", spans, [](const Span& s) { return s.message; });
  column<uint64_t>(blob, "source_begin", spans, [](const Span& s) { return s.source.begin; });
  column<uint64_t>(blob, "source_end", spans, [](const Span& s) { return s.source.end; });
  column<uint32_t>(blob, "head_skip", spans, [](const Span& s) { return s.head_skip; });
  column<uint32_t>(blob, "tail_skip", spans, [](const Span& s) { return s.tail_skip; });
  column<uint32_t>(blob, "birth", spans, [](const Span& s) { return s.birth; });
  column<uint32_t>(blob, "tokens", spans, [](const Span& s) { return s.tokens; });
  column<uint8_t>(blob, "pinned", spans, [](const Span& s) { return s.pinned; });
  column<uint32_t>(blob, "replaces", spans, [](const Span& s) { return s.replaces; });
  Strings role, name, producer, digest, field, m_role, m_name, m_id;
  for (const Span& s : spans) role.add(s.role), name.add(s.name), producer.add(s.producer), digest.add(s.digest), field.add(s.field);
  role.put(blob, "role"), name.put(blob, "name"), producer.put(blob, "producer"), digest.put(blob, "digest"), field.put(blob, "field");
  for (size_t i = first_message; i < messages.size(); ++i) m_role.add(messages[i].role), m_name.add(messages[i].name), m_id.add(messages[i].id);
  m_role.put(blob, "message.role"), m_name.put(blob, "message.name"), m_id.put(blob, "message.id");
  blob.metadata["first_message"] = std::to_string(first_message);
  return writer.append({"ledger", kVersion, 0xffffffffu}, std::move(blob));
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

template <class T>
T value_or(const OrderedJson& json, const char* key, T fallback) {
  const auto it = json.find(key);
  if (it == json.end()) return fallback;
  if constexpr (std::is_same_v<T, std::string>) return it->is_string() ? it->get<std::string>() : fallback;
  else if constexpr (std::is_same_v<T, bool>) return it->is_boolean() ? it->get<bool>() : fallback;
  else return it->is_number() ? it->get<T>() : fallback;
}

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
  if (h.layers == 0 || h.query_heads == 0 || h.layers > 4096 || h.query_heads > 4096)
    return make_error(ErrorCode::corrupt, "SPAN-NO-HEADER",
                      "the header says " + std::to_string(h.layers) + " layers and " + std::to_string(h.query_heads) + " query heads", where);
  auto list = [&](const char* key, auto& out) {
    out.assign(h.layers, 0);
    if (const auto it = j.find(key); it != j.end() && it->is_array())
      for (size_t i = 0; i < it->size() && i < out.size(); ++i)
        if ((*it)[i].is_number_unsigned()) out[i] = (*it)[i].template get<typename std::decay_t<decltype(out)>::value_type>();
  };
  list("window", h.window);
  list("moe_layer", h.moe_layer);
  if (const auto it = j.find("knobs"); it != j.end() && it->is_object())
    for (const auto& [key, value] : it->items())
      if (value.is_string()) h.knobs.emplace_back(key, value.get<std::string>());
  return h;
}

Error broken(const std::string& what) { return make_error(ErrorCode::corrupt, "SPAN-TURN-DATA", what); }

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
    t.layout.push_back(e);
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
  if (q > c) return broken("more query leaves than leaves");
  SPANSCOPE_TAKE(t.rows_q, uint32_t, "rows_q", 3 * q)
  SPANSCOPE_TAKE(t.mass_qk, float, "mass_qk", 3 * q * c)
  SPANSCOPE_TAKE(t.uniform_qk, float, "uniform_qk", 3 * q * c)
  SPANSCOPE_TAKE(t.learned_sink, float, "learned_sink", 3 * l)
  SPANSCOPE_TAKE(t.unattributed, float, "unattributed", 3 * l)
  SPANSCOPE_TAKE(t.spike, float, "spike", c)
  SPANSCOPE_TAKE(t.spike_layer, uint16_t, "spike_layer", c)
  SPANSCOPE_TAKE(t.spike_head, uint16_t, "spike_head", c)
  SPANSCOPE_TAKE(t.spike_row, uint32_t, "spike_row", c)
  SPANSCOPE_TAKE(t.profile_spans, uint32_t, "profile_spans", UINT64_MAX)
  for (SpanId id : t.profile_spans)
    if (id >= s.ledger.spans.size()) return broken("a profile of span " + std::to_string(id) + ", which is not in the ledger");
  SPANSCOPE_TAKE(t.layer_mass, float, "layer_mass", l * 2 * t.profile_spans.size())
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
    if (id >= s.header.experts) return broken("expert " + std::to_string(id) + " of a model with " + std::to_string(s.header.experts));
  return {};
}
#undef SPANSCOPE_TAKE

}  // namespace

Status write_header(SessionWriter& writer, const SessionHeader& h) {
  OrderedJson j = {{"program_version", h.program_version}, {"model_name", h.model_name}, {"model_family", h.model_family},
                   {"model_path", h.model_path}, {"model_digest", h.model_digest}, {"weight_types", h.weight_types},
                   {"tokenizer_digest", h.tokenizer_digest}, {"layers", h.layers}, {"query_heads", h.query_heads},
                   {"kv_heads", h.kv_heads}, {"head_dim", h.head_dim}, {"hidden", h.hidden}, {"vocab", h.vocab},
                   {"experts", h.experts}, {"experts_used", h.experts_used}, {"window", h.window}, {"moe_layer", h.moe_layer},
                   {"backend", h.backend}, {"threads", h.threads}, {"detail", h.detail}, {"routing", h.routing},
                   {"has_text", h.has_text}, {"theta_rec", h.theta_rec}, {"factor", h.factor}, {"cap", h.cap},
                   {"lambda", h.lambda}, {"habit_min_rows", h.habit_min_rows}, {"source", h.source}, {"mode", h.mode}};
  OrderedJson knobs = OrderedJson::object();
  for (const auto& [name, value] : h.knobs) knobs[name] = value;
  j["knobs"] = knobs;
  Blob blob;
  blob.metadata["header"] = j.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
  return writer.append({"session", kVersion, 0xffffffffu}, std::move(blob));
}

Status write_ledger(SessionWriter& writer, const Ledger& ledger, size_t first_span, const std::vector<MessageInfo>& messages, size_t first_message) {
  return write_spans(writer, {ledger.spans.begin() + ptrdiff_t(first_span), ledger.spans.end()}, messages, first_message);
}

Status write_turn(SessionWriter& writer, const TurnRecord& t, const SessionHeader& header) {
  const uint64_t c = t.layout.size(), q = t.query_leaves.size(), l = header.layers;
  OrderedJson j = {{"turn", t.turn}, {"message", t.message}, {"open", t.open}, {"cut", t.cut}, {"generated", t.generated},
                   {"context", t.context}, {"executed_begin", t.executed_begin}, {"executed_end", t.executed_end},
                   {"answer_begin", t.answer_begin}, {"answer_len", t.answer_len}, {"events_dropped", t.events_dropped},
                   {"seconds_prompt", t.seconds_prompt}, {"seconds_answer", t.seconds_answer}};
  Blob begin;
  begin.metadata["turn_data"] = j.dump();
  std::vector<uint32_t> layout;
  for (const LayoutEntry& e : t.layout) layout.insert(layout.end(), {e.leaf, e.slot, e.len, e.position});
  begin.add<uint32_t>("layout", {c, 4}, layout);
  begin.add<uint8_t>("phase", {t.phase.size()}, t.phase);
  if (header.has_text) {
    begin.add<int32_t>("ids", {t.new_ids.size()}, t.new_ids);
    begin.add<uint32_t>("token_bytes", {t.new_token_bytes.size()}, t.new_token_bytes);
    begin.add<uint8_t>("text", {t.new_text.size()}, std::vector<uint8_t>(t.new_text.begin(), t.new_text.end()));
  }
  SPANSCOPE_TRY(writer.append({"turn_begin", kVersion, t.turn}, std::move(begin)));

  Blob mass;
  mass.add<uint32_t>("query_leaves", {q}, t.query_leaves);
  mass.add<uint32_t>("rows_q", {3, q}, t.rows_q);
  mass.add<float>("mass_qk", {3, q, c}, t.mass_qk);
  mass.add<float>("uniform_qk", {3, q, c}, t.uniform_qk);
  mass.add<float>("learned_sink", {3, l}, t.learned_sink);
  mass.add<float>("unattributed", {3, l}, t.unattributed);
  mass.add<float>("spike", {c}, t.spike);
  mass.add<uint16_t>("spike_layer", {c}, t.spike_layer);
  mass.add<uint16_t>("spike_head", {c}, t.spike_head);
  mass.add<uint32_t>("spike_row", {c}, t.spike_row);
  mass.add<uint32_t>("profile_spans", {t.profile_spans.size()}, t.profile_spans);
  mass.add<float>("layer_mass", {l, 2, t.profile_spans.size()}, t.layer_mass);
  SPANSCOPE_TRY(writer.append({"mass", kVersion, t.turn}, std::move(mass)));

  if (t.events.size()) {
    const uint64_t n = t.events.size();
    Blob reads;
    reads.add<uint32_t>("row", {n}, t.events.row);
    reads.add<uint32_t>("leaf", {n}, t.events.leaf);
    reads.add<uint16_t>("layer", {n}, t.events.layer);
    reads.add<uint16_t>("head", {n}, t.events.head);
    reads.add<float>("mass", {n}, t.events.mass);
    reads.add<float>("habit", {n}, t.events.habit);
    SPANSCOPE_TRY(writer.append({"reads", kVersion, t.turn}, std::move(reads)));
  }
  if (!t.routing.empty()) {
    const uint64_t m = t.routing.layers, n = t.phase.size(), k = t.routing.experts_used;
    Blob routing;
    routing.add<uint16_t>("ids", {m, n, k}, t.routing.ids);
    routing.add<float>("weights", {m, n, k}, t.routing.weights);
    routing.add<float>("margin", {m, n}, t.routing.margin);
    SPANSCOPE_TRY(writer.append({"routing", kVersion, t.turn}, std::move(routing)));
  }
  Blob end;
  end.metadata["events"] = std::to_string(t.events.size());
  end.metadata["routing"] = t.routing.empty() ? "0" : "1";
  return writer.append({"turn_end", kVersion, t.turn}, std::move(end));
}

Status write_closing(SessionWriter& writer, const ClosingScalars& c) {
  Blob blob;
  const uint64_t n = c.ema_n.size() / 3;
  for (const auto& [name, values] : {std::pair<const char*, const std::vector<double>*>{"ema_n", &c.ema_n}, {"ema_triples", &c.ema_triples},
                                     {"ema_sink", &c.ema_sink}, {"ema_u", &c.ema_u}, {"sum_n", &c.sum_n}, {"sum_triples", &c.sum_triples},
                                     {"sum_sink", &c.sum_sink}, {"sum_u", &c.sum_u}})
    blob.add<double>(name, {3, n}, *values);
  return writer.append({"closing", kVersion, 0xffffffffu}, std::move(blob));
}

Result<std::shared_ptr<const SessionData>> load_session(const SessionReader& reader) {
  auto s = std::make_shared<SessionData>();
  s->path = reader.path();
  s->file_bytes = reader.file_bytes();
  s->finished = reader.finished();
  s->findings = reader.findings();
  auto lose = [&](const Error& e, const std::string& what) {
    s->findings.push_back({Grade::loss, e.tag, what + ": " + e.message, e.where, e.offset});
  };
  bool have_header = false, ledger_ok = true;
  TurnRecord turn;
  bool open_turn = false, whole = true, have_mass = false, have_reads = false;
  std::string why;
  for (size_t i = 0; i < reader.frames().size(); ++i) {
    const FrameInfo& info = reader.frames()[i];
    static const char* known[] = {"session", "ledger", "turn_begin", "mass", "reads", "routing", "turn_end", "closing"};
    if (std::none_of(std::begin(known), std::end(known), [&](const char* k) { return info.kind == k; })) continue;
    const std::string what = "frame " + std::to_string(info.seq) + " (" + info.kind + (info.turn == 0xffffffffu ? "" : ", turn " + std::to_string(uint64_t(info.turn) + 1)) + ")";
    Status status;
    if (info.version > kVersion) {
      status = make_error(ErrorCode::unsupported, "SPAN-VERSION",
                          "version " + std::to_string(info.version) + ", this program reads up to " + std::to_string(kVersion), reader.path());
    } else if (auto blob = reader.frame(i); !blob) {
      status = std::move(blob).error();
    } else if (info.kind == "session") {
      auto header = read_header(*blob, reader.path());
      if (!header) return std::move(header).error();
      s->header = std::move(*header);
      s->header.session_id = reader.session_id();
      have_header = true;
    } else if (!have_header) {
      continue;
    } else if (info.kind == "ledger") {
      if (ledger_ok) status = read_ledger(*blob, *s);
      if (!status) ledger_ok = false;
    } else if (info.kind == "turn_begin") {
      if (open_turn) s->findings.push_back({Grade::loss, "SPAN-TURN-LOST", "turn " + std::to_string(turn.turn + 1) + " was not finished", {}, {}});
      turn = TurnRecord{};
      open_turn = true;
      whole = true;
      have_mass = have_reads = false;
      status = read_turn_begin(*blob, turn, *s);
    } else if (info.kind == "mass" || info.kind == "reads" || info.kind == "routing") {
      if (!open_turn || info.turn != turn.turn) continue;  // its beginning is lost, which has been said
      if (whole) status = info.kind == "mass" ? read_mass(*blob, turn, *s) : info.kind == "reads" ? read_events(*blob, turn, *s) : read_routing(*blob, turn, *s);
      have_mass = have_mass || (info.kind == "mass" && status);
      have_reads = have_reads || (info.kind == "reads" && status);
    } else if (info.kind == "turn_end") {
      if (!open_turn || info.turn != turn.turn) {
        s->findings.push_back({Grade::loss, "SPAN-TURN-LOST", "turn " + std::to_string(uint64_t(info.turn) + 1) + " cannot be read", {}, {}});
        continue;
      }
      const auto events = blob->metadata.find("events"), routed = blob->metadata.find("routing");
      if (events == blob->metadata.end() || events->second != std::to_string(turn.events.size())) whole = false;
      if (routed != blob->metadata.end() && (routed->second == "1") != !turn.routing.empty()) whole = false;
      if (whole && have_mass) s->turns.push_back(std::move(turn));
      else s->findings.push_back({Grade::loss, "SPAN-TURN-LOST", "turn " + std::to_string(uint64_t(info.turn) + 1) + " is left out: a part of it cannot be read", {}, {}});
      turn = TurnRecord{};
      open_turn = false;
    } else if (info.kind == "closing") {
      ClosingScalars& c = s->closing;
      for (const auto& [name, target] : {std::pair<const char*, std::vector<double>*>{"ema_n", &c.ema_n}, {"ema_triples", &c.ema_triples},
                                         {"ema_sink", &c.ema_sink}, {"ema_u", &c.ema_u}, {"sum_n", &c.sum_n}, {"sum_triples", &c.sum_triples},
                                         {"sum_sink", &c.sum_sink}, {"sum_u", &c.sum_u}}) {
        auto got = blob->get<double>(name, 3 * s->ledger.spans.size());
        if (got) *target = std::move(*got);
        else status = std::move(got).error();
      }
      if (!status) c = ClosingScalars{};
    }
    if (!status) {
      lose(status.error(), what);
      whole = false;
    }
  }
  if (!have_header) return make_error(ErrorCode::corrupt, "SPAN-NO-HEADER", "the session header cannot be read", reader.path());
  if (open_turn)
    s->findings.push_back({Grade::loss, "SPAN-TURN-LOST", "the file ends inside turn " + std::to_string(turn.turn + 1), {}, {}});
  return std::shared_ptr<const SessionData>(std::move(s));
}

Result<std::shared_ptr<const SessionData>> load_session(const std::string& path) {
  auto reader = SessionReader::open(path);
  if (!reader) return std::move(reader).error();
  return load_session(**reader);
}

}  // namespace spanscope
