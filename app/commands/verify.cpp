// SPDX-License-Identifier: GPL-3.0-or-later
// spanscope verify: reads a session whole, checks every frame's bytes, and names what is damaged, missing or out of place.
#include <fmt/format.h>

#include <cstdio>

#include "app/commands/command.h"
#include "core/base/json.h"
#include "core/file/session_reader.h"

namespace spanscope {
namespace {

const char* grade_name(Grade grade) {
  switch (grade) {
    case Grade::info: return "info";
    case Grade::warning: return "warning";
    case Grade::loss: return "loss";
    case Grade::error: return "error";
  }
  return "error";
}

// A session that was not finished is not clean, even when every frame in it can be read.
bool is_clean(const VerifyReport& report) {
  for (const Finding& f : report.findings)
    if (f.grade == Grade::loss || f.grade == Grade::error) return false;
  return report.finished;
}

void print_json(const VerifyReport& report, const std::string& path, bool clean) {
  OrderedJson findings = OrderedJson::array(), grades = OrderedJson::object(), kinds = OrderedJson::object();
  for (Grade g : {Grade::info, Grade::warning, Grade::loss, Grade::error}) grades[grade_name(g)] = 0;
  for (const Finding& f : report.findings) {
    grades[grade_name(f.grade)] = grades[grade_name(f.grade)].get<uint64_t>() + 1;
    OrderedJson one = {{"grade", grade_name(f.grade)}, {"tag", f.tag}, {"message", f.message}, {"where", f.where}};
    one["offset"] = f.offset ? OrderedJson(*f.offset) : OrderedJson(nullptr);
    findings.push_back(std::move(one));
  }
  for (const auto& [kind, count] : report.frames_by_kind) kinds[kind] = count;
  const OrderedJson document = {{"session", path},
                                {"clean", clean},
                                {"finished", report.finished},
                                {"frames", report.frames},
                                {"frames_readable", report.frames_readable},
                                {"frames_by_kind", kinds},
                                {"findings_by_grade", grades},
                                {"findings", findings}};
  std::puts(document.dump(2, ' ', false, OrderedJson::error_handler_t::replace).c_str());
}

int run_verify(const std::string& path, const Context& context) {
  auto report = verify_session(path);
  if (!report) return report_error(report.error());
  const bool clean = is_clean(*report);
  if (context.json) {
    print_json(*report, path, clean);
  } else {
    for (const Finding& f : report->findings)
      fmt::print("{:<8} {} {}{}{}\n", grade_name(f.grade), f.tag, f.where.empty() ? "" : f.where + ": ", f.message,
                 f.offset ? fmt::format(" (byte {})", *f.offset) : "");
    fmt::print("{}: {}, {} of {} frames readable\n", path,
               clean ? "clean" : report->finished ? "finished, with loss" : "unfinished", report->frames_readable,
               report->frames);
  }
  return clean ? kExitOk : kExitLoss;
}

}  // namespace

void add_verify(CLI::App& parent, Context& context) {
  auto session = std::make_shared<std::string>();
  auto* c = parent.add_subcommand("verify", "Check every byte of a session and list what is wrong, by grade");
  c->footer("Exit status: 0 clean, 3 unfinished or readable with loss.\nExample:\n  spanscope verify demo12.span");
  c->add_option("session", *session, "Session file")->required();
  c->callback([session, &context] { context.run = [session, &context] { return run_verify(*session, context); }; });
}

}  // namespace spanscope
