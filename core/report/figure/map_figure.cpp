// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/report/figure/map_figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/report/figure/palette.h"

namespace spanscope {
namespace {

constexpr double kLabels = 222, kSums = 118, kLegend = 26, kStrip = 44, kSinks = 13, kGap = 8;

class Builder {
 public:
  Builder(const SessionData& s, const CellTable& t, const MapFigureOptions& o) : s_(s), t_(t), o_(o), p_(palette(o.dark)) {}

  MapFigure build() {
    f_.turns = t_.turns;
    f_.row_height = o_.row_height;
    f_.cells_x = kLabels;
    f_.cells_w = std::max(40.0, o_.width - kLabels - kSums);
    f_.bins = std::max(1u, std::min(t_.turns, uint32_t(f_.cells_w)));
    if (t_.turns && t_.turns < f_.cells_w / 28) f_.cells_w = t_.turns * 28.0;  // few turns: no wider than 28 px a column
    f_.bars_x = f_.cells_x + f_.cells_w + 14;
    f_.bars_w = 48;
    f_.cells_y = kLegend + kStrip + kGap + kSinks + kGap;
    legend();
    if (t_.turns) {
      strip();
      sinks();
    }
    rows();
    rest();
    axis();
    f_.list.width = o_.width;
    f_.list.height = f_.axis_y + 26;
    f_.list.title = "Spans by turns";
    f_.list.description = fmt::format("{} of {} messages in {} turns, {}; a column is one turn's answer", o_.rows.size(), t_.rows.size(), t_.turns,
                                      measure_name(o_.settings.measure));
    return std::move(f_);
  }

 private:
  bool reads() const { return o_.settings.measure == Measure::reads; }
  void rect(double x, double y, double w, double h, Color fill, uint64_t id = 0) {
    DrawItem i;
    i.kind = DrawItem::Kind::rect;
    i.x = x, i.y = y, i.w = w, i.h = h, i.fill = fill, i.id = id;
    f_.list.items.push_back(std::move(i));
  }
  void line(double x, double y, double x2, double y2, Color c, double width = 1, std::vector<double> dash = {}) {
    DrawItem i;
    i.kind = DrawItem::Kind::line;
    i.x = x, i.y = y, i.w = x2 - x, i.h = y2 - y, i.stroke = c, i.stroke_width = width, i.dash = std::move(dash);
    f_.list.items.push_back(std::move(i));
  }
  void hatch(double x, double y, double w, double h) {
    DrawItem i;
    i.kind = DrawItem::Kind::hatch;
    i.x = x, i.y = y, i.w = w, i.h = h, i.stroke = p_.hatchLine, i.fill = p_.hatchBack;
    f_.list.items.push_back(std::move(i));
  }
  void text(double x, double y, std::string value, Color c, double size = 11, TextAnchor anchor = TextAnchor::start, bool bold = false, bool mono = false) {
    DrawItem i;
    i.kind = DrawItem::Kind::text;
    i.x = x, i.y = y, i.text = std::move(value), i.fill = c, i.size = size, i.anchor = anchor, i.bold = bold, i.mono = mono;
    f_.list.items.push_back(std::move(i));
  }

  Color cell_color(double value) const {
    switch (o_.settings.measure) {
      case Measure::reads: return p_.reads_at(value);
      case Measure::share: return p_.sequential_at(log_part(value, 0.002, 0.30));
      case Measure::lift: return p_.sequential_at(log_part(value, 0.25, 16));
      default: return p_.sequential_at(log_part(value, largest() / 150, largest()));
    }
  }
  static double log_part(double v, double low, double high) {
    if (v <= 0 || low <= 0 || high <= low) return 0;
    return std::log(v / low) / std::log(high / low);
  }
  double largest() const {
    if (largest_ < 0)
      for (const Cell& c : t_.cells)
        if (c.state == CellState::value) largest_ = std::max(largest_, c.number);
    return std::max(largest_, 1e-12);
  }

