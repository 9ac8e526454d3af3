// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/report/figure/map_figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/report/figure/map_builder.h"
#include "core/report/figure/text_width.h"
#include "core/report/text.h"

namespace spanscope {
namespace {

constexpr double kTop = 108;    // legend, strip and sinks above the rows
constexpr double kBottom = 62;  // threshold's label, rest and axis below them
constexpr double kSums = 118;   // bars and values at the right

double log_part(double v, double low, double high) { return v <= 0 || low <= 0 || high <= low ? 0 : std::log(v / low) / std::log(high / low); }

}  // namespace

DrawItem& MapBuilder::add(DrawItem::Kind kind) {
  f_.list.items.emplace_back();
  f_.list.items.back().kind = kind;
  return f_.list.items.back();
}
void MapBuilder::rect(double x, double y, double w, double h, Color fill, uint64_t id) {
  DrawItem& i = add(DrawItem::Kind::rect);
  i.x = x, i.y = y, i.w = w, i.h = h, i.fill = fill, i.id = id;
}
void MapBuilder::line(double x, double y, double x2, double y2, Color c, double width, std::vector<double> dash) {
  DrawItem& i = add(DrawItem::Kind::line);
  i.x = x, i.y = y, i.w = x2 - x, i.h = y2 - y, i.stroke = c, i.stroke_width = width, i.dash = std::move(dash);
}
void MapBuilder::hatch(double x, double y, double w, double h) {
  DrawItem& i = add(DrawItem::Kind::hatch);
  i.x = x, i.y = y, i.w = w, i.h = h, i.stroke = p_.hatchLine, i.fill = p_.hatchBack;
}
void MapBuilder::text(double x, double y, std::string value, Color c, double size, TextAnchor anchor, bool bold) {
  DrawItem& i = add(DrawItem::Kind::text);
  i.x = x, i.y = y, i.text = std::move(value), i.fill = c, i.size = size, i.anchor = anchor, i.bold = bold;
}
Color MapBuilder::faded(Color c, bool dim) const {
  if (!dim) return c;
  const auto mix = [](uint8_t a, uint8_t b) { return uint8_t(std::lround(0.35 * a + 0.65 * b)); };
  return {mix(c.r, p_.panel.r), mix(c.g, p_.panel.g), mix(c.b, p_.panel.b)};
}

bool MapBuilder::lost(uint32_t bin) const {
  const auto [begin, end] = bin_columns(bin);
  for (uint32_t c = begin; c < end; ++c)
    if (f_.column_turn[c] != kNone32) return false;
  return true;
}

void MapBuilder::lay_out() {
  f_.turns = t_.turns;
  f_.first_turn = s_.turns.empty() ? 0 : s_.turns.front().turn;
  f_.columns = s_.turns.empty() ? 0 : s_.turns.back().turn - f_.first_turn + 1;
  // A hostile or strange numbering of turns is not drawn column by column.
  const bool odd = f_.columns < t_.turns || f_.columns > 4 * uint64_t(t_.turns) + 4096;
  if (odd) f_.columns = t_.turns;
  f_.column_turn.assign(f_.columns, kNone32);
  for (uint32_t t = 0; t < t_.turns; ++t) {
    const uint32_t c = odd ? t : s_.turns[t].turn - f_.first_turn;
    if (c < f_.columns) f_.column_turn[c] = t;
  }
  f_.row_height = std::max(o_.row_height, 1.0 / 64);
  f_.cells_x = o_.width < 760 ? 194 : 230;
  const double room = std::max(40.0, o_.width - f_.cells_x - kSums);
  f_.bins = std::max(1u, std::min(f_.columns, uint32_t(room)));
  double column = room / f_.bins;
  if (column >= 3) column = std::floor(column);  // whole pixels: cells of one size
  column = std::min(column, 28.0);
  f_.cells_w = column * f_.bins;
  f_.bars_x = f_.cells_x + f_.cells_w + 8;
  f_.bars_w = std::clamp(o_.width - f_.bars_x - 58, 40.0, 160.0);
  f_.cells_y = kTop;
  f_.all_rows = o_.rows.size();
  f_.first_row = std::min(o_.first_row, f_.all_rows);
  f_.shown_rows = f_.all_rows - f_.first_row;
  if (o_.height > 0) {
    const double room_y = std::max(f_.row_height, o_.height - kTop - kBottom);
    f_.shown_rows = std::min(f_.shown_rows, size_t(room_y / f_.row_height));
  }
  f_.rows_end = f_.cells_y + double(f_.shown_rows) * f_.row_height;
  f_.axis_y = (o_.height > 0 ? std::max(f_.rows_end, o_.height - kBottom) : f_.rows_end) + 36;
  f_.list.width = o_.width;
  f_.list.height = f_.axis_y + 22;
  f_.list.title = "Spans by turns";
  f_.list.description = fmt::format("{} of {} messages in {} turns, {}; a column is one turn's answer", o_.rows.size(), t_.rows.size(), t_.turns,
                                    measure_name(o_.settings.measure));
}

MapFigure MapBuilder::build() {
  f_.list.items.reserve(o_.rows.size() * 24 + 512);
  lay_out();
  legend();
  if (t_.turns) {
    strip();
    sinks();
  }
  rows();
  if (t_.turns) {
    rest();
    axis();
  }
  return std::move(f_);
}

double MapBuilder::largest() const {
  if (largest_ < 0) {
    largest_ = 1e-12;
    for (const Cell& c : t_.cells)
      if (c.state == CellState::value) largest_ = std::max(largest_, c.number);
  }
  return largest_;
}

Color MapBuilder::cell_color(double value) const {
  switch (o_.settings.measure) {
    case Measure::reads: return p_.reads_at(value);
    case Measure::share: return p_.sequential_at(log_part(value, 0.002, 0.30));
    case Measure::lift: {  // log2 around 1x: half of it is as far from the middle as twice
      const double at = std::clamp(value > 0 ? std::log2(value) / 4 : -1.0, -1.0, 1.0);
      return p_.diverging[size_t(std::lround(16 + 16 * at))];
    }
    default: return p_.sequential_at(log_part(value, largest() / 150, largest()));
  }
}

Cell MapBuilder::drawn(size_t row, uint32_t column) const {
  const uint32_t turn = f_.column_turn[column];
  const Span& span = s_.ledger[t_.rows[row]];
  if (turn == kNone32) {
    Cell c;
    c.state = span.birth <= f_.first_turn + column ? CellState::missing : CellState::absent;
    return c;
  }
  Cell c = t_.at(row, turn);
  // An answer cannot be read before it ends.
  if (c.state != CellState::absent && span.message >= 0 && span.message == s_.turns[turn].message && !(c.number > 0)) c.state = CellState::absent;
  return c;
}

Cell stronger(const Cell& a, const Cell& b) {
  const auto rank = [](CellState s) { return s == CellState::value ? 3 : s == CellState::idle ? 2 : s == CellState::missing ? 1 : 0; };
  const bool second = rank(b.state) > rank(a.state) || (a.state == CellState::value && b.state == CellState::value && b.number > a.number);
  Cell out = second ? b : a;
  out.was_read = a.was_read || b.was_read;
  out.request = a.request || b.request;
  return out;
}

Cell pool_cells(const CellTable& table, size_t row, uint32_t begin, uint32_t end) {
  Cell best;
  for (uint32_t t = begin; t < end; ++t) best = stronger(best, table.at(row, t));
  return best;
}

Cell MapBuilder::pooled(size_t row, uint32_t bin) const {
  const auto [begin, end] = bin_columns(bin);
  Cell best = drawn(row, begin);
  for (uint32_t c = begin + 1; c < end; ++c) best = stronger(best, drawn(row, c));
  return best;
}

void MapBuilder::cell(const Cell& c, double x, double y, double w, double h, bool left_after, bool dim) {
  switch (c.state) {
    case CellState::absent: return;
    case CellState::missing: hatch(x, y, w + gap(), h + 1); return;
    case CellState::idle: {
      DrawItem& box = add(DrawItem::Kind::rect);
      box.x = x + 0.5, box.y = y + 0.5, box.w = w - 1, box.h = h - 1, box.stroke = faded(p_.zeroLine, dim);
      if (w >= 4 && h >= 4) rect(x + w / 2 - 0.75, y + h / 2 - 0.75, 1.5, 1.5, faded(p_.textFaint, dim));
      return;
    }
    case CellState::value: break;
  }
  if (reads()) {
    if (c.number <= 0) rect(x, y + h - 1, w, 1, faded(p_.zeroLine, dim));
    else if (!c.was_read && h >= 4) {
      const double block = std::max(2.0, std::round(h * 0.36));
      rect(x, y + h - block, w, block, faded(p_.reads_at(c.number), dim));
    } else {
      rect(x, y, w, h, faded(p_.reads_at(c.number), dim));
    }
  } else {
    rect(x, y, w, h, faded(cell_color(c.number), dim));
  }
  if (c.request && h >= 8 && w >= 5) {
    DrawItem& notch = add(DrawItem::Kind::polygon);
    notch.points = {{x, y + h / 2 - 2}, {x + 2, y + h / 2}, {x, y + h / 2 + 2}};
    notch.fill = p_.panel;
  }
  if (left_after) rect(x + w + 0.5, y, 1.5, h, p_.crosshair);
}

std::string MapBuilder::sum_text(size_t row) const {
  if (t_.row_state[row] == CellState::idle) return "idle";
  if (t_.row_state[row] != CellState::value) return "–";
  const double v = t_.row_value[row];
  switch (o_.settings.measure) {
    case Measure::reads: return grouped(int64_t(v));
    case Measure::share: return percent(v);
    case Measure::lift: return fmt::format("{:.{}f}×", v, v < 10 ? 1 : 0);
    case Measure::density: return percent(v * 1000);
    default: return v >= 100 ? grouped(int64_t(std::llround(v))) : fmt::format("{:.1f}", v);
  }
}

void MapBuilder::row(size_t r, double y) {
  const double h = f_.row_height;
  const SpanId id = t_.rows[r];
  const Span& span = s_.ledger[id];
  const bool marked = std::find(o_.marked.begin(), o_.marked.end(), id) != o_.marked.end();
  const bool dim = r < o_.dimmed.size() && o_.dimmed[r] && !marked;
  if (marked) {
    rect(4, y - 0.5, f_.cells_x - 12, h, p_.selection);
    rect(f_.bars_x - 2, y - 0.5, o_.width - f_.bars_x - 2, h, p_.selection);
  }
  const double base = y + h / 2 + 3.6;
  if (h >= 9) {
    const Color ink = marked ? p_.onSelection : faded(p_.text, dim);
    text(8, base, span_label(id), marked ? p_.onSelection : faded(p_.textFaint, dim), 11);
    text(35, base, std::string(1, role_letter(span.role)), faded(p_.role(span.role), dim), 11, TextAnchor::middle, true);
    const bool pinned = std::find(o_.pinned.begin(), o_.pinned.end(), id) != o_.pinned.end();
    text(44, base, fit_width(span.name.empty() ? span.role : span.name, f_.cells_x - 52 - (pinned ? 16 : 0), 11, marked), ink, 11, TextAnchor::start, marked);
    if (pinned) {
      const double x = f_.cells_x - 16, mid = y + h / 2;
      DrawItem& head = add(DrawItem::Kind::rect);
      head.x = x - 2, head.y = mid - 4, head.w = 4, head.h = 4, head.stroke = p_.pinned, head.stroke_width = 1.1;
      line(x - 3.5, mid + 0.5, x + 3.5, mid + 0.5, p_.pinned, 1.2);
      line(x, mid + 0.5, x, mid + 4.5, p_.pinned, 1.2);
    }
  }
  const double inner = std::max(1.0, h - (h >= 6 ? 1 : 0));
  rect(f_.cells_x - 6, y, 4, inner, faded(p_.role(span.role), dim), id);
  if (h >= 4) {
    Cell now = t_.turns ? pooled(r, 0) : Cell{};
    for (uint32_t b = 0; b < f_.bins && t_.turns; ++b) {
      const Cell next = b + 1 < f_.bins ? pooled(r, b + 1) : now;
      const bool gone = now.state != CellState::absent && next.state == CellState::absent && h >= 6;
      cell(now, bin_x(b), y, f_.column_width() - gap(), inner, gone, dim);
      now = next;
    }
  } else {
    // Low rows: runs of equal cells are one shape.
    for (uint32_t b = 0; b < f_.bins && t_.turns;) {
      const Cell here = pooled(r, b);
      uint32_t end = b + 1;
      for (; end < f_.bins; ++end) {
        const Cell next = pooled(r, end);
        if (next.state != here.state || next.number != here.number) break;
      }
      const double x = bin_x(b), w = (end == f_.bins ? f_.cells_x + f_.cells_w : bin_x(end)) - x;
      if (here.state == CellState::missing) hatch(x, y, w, inner);
      else if (here.state == CellState::idle || (here.state == CellState::value && reads() && here.number <= 0)) rect(x, y, w, inner, faded(p_.grid, false));
      else if (here.state == CellState::value) rect(x, y, w, inner, faded(cell_color(here.number), dim));
      b = end;
    }
  }
  if (t_.row_state[r] == CellState::value) {
    const double w = f_.bars_w * std::clamp(t_.row_value[r] / f_.bar_max, 0.0, 1.0);
    if (w > 0) rect(f_.bars_x, y + std::max(0.0, inner * 0.15), std::max(1.0, w), std::max(1.0, inner * 0.7), marked ? p_.accent : faded(p_.borderStrong, dim));
  }
  if (h >= 9) text(o_.width - 10, base, sum_text(r), marked ? p_.onSelection : faded(p_.text, dim), 11, TextAnchor::end, marked);
  if (marked && h >= 6) {
    line(f_.cells_x, y - 0.5, f_.cells_x + f_.cells_w, y - 0.5, p_.accent);
    line(f_.cells_x, y + inner + 0.5, f_.cells_x + f_.cells_w, y + inner + 0.5, p_.accent);
  }
}

// Rows lower than a pixel: each pixel shows the strongest of the cells that it touches.
void MapBuilder::pooled_rows() {
  const size_t lines = size_t(std::ceil(double(f_.shown_rows) * f_.row_height));
  for (size_t k = 0; k < lines; ++k) {
    const double y = f_.cells_y + double(k), h = 1;
    const size_t i = size_t(double(k) / f_.row_height);
    const size_t end = std::min(f_.shown_rows, std::max(i + 1, size_t(std::ceil(double(k + 1) / f_.row_height))));
    if (i >= f_.shown_rows) break;
    std::vector<Cell> line_cells(f_.bins);
    for (uint32_t b = 0; b < f_.bins && t_.turns; ++b)
      for (size_t r = i; r < end; ++r) line_cells[b] = stronger(line_cells[b], pooled(o_.rows[f_.first_row + r], b));
    for (uint32_t b = 0; b < f_.bins && t_.turns;) {
      const Cell& here = line_cells[b];
      uint32_t stop = b + 1;
      while (stop < f_.bins && line_cells[stop].state == here.state && line_cells[stop].number == here.number) ++stop;
      const double x = bin_x(b), w = bin_x(stop) - x;
      if (here.state == CellState::missing) hatch(x, y, w, h);
      else if (here.state == CellState::idle || (here.state == CellState::value && reads() && here.number <= 0)) rect(x, y, w, h, p_.grid);
      else if (here.state == CellState::value) rect(x, y, w, h, cell_color(here.number));
      b = stop;
    }
  }
}

void MapBuilder::rows() {
  f_.bar_max = reads() ? 1 : 1e-12;
  for (size_t r : o_.rows)
    if (t_.row_state[r] == CellState::value) f_.bar_max = std::max(f_.bar_max, t_.row_value[r]);
  if (f_.row_height < 1) pooled_rows();
  else
    for (size_t i = 0; i < f_.shown_rows; ++i) row(o_.rows[f_.first_row + i], f_.cells_y + double(i) * f_.row_height);
  if (f_.shown_rows) {
    line(f_.cells_x + f_.cells_w + 2.5, f_.cells_y - 2, f_.cells_x + f_.cells_w + 2.5, f_.rows_end, p_.border);
    line(f_.cells_x, f_.rows_end + 1.5, f_.cells_x + f_.cells_w + 3, f_.rows_end + 1.5, p_.border);
  }
  if (o_.threshold >= 0 && f_.shown_rows) {
    const double x = f_.bars_x + f_.bars_w * std::min(1.0, o_.threshold / f_.bar_max);
    line(x, f_.cells_y - 4, x, f_.rows_end + 4, p_.threshold, 1.5, {3, 2});
    DrawItem& mark = add(DrawItem::Kind::polygon);
    mark.points = {{x - 4, f_.rows_end + 10}, {x + 4, f_.rows_end + 10}, {x, f_.rows_end + 4}};
    mark.fill = p_.threshold;
    const std::string label = grouped(int64_t(o_.threshold)) + " reads";
    const double w = text_width(label, 11, true);
    text(std::clamp(x + 8, f_.bars_x, o_.width - 10 - w), f_.rows_end + 13, label, p_.threshold, 11, TextAnchor::start, true);
  }
}

size_t MapFigure::row_at(double y) const {
  if (y < cells_y || y >= rows_end || row_height <= 0) return SIZE_MAX;
  const size_t row = first_row + size_t((y - cells_y) / row_height);
  return row < first_row + shown_rows ? row : SIZE_MAX;
}
uint32_t MapFigure::column_at(double x) const {
  if (x < cells_x || x >= cells_x + cells_w || !bins || !columns) return kNone32;
  const uint32_t bin = std::min(bins - 1, uint32_t((x - cells_x) / cells_w * bins));
  return uint32_t(uint64_t(bin) * columns / bins);
}
uint32_t MapFigure::turn_at(double x) const {
  const uint32_t column = column_at(x);
  return column == kNone32 ? kNone32 : column_turn[column];
}
double MapFigure::turn_x(uint32_t turn) const {
  const auto it = std::find(column_turn.begin(), column_turn.end(), turn);
  if (it == column_turn.end()) return cells_x;
  // The bin whose columns hold it: the largest b with b * columns / bins <= column.
  const uint64_t column = uint64_t(it - column_turn.begin());
  uint64_t bin = column * bins / columns;
  while (bin + 1 < bins && (bin + 1) * columns / bins <= column) ++bin;
  return cells_x + cells_w * double(bin) / bins;
}

MapFigure build_map_figure(const SessionData& session, const CellTable& table, const MapFigureOptions& options) {
  return MapBuilder(session, table, options).build();
}

}  // namespace spanscope
