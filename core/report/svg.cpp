// SPDX-License-Identifier: GPL-3.0-or-later
#include <fmt/format.h>

#include <algorithm>

#include "core/report/pictures.h"
#include "core/report/figure/text_width.h"
#include "core/report/text.h"

namespace spanscope {
namespace {

std::string number(double x) {
  std::string s = fmt::format("{:.2f}", x);
  while (s.back() == '0') s.pop_back();
  if (s.back() == '.') s.pop_back();
  return s == "-0" ? std::string("0") : s;
}

std::string paint(const DrawItem& d) {
  std::string out = d.fill.a ? fmt::format(" fill=\"#{:02X}{:02X}{:02X}\"", d.fill.r, d.fill.g, d.fill.b) : std::string(" fill=\"none\"");
  if (d.fill.a && d.fill.a < 255) out += " fill-opacity=\"" + number(d.fill.a / 255.0) + "\"";
  if (d.stroke.a) {
    out += fmt::format(" stroke=\"#{:02X}{:02X}{:02X}\" stroke-width=\"{}\"", d.stroke.r, d.stroke.g, d.stroke.b, number(d.stroke_width));
    if (d.stroke.a < 255) out += " stroke-opacity=\"" + number(d.stroke.a / 255.0) + "\"";
    if (!d.dash.empty()) {
      out += " stroke-dasharray=\"";
      for (size_t i = 0; i < d.dash.size(); ++i) out.append(i ? "," : "").append(number(d.dash[i]));
      out += "\"";
    }
  }
  return out;
}

std::string points(const DrawItem& d) {
  std::string out;
  for (const auto& [x, y] : d.points) out.append(out.empty() ? "" : " ").append(number(x)).append(",").append(number(y));
  return out;
}

}  // namespace

DrawItem draw_rect(double x, double y, double w, double h, Color fill) {
  DrawItem d;
  d.kind = DrawItem::Kind::rect;
  d.x = x, d.y = y, d.w = w, d.h = h, d.fill = fill;
  return d;
}
DrawItem draw_line(double x, double y, double x2, double y2, Color stroke, double width) {
  DrawItem d;
  d.kind = DrawItem::Kind::line;
  d.x = x, d.y = y, d.w = x2 - x, d.h = y2 - y, d.stroke = stroke, d.stroke_width = width;
  return d;
}
DrawItem draw_text(double x, double y, std::string text, Color fill, double size, TextAnchor anchor, bool bold) {
  DrawItem d;
  d.kind = DrawItem::Kind::text;
  d.x = x, d.y = y, d.text = std::move(text), d.fill = fill, d.size = size, d.anchor = anchor, d.bold = bold;
  return d;
}
DrawItem draw_hatch(double x, double y, double w, double h) {
  DrawItem d;
  d.kind = DrawItem::Kind::hatch;
  d.x = x, d.y = y, d.w = w, d.h = h;
  d.fill = {0xEC, 0xEE, 0xF1}, d.stroke = {0x81, 0x8A, 0x96};
  return d;
}

void ThreeLargest::add(double value, std::string text) {
  if (best_.size() == 3 && !(value > best_.back().first)) return;
  const auto at = std::find_if(best_.begin(), best_.end(), [&](const auto& b) { return value > b.first; });
  best_.insert(at, {value, std::move(text)});
  if (best_.size() > 3) best_.pop_back();
}
std::vector<std::string> ThreeLargest::take() {
  std::vector<std::string> out;
  for (auto& b : best_) out.push_back(std::move(b.second));
  return out;
}

std::string inline_svg(const DisplayList& list, const std::string& prefix, const std::string& alt) {
  std::string body;
  size_t clips = 0, open = 0;
  bool hatched = false;
  for (const DrawItem& d : list.items) {
    const std::string box = fmt::format(" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"", number(d.x), number(d.y), number(std::max(0.0, d.w)), number(std::max(0.0, d.h)));
    switch (d.kind) {
      case DrawItem::Kind::rect:
        body += "<rect" + box + (d.radius > 0 ? " rx=\"" + number(d.radius) + "\"" : "") + paint(d) + "/>";
        break;
      case DrawItem::Kind::hatch:
        hatched = true;
        body += "<rect" + box + " fill=\"url(#" + prefix + "h)\"/>";
        break;
      case DrawItem::Kind::line:
        body += fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"{}/>", number(d.x), number(d.y), number(d.x + d.w), number(d.y + d.h), paint(d));
        break;
      case DrawItem::Kind::polyline: body += "<polyline points=\"" + points(d) + "\"" + paint(d) + " stroke-linejoin=\"round\"/>"; break;
      case DrawItem::Kind::polygon: body += "<polygon points=\"" + points(d) + "\"" + paint(d) + "/>"; break;
      case DrawItem::Kind::circle: body += fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"{}\"{}/>", number(d.x), number(d.y), number(d.w), paint(d)); break;
      case DrawItem::Kind::text: {
        const char* anchor = d.anchor == TextAnchor::middle ? " text-anchor=\"middle\"" : d.anchor == TextAnchor::end ? " text-anchor=\"end\"" : "";
        // Figures are laid out without a font: the width they count on is part of the text, whatever face draws it.
        const std::string shown = visible_text(d.text);
        const std::string length = text_columns(shown) > 3 && !d.mono ? " textLength=\"" + number(text_width(shown, d.size, d.bold)) + "\" lengthAdjust=\"spacingAndGlyphs\"" : "";
        body += fmt::format("<text x=\"{}\" y=\"{}\" font-size=\"{}\"{}{}{}{}{}>{}</text>", number(d.x), number(d.y), number(d.size), anchor, length,
                            d.bold ? " font-weight=\"600\"" : "", d.mono ? " class=\"m\"" : "", paint(d), escape_html(d.text));
        break;
      }
      case DrawItem::Kind::clip_begin:
        body += fmt::format("<clipPath id=\"{0}c{1}\"><rect{2}/></clipPath><g clip-path=\"url(#{0}c{1})\">", prefix, clips++, box);
        ++open;
        break;
      case DrawItem::Kind::clip_end:
        if (open == 0) break;
        body += "</g>";
        --open;
        break;
    }
    body += "\n";
  }
  for (; open > 0; --open) body += "</g>";
  std::string out = fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n", number(list.width), number(list.height), escape_html(alt));
  if (hatched)
    out += "<defs><pattern id=\"" + prefix + "h\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">"
           "<rect width=\"5\" height=\"5\" fill=\"#ECEEF1\"/><rect width=\"1.6\" height=\"5\" fill=\"#818A96\"/></pattern></defs>\n";
  return out + body + "</svg>\n";
}

}  // namespace spanscope
