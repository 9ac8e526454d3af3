// SPDX-License-Identifier: GPL-3.0-or-later
// spanscope info: what is in a session file.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>

#include "app/commands/command.h"
#include "app/commands/progress.h"
#include "app/commands/session_json.h"
#include "core/file/session_reader.h"
#include "core/record/reads.h"
#include "core/record/session_lazy.h"
#include "core/record/session_schema.h"

namespace spanscope {
namespace {

struct InfoOptions {
  std::string session;
  bool frames = false, spans = false, turns = false;
};

// Above this size only what info prints is read: the heads of the turns, not what was measured in them.
constexpr uint64_t kWholeFile = uint64_t(128) << 20;

struct Shown {
  std::shared_ptr<const SessionData> session;
  std::vector<uint64_t> events;  // per turn
  bool whole = true;             // every frame was read
};

Result<Shown> read_shown(std::shared_ptr<const SessionReader> reader) {
  Shown out;
  if (reader->file_bytes() <= kWholeFile) {
    auto loaded = load_session(*reader);
    if (!loaded) return std::move(loaded).error();
    out.session = std::move(*loaded);
    for (const TurnRecord& t : out.session->turns) out.events.push_back(t.events.size());
    return out;
  }
  auto lazy = LazySession::open(std::move(reader), 0);
  if (!lazy) return std::move(lazy).error();
  auto s = std::make_shared<SessionData>((*lazy)->base());
  for (size_t i = 0; i < (*lazy)->turns(); ++i) {
    auto head = (*lazy)->turn_head(i);
    auto events = (*lazy)->turn_events(i);
    if (!head || !events) {
      const Error& e = head ? events.error() : head.error();
      s->findings.push_back({Grade::loss, e.tag, e.message, e.where, e.offset});
      continue;
    }
    TurnRecord turn = **head;
    turn.new_text = {}, turn.new_ids = {}, turn.new_token_bytes = {}, turn.new_token_end = {};
    if (auto f = dropped_finding(turn, *events)) s->findings.push_back(*f);
    s->turns.push_back(std::move(turn));
    out.events.push_back(*events);
  }
  out.session = std::move(s);
  out.whole = false;
  return out;
}

OrderedJson turns_json(const SessionData& s, const std::vector<uint64_t>& events) {
  OrderedJson out = OrderedJson::array();
  for (size_t i = 0; i < s.turns.size(); ++i) {
    const TurnRecord& t = s.turns[i];
    OrderedJson layout = OrderedJson::array();
    for (const LayoutEntry& e : t.layout)
      layout.push_back({{"span", e.leaf}, {"slot", e.slot}, {"len", e.len}, {"position", e.position}});
    out.push_back({{"turn", t.turn + 1}, {"message", index_or_null(t.message)}, {"open", t.open}, {"cut", t.cut},
                   {"generated", t.generated}, {"answer_rows", t.rows(RowPhase::answer)},
                   {"prompt_rows", t.rows(RowPhase::prompt)}, {"recompute_rows", t.rows(RowPhase::recompute)},
                   {"tokens", t.context}, {"executed", {t.executed_begin, t.executed_end}},
                   {"answer_tokens", {t.answer_begin, t.answer_len}}, {"events", events[i]},
                   {"events_dropped", t.events_dropped}, {"evicted", t.evicted}, {"seconds", t.seconds_prompt + t.seconds_answer},
                   {"layout", std::move(layout)}});
  }
  return out;
}

// Where a span lies: its place in the last turn whose layout holds it; a parent from its first to its last content leaf.
struct Place {
  int64_t from = -1;
  uint64_t len = 0;
};
std::vector<Place> places(const SessionData& s) {
  std::vector<Place> out(s.ledger.spans.size());
  for (auto turn = s.turns.rbegin(); turn != s.turns.rend(); ++turn) {
    std::vector<Place> here(out.size());
    for (const LayoutEntry& e : turn->layout) {
      if (e.leaf >= here.size()) continue;
      auto cover = [&](SpanId id) {
        Place& p = here[id];
        if (p.from < 0) p.from = e.slot;
        p.len = uint64_t(e.slot) + e.len - uint64_t(p.from);
      };
      cover(e.leaf);
      if (s.ledger[e.leaf].kind == SpanKind::content)
        for (SpanId parent : s.ledger.ancestors(e.leaf)) cover(parent);
    }
    for (size_t i = 0; i < out.size(); ++i)
      if (out[i].from < 0) out[i] = here[i];
  }
  return out;
}

OrderedJson spans_json(const SessionData& s) {
  OrderedJson out = OrderedJson::array();
  const auto place = places(s);
  for (const Span& span : s.ledger.spans)
    out.push_back({{"id", span.id}, {"kind", span_kind_name(span.kind)}, {"role", span.role}, {"name", span.name},
                   {"message", index_or_null(span.message)}, {"field", span.field}, {"parent", span_or_null(span.parent)},
                   {"attached_to", span_or_null(span.attached_to)}, {"from", index_or_null(place[span.id].from)},
                   {"len", place[span.id].len}, {"tokens", span.tokens}, {"birth_turn", span.birth + 1},
                   {"source", {span.source.begin, span.source.end}}, {"head_skip", span.head_skip},
                   {"tail_skip", span.tail_skip}, {"pinned", span.pinned}, {"taint", taint_name(span.taint)},
                   {"producer", span.producer}, {"digest", span.digest}, {"replaces", span_or_null(span.replaces)}});
  return out;
}

// The first turn, from 1, of which a span's numbers are there.
std::vector<uint64_t> until_turns(const GcRecord& gc) {
  std::vector<uint64_t> out;
  for (TurnId t : gc.until) out.push_back(uint64_t(t) + 1);
  return out;
}

int run(const InfoOptions& o, const Context& context) {
  auto reader = SessionReader::open(o.session);
  if (!reader) return report_error(reader.error());
  auto shown = read_shown(*reader);
  if (!shown) return report_error(shown.error());
  const SessionData& s = *shown->session;
  if (!shown->whole) note(context, "a large session: its frames are not all read; spanscope verify does that");
  const SessionHeader& h = s.header;
  std::map<std::string, std::pair<uint64_t, uint64_t>> kinds;  // frames, bytes
  for (const FrameInfo& f : (*reader)->frames()) {
    ++kinds[f.kind].first;
    kinds[f.kind].second += f.compressed_bytes;
  }
  const int status = !s.finished || has_loss(s.findings) ? kExitLoss : kExitOk;
  if (context.json) {
    OrderedJson by_kind = OrderedJson::object();
    for (const auto& [kind, value] : kinds) by_kind[kind] = {{"frames", value.first}, {"bytes", value.second}};
    OrderedJson messages = OrderedJson::array();
    for (const MessageInfo& m : s.messages) messages.push_back({{"role", m.role}, {"name", m.name}, {"id", m.id}});
    OrderedJson document = {
        {"session", o.session}, {"session_id", h.session_id}, {"program_version", h.program_version},
        {"finished", s.finished}, {"bytes", s.file_bytes}, {"detail", h.detail}, {"routing", h.routing}, {"text", h.has_text},
        {"rows", h.rows == RowDetail::none ? OrderedJson() : OrderedJson(h.rows == RowDetail::heads ? "heads" : "layers")}, {"pairs", h.pairs},
        {"keys", h.keys == KeyDetail::none ? OrderedJson() : OrderedJson(h.keys == KeyDetail::all ? "all" : "layer0")}, {"values", h.values},
        {"kept_heads", h.kept_heads.empty() ? OrderedJson() : OrderedJson(h.pairs_kept())}, {"stat_windows", h.stat_windows},
        {"model", {{"name", h.model_name}, {"family", h.model_family}, {"path", h.model_path}, {"digest", h.model_digest},
                   {"weights", h.weight_types}, {"layers", h.layers}, {"query_heads", h.query_heads}, {"kv_heads", h.kv_heads},
                   {"head_dim", h.head_dim}, {"experts", h.experts}, {"experts_used", h.experts_used}}},
        {"tokenizer_digest", h.tokenizer_digest}, {"backend", h.backend}, {"threads", h.threads}, {"mode", h.mode},
        {"source", h.source}, {"theta_rec", h.theta_rec}, {"factor", h.factor}, {"cap", h.cap}, {"lambda", h.lambda},
        {"read_min", h.read_min()}, {"messages", messages}, {"turns", turns_json(s, shown->events)}, {"spans", spans_json(s)},
        {"bytes_by_kind", by_kind}, {"findings", findings_json(s.findings)}};
    if (!s.gc.measure.empty())
      document["gc"] = {{"measure", s.gc.measure}, {"theta", s.gc.theta}, {"turns", s.gc.turns}, {"spans", s.gc.spans},
                        {"until_turn", until_turns(s.gc)}};
    if (o.frames) {
      OrderedJson frames = OrderedJson::array();
      for (const FrameInfo& f : (*reader)->frames())
        frames.push_back({{"seq", f.seq}, {"kind", f.kind}, {"version", f.version},
                          {"turn", f.turn == kNone32 ? OrderedJson() : OrderedJson(f.turn + 1)}, {"offset", f.offset},
                          {"bytes", f.compressed_bytes}, {"content_bytes", f.content_bytes}});
      document["frames"] = std::move(frames);
    }
    std::puts(dump(document).c_str());
    return status;
  }
  fmt::print("{}: {}, {}\n", o.session, s.finished ? "finished" : "unfinished", human_bytes(s.file_bytes));
  fmt::print("model     {} ({}, {}): {} layers x {} query heads, {} KV heads\n", h.model_name, h.model_family, h.weight_types,
             h.layers, h.query_heads, h.kv_heads);
  if (h.experts) fmt::print("experts   {} per layer, {} used; routing {}\n", h.experts, h.experts_used, h.routing ? "captured" : "not captured (record with --routing)");
  fmt::print("recorded  {} of {}, by {} with {} threads\n", h.mode, h.source, h.backend, h.threads);
  std::string kept = h.detail;
  if (h.rows != RowDetail::none) kept += h.rows == RowDetail::heads ? ", rows by head" : ", rows";
  if (h.pairs) kept += ", pairs";
  if (h.keys != KeyDetail::none) kept += h.keys == KeyDetail::all ? ", keys" : ", keys of layer 0";
  if (h.values) kept += ", values";
  if (!h.kept_heads.empty()) kept += fmt::format(" ({} of {} heads)", h.pairs_kept().size(), h.layers * h.query_heads);
  fmt::print("detail    {}; text {}; reads from strength {:.2f}\n", kept, h.has_text ? "kept" : h.redacted.empty() ? "not captured (--no-text)" : "redacted", h.theta_rec);
  uint64_t events = 0;
  for (uint64_t n : shown->events) events += n;
  fmt::print("holds     {} turns, {} spans, {} tokens in the last context, {} read events\n", s.turns.size(), s.ledger.spans.size(),
             s.turns.empty() ? 0 : s.turns.back().context, events);
  if (!s.gc.measure.empty())
    fmt::print("gc        {} spans have no numbers of their own before their last turns: never above {} {} in {} turns\n", s.gc.spans.size(), s.gc.theta, s.gc.measure, s.gc.turns);
  fmt::print("sizes    ");
  for (const auto& [kind, value] : kinds) fmt::print(" {} {}", kind, human_bytes(value.second));
  fmt::print("\n");
  if (o.turns) {
    fmt::print("\n{:>5} {:>8} {:>8} {:>7} {:>7} {:>9} {:>7} {:>8} {:>5}\n", "turn", "message", "context", "prompt", "answer", "recompute", "leaves", "events", "left");
    for (size_t i = 0; i < s.turns.size(); ++i) {
      const TurnRecord& t = s.turns[i];
      fmt::print("{:>5} {:>8} {:>8} {:>7} {:>7} {:>9} {:>7} {:>8} {:>5}\n", t.turn + 1, t.message < 0 ? "open" : std::to_string(t.message),
                 t.context, t.rows(RowPhase::prompt), t.rows(RowPhase::answer), t.rows(RowPhase::recompute), t.layout.size(), shown->events[i], t.evicted.size());
    }
  }
  if (o.spans) {
    const auto place = places(s);
    fmt::print("\n{:>5} {:<9} {:<10} {:>7} {:>7} {:>6}  {}\n", "span", "kind", "role", "from", "tokens", "turn", "name");
    for (const Span& span : s.ledger.spans)
      fmt::print("{:>5} {:<9} {:<10} {:>7} {:>7} {:>6}  {}\n", span.id, span_kind_name(span.kind), span.role, place[span.id].from, span.tokens, span.birth + 1, span.name);
  }
  if (o.frames) {
    fmt::print("\n{:>6} {:<10} {:>5} {:>10} {:>9} {:>9}\n", "frame", "kind", "turn", "offset", "bytes", "content");
    for (const FrameInfo& f : (*reader)->frames())
      fmt::print("{:>6} {:<10} {:>5} {:>10} {:>9} {:>9}\n", f.seq, f.kind, f.turn == kNone32 ? std::string("-") : std::to_string(f.turn + 1), f.offset, f.compressed_bytes, f.content_bytes);
  }
  for (const Finding& f : s.findings) fmt::print("{}: {}{}\n", grade_name(f.grade), f.message, f.offset ? fmt::format(" (byte {})", *f.offset) : "");
  return status;
}

}  // namespace

void add_info(CLI::App& parent, Context& context) {
  auto o = std::make_shared<InfoOptions>();
  auto* c = parent.add_subcommand("info", "What is in a session: model, turns, spans, sizes, findings");
  c->footer("Example:\n  spanscope info demo12.span --turns");
  c->add_option("session", o->session, "Session file")->required();
  c->add_flag("--frames", o->frames, "Every frame with kind, place and size");
  c->add_flag("--spans", o->spans, "Every span");
  c->add_flag("--turns", o->turns, "Every turn");
  c->callback([o, &context] { context.run = [o, &context] { return run(*o, context); }; });
}

}  // namespace spanscope
