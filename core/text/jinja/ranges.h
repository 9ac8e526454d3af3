// SPDX-License-Identifier: GPL-3.0-or-later
// From a string's runs to the ranges that the program's other parts read. Thread: one render.
#pragma once
#include <vector>

#include "core/text/chat_template.h"
#include "core/text/jinja/fields.h"

namespace spanscope::jinja {

// Runs of neighbouring bytes of one field, sorted. `leaves`: fields down to the strings; otherwise Fields::group.
// `fields_of` gets each range's field.
std::vector<OriginRange> origin_ranges(const Fields& fields, std::string_view text, const std::vector<Run>& runs, bool leaves,
                                       std::vector<FieldId>* fields_of = nullptr);

}  // namespace spanscope::jinja
