// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/report/text.h"

#include <fmt/format.h>

#include <cmath>

namespace spanscope {
namespace {

// Length of the well-formed UTF-8 sequence at `i` (Unicode 15, table 3-7) and its code point, or 0.
size_t decode(std::string_view s, size_t i, uint32_t& code) {
  const auto byte = [&](size_t k) { return i + k < s.size() ? uint8_t(s[i + k]) : 0; };
  const auto tail = [&](size_t k) { return (byte(k) & 0xC0) == 0x80; };
  const uint8_t a = byte(0);
  if (a < 0x80) return code = a, 1;
  if (a >= 0xC2 && a <= 0xDF && tail(1)) return code = uint32_t(a & 0x1F) << 6 | (byte(1) & 0x3F), 2;
  if ((a & 0xF0) == 0xE0 && tail(1) && tail(2)) {
    code = uint32_t(a & 0x0F) << 12 | uint32_t(byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    return code >= 0x800 && !(code >= 0xD800 && code <= 0xDFFF) ? 3 : 0;
  }
  if (a >= 0xF0 && a <= 0xF4 && tail(1) && tail(2) && tail(3)) {
    code = uint32_t(a & 0x07) << 18 | uint32_t(byte(1) & 0x3F) << 12 | uint32_t(byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
    return code >= 0x10000 && code <= 0x10FFFF ? 4 : 0;
  }
  return 0;
}

// Characters that draw nothing and change how their neighbours are drawn or read.
bool invisible(uint32_t c) {
  return c == 0xAD || c == 0x61C || c == 0x180E || (c >= 0x200B && c <= 0x200F) || (c >= 0x2028 && c <= 0x202E) ||
         (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF || (c >= 0xFFF0 && c <= 0xFFFB) || (c >= 0xE0000 && c <= 0xE0FFF) ||
         (c & 0xFFFE) == 0xFFFE || (c >= 0xFDD0 && c <= 0xFDEF);
}

bool wide(uint32_t c) {
  return (c >= 0x1100 && c <= 0x115F) || (c >= 0x2E80 && c <= 0xA4CF) || (c >= 0xAC00 && c <= 0xD7A3) || (c >= 0xF900 && c <= 0xFAFF) ||
         (c >= 0xFE30 && c <= 0xFE6F) || (c >= 0xFF00 && c <= 0xFF60) || (c >= 0x1F300 && c <= 0x1FAFF) || (c >= 0x20000 && c <= 0x3FFFD);
}

}  // namespace

std::string visible_text(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    uint32_t code = 0;
    const size_t length = decode(text, i, code);
    if (length == 0) {
      out += "\xEF\xBF\xBD";
      ++i;
      continue;
    }
    if (code == '\n' || code == '\t' || code == '\r') out += ' ';
    else if (code < 0x20) out += {'\xE2', '\x90', char(0x80 + code)};  // U+2400 + code: the symbol for it
    else if (code == 0x7F) out += "\xE2\x90\xA1";
    else if ((code >= 0x80 && code < 0xA0) || invisible(code)) out += fmt::format("[U+{:04X}]", code);
    else out.append(text.substr(i, length));
    i += length;
  }
  return out;
}

std::string escape_html(std::string_view text) {
  std::string out;
  const std::string shown = visible_text(text);
  out.reserve(shown.size() + shown.size() / 8);
  for (char c : shown) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

size_t text_columns(std::string_view text) {
  size_t n = 0;
  for (size_t i = 0; i < text.size();) {
    uint32_t code = 0;
    const size_t length = decode(text, i, code);
    n += wide(code) ? 2 : 1;
    i += length ? length : 1;
  }
  return n;
}

std::string fit_columns(std::string_view text, size_t columns) {
  if (text_columns(text) <= columns) return std::string(text);
  size_t used = 0, end = 0;
  for (size_t i = 0; i < text.size();) {
    uint32_t code = 0;
    const size_t length = decode(text, i, code);
    used += wide(code) ? 2 : 1;
    if (used + 1 > columns) break;
    i += length ? length : 1;
    end = i;
  }
  while (end > 0 && text[end - 1] == ' ') --end;
  return std::string(text.substr(0, end)) + "\xE2\x80\xA6";
}

std::string grouped(int64_t n) {
  const std::string digits = fmt::format("{}", n < 0 ? -uint64_t(n) : uint64_t(n));
  std::string out = n < 0 ? "\xE2\x88\x92" : "";
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i && (digits.size() - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out;
}

std::string percent(double share) {
  if (!std::isfinite(share)) return "\xE2\x80\x93";
  const double p = share * 100;
  if (p == 0) return "0\xC2\xA0%";
  if (p > 0 && p < 0.01) return "<\xC2\xA0""0.01\xC2\xA0%";
  return fmt::format("{:.{}f}\xC2\xA0%", p, p >= 99.95 ? 0 : p >= 9.995 ? 1 : 2);
}

std::string whole_percent(double share) {
  return std::isfinite(share) ? fmt::format("{:.0f}\xC2\xA0%", share * 100) : std::string("\xE2\x80\x93");
}

std::string fixed2(double x) { return std::isfinite(x) ? fmt::format("{:.2f}", x) : std::string("\xE2\x80\x93"); }
std::string span_label(uint32_t id) { return fmt::format("{:03}", id); }
std::string plural(int64_t n, const char* one, const char* many) { return grouped(n) + " " + (n == 1 ? one : many); }

std::string shell_quote(const std::string& word) {
  if (!word.empty() && word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,+@%") == std::string::npos && word[0] != '-')
    return word;
  std::string out = "'";
  for (char c : word) {
    if (c == '\'') out += "'\\''";
    else out += c;
  }
  return out + "'";
}

}  // namespace spanscope
