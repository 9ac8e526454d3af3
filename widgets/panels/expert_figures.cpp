// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/panels/expert_figures.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace spanscope::panels {
namespace {

constexpr double kTop = 0.40;  // part of the picks at which the colour ends

class List {
 public:
  explicit List(DisplayList& list) : list_(list) {}
  void rect(double x, double y, double w, double h, Color fill, uint64_t id = 0, Color stroke = {0, 0, 0, 0}, double width = 1) {
    DrawItem i;
    i.x = x, i.y = y, i.w = w, i.h = h, i.fill = fill, i.id = id, i.stroke = stroke, i.stroke_width = width;
    list_.items.push_back(std::move(i));
  }
  void line(double x, double y, double dx, double dy, Color stroke, std::vector<double> dash = {}, double width = 1) {
    DrawItem i;
    i.kind = DrawItem::Kind::line;
    i.x = x, i.y = y, i.w = dx, i.h = dy, i.stroke = stroke, i.dash = std::move(dash), i.stroke_width = width;
    list_.items.push_back(std::move(i));
  }
  void polyline(std::vector<std::pair<double, double>> points, Color stroke, double width, std::vector<double> dash = {}) {
    if (points.size() < 2) return;
    DrawItem i;
    i.kind = DrawItem::Kind::polyline;
    i.points = std::move(points), i.stroke = stroke, i.stroke_width = width, i.dash = std::move(dash);
    list_.items.push_back(std::move(i));
  }
  void hatch(double x, double y, double w, double h, const Palette& p) {
    DrawItem i;
    i.kind = DrawItem::Kind::hatch;
    i.x = x, i.y = y, i.w = w, i.h = h, i.fill = p.hatchBack, i.stroke = p.hatchLine;
    list_.items.push_back(std::move(i));
  }
  void text(double x, double y, std::string s, Color ink, TextAnchor anchor = TextAnchor::start, double size = 10.5, bool bold = false, uint64_t id = 0) {
    DrawItem i;
    i.kind = DrawItem::Kind::text;
    i.x = x, i.y = y, i.text = std::move(s), i.fill = ink, i.anchor = anchor, i.size = size, i.bold = bold, i.id = id;
    list_.items.push_back(std::move(i));
  }

