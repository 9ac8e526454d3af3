// SPDX-License-Identifier: GPL-3.0-or-later
// spanscope report: one self-contained HTML file.
#include <fmt/format.h>

#include "app/commands/command.h"
#include "app/commands/session_json.h"
#include "core/base/files.h"
#include "core/record/session_schema.h"
#include "core/report/report.h"
#include "core/report/text.h"

namespace spanscope {
namespace {

struct ReportCommandOptions {
  std::string session, output, view, redact, theme = "light";
  float theta = 0.30f, factor = 0;
  uint32_t read_min = 0;
  size_t rows = 36;
  bool force = false;
};

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

int run(const ReportCommandOptions& o, const Context& context) {
  if (ends_with(o.output, ".pdf"))
    return report_error(make_error(ErrorCode::unsupported, "SPAN-USAGE", "PDF is written by the desktop program: spanscope-gui " + shell_quote(o.session) + " --export " + shell_quote(o.output), o.output));
  if (!ends_with(o.output, ".html") && !ends_with(o.output, ".htm") && o.output != "-")
    return report_error(make_error(ErrorCode::unsupported, "SPAN-USAGE", "expected a name that ends in .html (tables as CSV and JSON: spanscope export)", o.output));
  auto session = load_session(o.session);
  if (!session) return report_error(session.error());
  const SessionData& s = **session;
  if (!(o.theta > 0 && o.theta < 0.9f)) return report_error(make_error(ErrorCode::invalid, "SPAN-USAGE", "expected a number between 0 and 0.9", "--theta"));
  if (o.theta < s.header.theta_rec)
    return report_error(make_error(ErrorCode::invalid, "SPAN-THETA",
                                   fmt::format("the session holds reads from {:.2f} up, {:.2f} was asked for; record again with --theta-rec {:.2f}", s.header.theta_rec, o.theta, o.theta), o.session));
  ReportOptions options;
  options.reads = {o.theta, o.factor, o.read_min};
  options.predicate = o.view;
  options.map_rows = o.rows;
  options.redact = !o.redact.empty();
  options.session_path = o.session;
  options.program_version = SPANSCOPE_VERSION;
  options.command = "spanscope report " + (options.redact ? std::string("SESSION.span") : shell_quote(o.session)) + fmt::format(" --theta {:.2f}", o.theta);
  if (!o.view.empty() && !options.redact) options.command += " --view " + shell_quote(o.view);
  if (options.redact) options.command += " --redact " + o.redact;
  options.command += " -o report.html";
  auto report = build_report(s, options);
  if (!report) return report_error(report.error());
  if (auto written = write_file(o.output, report_html(*report), o.force); !written) return report_error(written.error());
  if (o.output != "-" && !options.redact) note(context, o.output + " holds words of the conversation");
  return !s.finished || has_loss(s.findings) ? kExitLoss : kExitOk;
}

}  // namespace

void add_report(CLI::App& parent, Context& context) {
  auto o = std::make_shared<ReportCommandOptions>();
  auto* c = parent.add_subcommand("report", "What was read, as one HTML file without scripts or network");
  c->footer("Example:\n  spanscope report demo12.span -o report.html");
  c->add_option("session", o->session, "Session file")->required();
  c->add_option("--output,-o", o->output, "FILE.html, or - for stdout")->required();
  c->add_option("--view", o->view, "Predicate: the rows of the map (default: the most read messages)");
  c->add_option("--theta", o->theta, "Strength from which a look counts as a read (default 0.30)");
  c->add_option("--read-factor", o->factor, "A larger factor than recorded");
  c->add_option("--read-min", o->read_min, "Reads within 16 rows that make a span read");
  c->add_option("--rows", o->rows, "At most so many rows in the map (default 36)")->check(CLI::Range(1, 400));
  c->add_option("--redact", o->redact, "text or names: ids instead of names, no words of the conversation")->check(CLI::IsMember({"text", "names"}));
  c->add_option("--theme", o->theme, "light (reports are always light)")->check(CLI::IsMember({"light"}));
  c->add_flag("--force", o->force, "Overwrite an existing output");
  c->callback([o, &context] { context.run = [o, &context] { return run(*o, context); }; });
}

}  // namespace spanscope
