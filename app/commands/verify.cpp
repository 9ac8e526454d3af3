// SPDX-License-Identifier: GPL-3.0-or-later
// spanscope verify: reads a session whole, checks every frame's bytes, and names what is damaged, missing or out of place.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "app/commands/command.h"
#include "app/commands/session_json.h"
#include "core/file/session_reader.h"
#include "core/record/session_lazy.h"

namespace spanscope {
namespace {

// A session that was not finished is not clean, even when every frame in it can be read.
bool is_clean(const VerifyReport& report) {
  return report.finished && !has_loss(report.findings);
}

struct Turns {
  size_t all = 0, readable = 0;
};

// What the frames say, turn by turn: a frame can be the one that was written and still make no sense.
Turns check_turns(std::shared_ptr<const SessionReader> reader, VerifyReport& report) {
  Turns out;
  const size_t known = reader->findings().size();
  auto add = [&](const Error& e) {
    for (const Finding& f : report.findings)
      if (f.tag == e.tag && f.offset == e.offset && f.where == e.where) return;  // a frame that could not be read
    report.findings.push_back({Grade::loss, e.tag, e.message, e.where, e.offset});
  };
  auto session = LazySession::open(std::move(reader), 0);
  if (!session) {
    add(session.error());
    return out;
  }
  const auto& findings = (*session)->base().findings;
  for (size_t i = known; i < findings.size(); ++i) {
    // What the recorder had to say of the conversation is not the file's fault.
    const bool file = findings[i].tag == "SPAN-TURN-LOST" || findings[i].tag == "SPAN-VERSION";
    if (file) report.findings.push_back(findings[i]);
  }
  out.all = (*session)->turns();
  for (size_t i = 0; i < out.all; ++i) {
    if (auto turn = (*session)->turn(i)) ++out.readable;
    else add(turn.error());
  }
  if (auto closing = (*session)->closing(); !closing) add(closing.error());
  return out;
}

void print_json(const VerifyReport& report, const Turns& turns, const std::string& path, bool clean) {
  OrderedJson grades = OrderedJson::object(), kinds = OrderedJson::object();
  for (Grade g : {Grade::info, Grade::warning, Grade::loss, Grade::error})
    grades[grade_name(g)] = std::count_if(report.findings.begin(), report.findings.end(), [&](const Finding& f) { return f.grade == g; });
  for (const auto& [kind, count] : report.frames_by_kind) kinds[kind] = count;
  const OrderedJson document = {{"session", path},
                                {"clean", clean},
                                {"finished", report.finished},
                                {"frames", report.frames},
                                {"frames_readable", report.frames_readable},
                                {"frames_by_kind", kinds},
                                {"turns", turns.all},
                                {"turns_readable", turns.readable},
                                {"findings_by_grade", grades},
                                {"findings", findings_json(report.findings)}};
  std::puts(dump(document).c_str());
}

int run_verify(const std::string& path, const Context& context) {
  auto reader = SessionReader::open(path);
  if (!reader) return report_error(reader.error());
  VerifyReport report = verify_session(**reader);
  const Turns turns = check_turns(*reader, report);
  const bool clean = is_clean(report);
  if (context.json) {
    print_json(report, turns, path, clean);
  } else {
    for (const Finding& f : report.findings)
      fmt::print("{:<8} {} {}{}{}\n", grade_name(f.grade), f.tag, f.where.empty() ? "" : f.where + ": ", f.message,
                 f.offset ? fmt::format(" (byte {})", *f.offset) : "");
    fmt::print("{}: {}, {} of {} frames and {} of {} turns readable\n", path,
               clean ? "clean" : report.finished ? "finished, with loss" : "unfinished", report.frames_readable,
               report.frames, turns.readable, turns.all);
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
