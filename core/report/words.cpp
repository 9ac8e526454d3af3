// SPDX-License-Identifier: GPL-3.0-or-later
// The sections of words: what the numbers mean, what is missing, how to get the same numbers, where they come from.
#include <fmt/format.h>

#include "core/report/build.h"

namespace spanscope {
namespace {

const char* grade_word(Grade g) {
  constexpr const char* words[] = {"note", "warning", "loss", "error"};
  return words[size_t(g)];
}

}  // namespace

ReportSection ReportBuilder::how_to_read() const {
  ReportSection out{"How to read these numbers", {}};
  out.blocks.push_back(ReportParagraph{{run(fmt::format(
      "A read is a moment when one attention head, while the model writes an answer, turns to a span: more than {} of its attention, more than {:g} times what an even spread would give, and more "
      "than {:g} times its habit on that span. Reads are counted, not averaged, because most heads look at sinks and neighbours whatever is asked. A read is a candidate for a cause, not a cause; "
      "only a run without the span says what the answer loses. Missing turns are left out and never counted as zero.",
      fixed2(options.reads.theta), double(session.header.factor), double(session.header.factor)))}, true});
  return out;
}

ReportSection ReportBuilder::missing() const {
  ReportSection out{"Missing parts and findings", {}};
  ReportTable t;
  t.columns = {{"Grade", false}, {"What", false}, {"Where", false}};
  auto add = [&](const char* grade, std::string what, std::string where = {}) { t.rows.push_back({{grade, {}, {}, false}, {std::move(what), {}, {}, false}, {std::move(where), {}, {}, false}}); };
  const SessionHeader& h = session.header;
  if (!session.finished) add("loss", "The recording did not end: turns after the last one here were not written.");
  TurnId expected = 0;
  for (const TurnRecord& turn : session.turns) {
    if (turn.turn > expected)
      add("loss", turn.turn - expected == 1 ? fmt::format("Turn {} is not in the file; it is hatched and counts nowhere.", expected + 1)
                                            : fmt::format("Turns {} to {} are not in the file; they are hatched and count nowhere.", expected + 1, turn.turn));
    expected = turn.turn + 1;
    const std::string where = fmt::format("turn {}", turn.turn + 1);
    if (turn.answer_rows() == 0) add("note", "No answer rows: an open turn, or its answer was not recorded. Its reads are not counted.", where);
    if (turn.cut) add("note", "The answer was cut at the limit, before its end marker.", where);
    if (turn.events_dropped) add("warning", fmt::format("{} read events beyond the strongest were dropped; counts per head stay exact in the file.", grouped(int64_t(turn.events_dropped))), where);
  }
  for (const Finding& f : session.findings)
    add(grade_word(f.grade), f.message + (f.tag.empty() ? "" : " (" + f.tag + ")"), f.where + (f.offset ? fmt::format("{}byte {}", f.where.empty() ? "" : ", ", *f.offset) : ""));
  if (h.detail == "span") add("note", "Mass by head was not captured (reads by head are). Record with --detail head to have it.");
  if (!h.has_text) add("note", "The words were not kept (--no-text); spans have roles and sizes only.");
  if (h.experts && !h.routing) add("note", "Expert routing was not captured. Record with --routing to have it.");
  constexpr size_t kMost = 60;
  const size_t all = t.rows.size();
  if (all > kMost) t.rows.resize(kMost);
  if (t.rows.empty()) {
    out.blocks.push_back(ReportParagraph{{run("Nothing is missing and the file gave no findings.")}, false});
    return out;
  }
  if (all > kMost) t.caption = {run(fmt::format("The first {} of {}.", kMost, all))};
  out.blocks.push_back(std::move(t));
  return out;
}

ReportSection ReportBuilder::glossary() const {
  ReportSection out{"Glossary", {}};
  const std::string min = grouped(read_min);
  ReportDefinitions d;
  d.terms = {
      {"Span", {run("A run of tokens with a name and a role: a message, or a part of one. A long message has several; its numbers are sums over its own words, template markers left out.")}},
      {"Turn", {run("One call of the model. It ends with one assistant message.")}},
      {"Row", {run("One position of the answer (or the prompt) in one pass. The row before a token predicts it. An answer row is one that predicts a token of the answer.")}},
      {"Read", {run("See above. Counted per answer row, layer and head, on spans that end before the row.")}},
      {"Was read", {run(fmt::format("{} or more reads within 16 answer rows in a row, so that a long answer does not add up noise.", min))}},
      {"Habit", {run("What a head gives a span on average before the answer begins. Heads that always rest on a span do not read it.")}},
      {"Spike", {run("The hardest that any head looked at the span in the turn: a part of one row, 0 to 1.")}},
      {"Reader", {run("A head with at least one read of the span, written layer.head, both from 0.")}},
      {"Request", {run("The message directly before the answer. It is nearly always read most.")}},
      {"Share", {run("Part of the average row's attention, sinks included in the whole.")}},
      {"Lift", {run("Mass over what an even spread over the visible tokens would give, sinks left out. 1"), run("\xC3\x97"), run(" means no preference.")}},
      {"Sink", {run("The first tokens, where heads rest when they look for nothing. Shown apart, never read.")}},
      {"Dead weight", {run("Messages of two turns ago or earlier that no turn after their own read. A hypothesis until an ablation confirms it.")}},
      {"Captured", {run("Measured in the forward pass of this recording. "), badge(Badge::captured)}},
      {"Missing", {run("Not captured, not in the context, or lost. An en dash in tables, hatched in pictures; never zero. "), badge(Badge::missing)}},
  };
  out.blocks.push_back(std::move(d));
  return out;
}

ReportSection ReportBuilder::commands() const {
  ReportSection out{"The same numbers on the command line", {}};
  const std::string path = shell_quote(options.redact ? "SESSION.span" : options.session_path.empty() ? session.path : options.session_path);
  const std::string theta = fmt::format("{:.2f}", options.reads.theta);
  ReportCommands c;
  if (answered())
    c.lines.push_back({"What the last answer read", fmt::format("spanscope view {} --preset hottest --with-request --unit reads --theta {} --turn {}", path, theta, turn().turn + 1)});
  if (!options.predicate.empty() && !options.redact) c.lines.push_back({"The view of the map", fmt::format("spanscope view {} {} --theta {}", path, shell_quote(options.predicate), theta)});
  c.lines.push_back({"Every cell of the map", fmt::format("spanscope export {} --what reads --theta {} -o reads.csv", path, theta)});
  c.lines.push_back({"Every read, with word, layer and head", fmt::format("spanscope export {} --what events -o events.csv", path)});
  c.lines.push_back({"Dead weight", fmt::format("spanscope view {} --preset dead-weight --theta {}", path, theta)});
  c.lines.push_back({"Turns, sinks", fmt::format("spanscope export {} --what turns -o turns.csv", path)});
  if (session.header.routing) c.lines.push_back({"Expert picks", fmt::format("spanscope export {} --what routing -o routing.csv", path)});
  c.lines.push_back({"Is the file whole", fmt::format("spanscope verify {}", path)});
  out.blocks.push_back(std::move(c));
  return out;
}

ReportSection ReportBuilder::provenance() const {
  ReportSection out{"Provenance", {}};
  const SessionHeader& h = session.header;
  ReportTable t;
  t.columns = {{"What", false}, {"Value", false}};
  t.narrow = true;
  auto add = [&](const char* what, const std::string& value) { t.rows.push_back({{what, {}, {}, false}, {value.empty() ? "\xE2\x80\x93" : value, {}, {}, value.empty()}}); };
  add("Session", h.session_id);
  if (!options.redact) add("Session file", options.session_path.empty() ? session.path : options.session_path);
  if (!options.redact) add("Conversation", h.source);
  add("Model", h.model_name + " (" + h.model_family + ")");
  if (!options.redact) add("Model file", h.model_path);
  add("Model digest", h.model_digest);
  add("Weights", h.weight_types);
  add("Tokenizer digest", h.tokenizer_digest);
  add("Shape", fmt::format("{} layers, {} query heads, {} KV heads, head size {}, hidden {}, vocabulary {}", h.layers, h.query_heads, h.kv_heads, h.head_dim, h.hidden, grouped(h.vocab)));
  if (h.experts) add("Experts", fmt::format("{} per mixture layer, {} work on a token; routing {}", h.experts, h.experts_used, h.routing ? "captured" : "not captured"));
  add("Backend", fmt::format("{}, {}", h.backend, plural(h.threads, "thread", "threads")));
  add("Mode", h.mode);
  add("Reads", fmt::format("strength {} (recorded from {}), factor {:g}, cap {}, read_min {}, habit from {} rows", fixed2(options.reads.theta), fixed2(h.theta_rec),
                           double(std::max(options.reads.factor, h.factor)), fixed2(h.cap), read_min, h.habit_min_rows));
  add("Decay", fmt::format("lambda {:g}", h.lambda));
  for (const auto& [name, value] : h.knobs) add(name.c_str(), value);
  add("Recorded by", "spanscope " + h.program_version);
  add("Report by", options.program_version.empty() ? "" : "spanscope " + options.program_version);
  out.blocks.push_back(std::move(t));
  return out;
}

}  // namespace spanscope
