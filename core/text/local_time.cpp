// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/text/local_time.h"

#include <fmt/format.h>

#include <array>
#include <ctime>

namespace spanscope {
namespace {

constexpr std::array<const char*, 7> kDays = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};
constexpr std::array<const char*, 12> kMonths = {"January", "February", "March",     "April",   "May",      "June",
                                                 "July",    "August",   "September", "October", "November", "December"};
constexpr std::array<int, 12> kLengths = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

bool leap(int year) { return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0; }
int month_length(int year, int month) { return kLengths[size_t(month - 1)] + (month == 2 && leap(year) ? 1 : 0); }

bool number(std::string_view text, size_t at, size_t digits, int& out) {
  if (at + digits > text.size()) return false;
  out = 0;
  for (size_t i = at; i < at + digits; ++i) {
    if (text[i] < '0' || text[i] > '9') return false;
    out = out * 10 + (text[i] - '0');
  }
  return true;
}

int weeks(const LocalTime& t, int first_day) { return (day_of_year(t) + 6 - (day_of_week(t) - first_day + 7) % 7) / 7; }

// Week and year of ISO 8601: weeks begin on Monday, the first holds the year's first Thursday.
void iso_week(const LocalTime& t, int& week, int& year) {
  const int weekday = (day_of_week(t) + 6) % 7;  // 0: Monday
  year = t.year;
  week = (day_of_year(t) - 1 - weekday + 10) / 7;
  const auto weeks_in = [](int y) {
    const int january = day_of_week({y, 1, 1});
    return january == 4 || (january == 3 && leap(y)) ? 53 : 52;
  };
  if (week < 1) {
    --year;
    week = weeks_in(year);
  } else if (week > weeks_in(year)) {
    ++year;
    week = 1;
  }
}

}  // namespace

LocalTime local_time_now() {
  const std::time_t seconds = std::time(nullptr);
  std::tm tm{};
  localtime_r(&seconds, &tm);
  return {tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec};
}

int day_of_year(const LocalTime& t) {
  int out = t.day;
  for (int month = 1; month < t.month; ++month) out += month_length(t.year, month);
  return out;
}

int day_of_week(const LocalTime& t) {
  const int y = t.year - 1;
  return (y + y / 4 - y / 100 + y / 400 + day_of_year(t)) % 7;
}

Result<LocalTime> parse_local_time(std::string_view text) {
  LocalTime t;
  bool good = number(text, 0, 4, t.year) && text.size() >= 10 && text[4] == '-' && number(text, 5, 2, t.month) && text[7] == '-' &&
              number(text, 8, 2, t.day);
  if (good && text.size() > 10)
    good = text.size() >= 19 && (text[10] == ' ' || text[10] == 'T') && number(text, 11, 2, t.hour) && text[13] == ':' &&
           number(text, 14, 2, t.minute) && text[16] == ':' && number(text, 17, 2, t.second);
  if (good && text.size() > 19) {  // a fraction of a second
    good = text[19] == '.' && text.find_first_not_of("0123456789", 20) == std::string_view::npos;
  }
  good = good && t.year >= 1 && t.month >= 1 && t.month <= 12 && t.day >= 1 && t.day <= month_length(t.year, t.month) && t.hour < 24 &&
         t.minute < 60 && t.second < 61;
  if (!good)
    return make_error(ErrorCode::invalid, "SPAN-TIME", fmt::format("expected a time like 2026-11-30 14:05:09, found \"{}\"", text));
  return t;
}

std::string to_string(const LocalTime& t) {
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02}", t.year, t.month, t.day, t.hour, t.minute, t.second);
}

Result<std::string> format_local_time(std::string_view format, const LocalTime& t) {
  std::string out;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      out += format[i];
      continue;
    }
    char pad = 0;  // "-": no padding, "_": spaces, "0": zeros
    if (++i < format.size() && (format[i] == '-' || format[i] == '_' || format[i] == '0')) pad = format[i++];
    const auto put = [&](int value, size_t width, char fill = '0') {
      const std::string digits = std::to_string(value);
      if (pad == '_') fill = ' ';
      if (pad == '0') fill = '0';
      if (pad != '-' && digits.size() < width) out.append(width - digits.size(), fill);
      out += digits;
    };
    const int hour12 = t.hour % 12 == 0 ? 12 : t.hour % 12;
    const char* day = kDays[size_t(day_of_week(t))];
    const char* month = kMonths[size_t(t.month - 1)];
    int week = 0, year = 0;
    iso_week(t, week, year);
    switch (i < format.size() ? format[i] : '\0') {
      case 'a': out += std::string_view(day).substr(0, 3); break;
      case 'A': out += day; break;
      case 'b':
      case 'h': out += std::string_view(month).substr(0, 3); break;
      case 'B': out += month; break;
      case 'C': put(t.year / 100, 2); break;
      case 'd': put(t.day, 2); break;
      case 'e': put(t.day, 2, ' '); break;
      case 'f': out += "000000"; break;
      case 'G': put(year, 4); break;
      case 'g': put(year % 100, 2); break;
      case 'H': put(t.hour, 2); break;
      case 'I': put(hour12, 2); break;
      case 'j': put(day_of_year(t), 3); break;
      case 'k': put(t.hour, 2, ' '); break;
      case 'l': put(hour12, 2, ' '); break;
      case 'M': put(t.minute, 2); break;
      case 'm': put(t.month, 2); break;
      case 'n': out += '\n'; break;
      case 'P': out += t.hour < 12 ? "am" : "pm"; break;
      case 'p': out += t.hour < 12 ? "AM" : "PM"; break;
      case 'S': put(t.second, 2); break;
      case 't': out += '\t'; break;
      case 'U': put(weeks(t, 0), 2); break;
      case 'u': put(day_of_week(t) == 0 ? 7 : day_of_week(t), 1); break;
      case 'V': put(week, 2); break;
      case 'W': put(weeks(t, 1), 2); break;
      case 'w': put(day_of_week(t), 1); break;
      case 'Y': put(t.year, 1); break;
      case 'y': put(t.year % 100, 2); break;
      case 'z':
      case 'Z': break;  // a time without a zone prints none
      case '%': out += '%'; break;
      case 'D':
      case 'x': out += fmt::format("{:02}/{:02}/{:02}", t.month, t.day, t.year % 100); break;
      case 'F': out += fmt::format("{}-{:02}-{:02}", t.year, t.month, t.day); break;
      case 'R': out += fmt::format("{:02}:{:02}", t.hour, t.minute); break;
      case 'T':
      case 'X': out += fmt::format("{:02}:{:02}:{:02}", t.hour, t.minute, t.second); break;
      case 'r': out += fmt::format("{:02}:{:02}:{:02} {}", hour12, t.minute, t.second, t.hour < 12 ? "AM" : "PM"); break;
      case 'c':
        out += fmt::format("{:.3} {:.3} {:2} {:02}:{:02}:{:02} {}", day, month, t.day, t.hour, t.minute, t.second, t.year);
        break;
      default:
        return make_error(ErrorCode::unsupported, "SPAN-TIME",
                          fmt::format("the time format \"{}\" has a code that is not supported", format));
    }
  }
  return out;
}

}  // namespace spanscope
