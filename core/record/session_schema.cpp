// SPDX-License-Identifier: GPL-3.0-or-later
// What the frames hold. Versions: schema_versions.h.
//   session     metadata "header": JSON of SessionHeader
//   ledger      arrays over spans (replacing earlier rows of the same id), strings as one byte array with ends; messages
//   turn_begin  metadata "turn_data": JSON; layout u32 [S,4], phase u8 [rows], evicted u32 [n] when there are any; version 2
//               has kept u32 [n,2]: the slots of the turn before that stay, without which texts cannot be found; ids i32, token_bytes u32, text u8 unless --no-text
//   mass        query_leaves, rows_q, mass_qk, uniform_qk, learned_sink, learned_sink_q, unattributed, spike ..., profile_spans;
//               layer_share f16 (profile_shares.h), or layer_mass f32 where f16 would not do. Version 1 had layer_mass only
//   profile     head_share f16, or head_mass f32, of some layers [layers,heads,2,P], first_layer in the metadata: head detail
//               only. Of chosen heads: [heads kept,2,P], first_pair in the metadata. Version 1 had head_mass only
//   tokenstat, residual, rows, pairs, keys, values   schema_details.cpp
//   reads       events; counts of dropped ones
//   routing     ids, weights, margin
//   turn_end    closes the turn: a turn without it was not finished and is not read
//   closing     sums through time
//   gc          which spans have no turn-by-turn numbers before which turn, their expert picks (session_gc.h); metadata "policy"
//   note        what the recorder had to say about the conversation: grade u8, tag, message, where
#include "core/record/session_schema.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/json.h"
#include "core/record/profile_shares.h"
#include "core/record/schema_parts.h"
#include "core/record/schema_versions.h"

namespace spanscope {
using namespace schema;

namespace {

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
}  // namespace

std::optional<Finding> dropped_finding(const TurnRecord& turn) { return dropped_finding(turn, turn.events.size()); }

std::optional<Finding> dropped_finding(const TurnRecord& turn, uint64_t kept) {
  if (!turn.events_dropped) return std::nullopt;
  return Finding{Grade::warning, "SPAN-EVENTS-DROPPED",
                 fmt::format("turn {}: the weakest {} of {} read events were dropped; their numbers are kept, their rows are not", turn.turn + 1,
                             turn.events_dropped, turn.events_dropped + kept), {}, {}};
}

Status write_findings(SessionWriter& writer, const std::vector<Finding>& findings) {
  Blob blob;
  Strings tag, message, where;
  std::vector<uint8_t> grade;
  for (const Finding& f : findings) grade.push_back(uint8_t(f.grade)), tag.add(f.tag), message.add(f.message), where.add(f.where);
  blob.add<uint8_t>("grade", {grade.size()}, grade);
  tag.put(blob, "tag"), message.put(blob, "message"), where.put(blob, "where");
  return writer.append({"note", kVersion, 0xffffffffu}, std::move(blob));
}

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
  if (!h.redacted.empty()) j["redacted"] = h.redacted;
  j["rows"] = kRowDetails[size_t(h.rows)];
  j["pairs"] = h.pairs;
  j["keys"] = kKeyDetails[size_t(h.keys)];
  j["values"] = h.values;
  j["stat_windows"] = h.stat_windows;
  if (!h.kept_heads.empty()) j["kept_heads"] = h.pairs_kept();
  Blob blob;
  blob.metadata["header"] = j.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
  return writer.append({"session", kVersion, 0xffffffffu}, std::move(blob));
}

Status write_ledger(SessionWriter& writer, const Ledger& ledger, size_t first_span, const std::vector<MessageInfo>& messages, size_t first_message) {
  return write_spans(writer, {ledger.spans.begin() + ptrdiff_t(first_span), ledger.spans.end()}, messages, first_message);
}

