// SPDX-License-Identifier: GPL-3.0-or-later
// spanscope export: the numbers of a session as CSV, JSON or safetensors, by the output's suffix.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>

#include "app/commands/command.h"
#include "app/commands/export_details.h"
#include "app/commands/session_json.h"
#include "app/commands/table.h"
#include "core/base/files.h"
#include "core/file/safetensors.h"
#include "core/record/reads.h"
#include "core/record/session_schema.h"
#include "core/record/units.h"

namespace spanscope {
namespace {

struct ExportOptions {
  std::string session, what = "reads", output;
  float theta = 0.30f;
  bool force = false;
};

constexpr const char* kPhaseName[3] = {"prompt", "answer", "recompute"};

ExportTable reads_table(const SessionData& s, float theta) {
  ExportTable t;
  t.columns = {"turn", "answer_message", "span", "message", "level", "reads", "read_rate", "spike", "share", "lift", "tokens", "was_read"};
  t.caption = {fmt::format("reads at strength {:.2f}, factor {:.1f}, read_min {}; share and lift over answer rows", theta, s.header.factor, s.header.read_min())};
  for (const TurnRecord& turn : s.turns) {
    if (turn.answer_rows() == 0) continue;
    const TurnReads reads = reads_of_turn(s, turn, {theta, 0, 0});
    const auto sums = turn_sums(s, turn, RowSet::answer);
    for (const Span& span : s.ledger.spans) {
      if (span.id >= reads.reads.size() || reads.reads[span.id] < 0) continue;  // not in the layout
      if (span.kind != SpanKind::content && span.kind != SpanKind::parent) continue;
      const char* level = span.kind == SpanKind::content ? "leaf" : span.parent == kNoSpan ? "message" : "section";
      const Value share = unit_of(sums[span.id], Unit::share, span.tokens, false);
      const Value lift = unit_of(sums[span.id], Unit::lift, span.tokens, false);
      t.rows.push_back({turn.turn + 1, index_or_null(turn.message), span.id, index_or_null(span.message), level, reads.reads[span.id],
                        double(reads.reads[span.id]) / reads.answer_rows, number_or_null(reads.spike[span.id]), number_or_null(share),
                        number_or_null(lift), span.tokens, bool(reads.was_read[span.id])});
    }
  }
  return t;
}

ExportTable events_table(const SessionData& s) {
  ExportTable t;
  t.columns = {"turn", "row", "token", "span", "message", "layer", "head", "mass", "habit"};
  t.caption = {fmt::format("read events from strength {:.2f} up; token = the position that the row predicts", s.header.theta_rec)};
  for (const TurnRecord& turn : s.turns)
    for (size_t i = 0; i < turn.events.size(); ++i) {
      const EventColumns& e = turn.events;
      t.rows.push_back({turn.turn + 1, e.row[i], e.row[i] + 1, e.leaf[i], index_or_null(s.ledger[e.leaf[i]].message), e.layer[i],
                        e.head[i], e.mass[i], e.habit[i]});
    }
  return t;
}

ExportTable mass_table(const SessionData& s) {
  ExportTable t;
  t.columns = {"turn", "phase", "query_span", "span", "mass", "uniform", "rows"};
  t.caption = {"mass of the query span's rows on the span, summed over layers and heads; uniform: what uniform attention would give"};
  for (const TurnRecord& turn : s.turns) {
    const size_t q_count = turn.query_leaves.size(), columns = turn.layout.size();
    for (size_t p = 0; p < 3; ++p)
      for (size_t q = 0; q < q_count; ++q) {
        if (turn.rows_q[p * q_count + q] == 0) continue;
        for (size_t c = 0; c < columns; ++c) {
          const size_t at = (p * q_count + q) * columns + c;
          if (turn.layout[c].slot >= turn.executed_end) continue;
          t.rows.push_back({turn.turn + 1, kPhaseName[p], turn.query_leaves[q], turn.layout[c].leaf, turn.mass_qk[at], turn.uniform_qk[at],
                            turn.rows_q[p * q_count + q]});
        }
      }
  }
  return t;
}

ExportTable layer_table(const SessionData& s) {
  ExportTable t;
  t.columns = {"turn", "layer", "rows", "span", "mass"};
  t.caption = {"mass on the span per layer, summed over heads, kept to about 0.05 %; rows = answer or consumer"};
  for (const TurnRecord& turn : s.turns) {
    const size_t p_count = turn.profile_spans.size();
    for (size_t l = 0; l < s.header.layers; ++l)
      for (size_t set = 0; set < 2; ++set)
        for (size_t p = 0; p < p_count; ++p)
          t.rows.push_back({turn.turn + 1, l, set ? "consumer" : "answer", turn.profile_spans[p], turn.layer_mass[(l * 2 + set) * p_count + p]});
  }
  return t;
}

ExportTable head_table(const SessionData& s) {
  ExportTable t;
  t.columns = {"turn", "layer", "head", "rows", "span", "mass"};
  t.caption = {"mass on the span per layer and query head, kept to about 0.05 %; rows = answer or consumer"};
  for (const TurnRecord& turn : s.turns) {
    size_t at = 0;
    if (turn.head_mass.empty()) continue;
    for (const uint32_t pair : s.header.pairs_kept())
      for (size_t set = 0; set < 2; ++set)
        for (const SpanId span : turn.profile_spans)
          t.rows.push_back({turn.turn + 1, pair / s.header.query_heads, pair % s.header.query_heads, set ? "consumer" : "answer", span, turn.head_mass[at++]});
  }
  return t;
}

ExportTable routing_table(const SessionData& s) {
  ExportTable t;
  t.columns = {"turn", "position", "phase", "moe_layer", "rank", "expert", "weight", "margin"};
  t.caption = {"expert picks in selection order; margin = selection score K minus score K+1; moe_layer counts mixture layers from 0"};
  for (const TurnRecord& turn : s.turns) {
    const RoutingColumns& r = turn.routing;
    const size_t rows = turn.phase.size();
    if (r.empty()) continue;
    for (size_t l = 0; l < r.layers; ++l)
      for (size_t row = 0; row < rows; ++row)
        for (size_t k = 0; k < r.experts_used; ++k) {
          const size_t at = (l * rows + row) * r.experts_used + k;
          t.rows.push_back({turn.turn + 1, turn.executed_begin + row, kPhaseName[std::min<size_t>(turn.phase[row], 2)], l, k, r.ids[at] == kNoExpert ? OrderedJson() : OrderedJson(r.ids[at]),
                            r.weights[at], r.margin[l * rows + row]});
        }
  }
  return t;
}

ExportTable turns_table(const SessionData& s) {
  ExportTable t;
  t.columns = {"turn", "message", "context_tokens", "prompt_rows", "answer_rows", "recompute_rows", "leaves", "events", "reads", "sink_share", "cut", "seconds"};
  t.caption = {"reads at strength 0.30; sink_share over all rows"};
  for (const TurnRecord& turn : s.turns) {
    const TurnReads reads = reads_of_turn(s, turn, {});
    const auto sums = turn_sums(s, turn, RowSet::all);
    double sink = 0, triples = 0;
    for (const Span& span : s.ledger.spans)
      if (span.kind == SpanKind::sink && span.id < sums.size() && sums[span.id].resident) {
        sink = sums[span.id].sink;
        triples = sums[span.id].triples;
      }
    t.rows.push_back({turn.turn + 1, index_or_null(turn.message), turn.context, turn.rows(RowPhase::prompt), turn.rows(RowPhase::answer),
                      turn.rows(RowPhase::recompute), turn.layout.size(), turn.events.size(), reads.total,
                      triples > 0 ? OrderedJson(sink / triples) : OrderedJson(), turn.cut, turn.seconds_prompt + turn.seconds_answer});
  }
  return t;
}

ExportTable spans_table(const SessionData& s, float theta) {
  const ReadHistory history = read_history(s, {theta, 0, 0});
  ExportTable t;
  t.columns = {"span", "kind", "role", "message", "parent", "tokens", "birth_turn", "pinned", "taint", "total_reads", "first_read", "last_read", "name", "digest"};
  t.caption = {fmt::format("total_reads at strength {:.2f} over all recorded turns; first_read and last_read: turns, 0 = never", theta)};
  for (const Span& span : s.ledger.spans)
    t.rows.push_back({span.id, span_kind_name(span.kind), span.role, index_or_null(span.message), span_or_null(span.parent), span.tokens,
                      span.birth + 1, span.pinned, taint_name(span.taint), history.total_reads[span.id], history.first_read[span.id],
                      history.last_read[span.id], span.name, span.digest});
  return t;
}

// The stored arrays of every turn under "tNN." names, exactly as the file holds them.
Blob arrays(const SessionData& s, const std::string& what) {
  Blob blob;
  for (const TurnRecord& t : s.turns) {
    const std::string p = fmt::format("t{:02}.", t.turn + 1);
    const uint64_t q = t.query_leaves.size(), c = t.layout.size(), l = s.header.layers;
    std::vector<uint32_t> leaves;
    for (const LayoutEntry& e : t.layout) leaves.push_back(e.leaf);
    if (what == "mass") {
      blob.add<uint32_t>(p + "leaves", {c}, leaves);
      blob.add<uint32_t>(p + "q_leaves", {q}, t.query_leaves);
      blob.add<uint32_t>(p + "rows_q", {3, q}, t.rows_q);
      blob.add<float>(p + "mass_qk", {3, q, c}, t.mass_qk);
      blob.add<float>(p + "uniform_qk", {3, q, c}, t.uniform_qk);
      blob.add<float>(p + "learned_sink", {3, l}, t.learned_sink);
      blob.add<float>(p + "unattributed", {3, l}, t.unattributed);
      blob.add<float>(p + "spike", {c}, t.spike);
    } else if (what == "layer") {
      blob.add<uint32_t>(p + "spans", {t.profile_spans.size()}, t.profile_spans);
      blob.add<float>(p + "layer", {l, 2, t.profile_spans.size()}, t.layer_mass);
    } else if (what == "head" && !t.head_mass.empty()) {
      blob.add<uint32_t>(p + "spans", {t.profile_spans.size()}, t.profile_spans);
      // Of chosen heads: one line each, `pairs` = layer * query heads + head.
      if (!s.header.kept_heads.empty()) {
        const std::vector<uint32_t> pairs = s.header.pairs_kept();
        blob.add<uint32_t>(p + "pairs", {pairs.size()}, pairs);
        blob.add<float>(p + "head", {pairs.size(), 2, t.profile_spans.size()}, t.head_mass);
        continue;
      }
      blob.add<float>(p + "head", {l, s.header.query_heads, 2, t.profile_spans.size()}, t.head_mass);
    } else if (what == "events") {
      const uint64_t n = t.events.size();
      blob.add<uint32_t>(p + "event_row", {n}, t.events.row);
      blob.add<uint32_t>(p + "event_leaf", {n}, t.events.leaf);
      blob.add<uint16_t>(p + "event_layer", {n}, t.events.layer);
      blob.add<uint16_t>(p + "event_head", {n}, t.events.head);
      blob.add<float>(p + "event_mass", {n}, t.events.mass);
      blob.add<float>(p + "event_habit", {n}, t.events.habit);
    } else if (what == "routing" && !t.routing.empty()) {
      const uint64_t m = t.routing.layers, n = t.phase.size(), k = t.routing.experts_used;
      blob.add<uint16_t>(p + "route_ids", {m, n, k}, t.routing.ids);
      blob.add<float>(p + "route_weights", {m, n, k}, t.routing.weights);
      blob.add<float>(p + "route_margin", {m, n}, t.routing.margin);
      blob.add<uint8_t>(p + "phase", {n}, t.phase);
    }
  }
  return blob;
}

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

int run(const ExportOptions& o, const Context& context) {
  auto session = load_session(o.session, is_detail_export(o.what));
  if (!session) return report_error(session.error());
  const SessionData& s = **session;
  if (o.what == "routing" && !s.header.routing)
    return report_error(make_error(ErrorCode::not_found, "SPAN-NOT-CAPTURED", "routing was not captured; record with --routing", o.session));
  if (const std::string option = detail_option(s.header, o.what); !option.empty())
    return report_error(make_error(ErrorCode::not_found, "SPAN-NOT-CAPTURED", o.what + " were not captured; record with " + option, o.session));
  if (o.what == "head" && s.header.detail == "span")
    return report_error(make_error(ErrorCode::not_found, "SPAN-NOT-CAPTURED", "head profiles were not captured; record with --detail head", o.session));
  if (o.theta < s.header.theta_rec)
    return report_error(make_error(ErrorCode::invalid, "SPAN-THETA",
                                   fmt::format("the session holds reads from {:.2f} up, {:.2f} was asked for", s.header.theta_rec, o.theta), o.session));
  const int status = !s.finished || has_loss(s.findings) ? kExitLoss : kExitOk;
  if (ends_with(o.output, ".safetensors")) {
    if (o.what != "mass" && o.what != "layer" && o.what != "head" && o.what != "events" && o.what != "routing" && !is_detail_export(o.what))
      return report_error(make_error(ErrorCode::unsupported, "SPAN-USAGE", o.what + " is a table with text; write it as .csv or .json", o.output));
    Blob blob = is_detail_export(o.what) ? detail_arrays(s, o.what) : arrays(s, o.what);
    blob.metadata = {{"session", s.header.session_id}, {"what", o.what}, {"model", s.header.model_name}};
    if (auto written = write_safetensors_file(o.output, blob, o.force); !written) return report_error(written.error());
    return status;
  }
  const bool csv = ends_with(o.output, ".csv");
  if (!csv && !ends_with(o.output, ".json") && o.output != "-")
    return report_error(make_error(ErrorCode::unsupported, "SPAN-USAGE", "expected a name that ends in .csv, .json or .safetensors", o.output));
  if (is_detail_export(o.what) && !has_detail_table(o.what))
    return report_error(make_error(ErrorCode::unsupported, "SPAN-USAGE", o.what + " are arrays; write them as .safetensors", o.output));
  ExportTable table;
  if (is_detail_export(o.what)) table = detail_table(s, o.what);
  else if (o.what == "reads") table = reads_table(s, o.theta);
  else if (o.what == "events") table = events_table(s);
  else if (o.what == "mass") table = mass_table(s);
  else if (o.what == "layer") table = layer_table(s);
  else if (o.what == "head") table = head_table(s);
  else if (o.what == "routing") table = routing_table(s);
  else if (o.what == "turns") table = turns_table(s);
  else table = spans_table(s, o.theta);
  table.caption.insert(table.caption.begin(), fmt::format("session {} ({}), model {}", o.session, s.header.session_id, s.header.model_name));
  const std::string text = csv || (o.output == "-" && !context.json) ? table.to_csv() : table.to_json();
  if (auto written = write_file(o.output, text, o.force); !written) return report_error(written.error());
  return status;
}

}  // namespace

void add_export(CLI::App& parent, Context& context) {
  auto o = std::make_shared<ExportOptions>();
  auto* c = parent.add_subcommand("export", "The numbers of a session as CSV, JSON or safetensors");
  c->footer("Example:\n  spanscope export demo12.span --what reads -o reads.csv");
  c->add_option("session", o->session, "Session file")->required();
  c->add_option("--what", o->what, "reads, events, mass, layer, head, routing, turns, spans; tokens, rows, pairs, keys, values")
      ->check(CLI::IsMember({"reads", "events", "mass", "layer", "head", "routing", "turns", "spans", "tokens", "rows", "pairs", "keys", "values"}));
  c->add_option("--output,-o", o->output, "FILE.csv, FILE.json, FILE.safetensors, or - (CSV on stdout; JSON with --json)")->required();
  c->add_option("--theta", o->theta, "Strength from which a look counts as a read (default 0.30)");
  c->add_flag("--force", o->force, "Overwrite an existing output");
  c->callback([o, &context] { context.run = [o, &context] { return run(*o, context); }; });
}

}  // namespace spanscope
