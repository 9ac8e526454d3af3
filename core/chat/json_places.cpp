// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/chat/json_places.h"

#include <algorithm>
#include <string>

namespace spanscope {
namespace {

constexpr size_t npos = std::string_view::npos;

size_t skip_space(std::string_view s, size_t i) {
  while (i < s.size() && (s[i] == ' ' || s[i] == '\t' || s[i] == '\r' || s[i] == '\n')) ++i;
  return i;
}

// Behind the string that begins at i.
size_t skip_string(std::string_view s, size_t i) {
  for (++i; i < s.size(); ++i) {
    if (s[i] == '\\') ++i;
    else if (s[i] == '"') return i + 1;
  }
  return s.size();
}

size_t skip_value(std::string_view s, size_t i) {
  i = skip_space(s, i);
  size_t depth = 0;
  while (i < s.size()) {
    const char c = s[i];
    if (c == '"') {
      i = skip_string(s, i);
      if (depth == 0) return i;
      continue;
    }
    if (c == '[' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}') {
      if (depth == 0) return i;
      if (--depth == 0) return i + 1;
    } else if (depth == 0 && (c == ',' || c == ' ' || c == '\t' || c == '\r' || c == '\n')) {
      return i;
    }
    ++i;
  }
  return i;
}

}  // namespace

size_t json_member(std::string_view s, size_t at, std::string_view key) {
  size_t i = skip_space(s, at);
  if (i >= s.size() || s[i] != '{') return npos;
  i = skip_space(s, i + 1);
  size_t found = npos;
  while (i < s.size() && s[i] == '"') {
    const size_t end = skip_string(s, i);
    const std::string_view name = s.substr(i + 1, end - i - 2);
    i = skip_space(s, end);
    if (i < s.size() && s[i] == ':') i = skip_space(s, i + 1);
    if (name == key) found = i;  // of repeated keys the last one counts
    i = skip_space(s, skip_value(s, i));
    if (i < s.size() && s[i] == ',') i = skip_space(s, i + 1);
  }
  return found;
}

std::vector<size_t> json_elements(std::string_view s, size_t at) {
  std::vector<size_t> out;
  size_t i = skip_space(s, at);
  if (i >= s.size() || s[i] != '[') return out;
  i = skip_space(s, i + 1);
  while (i < s.size() && s[i] != ']') {
    out.push_back(i);
    i = skip_space(s, skip_value(s, i));
    if (i < s.size() && s[i] == ',') i = skip_space(s, i + 1);
    else break;
  }
  return out;
}

LineIndex::LineIndex(std::string_view text, uint64_t first_line) : first_line_(first_line) {
  for (size_t i = text.find('\n'); i != npos; i = text.find('\n', i + 1)) starts_.push_back(i + 1);
}

uint64_t LineIndex::line(size_t offset) const {
  return first_line_ + uint64_t(std::upper_bound(starts_.begin(), starts_.end(), offset) - starts_.begin());
}

}  // namespace spanscope