  void legend() {
    const double y = 6;
    text(8, y + 11, "A column is one turn's answer.", p_.textMuted, 11);
    double x = f_.cells_x;
    text(x, y + 11, measure_name(o_.settings.measure), p_.textMuted, 11);
    x += 46;
    if (reads()) {
      text(x, y + 11, "0", p_.textMuted, 10);
      line(x - 1, y + 13.5, x + 8, y + 13.5, p_.zeroLine);
      x += 14;
      text(x, y + 11, fmt::format("1–{}", std::max(1u, o_.read_min - 1)), p_.textMuted, 10);
      rect(x + 24, y + 9, 14, 4, p_.reads_at(1));
      x += 46;
      for (int i = 0; i < 56; ++i) rect(x + i * 1.5, y + 2, 2, 11, p_.reads_at(std::exp2(i / 8.0)));
      text(x, y + 1, "1", p_.textFaint, 8, TextAnchor::middle);
      text(x + 28, y + 1, "5", p_.textFaint, 8, TextAnchor::middle);
      text(x + 56, y + 1, "25", p_.textFaint, 8, TextAnchor::middle);
      text(x + 84, y + 1, "128+", p_.textFaint, 8, TextAnchor::middle);
      x += 108;
    } else {
      for (int i = 0; i < 56; ++i) rect(x + i * 1.5, y + 2, 2, 11, p_.sequential_at(i / 55.0));
      const char* low = o_.settings.measure == Measure::share ? "0.2 %" : o_.settings.measure == Measure::lift ? "0.25×" : "low";
      const char* high = o_.settings.measure == Measure::share ? "30 %" : o_.settings.measure == Measure::lift ? "16×" : "high";
      text(x, y + 1, low, p_.textFaint, 8, TextAnchor::middle);
      text(x + 84, y + 1, high, p_.textFaint, 8, TextAnchor::middle);
      x += 108;
    }
    if (x + 210 < o_.width) {
      hatch(x, y + 2, 14, 11);
      text(x + 19, y + 11, "not captured", p_.textMuted, 10);
      DrawItem box;
      box.x = x + 92, box.y = y + 2.5, box.w = 13, box.h = 10, box.stroke = p_.zeroLine, box.dash = {2, 2};
      f_.list.items.push_back(box);
      text(x + 110, y + 11, "not in context", p_.textMuted, 10);
    }
  }

  double bin_x(uint32_t bin) const { return f_.cells_x + f_.cells_w * bin / f_.bins; }
  std::pair<uint32_t, uint32_t> bin_turns(uint32_t bin) const {
    return {uint32_t(uint64_t(bin) * t_.turns / f_.bins), uint32_t(uint64_t(bin + 1) * t_.turns / f_.bins)};
  }

  void strip() {
    // Reads per turn, stacked by the role of the span that was read.
    static const char* roles[] = {"system", "user", "assistant", "tool", "document"};
    std::vector<std::vector<double>> sums(5, std::vector<double>(f_.bins, 0));
    double top = 1;
    const CellTable* counts = &t_;
    CellTable own;
    if (!reads()) {
      own = cell_table(s_, t_.rows, {Measure::reads, RowSet::consumer, o_.settings.reads});
      counts = &own;
    }
    for (uint32_t b = 0; b < f_.bins; ++b) {
      const auto [begin, end] = bin_turns(b);
      for (uint32_t turn = begin; turn < end; ++turn) {
        double here[5] = {0, 0, 0, 0, 0}, total = 0, most = 0;
        for (size_t r = 0; r < counts->rows.size(); ++r) {
          const Cell& c = counts->at(r, turn);
          if (c.state != CellState::value) continue;
          const std::string& role = s_.ledger[counts->rows[r]].role;
          for (size_t k = 0; k < 5; ++k)
            if (role == roles[k]) here[k] += c.number;
        }
        for (double x : here) total += x;
        for (size_t k = 0; k < 5; ++k) most += sums[k][b];
        if (total > most)
          for (size_t k = 0; k < 5; ++k) sums[k][b] = here[k];  // of pooled turns the one with the most reads
        top = std::max(top, total);
      }
    }
    const double scale_top = std::ceil(top / 100) * 100;
    text(f_.cells_x - 8, kLegend + 12, "reads per turn, by role", p_.textMuted, 10, TextAnchor::end);
    text(f_.cells_x - 8, kLegend + 25, fmt::format("0 to {}", scale_top), p_.textMuted, 10, TextAnchor::end);
    const double base = kLegend + kStrip;
    for (uint32_t b = 0; b < f_.bins; ++b) {
      double y = base;
      for (size_t k = 0; k < 5; ++k) {
        const double h = sums[k][b] / scale_top * (kStrip - 4);
        if (h > 0) rect(bin_x(b) + 0.5, y - h, std::max(1.0, f_.column_width() - 1), h, p_.role(roles[k]));
        y -= h;
      }
    }
    line(f_.cells_x, base + 0.5, f_.cells_x + f_.cells_w, base + 0.5, p_.zeroLine);
    double x = f_.bars_x, y = kLegend + 8;
    for (size_t k = 0; k < 5; ++k) {
      double total = 0;
      for (double v : sums[k]) total += v;
      if (total <= 0) continue;
      rect(x, y - 7, 8, 8, p_.role(roles[k]));
      text(x + 12, y, roles[k], p_.textMuted, 10);
      y += 11;
      if (y > base) break;
    }
  }

