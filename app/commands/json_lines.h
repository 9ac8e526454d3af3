// SPDX-License-Identifier: GPL-3.0-or-later
// Files with one JSON value a line, for commands that answer line by line.
#pragma once
#include <functional>
#include <string>

#include "core/base/json.h"

namespace spanscope {

// use(value, "FILE:LINE") for every line that is not blank. Stops at the first line that cannot be read, or that use()
// refuses, and returns its error.
Status for_each_json_line(const std::string& path, const std::function<Status(const OrderedJson& value, const std::string& where)>& use);

}  // namespace spanscope
