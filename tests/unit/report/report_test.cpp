// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/report/report.h"

#include <regex>

#include "core/record/reads.h"
#include "core/record/units.h"
#include "core/report/text.h"
#include "core/view/view.h"
#include "tests/gui/support/synthetic_session.h"
#include "tests/support/catch.h"
#include "tests/support/small_session.h"

namespace spanscope {
namespace {

std::string html_of(const SessionData& s, ReportOptions o = {}) {
  auto report = build_report(s, o);
  REQUIRE(report);
  return report_html(*report);
}
bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Every tag is closed in order (void elements apart), no tag name that loads or runs anything, no handlers.
void check_html(const std::string& html) {
  std::vector<std::string> open;
  static const std::regex tag("<(/?)([A-Za-z!][A-Za-z0-9]*)([^<>]*)>");
  size_t tags = 0, brackets = 0;
  for (char c : html) brackets += c == '<';
  for (auto it = std::sregex_iterator(html.begin(), html.end(), tag); it != std::sregex_iterator(); ++it, ++tags) {
    const std::string name = (*it)[2], rest = std::regex_replace(std::string((*it)[3]), std::regex("\"[^\"]*\""), "");
    for (const char* bad : {"script", "iframe", "img", "link", "object", "embed", "form", "base", "audio", "video", "foreignObject", "use", "a"}) CHECK(name != bad);
    CHECK_FALSE(std::regex_search(rest, std::regex("\\s(on[a-z]+|href|src|xlink:href)\\s*=")));
    if (name == "!DOCTYPE" || name == "meta" || (!rest.empty() && rest.back() == '/')) continue;
    if ((*it)[1].length()) {
      REQUIRE_FALSE(open.empty());
      CHECK(open.back() == name);
      open.pop_back();
    } else {
      open.push_back(name);
    }
  }
  CHECK(open.empty());
  CHECK(tags == brackets);  // no < that is not a tag
  CHECK_FALSE(has(html, "http://"));
  CHECK_FALSE(has(html, "https://"));
  for (unsigned char c : html) REQUIRE((c >= 0x20 || c == '\n'));
}

TEST_CASE("text: escaped, visible, well-formed") {
  CHECK(escape_html("<script>alert('x\" & y')</script>") == "&lt;script&gt;alert(&#39;x&quot; &amp; y&#39;)&lt;/script&gt;");
  CHECK(escape_html(std::string("a\0b", 3)) == "a\xE2\x90\x80" "b");
  CHECK(escape_html("\x1b[31m\x7f") == "\xE2\x90\x9B[31m\xE2\x90\xA1");
  CHECK(escape_html("a\xE2\x80\xAE" "b\xE2\x81\xA6" "c") == "a[U+202E]b[U+2066]c");
  CHECK(escape_html("a\xF3\xA0\x81\x81z") == "a[U+E0041]z");  // tag characters hide text
  CHECK(escape_html("\xff\xc0\xaf\xed\xa0\x80") == "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
  CHECK(escape_html("\xF0\x9F\x99\x82 \xE5\x90\x8D") == "\xF0\x9F\x99\x82 \xE5\x90\x8D");
  CHECK(escape_html("cut \xE5\x90") == "cut \xEF\xBF\xBD\xEF\xBF\xBD");
  CHECK(escape_html("two\nlines\tand") == "two lines and");
}

TEST_CASE("text: numbers and shell words") {
  CHECK(grouped(0) == "0");
  CHECK(grouped(999) == "999");
  CHECK(grouped(14736) == "14,736");
  CHECK(grouped(1234567) == "1,234,567");
  CHECK(grouped(-1234) == "\xE2\x88\x92" "1,234");
  CHECK(grouped(INT64_MIN) == "\xE2\x88\x92" "9,223,372,036,854,775,808");
  const std::string sp = "\xC2\xA0";
  CHECK(percent(0) == "0" + sp + "%");
  CHECK(percent(0.00001) == "<" + sp + "0.01" + sp + "%");
  CHECK(percent(0.0063) == "0.63" + sp + "%");
  CHECK(percent(0.107) == "10.7" + sp + "%");
  CHECK(percent(1) == "100" + sp + "%");
  CHECK(percent(std::nan("")) == "\xE2\x80\x93");
  CHECK(fixed2(std::nan("")) == "\xE2\x80\x93");
  CHECK(span_label(7) == "007");
  CHECK(plural(1, "turn", "turns") == "1 turn");
  CHECK(shell_quote("a/b.span") == "a/b.span");
  CHECK(shell_quote("it's $(rm -rf ~)") == "'it'\\''s $(rm -rf ~)'");
  CHECK(shell_quote("-o") == "'-o'");
  CHECK(shell_quote("") == "''");
  CHECK(fit_columns("abcdef", 4) == "abc\xE2\x80\xA6");
  CHECK(text_columns("\xE5\x90\x8D" "a") == 3);
}

TEST_CASE("report: one closed file with every section, the same bytes twice") {
  const auto s = test::synthetic_session();
  ReportOptions o;
  o.session_path = "talk.span", o.command = "spanscope report talk.span -o report.html";
  const std::string html = html_of(*s, o);
  check_html(html);
  CHECK(html == html_of(*s, o));
  for (const char* title : {"What each turn read", "What the last answer read", "How to read these numbers", "Trajectories", "Readers by layer and head", "Experts", "Dead weight",
                            "Missing parts and findings", "Glossary", "The same numbers on the command line", "Provenance"})
    CHECK(has(html, title));
  CHECK(has(html, "default-src 'none'"));
  size_t figures = 0;
  for (size_t at = 0; (at = html.find("role=\"img\"", at)) != std::string::npos; ++at) ++figures;
  CHECK(figures == 4);
  CHECK(has(html, "Largest: "));
}

TEST_CASE("report: hostile words stay words") {
  auto base = test::synthetic_session({7, 6, 4, 4, 2, 0, true, 80});
  SessionData s = *base;
  const std::string evil = std::string("</title></svg><script>alert(1)</script>\"' onload=x \xE2\x80\xAE" "gnp.\xff\x01", 71) + std::string(1, '\0') + "&lt;";
  for (Span& span : s.ledger.spans) {
    span.name = evil;
    if (span.role == "tool") span.role = "<b onclick=1>";
  }
  s.header.model_name = s.header.source = s.header.model_path = s.header.backend = s.header.session_id = evil;
  s.header.knobs = {{evil, evil}};
  s.findings = {{Grade::loss, evil, evil, evil, 5}};
  ReportOptions o;
  o.session_path = "$(touch x)'<img src=x>.span";
  o.command = evil;
  const std::string html = html_of(s, o);
  check_html(html);
  CHECK_FALSE(has(html, "<script"));
  CHECK_FALSE(has(html, "\xE2\x80\xAE"));
  CHECK(has(html, "[U+202E]"));
  CHECK(has(html, "&#39;$(touch x)&#39;\\&#39;&#39;&lt;img src=x&gt;.span&#39;"));
}

TEST_CASE("report: redaction leaves no word of the session") {
  auto base = test::synthetic_session({7, 8, 4, 4, 2, 0, true, 80});
  SessionData s = *base;
  for (Span& span : s.ledger.spans) span.name = "SECRET-" + std::to_string(span.id);
  s.header.source = "SECRET.json", s.header.model_path = "/srv/SECRET/m.gguf", s.path = "SECRET.span";
  ReportOptions o;
  o.session_path = "SECRET.span", o.redact = true;
  CHECK_FALSE(has(html_of(s, o), "SECRET"));
  o.redact = false;
  CHECK(has(html_of(s, o), "SECRET"));
}

TEST_CASE("report: sparse sessions say what is not there") {
  SessionData s = test::small_session();
  std::string html = html_of(s);
  check_html(html);
  CHECK(has(html, "read no message: 0 reads in 2 answer rows"));
  CHECK(has(html, "The model has no experts"));
  CHECK(has(html, "Too early to say"));
  test::add_open_turn_without(s, 1);
  s.turns.back().turn = 4;  // turns 2 to 4 were lost
  s.finished = false;
  html = html_of(s);
  check_html(html);
  CHECK(has(html, "Turns 2 to 4 are not in the file"));
  CHECK(has(html, "The recording did not end"));
  CHECK(has(html, "No answer rows"));
  s.header.experts = 8;
  CHECK(has(html_of(s), "--routing"));
  s.turns.clear();
  auto none = build_report(s, {});
  REQUIRE_FALSE(none);
  CHECK(none.error().tag == "SPAN-NO-TURNS");
}

TEST_CASE("report, view and reads give one number") {
  const auto s = test::synthetic_session();
  ReportOptions o;
  auto report = build_report(*s, o);
  REQUIRE(report);
  const ReportTable* table = nullptr;
  for (const ReportSection& section : report->sections)
    if (section.title == "What the last answer read") table = std::get_if<ReportTable>(&section.blocks.at(0));
  REQUIRE(table);
  REQUIRE(table->rows.size() > 3);
  ViewQuery q;
  q.preset = "hottest", q.with_request = true;
  auto view = run_view(*s, q);
  REQUIRE(view);
  const TurnRecord& turn = s->turns.back();
  const TurnReads reads = reads_of_turn(*s, turn, {});
  const auto sums = turn_sums(*s, turn, RowSet::answer);
  for (size_t i = 0; i < table->rows.size(); ++i) {
    const SpanId id = view->refs.at(i).span;
    CHECK(table->rows[i][0].span == span_label(id));
    CHECK(table->rows[i][3].text == grouped(int64_t(view->refs[i].value)));
    CHECK(int64_t(view->refs[i].value) == reads.reads[id]);
    CHECK(table->rows[i][7].text == percent(sums[id].n / sums[id].triples));
  }
}

TEST_CASE("report: a view chooses the map's rows; a wrong one is an error with its place") {
  const auto s = test::synthetic_session();
  ReportOptions o;
  o.predicate = "role = tool";
  CHECK(has(html_of(*s, o), "The view role = tool"));
  o.predicate = "role > tool";
  auto bad = build_report(*s, o);
  REQUIRE_FALSE(bad);
  CHECK(bad.error().offset == uint64_t(5));
  o.predicate = "reads < 0";  // nothing: still a report
  check_html(html_of(*s, o));
}

TEST_CASE("report: many turns and messages stay one page of figures") {
  const auto s = test::synthetic_session({3, 150, 4, 4, 2, 0, true, 40});
  const std::string html = html_of(*s);
  CHECK(html.size() < 3'000'000);
  check_html(html.size() < 1'500'000 ? html : "");
}

}  // namespace
}  // namespace spanscope
