// SPDX-License-Identifier: GPL-3.0-or-later
// What the parts of the map share while it is built. Inner header of this room.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "core/report/figure/map_figure.h"
#include "core/report/figure/palette.h"

namespace spanscope {

class MapBuilder {
 public:
  MapBuilder(const SessionData& session, const CellTable& table, const MapFigureOptions& options)
      : s_(session), t_(table), o_(options), p_(palette(options.dark)) {}
  MapFigure build();

 private:
  // map_frame.cpp: what stands around the rows
  void legend();
  void strip();
  void role_key(const std::vector<double>& totals, double x, double y);
  void sinks();
  void rest();
  void axis();
  // map_figure.cpp
  void lay_out();
  void rows();
  void row(size_t table_row, double y);
  void pooled_rows();
  void cell(const Cell& c, double x, double y, double w, double h, bool left_after, bool dim);
  // Cell of a row in a column, as it is drawn: an answer's own turn counts as absent, a turn that is lost as missing.
  Cell drawn(size_t table_row, uint32_t column) const;
  Cell pooled(size_t table_row, uint32_t bin) const;
  std::string sum_text(size_t table_row) const;
  Color cell_color(double value) const;
  double largest() const;

  bool reads() const { return o_.settings.measure == Measure::reads; }
  double bin_x(uint32_t bin) const { return f_.cells_x + f_.cells_w * bin / f_.bins; }
  std::pair<uint32_t, uint32_t> bin_columns(uint32_t bin) const {
    return {uint32_t(uint64_t(bin) * f_.columns / f_.bins), uint32_t(uint64_t(bin + 1) * f_.columns / f_.bins)};
  }
  double gap() const { return f_.column_width() >= 4 ? 1 : 0; }
  // All columns of the bin are turns that the session does not have.
  bool lost(uint32_t bin) const;

  DrawItem& add(DrawItem::Kind kind);
  void rect(double x, double y, double w, double h, Color fill, uint64_t id = 0);
  void line(double x, double y, double x2, double y2, Color c, double width = 1, std::vector<double> dash = {});
  void hatch(double x, double y, double w, double h);
  void text(double x, double y, std::string value, Color c, double size = 11, TextAnchor anchor = TextAnchor::start, bool bold = false);
  Color faded(Color c, bool dim) const;

  const SessionData& s_;
  const CellTable& t_;
  const MapFigureOptions& o_;
  const Palette& p_;
  MapFigure f_;
  std::vector<double> rest_;  // [bins] reads of what is not among the rows
  mutable double largest_ = -1;
};

}  // namespace spanscope
