// SPDX-License-Identifier: GPL-3.0-or-later
// What stands around the map's rows: legend, reads per turn, sinks, the rest, the axis.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "core/report/figure/map_builder.h"
#include "core/report/figure/text_width.h"
#include "core/report/text.h"

namespace spanscope {
namespace {

constexpr double kStripTop = 32, kStripBase = 74;  // reads per turn
constexpr double kSinksTop = 82, kSinksHeight = 10;
constexpr const char* kRoles[] = {"document", "tool", "assistant", "user", "system"};
constexpr const char* kShort[] = {"docs", "tools", "assist.", "user", "system"};
constexpr size_t kRoleCount = 5;

size_t role_index(const std::string& role) {
  for (size_t k = 0; k < kRoleCount; ++k)
    if (role == kRoles[k]) return k;
  return role == "developer" ? 4 : 1;
}

}  // namespace

void MapBuilder::legend() {
  const double base = 17;
  const std::string sentence = "A column is one turn's answer.";
  const double sentence_end = o_.legend_left + text_width(sentence, 11);
  const double ramp = o_.width < 640 ? 72 : 130;
  const double states = 186, scale = reads() ? 76 + ramp : 30 + ramp;
  const std::string name = reads() ? "reads" : o_.settings.measure == Measure::density ? "density, share per 1,000 tokens" : o_.settings.measure == Measure::mass ? "mass, rows" : measure_name(o_.settings.measure);
  const double name_width = text_width(name, 11);
  const double right = o_.width - 10;
  const bool with_states = right - states - scale - name_width - 24 > o_.legend_left;
  const double x0 = right - (with_states ? states + 14 : 8) - scale;
  if (sentence_end + 16 < x0 - name_width) text(o_.legend_left, base, sentence, p_.textMuted, 11);
  text(x0 - 8, base - 6, name, p_.textMuted, 11, TextAnchor::end);
  double x = x0;
  const double top = 5, height = 9;
  if (reads()) {
    rect(x + 2, top + height - 1, 7, 1, p_.zeroLine);
    text(x + 5.5, top + height + 10, "0", p_.textMuted, 11, TextAnchor::middle);
    const uint32_t low = o_.read_min > 1 ? o_.read_min - 1 : 0;
    if (low) {
      rect(x + 18, top + height - 3, 7, 3, p_.reads_at(1));
      rect(x + 26, top + height - 3, 7, 3, p_.reads_at(low));
      text(x + 25.5, top + height + 10, low == 1 ? "1" : fmt::format("1–{}", low), p_.textMuted, 11, TextAnchor::middle);
    }
    x += 46;
    const double from = std::log2(double(std::max(1u, o_.read_min)));
    for (int i = 0; i < 66; ++i) rect(x + i * ramp / 66, top, ramp / 66 + 0.6, height, p_.reads_at(std::exp2(from + (7 - from) * i / 65.0)));
    const auto at = [&](double count) { return x + ramp * (std::log2(count) - from) / (7 - from); };
    // The end says that the scale stops there; ticks that would touch it or each other go.
    const bool with_end = ramp >= 100;
    if (with_end) text(at(128), top + height + 10, "128+", p_.textMuted, 11, TextAnchor::middle);
    double last = -1e9;
    for (uint32_t tick : {o_.read_min, 4u, 16u, 64u}) {
      const double tx = at(tick);
      if (tick < o_.read_min || tick > 64 || tx - last < 20 || (with_end && at(128) - tx < 26)) continue;
      text(tx, top + height + 10, fmt::format("{}", tick), p_.textMuted, 11, TextAnchor::middle);
      last = tx;
    }
  } else {
    for (int i = 0; i < 66; ++i)
      rect(x + i * ramp / 66, top, ramp / 66 + 0.6, height,
           o_.settings.measure == Measure::lift ? p_.diverging[size_t(std::lround(i / 65.0 * 32))] : p_.sequential_at(i / 65.0));
    std::string ends[3];
    if (o_.settings.measure == Measure::share) ends[0] = "0.2 %", ends[2] = "30 %";
    else if (o_.settings.measure == Measure::lift) ends[0] = "1/16×", ends[1] = "1×", ends[2] = "16×";
    else if (o_.settings.measure == Measure::density) ends[0] = percent(largest() * 1000 / 150), ends[2] = percent(largest() * 1000);
    else ends[0] = fmt::format("{:.3g}", largest() / 150), ends[2] = fmt::format("{:.3g}", largest());
    for (int i = 0; i < 3; ++i)
      if (!ends[i].empty()) text(x + ramp * i / 2, top + height + 10, ends[i], p_.textMuted, 11, TextAnchor::middle);
  }
  if (!with_states) return;
  x = right - states;
  hatch(x, 8, 13, 11);
  text(x + 18, base, "not captured", p_.textMuted, 11);
  DrawItem& box = add(DrawItem::Kind::rect);
  box.x = x + 96.5, box.y = 8.5, box.w = 12, box.h = 10, box.stroke = p_.borderStrong, box.dash = {2, 1.5};
  text(x + 114, base, "not in context", p_.textMuted, 11);
}

void MapBuilder::role_key(const std::vector<double>& totals, double x, double y) {
  // Two columns, in the order of the stack from its top.
  size_t shown = 0;
  const double step = o_.width - x > 112 ? 52 : 48;
  for (size_t k = 0; k < kRoleCount; ++k) {
    if (totals[k] <= 0) continue;
    const double tx = x + double(shown % 2) * step, ty = y + double(shown / 2) * 14;
    rect(tx, ty, 8, 8, p_.role(kRoles[k]));
    text(tx + 12, ty + 8, kShort[k], p_.textMuted, 11);
    ++shown;
  }
}

void MapBuilder::strip() {
  CellTable own;
  const CellTable* counts = &t_;
  if (!reads()) {
    own = cell_table(s_, t_.rows, {Measure::reads, RowSet::consumer, o_.settings.reads});
    counts = &own;
  }
  // [role][column]; of pooled columns the one with the most reads stands for its bin.
  std::vector<std::vector<double>> sums(kRoleCount, std::vector<double>(f_.columns, 0));
  std::vector<double> column_total(f_.columns, 0), totals(kRoleCount, 0);
  std::vector<uint8_t> among(t_.rows.size(), 0);
  for (size_t r : o_.rows) among[r] = 1;
  std::vector<double> outside(f_.columns, 0);
  for (size_t r = 0; r < counts->rows.size(); ++r) {
    const size_t k = role_index(s_.ledger[counts->rows[r]].role);
    for (uint32_t c = 0; c < f_.columns; ++c) {
      if (f_.column_turn[c] == kNone32) continue;
      const Cell& cell = counts->at(r, f_.column_turn[c]);
      if (cell.state != CellState::value) continue;
      sums[k][c] += cell.number;
      totals[k] += cell.number;
      column_total[c] += cell.number;
      if (!among[r]) outside[c] += cell.number;
    }
  }
  double top = 1;
  for (double v : column_total) top = std::max(top, v);
  const double unit = top > 100 ? 100 : 10, scale_top = std::ceil(top / unit) * unit;
  text(f_.cells_x - 8, kStripTop + 11, "reads per turn, by role", p_.textMuted, 11, TextAnchor::end);
  text(f_.cells_x - 8, kStripTop + 25, "0 to " + grouped(int64_t(scale_top)), p_.textMuted, 11, TextAnchor::end);
  rest_.assign(f_.bins, 0);
  for (uint32_t b = 0; b < f_.bins; ++b) {
    const auto [begin, end] = bin_columns(b);
    uint32_t best = begin;
    for (uint32_t c = begin; c < end; ++c) {
      if (column_total[c] > column_total[best]) best = c;
      rest_[b] = std::max(rest_[b], outside[c]);
    }
    double y = kStripBase;
    for (size_t k = kRoleCount; k-- > 0;) {
      const double h = sums[k][best] / scale_top * (kStripBase - kStripTop);
      if (h > 0) rect(bin_x(b), y - h, std::max(1.0, f_.column_width() - gap()), h, p_.role(kRoles[k]));
      y -= h;
    }
  }
  line(f_.cells_x, kStripTop - 0.5, f_.cells_x + f_.cells_w, kStripTop - 0.5, p_.grid);
  line(f_.cells_x, kStripBase + 0.5, f_.cells_x + f_.cells_w, kStripBase + 0.5, p_.zeroLine);
  // Turns that are not there: one hatch from the strip down to the rows.
  for (uint32_t b = 0; b < f_.bins;) {
    if (!lost(b)) {
      ++b;
      continue;
    }
    uint32_t end = b;
    while (end < f_.bins && lost(end)) ++end;
    const double x = bin_x(b), w = f_.cells_x + f_.cells_w * end / f_.bins - x;
    hatch(x, kStripTop, w - gap(), kStripBase - kStripTop);
    hatch(x, kSinksTop, w - gap(), kSinksHeight);
    b = end;
  }
  role_key(totals, f_.bars_x + 2, kStripTop - 2);
}

void MapBuilder::sinks() {
  text(f_.cells_x - 8, kSinksTop + 9, f_.cells_x < 220 ? "sinks: share of all mass" : "sinks, not read: share of all mass", p_.text, 11, TextAnchor::end, true);
  double sum = 0, n = 0;
  for (uint32_t b = 0; b < f_.bins; ++b) {
    if (lost(b)) continue;
    const auto [begin, end] = bin_columns(b);
    double share = -1;
    for (uint32_t c = begin; c < end; ++c) {
      const uint32_t turn = f_.column_turn[c];
      if (turn == kNone32 || !std::isfinite(t_.sink_share[turn])) continue;
      share = std::max(share, t_.sink_share[turn]);
      sum += t_.sink_share[turn], n += 1;
    }
    const double w = std::max(1.0, f_.column_width() - gap());
    if (share < 0) {
      hatch(bin_x(b), kSinksTop, w, kSinksHeight);
      continue;
    }
    const double h = kSinksHeight * std::clamp(share, 0.0, 1.0);
    rect(bin_x(b), kSinksTop, w, kSinksHeight, p_.grid);
    rect(bin_x(b), kSinksTop + kSinksHeight - h, w, h, p_.textMuted);
  }
  if (n) text(f_.bars_x + 2, kSinksTop + 9, fmt::format("mean {:.0f} %", 100 * sum / n), p_.text, 11, TextAnchor::start, true);
  const char* unit = reads() ? "reads" : o_.settings.measure == Measure::density ? "/ 1,000" : measure_name(o_.settings.measure);
  text(o_.width - 10, kSinksTop + 9, unit, p_.textMuted, 11, TextAnchor::end);
}

// Columns add up: what is not among the rows is one row of its own, below them the sum of everything.
void MapBuilder::rest() {
  if (!reads()) return;
  const double y = f_.axis_y - 18, h = 11;
  const size_t others = t_.rows.size() - std::min(t_.rows.size(), o_.rows.size());
  double outside = 0, all = 0;
  std::unordered_set<size_t> among(o_.rows.begin(), o_.rows.end());
  for (size_t r = 0; r < t_.rows.size(); ++r) {
    if (t_.row_state[r] != CellState::value) continue;
    all += t_.row_value[r];
    if (!among.count(r)) outside += t_.row_value[r];
  }
  const char* what = o_.threshold >= 0 ? "below the threshold" : "outside the filter";
  if (others) {
    text(8, y + 9, fit_width(fmt::format("{} {}, sum", plural(int64_t(others), "span", "spans"), what), f_.cells_x - 16, 11), p_.textMuted);
    for (uint32_t b = 0; b < f_.bins; ++b) {
      const double w = std::max(1.0, f_.column_width() - gap());
      if (lost(b)) hatch(bin_x(b), y, w, h);
      else if (rest_[b] > 0) rect(bin_x(b), y, w, h, p_.reads_at(rest_[b]));
      else rect(bin_x(b), y + h - 1, w, 1, p_.zeroLine);
    }
    text(o_.width - 10, y + 9, grouped(int64_t(outside)), p_.textMuted, 11, TextAnchor::end);
  }
  text(8, y + 23, fit_width(fmt::format("all {}: the strip on top", plural(int64_t(t_.rows.size()), "span", "spans")), f_.cells_x - 44, 11), p_.textMuted);
  text(o_.width - 10, y + 23, grouped(int64_t(all)), p_.textMuted, 11, TextAnchor::end);
}

void MapBuilder::axis() {
  const double y = f_.axis_y;
  const double width = f_.cells_w / std::max(1u, f_.columns);
  uint32_t step = 1;
  for (uint32_t s : {1u, 2u, 4u, 8u, 16u, 32u, 64u, 128u, 256u, 512u, 1024u}) {
    step = s;
    if (width * s >= 26) break;
  }
  const auto center = [&](uint32_t column) { return f_.cells_x + f_.cells_w * (column + 0.5) / f_.columns; };
  text(f_.cells_x - 8, y + 14, "turn", p_.textMuted, 11, TextAnchor::end);
  const uint32_t last = f_.columns - 1;
  double cursor_x = -1e9;
  if (o_.cursor < t_.turns) {
    cursor_x = f_.turn_x(o_.cursor) + f_.column_width() / 2;
    DrawItem& mark = add(DrawItem::Kind::polygon);
    mark.points = {{cursor_x - 4, y + 4}, {cursor_x + 4, y + 4}, {cursor_x, y - 2}};
    mark.fill = p_.accent;
    text(cursor_x, y + 14, fmt::format("{}", s_.turns[o_.cursor].turn + 1), p_.accent, 11, TextAnchor::middle, true);
  }
  for (uint32_t c = 0; c < f_.columns; ++c) {
    const uint32_t number = f_.first_turn + c + 1;
    const bool end = c == 0 || c == last;
    if (!end && number % step != 0) continue;
    const double x = center(c);
    if (std::fabs(x - cursor_x) < 18) continue;
    if (!end && ((last - c) * width < 20 || c * width < 16)) continue;
    text(x, y + 14, fmt::format("{}", number), p_.textMuted, 11, TextAnchor::middle);
  }
}

}  // namespace spanscope
