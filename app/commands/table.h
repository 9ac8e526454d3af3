// SPDX-License-Identifier: GPL-3.0-or-later
// A table of JSON values written as CSV or JSON. Missing values are empty in CSV and null in JSON.
#pragma once
#include <string>
#include <vector>

#include "core/base/json.h"

namespace spanscope {

struct ExportTable {
  std::vector<std::string> columns;
  std::vector<std::string> caption;              // "# ..." lines of the CSV: what the numbers are
  std::vector<std::vector<OrderedJson>> rows;    // as many values as columns

  std::string to_csv() const;   // RFC 4180 quoting, lines end with \n
  std::string to_json() const;  // an array of objects
};

}  // namespace spanscope
