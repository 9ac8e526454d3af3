// SPDX-License-Identifier: GPL-3.0-or-later
// JSON pieces that several commands print: findings, and null for what is missing.
#pragma once
#include <cmath>

#include "core/base/json.h"
#include "core/record/session_data.h"
#include "core/record/units.h"

namespace spanscope {

inline OrderedJson number_or_null(double x) { return std::isfinite(x) ? OrderedJson(x) : OrderedJson(); }
inline OrderedJson number_or_null(const Value& v) { return v.ok() ? number_or_null(v.number) : OrderedJson(); }
inline OrderedJson index_or_null(int64_t i) { return i < 0 ? OrderedJson() : OrderedJson(i); }
inline OrderedJson span_or_null(SpanId id) { return id == kNoSpan ? OrderedJson() : OrderedJson(id); }

inline const char* grade_name(Grade g) {
  switch (g) {
    case Grade::info: return "info";
    case Grade::warning: return "warning";
    case Grade::loss: return "loss";
    case Grade::error: return "error";
  }
  return "error";
}

inline OrderedJson findings_json(const std::vector<Finding>& findings) {
  OrderedJson out = OrderedJson::array();
  for (const Finding& f : findings)
    out.push_back({{"grade", grade_name(f.grade)}, {"tag", f.tag}, {"message", f.message}, {"where", f.where},
                   {"offset", f.offset ? OrderedJson(*f.offset) : OrderedJson()}});
  return out;
}

inline bool has_loss(const std::vector<Finding>& findings) {
  for (const Finding& f : findings)
    if (f.grade >= Grade::loss) return true;
  return false;
}

inline std::string dump(const OrderedJson& json) { return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace); }

}  // namespace spanscope
