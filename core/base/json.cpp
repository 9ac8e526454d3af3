// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/base/json.h"

namespace spanscope {
namespace {

struct Place {
  uint64_t line, column;
};
Place place_of(std::string_view text, size_t offset, uint64_t first_line) {
  Place place{first_line, 1};
  for (size_t i = 0; i < offset && i < text.size(); ++i) {
    if (text[i] == '\n') {
      ++place.line;
      place.column = 1;
    } else {
      ++place.column;
    }
  }
  return place;
}

// Depth is checked before anything is built, so that hostile nesting cannot exhaust the stack.
bool too_deep(std::string_view text, uint32_t limit, size_t& at) {
  uint32_t depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      else if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > limit) {
        at = i;
        return true;
      }
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return false;
}

}  // namespace

size_t find_invalid_utf8(std::string_view s) {
  size_t i = 0;
  auto continuation = [&](size_t k) { return k < s.size() && (uint8_t(s[k]) & 0xc0) == 0x80; };
  while (i < s.size()) {
    const uint8_t c = uint8_t(s[i]);
    if (c < 0x80) {
      ++i;
    } else if (c >= 0xc2 && c <= 0xdf) {
      if (!continuation(i + 1)) return i;
      i += 2;
    } else if (c >= 0xe0 && c <= 0xef) {
      if (!continuation(i + 1) || !continuation(i + 2)) return i;
      const uint8_t d = uint8_t(s[i + 1]);
      if ((c == 0xe0 && d < 0xa0) || (c == 0xed && d > 0x9f)) return i;
      i += 3;
    } else if (c >= 0xf0 && c <= 0xf4) {
      if (!continuation(i + 1) || !continuation(i + 2) || !continuation(i + 3)) return i;
      const uint8_t d = uint8_t(s[i + 1]);
      if ((c == 0xf0 && d < 0x90) || (c == 0xf4 && d > 0x8f)) return i;
      i += 4;
    } else {
      return i;
    }
  }
  return std::string_view::npos;
}

Result<OrderedJson> parse_json(std::string_view text, const std::string& where, uint64_t first_line, JsonLimits limits) {
  auto fail = [&](std::string tag, ErrorCode code, std::string message, size_t offset) {
    const Place place = place_of(text, offset, first_line);
    return make_error(code, std::move(tag), std::move(message),
                      where + ":" + std::to_string(place.line) + ":" + std::to_string(place.column), offset);
  };
  if (const size_t bad = find_invalid_utf8(text); bad != std::string_view::npos)
    return fail("SPAN-UTF8", ErrorCode::corrupt, "invalid UTF-8", bad);
  size_t at = 0;
  if (too_deep(text, limits.depth, at))
    return fail("SPAN-JSON-DEPTH", ErrorCode::limit, "nested deeper than " + std::to_string(limits.depth) + " levels", at);
  try {
    return OrderedJson::parse(text.begin(), text.end());
  } catch (const nlohmann::json::parse_error& error) {
    std::string what = error.what();
    if (const size_t colon = what.find("syntax error"); colon != std::string::npos) what = what.substr(colon);
    return fail("SPAN-JSON", ErrorCode::corrupt, what, error.byte > 0 ? error.byte - 1 : 0);
  } catch (const std::exception& error) {
    return fail("SPAN-JSON", ErrorCode::corrupt, error.what(), 0);
  }
}

}  // namespace spanscope
