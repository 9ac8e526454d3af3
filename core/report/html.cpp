// SPDX-License-Identifier: GPL-3.0-or-later
// Report -> one HTML file: no scripts, no network (a content policy says so to the browser as well), figures inline.
#include <fmt/format.h>

#include "core/report/figure/palette.h"
#include "core/report/pictures.h"
#include "core/report/report.h"
#include "core/report/text.h"

namespace spanscope {
namespace {

constexpr const char* kStyle = R"(
:root{--text:#1A1F27;--muted:#47505D;--faint:#5C6573;--line:#CBD1D9;--grid:#E4E8ED;--accent:#1B5CB8;--alt:#F6F7F9;--ok:#176B36;--oksoft:#E2F3E7;--warn:#7A4D00;--warnsoft:#FFF1CF;--miss:#5C6573;--misssoft:#ECEEF1}
*{box-sizing:border-box}
html{background:#EDEFF2}
body{margin:0;color:var(--text);font:13px/19px Inter,"Segoe UI","Helvetica Neue",Arial,"Liberation Sans","DejaVu Sans",sans-serif;font-variant-numeric:tabular-nums}
main{max-width:1000px;margin:0 auto;background:#fff;padding:44px 60px 30px;min-height:100vh}
header{display:flex;align-items:flex-start;gap:16px}
header div{flex:1}
h1{font-size:24px;line-height:30px;font-weight:650;margin:0}
.sub{color:var(--muted);font-size:14px;overflow-wrap:anywhere}
h2{font-size:15px;line-height:20px;font-weight:650;margin:26px 0 9px;padding-bottom:4px;border-bottom:1.5px solid var(--text)}
p{margin:9px 0;overflow-wrap:anywhere}
.lead{color:var(--muted);font-size:12.5px;line-height:18px}
.two{columns:2;column-gap:30px;font-size:12px;line-height:17px}
.facts{display:grid;grid-template-columns:repeat(4,1fr);gap:14px;margin:14px 0 4px}
.facts div{border-top:3px solid var(--accent);padding-top:7px;min-width:0;overflow-wrap:anywhere}
.facts b.h{display:block;font-size:21px;line-height:27px;font-weight:650}
.badge{display:inline-block;border:1px solid;border-radius:4px;padding:0 6px;font-size:11px;line-height:16px;white-space:nowrap}
.captured{color:var(--ok);background:var(--oksoft)}
.hypothesis{color:var(--warn);background:var(--warnsoft)}
.missing{color:var(--miss);background:var(--misssoft)}
figure{margin:0}
svg{display:block;width:100%;height:auto}
svg text{font-family:Inter,"Segoe UI","Helvetica Neue",Arial,"Liberation Sans","DejaVu Sans",sans-serif;white-space:pre;unicode-bidi:isolate}
svg text.m,code,.mono{font-family:"JetBrains Mono","DejaVu Sans Mono",Consolas,monospace}
code{font-size:11.5px}
figcaption,.cap{color:var(--muted);font-size:11.5px;line-height:16px;margin:5px 0 0;overflow-wrap:anywhere}
table{border-collapse:collapse;width:100%;margin-top:2px}
table.narrow{width:auto}table.narrow td+td,table.narrow th+th{padding-left:26px}
th{font-weight:500;text-align:left;color:var(--muted);border-bottom:1px solid var(--line);padding:3px 6px;vertical-align:bottom}
td{padding:3px 6px;vertical-align:top;overflow-wrap:anywhere}
tbody tr:nth-child(even){background:var(--alt)}
.n{text-align:right;white-space:nowrap}
th.n{padding-left:9px}
.none{color:var(--faint)}
.chip{display:inline-block;width:17px;height:17px;border-radius:3px;color:#fff;font-size:10.5px;line-height:17px;font-weight:650;text-align:center}
.s{display:flex}.chip,.id{flex:none;margin-right:6px}.id{color:var(--faint)}
dl{display:grid;grid-template-columns:110px 1fr;gap:4px 14px;margin:4px 0}
dt{font-weight:600}dd{margin:0;color:var(--muted)}
.cmd{margin:7px 0}.cmd span{display:block;color:var(--muted);font-size:12px}
.cmd code{display:block;background:var(--alt);border:1px solid var(--grid);border-radius:4px;padding:4px 8px;white-space:pre-wrap;overflow-wrap:anywhere}
footer{margin-top:34px;border-top:1px solid var(--line);padding-top:6px;color:var(--muted);overflow-wrap:anywhere}
@media (max-width:760px){main{padding:20px 16px}.facts{grid-template-columns:repeat(2,1fr)}.two{columns:1}.wide{overflow-x:auto}.wide svg{min-width:760px}.wide table{min-width:640px}}
@media print{html{background:#fff}main{max-width:none;padding:0}h2{break-after:avoid}figure,tr,.facts div{break-inside:avoid}@page{margin:14mm}}
)";

constexpr const char* kIcon =
    "<svg viewBox=\"0 0 256 256\" aria-hidden=\"true\" style=\"width:46px;height:46px;flex:none\"><rect x=\"12\" y=\"12\" width=\"232\" height=\"232\" rx=\"52\" fill=\"#241C38\" stroke=\"#5B4B80\" stroke-width=\"3\"/>"
    "<rect x=\"60\" y=\"52\" width=\"104\" height=\"22\" rx=\"11\" fill=\"#802E61\"/><rect x=\"60\" y=\"182\" width=\"72\" height=\"22\" rx=\"11\" fill=\"#AC3957\"/>"
    "<rect x=\"60\" y=\"112\" width=\"136\" height=\"32\" rx=\"16\" fill=\"#F4BB6D\"/><g fill=\"none\" stroke=\"#FCF5CB\" stroke-width=\"14\" stroke-linecap=\"round\" stroke-linejoin=\"round\">"
    "<path d=\"M58 92H38v72h20\"/><path d=\"M198 92h20v72h-20\"/></g></svg>";

std::string badge_html(Badge b) {
  switch (b) {
    case Badge::captured: return "<span class=\"badge captured\">captured</span>";
    case Badge::hypothesis: return "<span class=\"badge hypothesis\">hypothesis</span>";
    case Badge::missing: return "<span class=\"badge missing\">not captured</span>";
    case Badge::none: break;
  }
  return "";
}

std::string text_html(const ReportText& text) {
  std::string out;
  for (const ReportRun& r : text) switch (r.kind) {
      case ReportRun::Kind::plain: out += escape_html(r.text); break;
      case ReportRun::Kind::strong: out += "<b>" + escape_html(r.text) + "</b>"; break;
      case ReportRun::Kind::name: out += "<b><bdi>" + escape_html(r.text) + "</bdi></b>"; break;
      case ReportRun::Kind::code: out += "<code>" + escape_html(r.text) + "</code>"; break;
      case ReportRun::Kind::badge: out += badge_html(r.badge); break;
    }
  return out;
}

std::string chip_html(const std::string& role) {
  const Color c = palette(false).role(role);
  return fmt::format("<span class=\"chip\" style=\"background:#{:02X}{:02X}{:02X}\" title=\"{}\">{}</span>", c.r, c.g, c.b, escape_html(role), escape_html(std::string(1, role_letter(role))));
}

struct Writer {
  std::string out;
  size_t figures = 0;
  bool lead = false;  // the next paragraph is the first of the page

  void operator()(const ReportFacts& b) {
    out += "<div class=\"facts\">\n";
    for (const ReportFact& f : b.facts) out += "<div><b class=\"h\">" + escape_html(f.headline) + "</b>" + text_html(f.sentence) + "</div>\n";
    out += "</div>\n";
  }
  void operator()(const ReportParagraph& b) {
    out += std::string("<p") + (b.two_columns ? " class=\"two\"" : lead ? " class=\"lead\"" : "") + ">" + text_html(b.text) + "</p>\n";
    lead = false;
  }
  void operator()(const ReportTable& b) {
    out += std::string("<div class=\"wide\"><table") + (b.narrow ? " class=\"narrow\"" : "") + ">\n<thead><tr>";
    for (const ReportColumn& c : b.columns) out += std::string("<th scope=\"col\"") + (c.number ? " class=\"n\"" : "") + ">" + escape_html(c.title) + "</th>";
    out += "</tr></thead>\n<tbody>\n";
    for (const auto& row : b.rows) {
      out += "<tr>";
      for (size_t i = 0; i < row.size(); ++i) {
        const ReportCell& cell = row[i];
        const bool number = i < b.columns.size() && b.columns[i].number;
        out += std::string("<td") + (number ? cell.missing ? " class=\"n none\"" : " class=\"n\"" : cell.missing ? " class=\"none\"" : "") + ">";
        const bool span = !cell.role.empty();
        if (span) out += "<div class=\"s\">" + chip_html(cell.role) + "<span class=\"id\">" + escape_html(cell.span) + "</span>";
        out += (number ? escape_html(cell.text) : "<bdi>" + escape_html(cell.text) + "</bdi>") + (span ? "</div></td>" : "</td>");
      }
      out += "</tr>\n";
    }
    out += "</tbody></table></div>\n";
    if (!b.caption.empty()) out += "<p class=\"cap\">" + text_html(b.caption) + "</p>\n";
  }
  void operator()(const ReportFigure& b) {
    std::string alt = plain_text(b.caption);
    if (!b.largest.empty()) {
      alt += " Largest:";
      for (size_t i = 0; i < b.largest.size(); ++i) alt += (i ? "; " : " ") + b.largest[i];
      alt += ".";
    }
    const std::string style = b.list.width < 0.95 * kPageWidth ? fmt::format(" style=\"max-width:{:.0f}px\"", b.list.width) : "";
    out += "<figure><div class=\"wide\"" + style + ">" + inline_svg(b.list, fmt::format("f{}", ++figures), alt) + "</div><figcaption>" + text_html(b.caption) + "</figcaption></figure>\n";
  }
  void operator()(const ReportDefinitions& b) {
    out += "<dl>\n";
    for (const auto& [term, text] : b.terms) out += "<dt>" + escape_html(term) + "</dt><dd>" + text_html(text) + "</dd>\n";
    out += "</dl>\n";
  }
  void operator()(const ReportCommands& b) {
    for (const auto& [what, line] : b.lines) out += "<div class=\"cmd\"><span>" + escape_html(what) + "</span><code>" + escape_html(line) + "</code></div>\n";
  }
};

}  // namespace

std::string report_html(const Report& report) {
  Writer w;
  w.out = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" +
          escape_html(report.title + ": " + report.subtitle) + "</title>\n<style>" + kStyle + "</style>\n</head>\n<body>\n<main>\n<header><div><h1>" + escape_html(report.title) +
          "</h1><div class=\"sub\"><bdi>" + escape_html(report.subtitle) + "</bdi></div></div>" + kIcon + "</header>\n";
  w.lead = true;
  size_t number = 0;
  for (const ReportSection& section : report.sections) {
    w.out += "<section>\n";
    if (!section.title.empty()) w.out += fmt::format("<h2>{}. {}</h2>\n", ++number, escape_html(section.title));
    for (const ReportBlock& block : section.blocks) std::visit(w, block);
    w.out += "</section>\n";
  }
  if (!report.foot.empty()) w.out += "<footer><code>" + escape_html(report.foot) + "</code></footer>\n";
  return w.out + "</main>\n</body>\n</html>\n";
}

}  // namespace spanscope