  void sinks() {
    const double y = kLegend + kStrip + kGap;
    text(f_.cells_x - 8, y + 10, "sinks, not read: share of all mass", p_.textMuted, 10, TextAnchor::end);
    double sum = 0, n = 0;
    for (uint32_t b = 0; b < f_.bins; ++b) {
      const auto [begin, end] = bin_turns(b);
      double share = -1;
      for (uint32_t turn = begin; turn < end; ++turn)
        if (std::isfinite(t_.sink_share[turn])) {
          share = std::max(share, t_.sink_share[turn]);
          sum += t_.sink_share[turn], n += 1;
        }
      const double w = std::max(1.0, f_.column_width() - 1);
      if (share < 0) hatch(bin_x(b) + 0.5, y, w, kSinks);
      else rect(bin_x(b) + 0.5, y + kSinks * (1 - share), w, kSinks * share, p_.textFaint);
    }
    if (n) text(f_.bars_x, y + 10, fmt::format("mean {:.0f} %", 100 * sum / n), p_.textMuted, 10);
    text(o_.width - 8, y + 10, reads() ? "reads" : measure_name(o_.settings.measure), p_.textMuted, 10, TextAnchor::end);
  }

  void draw_cell(const Cell& c, double x, double y, double w, double h) {
    switch (c.state) {
      case CellState::absent: return;
      case CellState::missing: hatch(x, y, w, h); return;
      case CellState::idle: line(x, y + h / 2, x + w, y + h / 2, p_.textFaint, 1, {2, 2}); return;
      case CellState::value: break;
    }
    if (reads()) {
      if (c.number <= 0) line(x, y + h - 0.5, x + w, y + h - 0.5, p_.zeroLine);
      else if (!c.was_read) rect(x, y + h * 0.62, w, h * 0.38, p_.reads_at(c.number));
      else rect(x, y, w, h, p_.reads_at(c.number));
    } else {
      rect(x, y, w, h, cell_color(c.number));
    }
    if (c.request && h >= 8 && w >= 5) {
      DrawItem notch;
      notch.kind = DrawItem::Kind::polygon;
      notch.points = {{x, y}, {x + 3.5, y}, {x, y + 3.5}};
      notch.fill = p_.crosshair;
      f_.list.items.push_back(notch);
    }
  }

  std::string label(SpanId id) const {
    std::string name = s_.ledger[id].name;
    const size_t most = 27;
    if (name.size() > most) {
      size_t cut = most;
      while (cut > 0 && (uint8_t(name[cut]) & 0xc0) == 0x80) --cut;  // not inside a character
      name = name.substr(0, cut) + "…";
    }
    return name;
  }

  std::string sum_text(size_t row) const {
    if (t_.row_state[row] != CellState::value) return "–";
    const double v = t_.row_value[row];
    switch (o_.settings.measure) {
      case Measure::reads: return fmt::format("{}", int64_t(v));
      case Measure::share: return fmt::format("{:.2f} %", 100 * v);
      case Measure::lift: return fmt::format("{:.2f}×", v);
      case Measure::density: return fmt::format("{:.2e}", v);
      default: return fmt::format("{:.1f}", v);
    }
  }

