// SPDX-License-Identifier: GPL-3.0-or-later
// spanscope gc: a smaller session without the turn-by-turn numbers of what was not read for a while.
#include <fmt/format.h>

#include <cstdio>

#include "app/commands/command.h"
#include "app/commands/progress.h"
#include "app/commands/session_json.h"
#include "core/record/session_gc.h"

namespace spanscope {
namespace {

struct GcOptions {
  std::string session, output, by = "reads";
  GcPolicy policy;
  bool force = false;
};

uint64_t of_kind(const std::map<std::string, uint64_t>& bytes, const std::string& kind) {
  const auto at = bytes.find(kind);
  return at == bytes.end() ? 0 : at->second;
}

void print(const GcOptions& o, const GcReport& r, const Context& context) {
  std::map<std::string, uint64_t> kinds = r.before;
  for (const auto& [kind, n] : r.after) kinds.try_emplace(kind, 0);
  kinds.erase("index");
  if (context.json) {
    OrderedJson table = OrderedJson::object();
    for (const auto& [kind, n] : kinds) table[kind] = {{"before", of_kind(r.before, kind)}, {"after", of_kind(r.after, kind)}};
    const OrderedJson document = {{"session", o.session}, {"output", o.output}, {"measure", gc_measure_name(o.policy.measure)}, {"theta", o.policy.theta},
                                  {"turns", o.policy.turns}, {"messages", r.messages}, {"cold_messages", r.cold}, {"spans", r.spans},
                                  {"input_bytes", r.input_bytes}, {"output_bytes", r.output_bytes}, {"bytes_by_kind", table},
                                  {"was_finished", r.was_finished}, {"lossy", r.lossy}, {"findings", findings_json(r.findings)}};
    std::puts(dump(document).c_str());
    return;
  }
  for (const Finding& f : r.findings) fmt::print("{:<8} {} {}\n", grade_name(f.grade), f.tag, f.message);
  fmt::print("{:<12} {:>12} {:>12}\n", "kind", "before", "after");
  for (const auto& [kind, n] : kinds) fmt::print("{:<12} {:>12} {:>12}\n", kind, human_bytes(of_kind(r.before, kind)), human_bytes(of_kind(r.after, kind)));
  fmt::print("{}: {} of {} messages were never above {} {} in the last {} turns; {} instead of {}\n", o.output, r.cold, r.messages, o.policy.theta,
             gc_measure_name(o.policy.measure), o.policy.turns, human_bytes(r.output_bytes), human_bytes(r.input_bytes));
}

int run(GcOptions o, const Context& context) {
  o.policy.measure = o.by == "share" ? GcMeasure::share : o.by == "ema" ? GcMeasure::ema : GcMeasure::reads;
  auto report = gc_session(o.session, o.output, o.policy, o.force);
  if (!report) return report_error(report.error());
  print(o, *report, context);
  return report->lossy ? kExitLoss : kExitOk;
}

}  // namespace

void add_gc(CLI::App& parent, Context& context) {
  auto o = std::make_shared<GcOptions>();
  auto* c = parent.add_subcommand("gc", "Write a smaller session without the turn-by-turn numbers of what was not read for a while");
  c->footer("A message that is older than the last K turns and never above theta in them loses its numbers per turn, layer, head, row\n"
            "and token in all turns before those: they read as missing. Sums through time, spikes, read events, text and a bounded\n"
            "histogram of experts stay.\n"
            "Example:\n  spanscope gc demo12.span -o small.span --theta 0 --turns 4");
  c->add_option("session", o->session, "Session file")->required();
  c->add_option("--output,-o", o->output, "The new session file")->required();
  c->add_option("--theta", o->policy.theta, "Most that counts as cold in one turn")->check(CLI::NonNegativeNumber);
  c->add_option("--turns", o->policy.turns, "How many last turns are looked at, and stay whole")->check(CLI::Range(1, 1 << 20));
  c->add_option("--by", o->by, "reads of the turn; share of its answer rows; ema of that share")->check(CLI::IsMember({"reads", "share", "ema"}));
  c->add_flag("--force", o->force, "Overwrite an existing output");
  c->callback([o, &context] { context.run = [o, &context] { return run(*o, context); }; });
}

}  // namespace spanscope
