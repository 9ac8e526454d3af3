// SPDX-License-Identifier: GPL-3.0-or-later
// spanscope view: the spans that a predicate or preset chooses, as references with the scalar that chose each.
#include <fmt/format.h>

#include <cstdio>

#include "app/commands/command.h"
#include "app/commands/session_json.h"
#include "core/record/session_schema.h"
#include "core/view/view.h"

namespace spanscope {
namespace {

struct ViewOptions {
  std::string session, predicate, preset, unit = "reads", rows, level = "message";
  uint32_t turn = 0, read_min = 0;
  float theta = 0.30f, factor = 0;
  size_t limit = 0;
  bool with_sinks = false, with_request = false;
};

Result<RowSet> parse_rows(const std::string& text) {
  if (text == "prompt") return RowSet::prompt;
  if (text == "answer") return RowSet::answer;
  if (text == "all") return RowSet::all;
  if (text == "consumer" || text.empty()) return RowSet::consumer;
  return make_error(ErrorCode::invalid, "SPAN-USAGE", "expected answer, consumer, all or prompt, found \"" + text + "\"", "--rows");
}

const char* state_name(ValueState s) { return s == ValueState::value ? "value" : s == ValueState::idle ? "idle" : "missing"; }

int run(const ViewOptions& o, const Context& context) {
  auto session = load_session(o.session);
  if (!session) return report_error(session.error());
  const SessionData& s = **session;
  ViewQuery query;
  query.predicate = o.predicate;
  query.preset = o.preset;
  query.turn = o.turn ? o.turn - 1 : kNone32;
  auto measure = parse_measure(o.unit);
  if (!measure) return report_error(measure.error());
  auto rows = parse_rows(o.rows);
  if (!rows) return report_error(rows.error());
  if (!(o.theta > 0 && o.theta < 0.9f))
    return report_error(make_error(ErrorCode::invalid, "SPAN-USAGE", "expected a number between 0 and 0.9", "--theta"));
  if (o.theta < s.header.theta_rec)
    return report_error(make_error(ErrorCode::invalid, "SPAN-THETA",
                                   fmt::format("the session holds reads from {:.2f} up, {:.2f} was asked for; record again with --theta-rec {:.2f}",
                                               s.header.theta_rec, o.theta, o.theta), o.session));
  query.settings = {*measure, *rows, {o.theta, o.factor, o.read_min}};
  query.level = o.level == "leaf" ? Level::leaf : Level::message;
  query.with_sinks = o.with_sinks;
  query.with_request = o.with_request;
  query.limit = o.limit;
  auto view = run_view(s, query);
  if (!view) return report_error(view.error());
  const int status = !s.finished || has_loss(s.findings) ? kExitLoss : kExitOk;

  if (context.json) {
    OrderedJson refs = OrderedJson::array();
    for (const ViewRef& r : view->refs) {
      const Span& span = s.ledger[r.span];
      refs.push_back({{"span", r.span}, {"message", index_or_null(span.message)}, {"role", span.role}, {"name", span.name},
                      {"from", r.from}, {"len", r.len}, {"scalar", r.scalar},
                      {"value", r.state == ValueState::value ? number_or_null(r.value) : OrderedJson()},
                      {"why", r.state == ValueState::value ? OrderedJson() : OrderedJson(r.state == ValueState::missing && s.gc.dropped(r.span, s.turns[view->turn].turn) ? "missing: gc" : state_name(r.state))},
                      {"tier", tier_name(r.tier)}, {"verdict", verdict_name(r.verdict)}});
    }
    OrderedJson document = {{"session", o.session}, {"turn", view->turn + 1}, {"predicate", view->predicate}, {"preset", view->preset},
                            {"caption", view->caption}, {"refs", refs}, {"tokens", view->tokens}, {"tokens_of", view->tokens_of},
                            {"reads", view->reads}, {"reads_of", view->reads_of}, {"share", number_or_null(view->share)},
                            {"findings", findings_json(view->findings)}};
    std::puts(dump(document).c_str());
    return status;
  }
  fmt::print("{}\n\n", view->caption);
  fmt::print("{:>6} {:>7} {:>9} {:<10} {:>11} {:<12} {:<8} {}\n", "span", "from", "tokens", "role", "value", "scalar", "verdict", "name");
  for (const ViewRef& r : view->refs) {
    const Span& span = s.ledger[r.span];
    const std::string value = r.state != ValueState::value ? state_name(r.state) : r.value == double(int64_t(r.value)) ? fmt::format("{}", int64_t(r.value)) : fmt::format("{:.5f}", r.value);
    fmt::print("{:>6} {:>7} {:>9} {:<10} {:>11} {:<12} {:<8} {}\n", r.span, r.from, r.len, span.role, value, r.scalar, verdict_name(r.verdict), span.name);
  }
  fmt::print("\n{} spans, {} of {} tokens, {} of {} reads\n", view->refs.size(), view->tokens, view->tokens_of, view->reads, view->reads_of);
  for (const Finding& f : view->findings) fmt::print("{}: {}\n", grade_name(f.grade), f.message);
  return status;
}

}  // namespace

void add_view(CLI::App& parent, Context& context) {
  auto o = std::make_shared<ViewOptions>();
  auto* c = parent.add_subcommand("view", "The spans that a predicate or preset chooses");
  std::string fields = "Example:\n  spanscope view demo12.span 'total_reads >= 4 and role = user'\n\nFields of the predicate language:\n";
  for (const FieldHelp& f : predicate_fields()) fields += "  " + f.name + std::string(f.name.size() < 16 ? 16 - f.name.size() : 1, ' ') + f.meaning + (f.unit.empty() ? "" : " (" + f.unit + ")") + "\n";
  c->footer(fields);
  c->add_option("session", o->session, "Session file")->required();
  c->add_option("predicate", o->predicate, "For example: reads >= 3 and not role = system");
  c->add_option("--preset", o->preset, "hottest, dead-weight or cold")->check(CLI::IsMember({"hottest", "dead-weight", "cold"}));
  c->add_option("--turn", o->turn, "Turn from 1 (default: the last one that has an answer)")->check(CLI::Range(1u, 100000000u));
  c->add_option("--unit", o->unit, "reads, share, mass, density or lift");
  c->add_option("--rows", o->rows, "Rows of the ratio units: answer, consumer (default), all or prompt");
  c->add_option("--theta", o->theta, "Strength from which a look counts as a read (default 0.30)");
  c->add_option("--read-factor", o->factor, "A larger factor than recorded");
  c->add_option("--read-min", o->read_min, "Reads within 16 rows that make a span read");
  c->add_option("--level", o->level, "message or leaf")->check(CLI::IsMember({"message", "leaf"}));
  c->add_option("--limit", o->limit, "At most so many spans");
  c->add_flag("--with-sinks", o->with_sinks, "Sinks may be in the view");
  c->add_flag("--with-request", o->with_request, "Ready-made views keep the message directly before the answer");
  c->callback([o, &context] { context.run = [o, &context] { return run(*o, context); }; });
}

}  // namespace spanscope
