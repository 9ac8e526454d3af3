// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/commands/table.h"

#include <cmath>

namespace spanscope {
namespace {

std::string csv_cell(const OrderedJson& value) {
  if (value.is_null() || (value.is_number_float() && !std::isfinite(value.get<double>()))) return "";
  if (!value.is_string()) return value.dump();
  // Through the JSON writer and back: bytes that are not UTF-8 become U+FFFD, as in JSON.
  std::string text = OrderedJson::parse(value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace)).get<std::string>();
  // A leading = + - @ would be a formula to a spreadsheet; names come from conversations, which can hold anything.
  if (!text.empty() && std::string("=+-@\t\r").find(text[0]) != std::string::npos) text.insert(text.begin(), '\'');
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
  for (const std::string& line : caption) {
    out += "# ";
    for (char c : line) out += c == '\n' || c == '\r' ? ' ' : c;
    out += "\n";
  }
  for (size_t i = 0; i < columns.size(); ++i) out.append(i ? "," : "").append(columns[i]);
  out += "\n";
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) out.append(i ? "," : "").append(csv_cell(row[i]));
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
