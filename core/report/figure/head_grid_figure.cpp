// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/report/figure/head_grid_figure.h"

#include <algorithm>
#include <cmath>

namespace spanscope {
namespace {

double luminance(Color c) {
  const auto linear = [](uint8_t v) {
    const double x = v / 255.0;
    return x <= 0.04045 ? x / 12.92 : std::pow((x + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * linear(c.r) + 0.7152 * linear(c.g) + 0.0722 * linear(c.b);
}
// Black or white, whichever stands out more.
Color ink_on(Color c) { return luminance(c) > 0.179 ? Color{0, 0, 0, 255} : Color{255, 255, 255, 255}; }

class Painter {
 public:
  explicit Painter(DisplayList& list) : list_(list) {}
  void rect(double x, double y, double w, double h, Color fill, uint64_t id = 0) {
    DrawItem i;
    i.kind = DrawItem::Kind::rect;
    i.x = x, i.y = y, i.w = w, i.h = h, i.fill = fill, i.id = id, i.stroke_width = 0;
    list_.items.push_back(std::move(i));
  }
  void outline(double x, double y, double w, double h, Color stroke, double width) {
    DrawItem i;
    i.kind = DrawItem::Kind::rect;
    i.x = x, i.y = y, i.w = w, i.h = h, i.stroke = stroke, i.stroke_width = width;
    list_.items.push_back(std::move(i));
  }
  void line(double x, double y, double dx, double dy, Color stroke, double width = 1) {
    DrawItem i;
    i.kind = DrawItem::Kind::line;
    i.x = x, i.y = y, i.w = dx, i.h = dy, i.stroke = stroke, i.stroke_width = width;
    list_.items.push_back(std::move(i));
  }
  void polyline(std::vector<std::pair<double, double>> points, Color stroke) {
    DrawItem i;
    i.kind = DrawItem::Kind::polyline;
    i.points = std::move(points), i.stroke = stroke;
    list_.items.push_back(std::move(i));
  }
  void polygon(std::vector<std::pair<double, double>> points, Color fill) {
    DrawItem i;
    i.kind = DrawItem::Kind::polygon;
    i.points = std::move(points), i.fill = fill, i.stroke_width = 0;
    list_.items.push_back(std::move(i));
  }
  void text(double x, double y, std::string s, Color fill, TextAnchor anchor = TextAnchor::start, double size = 10.5,
            bool bold = false, uint64_t id = 0) {
    DrawItem i;
    i.kind = DrawItem::Kind::text;
    i.x = x, i.y = y, i.text = std::move(s), i.fill = fill, i.anchor = anchor, i.size = size, i.bold = bold, i.id = id;
    list_.items.push_back(std::move(i));
  }

 private:
  DisplayList& list_;
};

// Counts per head are small: the ramp's end, 128, is reached at 32 reads.
Color ramp(const Palette& palette, uint32_t reads) { return palette.reads_at(4.0 * reads); }

Color mixed(Color a, Color b, double part) {
  const auto mix = [&](uint8_t x, uint8_t y) { return uint8_t(std::lround(x + (double(y) - x) * part)); };
  return {mix(a.r, b.r), mix(a.g, b.g), mix(a.b, b.b)};
}

}  // namespace

HeadGridPicture head_grid_figure(const HeadGrid& g, const Palette& palette, double width, double height, int selected_layer,
                                 int selected_column) {
  HeadGridPicture p;
  const Color bar = mixed(palette.borderStrong, palette.panel, 0.3);
  const uint32_t per_kv = std::max(1u, g.heads / std::max(1u, g.kv_heads));
  p.group = g.kv_sum ? 1 : per_kv;
  const uint32_t groups = (g.columns + p.group - 1) / std::max(1u, p.group);
  p.group_gap = p.group > 1 ? 9 : 2;
  // A group's bracket needs room for its name.
  const double least = p.group > 1 ? std::max(13.0, 46.0 / p.group) : 24.0;
  const double side = 150, bottom = 56;
  p.left = 54;
  p.top = 46;
  const double room_w = width - p.left - side - (groups ? (groups - 1) * p.group_gap : 0);
  p.cell_w = std::clamp(std::floor(room_w / std::max(1u, g.columns)), least, g.columns <= 8 ? 64.0 : 40.0);
  const double room_h = height - p.top - bottom;
  p.cell_h = std::clamp(std::floor(room_h / std::max(1u, g.layers) * 2) / 2, 13.0, g.layers <= 12 ? 34.0 : 24.0);
  const double grid_w = p.cell_w * g.columns + (groups ? (groups - 1) * p.group_gap : 0);
  const double marginal_x = p.left + grid_w + 22;
  const double bar_room = 88;
  p.list.width = marginal_x + bar_room + 40;
  p.list.height = p.top + g.layers * p.cell_h + bottom;
  p.list.title = "Layers by heads";
  p.list.description = std::to_string(g.readers) + " heads, " + std::to_string(g.total) + " reads";
  Painter d(p.list);

  if (!g.kv_sum && p.group > 1)
    for (uint32_t k = 0; k < groups; ++k) {
      const double x = p.x_of(k * p.group), w = p.cell_w * std::min(p.group, g.columns - k * p.group) - 1;
      d.polyline({{x + 0.5, 20}, {x + 0.5, 15}, {x + w - 0.5, 15}, {x + w - 0.5, 20}}, palette.textMuted);
      const bool narrow = w < 62;
      d.text(x + w / 2, 10, (narrow ? "KV " : "KV head ") + std::to_string(k), palette.text, TextAnchor::middle, 11, true);
    }
  else
    d.text(p.left, 10, g.kv_sum ? "KV heads" : "query heads", palette.text, TextAnchor::start, 11, true);
  d.text(p.left - 8, 36, "layer", palette.textMuted, TextAnchor::end);
  for (uint32_t c = 0; c < g.columns; ++c) {
    const bool on = int(c) == selected_column;
    d.text(p.x_of(c) + p.cell_w / 2, 36, std::to_string(c), on ? palette.accent : palette.textMuted, TextAnchor::middle, 10.5, on,
           head_grid_id(HeadGridItem::column, c));
  }
  d.text(marginal_x, 10, "reads of the layer", palette.text, TextAnchor::start, 11, true);

  const uint32_t layer_top = g.layer_reads.empty() ? 0 : *std::max_element(g.layer_reads.begin(), g.layer_reads.end());
  const double digits = std::min(11.0, p.cell_h - 3);
  for (uint32_t l = 0; l < g.layers; ++l) {
    const double y = p.y_of(l), base = y + p.cell_h / 2 + digits * 0.36;
    const bool on_layer = int(l) == selected_layer;
    d.text(p.left - 8, base, std::to_string(l), on_layer ? palette.accent : palette.textMuted, TextAnchor::end, std::min(10.5, digits),
           on_layer, head_grid_id(HeadGridItem::layer, l));
    for (uint32_t c = 0; c < g.columns; ++c) {
      const HeadCell& cell = g.at(l, c);
      const double x = p.x_of(c);
      const uint64_t id = head_grid_id(HeadGridItem::cell, uint32_t(size_t(l) * g.columns + c));
      if (cell.reads) {
        const Color fill = ramp(palette, cell.reads);
        d.rect(x, y, p.cell_w - 1, p.cell_h - 1, fill, id);
        d.text(x + (p.cell_w - 1) / 2, base, std::to_string(cell.reads), ink_on(fill), TextAnchor::middle, digits, cell.reads >= 4, id);
      } else {
        d.rect(x, y, p.cell_w - 1, p.cell_h - 1, Color{0, 0, 0, 0}, id);  // nothing to see, but it answers the mouse
        d.line(x + 2, y + p.cell_h - 3.5, p.cell_w - 5, 0, palette.zeroLine);
      }
      if (cell.has_habit && cell.habit > g.theta / 3) {
        const double s = std::min(7.0, p.cell_h * 0.4);
        d.polygon({{x, y}, {x + s, y}, {x, y + s}}, palette.threshold);
      }
    }
    const uint32_t n = g.layer_reads[l];
    const double w = layer_top ? double(n) / layer_top * bar_room : 0;
    d.line(marginal_x, y + p.cell_h - 3.5, 18, 0, palette.zeroLine);
    if (n) d.rect(marginal_x, y + 3, w, p.cell_h - 7, on_layer ? palette.accent : bar);
    d.text(marginal_x + (n ? w + 5 : 24), base, std::to_string(n), on_layer ? palette.accent : palette.textMuted, TextAnchor::start,
           std::min(10.5, digits), on_layer);
    if (g.window[l])
      d.text(marginal_x + bar_room + 36, base, "window " + std::to_string(g.window[l]), palette.textMuted, TextAnchor::end, 9);
  }

  const double bars = p.y_of(g.layers) + 6;
  const uint32_t column_top = g.column_reads.empty() ? 0 : *std::max_element(g.column_reads.begin(), g.column_reads.end());
  for (uint32_t c = 0; c < g.columns; ++c) {
    const double x = p.x_of(c);
    const bool on = int(c) == selected_column;
    const double h = column_top ? double(g.column_reads[c]) / column_top * 32 : 0;
    d.line(x + 3, bars + 34.5, p.cell_w - 7, 0, palette.zeroLine);
    if (h > 0) d.rect(x + 3, bars + 34 - h, p.cell_w - 7, h, on ? palette.accent : bar);
    d.text(x + p.cell_w / 2, bars + 47, std::to_string(g.column_reads[c]), on ? palette.accent : palette.textMuted, TextAnchor::middle,
           p.cell_w < 18 ? 8.5 : 10.5, on);
  }
  d.text(p.left - 8, bars + 47, "reads", palette.textMuted, TextAnchor::end);
  d.text(marginal_x, bars + 47, "sum " + std::to_string(g.total), palette.text, TextAnchor::start, 11, true);
  if (selected_layer >= 0 && selected_column >= 0 && uint32_t(selected_layer) < g.layers && uint32_t(selected_column) < g.columns)
    d.outline(p.x_of(uint32_t(selected_column)) - 1.5, p.y_of(uint32_t(selected_layer)) - 1.5, p.cell_w + 2, p.cell_h + 2,
              palette.accent, 2.4);
  return p;
}

}  // namespace spanscope
