// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/commands/table.h"

namespace spanscope {
namespace {

std::string csv_cell(const OrderedJson& value) {
  if (value.is_null()) return "";
  std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + "\"";
}

}  // namespace

std::string ExportTable::to_csv() const {
  std::string out;
  for (const std::string& line : caption) out += "# " + line + "\n";
  for (size_t i = 0; i < columns.size(); ++i) out += (i ? "," : "") + columns[i];
  out += "\n";
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) out += (i ? "," : "") + csv_cell(row[i]);
    out += "\n";
  }
  return out;
}

std::string ExportTable::to_json() const {
  // One row a line: an array of objects that people can also read with grep.
  std::string out = "[";
  for (size_t r = 0; r < rows.size(); ++r) {
    OrderedJson object = OrderedJson::object();
    for (size_t i = 0; i < columns.size(); ++i) object[columns[i]] = rows[r][i];
    out += (r ? ",\n " : "\n ") + object.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
  }
  return out + (rows.empty() ? "]\n" : "\n]\n");
}

}  // namespace spanscope
