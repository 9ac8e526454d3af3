// SPDX-License-Identifier: GPL-3.0-or-later
// A date and time as a clock on the wall shows it. Templates print it; one value serves a whole conversation, so that
// its prompts agree. Any thread.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace spanscope {

struct LocalTime {
  int year = 1970, month = 1, day = 1, hour = 0, minute = 0, second = 0;
  bool operator==(const LocalTime&) const = default;
};

LocalTime local_time_now();
// "2026-11-30 14:05:09", with T in place of the space, or the date alone.
Result<LocalTime> parse_local_time(std::string_view text);
std::string to_string(const LocalTime& time);
int day_of_year(const LocalTime& time);  // from 1
int day_of_week(const LocalTime& time);  // 0: Sunday

// C's strftime with English names. A code that is not known is an error.
Result<std::string> format_local_time(std::string_view format, const LocalTime& time);

}  // namespace spanscope