 private:
  DisplayList& list_;
};

std::string fixed(double x, int digits) {
  char s[32];
  std::snprintf(s, sizeof s, "%.*f", digits, x);
  return s;
}
Color ink_on(Color c) {
  const auto linear = [](uint8_t v) {
    const double x = v / 255.0;
    return x <= 0.04045 ? x / 12.92 : std::pow((x + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * linear(c.r) + 0.7152 * linear(c.g) + 0.0722 * linear(c.b) > 0.179 ? Color{0, 0, 0, 255} : Color{255, 255, 255, 255};
}
Color expert(const Palette& p, uint32_t e) { return p.experts.empty() ? p.textMuted : p.experts[e % p.experts.size()]; }
Color softened(const Palette& p) {
  const auto mix = [](uint8_t a, uint8_t b) { return uint8_t(std::lround(a * 0.7 + b * 0.3)); };
  return {mix(p.borderStrong.r, p.panel.r), mix(p.borderStrong.g, p.panel.g), mix(p.borderStrong.b, p.panel.b)};
}

}  // namespace

DisplayList expert_lanes_figure(const ExpertLanes& lanes, const Palette& p, double width, double height, int cursor) {
  DisplayList list;
  list.width = width;
  list.title = "Experts by turn";
  List d(list);
  const uint32_t E = lanes.experts;
  const size_t turns = lanes.recorded.size();
  if (!E || !turns) return list;
  const double left = 112, marginal = 138;
  const double cell = std::max(2.0, std::floor((width - left - marginal) / double(turns) * 10) / 10);
  const double w = std::min(cell, 28.0);
  const double lane = std::clamp(std::floor((height - 116) / (2.0 * E) * 2) / 2, 9.5, 18.0);
  const auto x = [&](size_t t) { return left + double(t) * w; };
  const double right = x(turns);
  const char* names[] = {"Prefill", "Decode"};
  const char* notes[] = {"input read", "text written"};
  double y = 10;
  for (int phase = 0; phase < 2; ++phase) {
    d.text(10, y + 11, names[phase], p.text, TextAnchor::start, 12, true);
    d.text(10, y + 26, notes[phase], p.textMuted);
    const double sum = double(lanes.sum(phase));
    for (uint32_t e = 0; e < E; ++e) {
      const double at = y + e * lane, base = at + lane / 2 + 3.6;
      d.rect(left - 34, at + lane / 2 - 4, 8, 8, expert(p, e));
      d.text(left - 6, base, "e" + std::to_string(e), p.text, TextAnchor::end, std::min(10.5, lane - 1));
      for (size_t t = 0; t < turns; ++t) {
        const uint32_t picks = lanes.turn_sum(phase, t);
        if (!lanes.recorded[t] || !picks) continue;
        const double part = double(lanes.counts[phase][t * E + e]) / picks;
        d.rect(x(t), at, w - (w > 4 ? 0.8 : 0), lane - 0.8, p.sequential_at(part / kTop), lane_id(phase, t, e));
      }
      if (sum > 0) {
        const double part = double(lanes.total[phase][e]) / sum;
        d.rect(right + 14, at + 2, std::min(1.0, part / kTop) * 70, lane - 5, expert(p, e));
        d.text(right + marginal - 6, base, fixed(part * 100, 1) + " %", p.textMuted, TextAnchor::end, std::min(10.5, lane - 1));
      }
    }
    for (size_t t = 0; t < turns; ++t)
      if (!lanes.recorded[t]) d.hatch(x(t), y, w, E * lane - 1, p);
    d.line(right + 14 + 70 / kTop / E, y - 3, 0, E * lane + 5, p.text, {2, 2});
    if (cursor >= 0 && cursor < int(turns)) d.rect(x(size_t(cursor)) - 0.8, y - 1, w + 0.8, E * lane + 1, {0, 0, 0, 0}, 0, p.accent, 1.2);
    y += E * lane + 14;
  }
  y += 4;
  const size_t every = w >= 18 ? 1 : w >= 8 ? 4 : 8;
  for (size_t t = 0; t < turns; ++t)
    if (t == 0 || (t + 1) % every == 0) d.text(x(t) + w / 2, y + 6, std::to_string(t + 1), p.textMuted, TextAnchor::middle);
  d.text(left - 6, y + 6, "turn →", p.textMuted, TextAnchor::end);
  d.text(right + 14, y + 6, "even: " + fixed(100.0 / E, 1) + " %", p.textMuted);
  y += 20;

  const double most = std::log2(double(E)), low = std::max(0.0, most - 1);
  const double h = 42;
  d.text(10, y + 11, "Entropy", p.text, TextAnchor::start, 12, true);
  d.text(10, y + 26, "bits, even = " + fixed(most, most == std::floor(most) ? 0 : 2), p.textMuted);
  for (double v : {low, (low + most) / 2, most}) {
    const double at = y + h - (v - low) / (most - low) * h;
    d.line(left, at, right - left, 0, p.grid);
    d.text(left - 6, at + 3.5, fixed(v, v == std::floor(v) ? 0 : 1), p.textMuted, TextAnchor::end);
  }
  for (size_t t = 0; t < turns; ++t)
    if (!lanes.recorded[t]) d.hatch(x(t), y, w, h, p);
  const Color inks[] = {p.accent, p.threshold};
  for (int phase = 0; phase < 2; ++phase) {
    std::vector<std::pair<double, double>> points;
    const auto flush = [&] {
      d.polyline(points, inks[phase], 1.6, phase ? std::vector<double>{5, 3} : std::vector<double>{});
      points.clear();
    };
    for (size_t t = 0; t < turns; ++t) {
      const double bits = entropy_bits(&lanes.counts[phase][t * E], E);
      if (std::isnan(bits)) {
        flush();
        continue;
      }
      points.emplace_back(x(t) + w / 2, y + h - (std::max(low, bits) - low) / (most - low) * h);
    }
    flush();
    d.line(right + 14, y + 10 + 18 * phase, 20, 0, inks[phase], phase ? std::vector<double>{5, 3} : std::vector<double>{}, 1.8);
    d.text(right + 40, y + 14 + 18 * phase, phase ? "decode" : "prefill", p.text);
  }
  list.height = y + h + 8;
  list.width = std::max(width, right + marginal - 2);
  list.description = std::to_string(E) + " experts, " + std::to_string(turns) + " turns, layer " + std::to_string(lanes.layer);
  return list;
}

DisplayList expert_counts_figure(const ExpertCounts& c, const Palette& p, double width, double height, int layer) {
  DisplayList list;
  list.title = "Expert picks by layer";
  List d(list);
  const uint32_t E = c.experts;
  const size_t layers = c.moe.size();
  list.width = width;
  if (!E || !layers) return list;
  const double left = 52;
  // The bars at the right give way before the counts do.
  const double room = std::clamp(width - left - 40.0 * E, 226.0, 312.0);
  const double ratioBar = (room - 148) * 0.54, entropyBar = (room - 148) * 0.46;
  const double cell = std::clamp(std::floor((width - left - room) / E), 25.0, 60.0);
  const double row = std::clamp(std::floor((height - 28) / double(layers) * 2) / 2, 13.5, 20.0);
  const double after = left + cell * E;
  d.text(left - 8, 14, "layer", p.textMuted, TextAnchor::end);
  for (uint32_t e = 0; e < E; ++e) {
    if (cell < 36) {  // the number below its colour
      d.rect(left + e * cell, 16, cell - 1, 2.5, expert(p, e));
      d.text(left + e * cell + cell / 2, 12, "e" + std::to_string(e), p.text, TextAnchor::middle, 10.5, true);
    } else {
      d.rect(left + e * cell + cell / 2 - 16, 6, 8, 8, expert(p, e));
      d.text(left + e * cell + cell / 2 + 5, 14, "e" + std::to_string(e), p.text, TextAnchor::middle, 10.5, true);
    }
  }
  d.text(after + 44, 14, "sum", p.textMuted, TextAnchor::end);
  const double ratioX = after + 60, entropyX = ratioX + ratioBar + 40;
  d.text(ratioX, 14, room < 260 ? "max÷mean" : "max ÷ mean", p.textMuted);
  d.text(entropyX, 14, room < 260 ? "bits" : "entropy, bits", p.textMuted);
  const double most = std::log2(double(E));
  for (size_t l = 0; l < layers; ++l) {
    const double y = 20 + double(l) * row, base = y + row / 2 + 3.6;
    const bool on = int(l) == layer;
    d.text(left - 8, base, std::to_string(l), on ? p.accent : p.textMuted, TextAnchor::end, 10.5, on, layer_id(uint32_t(l)));
    if (!c.moe[l]) {
      d.rect(left, y, cell * E - 1, row - 1, {0, 0, 0, 0}, 0, p.border);
      d.text(left + cell * E / 2, base, "dense layer: no router", p.textFaint, TextAnchor::middle);
      continue;
    }
    uint64_t sum = 0;
    uint32_t top = 0;
    for (uint32_t e = 0; e < E; ++e) sum += c.counts[l * E + e], top = std::max(top, c.counts[l * E + e]);
    if (!sum) {
      d.hatch(left, y, cell * E - 1, row - 1, p);
      continue;
    }
    for (uint32_t e = 0; e < E; ++e) {
      const uint32_t n = c.counts[l * E + e];
      const Color fill = p.sequential_at(double(n) / double(sum) / kTop);
      d.rect(left + e * cell, y, cell - 1, row - 1, fill, count_id(uint32_t(l), e));
      d.text(left + e * cell + cell - 7, base, std::to_string(n), ink_on(fill), TextAnchor::end, 10.5);
    }
    const double mean = double(sum) / E, ratio = top / mean, bits = entropy_bits(&c.counts[l * E], E);
    const Color fill = on ? p.accent : softened(p);
    d.text(after + 44, base, std::to_string(sum), p.textMuted, TextAnchor::end);
    const double rw = std::clamp((ratio - 1) / 3, 0.0, 1.0) * ratioBar;
    d.rect(ratioX, y + 2.5, std::max(1.0, rw), row - 6, fill);
    d.text(ratioX + rw + 5, base, fixed(ratio, 2), p.textMuted);
    const double ew = std::clamp((bits - (most - 1.5)) / 1.5, 0.0, 1.0) * entropyBar;
    d.rect(entropyX, y + 2.5, std::max(1.0, ew), row - 6, fill);
    d.text(entropyX + ew + 5, base, fixed(bits, 2), p.textMuted);
    if (on) d.rect(left - 1.5, y - 1.5, cell * E + 2, row + 2, {0, 0, 0, 0}, 0, p.accent, 2);
  }
  list.width = std::max(width, after + room - 12);
  list.height = 20 + double(layers) * row + 6;
  list.description = std::to_string(c.tokens) + " tokens, " + std::to_string(c.picks) + " picks each";
  return list;
}

}  // namespace spanscope::panels
