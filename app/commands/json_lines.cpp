// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/commands/json_lines.h"

#include <algorithm>

#include "core/base/files.h"

namespace spanscope {

Status for_each_json_line(const std::string& path, const std::function<Status(const OrderedJson& value, const std::string& where)>& use) {
  auto bytes = read_file(path);
  if (!bytes) return std::move(bytes).error();
  std::string_view rest = *bytes;
  for (uint64_t number = 1; !rest.empty(); ++number) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    auto json = parse_json(line, path, number);
    if (!json) return std::move(json).error();
    SPANSCOPE_TRY(use(*json, path + ":" + std::to_string(number)));
  }
  return {};
}

}  // namespace spanscope
