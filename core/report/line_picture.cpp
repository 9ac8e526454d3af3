// SPDX-License-Identifier: GPL-3.0-or-later
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/report/figure/palette.h"
#include "core/report/pictures.h"
#include "core/report/text.h"

namespace spanscope {
namespace {

// 1, 2 or 5 times a power of ten, at most four steps to the largest value.
double tick_step(double most) {
  const double raw = most / 4;
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  for (double m : {1.0, 2.0, 5.0, 10.0})
    if (m * power >= raw) return m * power;
  return 10 * power;
}

}  // namespace

Picture lines_picture(const std::string& title, const std::vector<uint32_t>& turns, const std::vector<LineSeries>& series, bool as_percent, double width) {
  const Palette& p = palette(false);
  Picture out;
  auto put = [&](DrawItem d) { out.list.items.push_back(std::move(d)); };
  const double left = 46, right = width - 40, top = 26, bottom = 196;
  double most = 0;
  ThreeLargest largest;
  for (const LineSeries& s : series)
    for (size_t t = 0; t < s.values.size(); ++t)
      if (std::isfinite(s.values[t])) {
        most = std::max(most, s.values[t]);
        largest.add(s.values[t], fmt::format("{} for span {} in turn {}", as_percent ? percent(s.values[t]) : plural(int64_t(s.values[t]), "read", "reads"), s.label, turns[t]));
      }
  if (most <= 0) most = as_percent ? 0.01 : 1;
  double step = tick_step(most);
  if (!as_percent) step = std::max(1.0, step);
  const double ceiling = std::ceil(most / step) * step;
  auto y_of = [&](double v) { return bottom - (bottom - top) * v / ceiling; };
  auto x_of = [&](size_t t) { return turns.size() < 2 ? (left + right) / 2 : left + (right - left) * double(t) / double(turns.size() - 1); };

  put(draw_text(4, 12, title, p.text, 11.5, TextAnchor::start, true));
  for (double v = 0; v <= ceiling * 1.0001; v += step) {
    put(draw_line(left, y_of(v), right, y_of(v), v == 0 ? p.borderStrong : p.grid));
    put(draw_text(left - 6, y_of(v) + 3.6, as_percent ? fmt::format("{:.{}f}\xC2\xA0%", v * 100, ceiling < 0.02 ? 1 : 0) : grouped(int64_t(std::lround(v))), p.textMuted, 10.5, TextAnchor::end));
  }
  size_t every = 1;
  while (turns.size() > 1 && (right - left) / double(turns.size() - 1) * double(every) < 24) every *= 2;
  for (size_t t = 0; t < turns.size(); ++t)
    if (t == 0 || turns[t] % every == 0) put(draw_text(x_of(t), bottom + 15, std::to_string(turns[t]), p.textMuted, 10.5, TextAnchor::middle));
  put(draw_text((left + right) / 2, bottom + 30, "turn", p.textMuted, 10.5, TextAnchor::middle));

  std::vector<std::pair<double, size_t>> ends;  // label place, series
  for (size_t k = 0; k < series.size(); ++k) {
    const Color color = p.experts[k % p.experts.size()];
    DrawItem line;
    line.kind = DrawItem::Kind::polyline;
    line.stroke = color;
    line.stroke_width = 1.8;
    double last = NAN;
    auto flush = [&] {
      if (line.points.size() > 1) put(line);
      line.points.clear();
    };
    for (size_t t = 0; t < series[k].values.size(); ++t) {
      const double v = series[k].values[t];
      if (!std::isfinite(v)) {
        flush();
        continue;
      }
      line.points.push_back({x_of(t), y_of(v)});
      DrawItem dot;
      dot.kind = DrawItem::Kind::circle;
      dot.x = x_of(t), dot.y = y_of(v), dot.w = turns.size() > 32 ? 1.2 : 2.2, dot.fill = color;
      put(dot);
      last = y_of(v);
    }
    flush();
    if (std::isfinite(last)) ends.push_back({last, k});
  }
  // Labels at the right end, moved apart so that none covers another.
  std::stable_sort(ends.begin(), ends.end());
  for (size_t i = 1; i < ends.size(); ++i) ends[i].first = std::max(ends[i].first, ends[i - 1].first + 11.5);
  for (size_t i = ends.size(); i-- > 0;) {
    const double limit = i + 1 < ends.size() ? ends[i + 1].first - 11.5 : bottom + 2;
    ends[i].first = std::min(ends[i].first, limit);
  }
  for (const auto& [y, k] : ends) put(draw_text(right + 7, y + 3.6, series[k].label, p.experts[k % p.experts.size()], 10.5, TextAnchor::start, true));
  out.list.width = width;
  out.list.height = bottom + 36;
  out.largest = largest.take();
  return out;
}

Picture beside(Picture left, Picture right, double gap) {
  const double shift = left.list.width + gap;
  for (DrawItem& d : right.list.items) {
    d.x += shift;
    for (auto& point : d.points) point.first += shift;
    left.list.items.push_back(std::move(d));
  }
  left.list.width = shift + right.list.width;
  left.list.height = std::max(left.list.height, right.list.height);
  for (auto& l : right.largest) left.largest.push_back(std::move(l));
  return left;
}

std::optional<ExpertLoad> expert_load(const SessionData& s) {
  ExpertLoad out;
  out.experts = s.header.experts;
  for (const TurnRecord& t : s.turns) {
    if (t.routing.empty() || out.experts == 0) continue;
    const size_t rows = t.phase.size(), k = t.routing.experts_used;
    if (out.layers == 0) {
      out.layers = t.routing.layers;
      for (auto& p : out.picks) p.assign(size_t(out.layers) * out.experts, 0);
    }
    if (t.routing.layers != out.layers || t.routing.ids.size() != size_t(out.layers) * rows * k) continue;
    for (size_t row = 0; row < rows; ++row) {
      if (t.phase[row] > 1) continue;  // recompute rows enter no default number
      const size_t phase = t.phase[row];
      ++out.tokens[phase];
      for (size_t l = 0; l < out.layers; ++l)
        for (size_t j = 0; j < k; ++j)
          if (const uint16_t e = t.routing.ids[(l * rows + row) * k + j]; e < out.experts) ++out.picks[phase][l * out.experts + e];
    }
  }
  if (out.layers == 0) return std::nullopt;
  for (uint32_t l = 0; l < s.header.moe_layer.size(); ++l)
    if (s.header.moe_layer[l]) out.model_layer.push_back(l);
  if (out.model_layer.size() < out.layers) {  // the header says nothing: count mixture layers
    out.model_layer.resize(out.layers);
    for (uint32_t l = 0; l < out.layers; ++l) out.model_layer[l] = l;
  }
  return out;
}

Picture expert_picture(const ExpertLoad& load) {
  const Palette& p = palette(false);
  Picture out;
  ThreeLargest largest;
  auto put = [&](DrawItem d) { out.list.items.push_back(std::move(d)); };
  const double gap = 40, left = 50, panel = (kPageWidth - 2 * left - gap) / 2;
  const double cw = panel / double(load.experts), rh = cw >= 30 ? 22 : 14;
  const char* names[2] = {"prefill (prompt rows)", "decode (answer rows)"};
  double most = 0;
  for (size_t ph = 0; ph < 2; ++ph)
    for (uint64_t n : load.picks[ph])
      if (load.tokens[ph]) most = std::max(most, double(n) / double(load.tokens[ph]));
  for (size_t ph = 0; ph < 2; ++ph) {
    const double x0 = left + double(ph) * (panel + gap + left);
    put(draw_text(x0, 12, fmt::format("{}: {} tokens", names[ph], grouped(int64_t(load.tokens[ph]))), p.text, 11.5, TextAnchor::start, true));
    for (uint32_t e = 0; e < load.experts; ++e)
      if (cw >= 16 || e % 8 == 0) put(draw_text(x0 + (e + 0.5) * cw, 30, std::to_string(e), p.textMuted, 10.5, TextAnchor::middle));
    for (uint32_t l = 0; l < load.layers; ++l) {
      const double y = 36 + l * rh;
      put(draw_text(x0 - 6, y + rh / 2 + 3.6, fmt::format("layer {}", load.model_layer[l]), p.textMuted, 10.5, TextAnchor::end));
      for (uint32_t e = 0; e < load.experts; ++e) {
        if (load.tokens[ph] == 0) {
          put(draw_hatch(x0 + e * cw, y, cw - 1, rh - 1));
          continue;
        }
        const double share = double(load.picks[ph][size_t(l) * load.experts + e]) / double(load.tokens[ph]);
        const double level = most > 0 ? share / most : 0;
        const Color fill = p.sequential_at(level);
        put(draw_rect(x0 + e * cw, y, cw - 1, rh - 1, fill));
        const double luma = 0.299 * fill.r + 0.587 * fill.g + 0.114 * fill.b;
        if (cw >= 30) put(draw_text(x0 + (e + 0.5) * cw, y + rh / 2 + 3.2, whole_percent(share), luma < 112 ? p.panel : p.text, 10, TextAnchor::middle));
        largest.add(share, fmt::format("expert {} of layer {} takes {} of {} tokens", e, load.model_layer[l], whole_percent(share), ph ? "answer" : "prompt"));
      }
    }
  }
  out.list.width = kPageWidth;
  out.list.height = 36 + load.layers * rh + 6;
  out.largest = largest.take();
  return out;
}

}  // namespace spanscope
