// SPDX-License-Identifier: GPL-3.0-or-later
// JSON from untrusted bytes: bounded depth, exact UTF-8 check, errors with line and column. Any thread.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "core/base/result.h"

namespace spanscope {
using Json = nlohmann::json;           // keys sorted
using OrderedJson = nlohmann::ordered_json;  // keys as written

struct JsonLimits {
  uint32_t depth = 128;
};
// `where` names the file (and record) in errors; `first_line` is the line of the file at which `text` begins.
Result<OrderedJson> parse_json(std::string_view text, const std::string& where, uint64_t first_line = 1,
                               JsonLimits limits = {});

// Byte offset of the first byte that is not well-formed UTF-8, or npos.
size_t find_invalid_utf8(std::string_view text);
}  // namespace spanscope
