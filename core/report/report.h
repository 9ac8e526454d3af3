// SPDX-License-Identifier: GPL-3.0-or-later
// A report as a list of sections, built once from a session and written by one writer per format. Strings here are raw
// (a session's text is untrusted); the writer escapes. No clock and no file access: the same session and settings give
// the same bytes. Any thread.
#pragma once
#include <string>
#include <variant>
#include <vector>

#include "core/base/result.h"
#include "core/record/reads.h"
#include "core/record/session_data.h"
#include "core/report/figure/display_list.h"

namespace spanscope {

struct ReportOptions {
  ReadSettings reads;
  std::string predicate;      // rows of the map: this view; empty: the messages with the most reads
  size_t map_rows = 36;
  bool redact = false;        // names and source give way to ids
  std::string session_path;   // as the commands at the end should name it
  std::string command;        // the call that made the report, for the foot
  std::string program_version;
};

enum class Badge : uint8_t { none, captured, hypothesis, missing };

struct ReportRun {
  enum class Kind : uint8_t { plain, strong, name, code, badge } kind = Kind::plain;  // name: a session's own words
  std::string text;
  Badge badge = Badge::none;
};
using ReportText = std::vector<ReportRun>;

struct ReportFact {
  std::string headline;
  ReportText sentence;
};
struct ReportFacts {
  std::vector<ReportFact> facts;
};
struct ReportParagraph {
  ReportText text;
  bool two_columns = false;
};
struct ReportCell {
  std::string text;
  std::string role;       // a chip with the role's letter before the text
  std::string span;       // the span's number before the text
  bool missing = false;
};
struct ReportColumn {
  std::string title;
  bool number = false;
};
struct ReportTable {
  std::vector<ReportColumn> columns;
  std::vector<std::vector<ReportCell>> rows;
  ReportText caption;
  bool narrow = false;    // as wide as its content
};
struct ReportFigure {
  DisplayList list;
  ReportText caption;
  std::vector<std::string> largest;  // the three largest values, for the text alternative
};
struct ReportDefinitions {
  std::vector<std::pair<std::string, ReportText>> terms;
};
struct ReportCommands {
  std::vector<std::pair<std::string, std::string>> lines;  // what it prints, command
};
using ReportBlock = std::variant<ReportFacts, ReportParagraph, ReportTable, ReportFigure, ReportDefinitions, ReportCommands>;

struct ReportSection {
  std::string title;  // empty: no heading
  std::vector<ReportBlock> blocks;
};
struct Report {
  std::string title, subtitle, foot;
  std::vector<ReportSection> sections;
};

// An error when the session has no turn, or the predicate does not parse.
Result<Report> build_report(const SessionData& session, const ReportOptions& options);

// One self-contained file: no scripts, no network, figures as inline SVG, light colours.
std::string report_html(const Report& report);

std::string plain_text(const ReportText& text);

}  // namespace spanscope
