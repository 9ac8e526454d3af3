// SPDX-License-Identifier: GPL-3.0-or-later
// The report's own pictures as display lists, laid out for a page 880 px wide. Any thread.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "core/report/figure/display_list.h"
#include "core/record/session_data.h"

namespace spanscope {

inline constexpr double kPageWidth = 880;

struct Picture {
  DisplayList list;
  std::vector<std::string> largest;  // "126 reads of 088 in turn 64"
};

// One line a span over turns; breaks where there is no value.
struct LineSeries {
  std::string label, name;
  std::vector<double> values;  // [turns] NaN: none
};
Picture lines_picture(const std::string& title, const std::vector<uint32_t>& turns, const std::vector<LineSeries>& series, bool as_percent, double width);
// Two pictures beside each other.
Picture beside(Picture left, Picture right, double gap);

// Picks per token of each expert, a row a mixture layer; prefill and decode apart.
struct ExpertLoad {
  uint32_t layers = 0, experts = 0;
  uint64_t tokens[2] = {0, 0};       // prompt rows, answer rows
  std::vector<uint64_t> picks[2];    // [layers][experts]
  std::vector<uint32_t> model_layer; // [layers] the model's own number of each mixture layer
};
std::optional<ExpertLoad> expert_load(const SessionData& session);
Picture expert_picture(const ExpertLoad& load);

// An <svg> element. `prefix` keeps the ids of patterns and clips of several pictures in one page apart; `alt` is the text
// alternative (escaped here).
std::string inline_svg(const DisplayList& list, const std::string& prefix, const std::string& alt);

// Shapes, for the pictures' builders.
DrawItem draw_rect(double x, double y, double w, double h, Color fill);
DrawItem draw_line(double x, double y, double x2, double y2, Color stroke, double width = 1);
DrawItem draw_text(double x, double y, std::string text, Color fill, double size = 11, TextAnchor anchor = TextAnchor::start, bool bold = false);
DrawItem draw_hatch(double x, double y, double w, double h);
// Keeps the three largest of the values it is given.
class ThreeLargest {
 public:
  void add(double value, std::string text);
  std::vector<std::string> take();

 private:
  std::vector<std::pair<double, std::string>> best_;
};

}  // namespace spanscope