  void rows() {
    const double h = o_.row_height, inner = std::max(1.0, h - (h >= 6 ? 2 : 0.5));
    for (size_t r : o_.rows)
      if (t_.row_state[r] == CellState::value) f_.bar_max = std::max(f_.bar_max, t_.row_value[r]);
    if (!reads()) {
      f_.bar_max = 1e-12;
      for (size_t r : o_.rows)
        if (t_.row_state[r] == CellState::value) f_.bar_max = std::max(f_.bar_max, t_.row_value[r]);
    }
    for (size_t i = 0; i < o_.rows.size(); ++i) {
      const size_t r = o_.rows[i];
      const SpanId id = t_.rows[r];
      const Span& span = s_.ledger[id];
      const double y = f_.cells_y + double(i) * h;
      const bool marked = std::find(o_.marked.begin(), o_.marked.end(), id) != o_.marked.end();
      if (marked) rect(4, y, o_.width - 8, h, p_.selection);
      if (h >= 8) {
        const double base = y + h * 0.5 + 3.8;
        text(8, base, fmt::format("{:03}", id), marked ? p_.onSelection : p_.textMuted, 10, TextAnchor::start, false, true);
        text(40, base, std::string(1, role_letter(span.role)), p_.role(span.role), 10, TextAnchor::middle, true);
        text(50, base, label(id), marked ? p_.onSelection : p_.text, 10.5, TextAnchor::start, marked);
      }
      rect(f_.cells_x - 6, y + 1, 4, std::max(1.0, h - 2), p_.role(span.role), id);
      for (uint32_t b = 0; b < f_.bins && t_.turns; ++b) {
        const auto [begin, end] = bin_turns(b);
        const double gap = f_.column_width() >= 4 ? 1 : 0;
        draw_cell(pool_cells(t_, r, begin, end), bin_x(b) + gap / 2, y + (h >= 6 ? 1 : 0), f_.column_width() - gap, inner);
      }
      if (t_.row_state[r] == CellState::value) {
        const double w = f_.bars_w * std::min(1.0, std::max(0.0, t_.row_value[r]) / f_.bar_max);
        rect(f_.bars_x, y + h * 0.25, w, std::max(1.0, h * 0.5), marked ? p_.accent : p_.borderStrong);
      }
      if (h >= 8) text(o_.width - 8, y + h * 0.5 + 3.8, sum_text(r), marked ? p_.onSelection : p_.text, 10.5, TextAnchor::end, marked);
    }
    const double bottom = f_.cells_y + double(o_.rows.size()) * h;
    if (o_.threshold >= 0 && f_.bar_max > 0) {
      const double x = f_.bars_x + f_.bars_w * std::min(1.0, o_.threshold / f_.bar_max);
      line(x, f_.cells_y - 4, x, bottom + 4, p_.threshold, 1.5, {3, 2});
    }
    rest_y_ = bottom;
  }

  // Columns add up: what is not among the rows is one row of its own.
  void rest() {
    f_.axis_y = rest_y_ + 6;
    if (!reads() || o_.rows.size() == t_.rows.size() || !t_.turns) return;
    std::vector<uint8_t> shown(t_.rows.size(), 0);
    for (size_t r : o_.rows) shown[r] = 1;
    const double y = rest_y_ + 8, h = 12;
    double total = 0;
    for (uint32_t b = 0; b < f_.bins; ++b) {
      const auto [begin, end] = bin_turns(b);
      double most = -1;
      for (uint32_t turn = begin; turn < end; ++turn) {
        double here = 0;
        bool any = false;
        for (size_t r = 0; r < t_.rows.size(); ++r)
          if (!shown[r] && t_.at(r, turn).state == CellState::value) {
            here += t_.at(r, turn).number;
            any = true;
          }
        total += here;
        if (any) most = std::max(most, here);
      }
      const double w = std::max(1.0, f_.column_width() - 1);
      if (most > 0) rect(bin_x(b) + 0.5, y, w, h, p_.reads_at(most));
      else if (most == 0) line(bin_x(b) + 0.5, y + h - 0.5, bin_x(b) + 0.5 + w, y + h - 0.5, p_.zeroLine);
    }
    text(8, y + 10, fmt::format("{} other spans, sum", t_.rows.size() - o_.rows.size()), p_.textMuted, 10.5);
    text(o_.width - 8, y + 10, fmt::format("{}", int64_t(total)), p_.textMuted, 10.5, TextAnchor::end);
    f_.axis_y = y + h + 6;
  }