Status write_turn(SessionWriter& writer, const TurnRecord& t, const SessionHeader& header, const Ledger& ledger) {
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
  if (!t.kept.empty()) {
    std::vector<uint32_t> kept;
    for (const SlotRange& r : t.kept) kept.insert(kept.end(), {r.begin, r.end});
    begin.add<uint32_t>("kept", {t.kept.size(), 2}, kept);
  }
  if (!t.evicted.empty()) begin.add<uint32_t>("evicted", {t.evicted.size()}, t.evicted);
  if (header.has_text) {
    begin.add<int32_t>("ids", {t.new_ids.size()}, t.new_ids);
    begin.add<uint32_t>("token_bytes", {t.new_token_bytes.size()}, t.new_token_bytes);
    begin.add<uint8_t>("text", {t.new_text.size()}, std::vector<uint8_t>(t.new_text.begin(), t.new_text.end()));
  }
  SPANSCOPE_TRY(writer.append({"turn_begin", t.kept.empty() ? 1u : 2u, t.turn}, std::move(begin)));

  Blob mass;
  mass.add<uint32_t>("query_leaves", {q}, t.query_leaves);
  mass.add<uint32_t>("rows_q", {3, q}, t.rows_q);
  mass.add<float>("mass_qk", {3, q, c}, t.mass_qk);
  mass.add<float>("uniform_qk", {3, q, c}, t.uniform_qk);
  if (!t.gc_mass_qk.empty()) mass.add<float>("gc_mass_qk", {3, q}, t.gc_mass_qk);
  mass.add<float>("learned_sink", {3, l}, t.learned_sink);
  mass.add<float>("unattributed", {3, l}, t.unattributed);
  if (!t.learned_sink_q.empty()) mass.add<float>("learned_sink_q", {3, q}, t.learned_sink_q);
  mass.add<float>("spike", {c}, t.spike);
  mass.add<uint16_t>("spike_layer", {c}, t.spike_layer);
  mass.add<uint16_t>("spike_head", {c}, t.spike_head);
  mass.add<uint32_t>("spike_row", {c}, t.spike_row);
  mass.add<uint32_t>("profile_spans", {t.profile_spans.size()}, t.profile_spans);
  const ProfileRows rows = profile_rows(t, ledger);
  if (const auto shares = to_shares(t.layer_mass, rows, header.query_heads))
    mass.add_f16("layer_share", {l, 2, t.profile_spans.size()}, *shares);
  else
    mass.add<float>("layer_mass", {l, 2, t.profile_spans.size()}, t.layer_mass);
  SPANSCOPE_TRY(writer.append({"mass", version_of("mass"), t.turn}, std::move(mass)));

  // Head profiles: as many layers a frame as its content may be long.
  uint64_t profile_frames = 0;
  if (!t.head_mass.empty()) {
    const uint64_t heads = header.kept_heads.empty() ? header.query_heads : 1, lines = t.head_mass.size() / (heads * 2 * t.profile_spans.size());
    const uint64_t of_layer = heads * 2 * t.profile_spans.size();
    const uint64_t step = std::clamp<uint64_t>(kProfileBytes / std::max<uint64_t>(of_layer * sizeof(float), 1), 1, lines);
    for (uint64_t first = 0; first < lines; first += step, ++profile_frames) {
      const uint64_t count = std::min(step, lines - first);
      Blob profile;
      profile.metadata[header.kept_heads.empty() ? "first_layer" : "first_pair"] = std::to_string(first);
      std::vector<uint64_t> shape{count, 2, t.profile_spans.size()};
      if (header.kept_heads.empty()) shape.insert(shape.begin() + 1, heads);
      const auto part = std::span<const float>(t.head_mass).subspan(first * of_layer, count * of_layer);
      if (const auto shares = to_shares(part, rows, 1)) profile.add_f16("head_share", shape, *shares);
      else profile.add<float>("head_mass", shape, part);
      SPANSCOPE_TRY(writer.append({"profile", version_of("profile"), t.turn}, std::move(profile)));
    }
  }

  if (t.events.size()) {
    const uint64_t n = t.events.size();
    Blob reads;
    reads.add<uint32_t>("row", {n}, t.events.row);
    reads.add<uint32_t>("leaf", {n}, t.events.leaf);
    reads.add<uint16_t>("layer", {n}, t.events.layer);
    reads.add<uint16_t>("head", {n}, t.events.head);
    reads.add<float>("mass", {n}, t.events.mass);
    reads.add<float>("habit", {n}, t.events.habit);
    if (const uint64_t d = t.dropped.size()) {
      reads.add<uint32_t>("dropped.leaf", {d}, t.dropped.leaf);
      reads.add<uint16_t>("dropped.layer", {d}, t.dropped.layer);
      reads.add<uint16_t>("dropped.head", {d}, t.dropped.head);
      reads.add<uint32_t>("dropped.count", {d}, t.dropped.count);
      reads.add<uint32_t>("dropped.above_display", {d}, t.dropped.above_display);
      reads.metadata["dropped_most"] = fmt::format("{:.9g}", t.dropped_most);
    }
    SPANSCOPE_TRY(writer.append({"reads", kVersion, t.turn}, std::move(reads)));
  }
  if (!t.routing.empty()) {
    const uint64_t m = t.routing.layers, n = t.phase.size(), k = t.routing.experts_used;
    Blob routing;
    routing.add<uint16_t>("ids", {m, n, k}, t.routing.ids);
    routing.add<float>("weights", {m, n, k}, t.routing.weights);
    routing.add<float>("margin", {m, n}, t.routing.margin);
    SPANSCOPE_TRY(writer.append({"routing", version_of("routing"), t.turn}, std::move(routing)));
  }
  Blob end;
  end.metadata["events"] = std::to_string(t.events.size());
  end.metadata["routing"] = std::to_string(int(!t.routing.empty()));
  end.metadata["profiles"] = std::to_string(profile_frames);
  SPANSCOPE_TRY(write_details(writer, t, header, end));
  return writer.append({"turn_end", kVersion, t.turn}, std::move(end));
}

Status write_gc(SessionWriter& writer, const GcRecord& gc) {
  Blob blob;
  const GcRecord::Picks& p = gc.picks;
  const uint64_t n = gc.spans.size(), k = p.size();
  blob.add<uint32_t>("spans", {n}, gc.spans);
  blob.add<uint32_t>("until", {n}, gc.until);
  blob.add<uint32_t>("picks.span", {k}, p.span);
  blob.add<uint16_t>("picks.layer", {k}, p.layer);
  blob.add<uint8_t>("picks.phase", {k}, p.phase);
  blob.add<uint16_t>("picks.expert", {k}, p.expert);
  blob.add<uint32_t>("picks.count", {k}, p.count);
  blob.add<double>("picks.weight", {k}, p.weight);
  blob.metadata["policy"] = OrderedJson({{"theta", gc.theta}, {"turns", gc.turns}, {"measure", gc.measure}, {"last", gc.last}}).dump();
  return writer.append({"gc", kVersion, 0xffffffffu}, std::move(blob));
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
}  // namespace spanscope
