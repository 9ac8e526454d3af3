// SPDX-License-Identifier: GPL-3.0-or-later
// The one style sheet: docks, joined buttons, fields, tables. Everything else is the Fusion style with our palette.
#pragma once
#include <QString>

#include "core/report/figure/palette.h"

namespace spanscope::style {
QString sheet(const Palette& palette);
}  // namespace spanscope::style