  void axis() {
    const double y = f_.axis_y;
    line(f_.cells_x, y, f_.cells_x + f_.cells_w, y, p_.zeroLine);
    if (!t_.turns) return;
    const uint32_t step = t_.turns <= 12 ? 1 : t_.turns <= 24 ? 2 : t_.turns <= 96 ? 8 : uint32_t(std::ceil(t_.turns / 12.0));
    for (uint32_t turn = 0; turn < t_.turns; ++turn) {
      const uint32_t shown = s_.turns[turn].turn + 1;
      if (shown != 1 && shown % step && turn + 1 != t_.turns) continue;
      if (turn + 1 != t_.turns && t_.turns - 1 - turn < step / 2) continue;
      const double x = f_.turn_x(turn) + f_.column_width() / 2;
      line(x, y, x, y + 3, p_.zeroLine);
      text(x, y + 14, fmt::format("{}", shown), turn == o_.cursor ? p_.accent : p_.textMuted, 10, TextAnchor::middle, turn == o_.cursor);
    }
    text(f_.cells_x - 8, y + 14, "turn", p_.textMuted, 10, TextAnchor::end);
    if (o_.cursor < t_.turns) {
      const double x = f_.turn_x(o_.cursor) + f_.column_width() / 2;
      DrawItem mark;
      mark.kind = DrawItem::Kind::polygon;
      mark.points = {{x - 4, y + 1}, {x + 4, y + 1}, {x, y - 4}};
      mark.fill = p_.accent;
      f_.list.items.push_back(mark);
    }
  }

  const SessionData& s_;
  const CellTable& t_;
  const MapFigureOptions& o_;
  const Palette& p_;
  MapFigure f_;
  double rest_y_ = 0;
  mutable double largest_ = -1;
};

}  // namespace

Cell pool_cells(const CellTable& table, size_t row, uint32_t begin, uint32_t end) {
  Cell best;
  auto rank = [](CellState s) { return s == CellState::value ? 3 : s == CellState::idle ? 2 : s == CellState::missing ? 1 : 0; };
  for (uint32_t t = begin; t < end; ++t) {
    const Cell& c = table.at(row, t);
    if (rank(c.state) > rank(best.state) || (c.state == CellState::value && best.state == CellState::value && c.number > best.number)) {
      const bool was_read = best.was_read, request = best.request;
      best = c;
      best.was_read = best.was_read || was_read;
      best.request = best.request || request;
    } else {
      best.was_read = best.was_read || c.was_read;
      best.request = best.request || c.request;
    }
  }
  return best;
}

size_t MapFigure::row_at(double y) const { return y < cells_y || row_height <= 0 ? SIZE_MAX : size_t((y - cells_y) / row_height); }
uint32_t MapFigure::turn_at(double x) const {
  if (x < cells_x || x >= cells_x + cells_w || !bins || !turns) return kNone32;
  const uint32_t bin = std::min(bins - 1, uint32_t((x - cells_x) / cells_w * bins));
  return uint32_t(uint64_t(bin) * turns / bins);
}
double MapFigure::turn_x(uint32_t turn) const {
  if (!turns) return cells_x;
  uint32_t bin = uint32_t(uint64_t(turn) * bins / turns);
  return cells_x + cells_w * bin / bins;
}

MapFigure build_map_figure(const SessionData& session, const CellTable& table, const MapFigureOptions& options) {
  return Builder(session, table, options).build();
}

}  // namespace spanscope
