// SPDX-License-Identifier: GPL-3.0-or-later
// spanscope repair: a new, whole file of what can be read of a damaged or unfinished session; with --redact one without the
// words. The session itself is never touched.
#include "core/file/session_repair.h"

#include <fmt/format.h>

#include <cstdio>
#include <map>

#include "app/commands/command.h"
#include "app/commands/progress.h"
#include "app/commands/session_json.h"
#include "core/record/session_redact.h"

namespace spanscope {
namespace {

struct RepairOptions {
  std::string session, output, redact;
  bool force = false;
};

using Counts = std::map<std::string, uint64_t>;

struct Outcome {
  bool was_finished = false, lossy = false;
  Counts kept, gone;
  uint64_t bytes_left = 0, output_bytes = 0;
  std::vector<Finding> findings;
};

OrderedJson counts_json(const Counts& counts) {
  OrderedJson out = OrderedJson::object();
  for (const auto& [kind, n] : counts) out[kind] = n;
  return out;
}

void print(const RepairOptions& o, const Outcome& r, const char* gone, const Context& context) {
  if (context.json) {
    const OrderedJson document = {{"session", o.session}, {"output", o.output}, {"was_finished", r.was_finished}, {"lossy", r.lossy},
                                  {"kept", counts_json(r.kept)}, {gone, counts_json(r.gone)}, {"bytes_left", r.bytes_left},
                                  {"output_bytes", r.output_bytes}, {"findings", findings_json(r.findings)}};
    std::puts(dump(document).c_str());
    return;
  }
  for (const Finding& f : r.findings)
    fmt::print("{:<8} {} {}{}{}\n", grade_name(f.grade), f.tag, f.where.empty() ? "" : f.where + ": ", f.message,
               f.offset ? fmt::format(" (byte {})", *f.offset) : "");
  Counts both = r.kept;
  for (const auto& [kind, n] : r.gone) both.try_emplace(kind, 0);
  fmt::print("{:<12} {:>8} {:>8}\n", "kind", "kept", gone);
  auto count = [](const Counts& counts, const std::string& kind) {
    const auto it = counts.find(kind);
    return it == counts.end() ? uint64_t(0) : it->second;
  };
  for (const auto& [kind, n] : both) fmt::print("{:<12} {:>8} {:>8}\n", kind, n, count(r.gone, kind));
  fmt::print("{}: {}, {}{}\n", o.output, human_bytes(r.output_bytes),
             r.lossy ? "with loss" : r.was_finished ? "nothing was wrong" : "nothing was lost but what had not been recorded",
             r.bytes_left ? fmt::format("; {} bytes of the old file could not be used", r.bytes_left) : "");
}

int run(const RepairOptions& o, const Context& context) {
  Outcome out;
  if (o.redact.empty()) {
    auto report = repair_session(o.session, o.output, o.force);
    if (!report) return report_error(report.error());
    out = {report->was_finished, report->lossy, report->kept, report->lost, report->bytes_left, report->output_bytes, report->findings};
  } else {
    auto report = redact_session(o.session, o.output, o.redact == "names" ? Redaction::names : Redaction::text, o.force);
    if (!report) return report_error(report.error());
    out = {report->was_finished, report->lossy, report->kept, report->left_out, 0, report->output_bytes, report->findings};
  }
  print(o, out, o.redact.empty() ? "lost" : "left_out", context);
  return out.lossy ? kExitLoss : kExitOk;
}

}  // namespace

void add_repair(CLI::App& parent, Context& context) {
  auto o = std::make_shared<RepairOptions>();
  auto* c = parent.add_subcommand("repair", "Write a new, whole file of what can be read of a session; never touches the old one");
  c->footer("--redact text drops text and token ids, puts places instead of names made of words, and salts digests; names drops\n"
            "authors, message ids, paths and environment variables too. Numbers and structure stay.\n"
            "Exit status: 0 nothing lost, 3 with loss.\nExample:\n  spanscope repair demo12.span -o whole.span");
  c->add_option("session", o->session, "Session file")->required();
  c->add_option("--output,-o", o->output, "The new session file")->required();
  c->add_option("--redact", o->redact, "text or names: leave out what was said")->check(CLI::IsMember({"text", "names"}));
  c->add_flag("--force", o->force, "Overwrite an existing output");
  c->callback([o, &context] { context.run = [o, &context] { return run(*o, context); }; });
}

}  // namespace spanscope
