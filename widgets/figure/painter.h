// SPDX-License-Identifier: GPL-3.0-or-later
// Paints a display list. The painter never re-wraps: what core laid out is what is drawn. UI thread.
#pragma once
#include "core/report/figure/display_list.h"

class QPainter;

namespace spanscope {
void paintDisplayList(QPainter& painter, const DisplayList& list);
}  // namespace spanscope
