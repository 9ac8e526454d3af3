// SPDX-License-Identifier: GPL-3.0-or-later
// The program's colours, light and dark: one table for window, SVG and report. Values are the design's palette; contrast
// and colour-vision distances were checked there. Any thread.
#pragma once
#include <string>
#include <vector>

#include "core/report/figure/display_list.h"

namespace spanscope {

struct Palette {
  bool dark = false;
  Color window, panel, panelAlt, header, field, border, borderStrong, grid, text, textMuted, textFaint, accent, onAccent, accentSoft, selection, onSelection, focus, hover, pinned, crosshair, threshold, zeroLine, hatchLine, hatchBack, empty, ok, okSoft, warn, warnSoft, error, errorSoft, info, infoSoft, captured, rerun, approx, missing, synString, synNumber, synKeyword, synField;
  std::vector<Color> sequential;  // 33 stops, low to high: more always stands out more
  std::vector<Color> reads;       // 33 stops for counts from 1 to 128, logarithmic
  std::vector<Color> diverging;   // 33 stops, 16 is zero
  std::vector<Color> experts;     // 8

  Color role(const std::string& role) const;  // system, user, assistant, tool, document, template, sink
  Color sequential_at(double fraction) const; // 0..1
  Color reads_at(double count) const;         // from 1; below 1 the first colour
};

const Palette& palette(bool dark);
char role_letter(const std::string& role);  // S U A T D # 0, ? for a role without a letter

}  // namespace spanscope
