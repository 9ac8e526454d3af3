// SPDX-License-Identifier: GPL-3.0-or-later
// A picture as a list of simple shapes, without Qt: the same list is painted on screen (widgets/figure), written as SVG
// (svg.h) and put into reports, so they agree to the pixel. Coordinates are device-independent px, y downwards.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace spanscope {

struct Color {
  uint8_t r = 0, g = 0, b = 0, a = 255;
  bool operator==(const Color&) const = default;
};

enum class TextAnchor : uint8_t { start, middle, end };

struct DrawItem {
  enum class Kind : uint8_t { rect, line, polyline, polygon, text, hatch, clip_begin, clip_end, circle } kind = Kind::rect;
  double x = 0, y = 0, w = 0, h = 0;  // rect, hatch, clip; line: (x,y)-(x+w,y+h); circle: centre (x,y), radius w
  std::vector<std::pair<double, double>> points;  // polyline, polygon
  Color fill{0, 0, 0, 0}, stroke{0, 0, 0, 0};
  double stroke_width = 1;
  std::vector<double> dash;
  double radius = 0;  // rounded rect
  std::string text;   // y is the baseline
  double size = 11;
  bool bold = false, mono = false;
  TextAnchor anchor = TextAnchor::start;
  uint64_t id = 0;    // data behind the shape (0: none); meaning is the figure's
};

struct DisplayList {
  double width = 0, height = 0;
  std::string title, description;  // accessible name and description (SVG title and desc)
  std::vector<DrawItem> items;
};

}  // namespace spanscope
