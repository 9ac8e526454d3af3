// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/span/split.h"

#include <algorithm>
#include <charconv>

namespace spanscope {
namespace {

enum BorderClass : uint8_t { kHeading = 0, kBlankLine, kItem, kSentence, kLine, kToken, kForbidden };

struct Border {
  uint64_t byte;
  BorderClass kind;
};
struct Fence {
  uint64_t begin, end;
};

bool space_or_tab(char c) { return c == ' ' || c == '\t'; }

std::string_view without_indent(std::string_view line) {
  size_t i = 0;
  while (i < line.size() && i < 3 && line[i] == ' ') ++i;
  return line.substr(i);
}

bool is_heading(std::string_view line) {
  line = without_indent(line);
  size_t n = 0;
  while (n < line.size() && line[n] == '#') ++n;
  return n >= 1 && n <= 6 && (n == line.size() || space_or_tab(line[n]));
}

bool is_item(std::string_view line) {
  line = without_indent(line);
  size_t n = 0;
  if (!line.empty() && (line[0] == '-' || line[0] == '*' || line[0] == '+')) {
    n = 1;
  } else {
    while (n < line.size() && n < 9 && line[n] >= '0' && line[n] <= '9') ++n;
    if (n == 0 || n >= line.size() || (line[n] != '.' && line[n] != ')')) return false;
    ++n;
  }
  return n < line.size() && space_or_tab(line[n]);
}

// Length of the run of back quotes or tildes that opens or closes a fence; 0: no fence line.
size_t fence_length(std::string_view line, char& mark) {
  line = without_indent(line);
  if (line.empty() || (line[0] != '`' && line[0] != '~')) return 0;
  size_t n = 0;
  while (n < line.size() && line[n] == line[0]) ++n;
  mark = line[0];
  return n >= 3 ? n : 0;
}

bool blank(std::string_view line) { return line.find_first_not_of(" \t\r\n") == std::string_view::npos; }

// Borders that lines make, and the fenced blocks. Inside a fence a line is code: neither heading nor item.
void line_borders(std::string_view text, std::vector<Border>& borders, std::vector<Fence>& fences) {
  bool in_fence = false, after_blank = false;
  char mark = 0;
  size_t fence_width = 0;
  uint64_t fence_begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t feed = text.find('\n', at);
    const size_t next = feed == std::string_view::npos ? text.size() : feed + 1;
    std::string_view line = text.substr(at, next - at);
    while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.remove_suffix(1);
    if (blank(line)) {
      after_blank = true;
      if (at > 0) borders.push_back({at, kLine});
    } else {
      if (at > 0)
        borders.push_back({at, !in_fence && is_heading(line) ? kHeading : after_blank ? kBlankLine
                               : !in_fence && is_item(line) ? kItem : kLine});
      after_blank = false;
      char found = 0;
      const size_t width = fence_length(line, found);
      if (in_fence) {
        const std::string_view rest = without_indent(line).substr(std::min(width, without_indent(line).size()));
        if (width >= fence_width && found == mark && blank(rest)) {
          fences.push_back({fence_begin, next});
          in_fence = false;
        }
      } else if (width > 0) {
        in_fence = true;
        mark = found;
        fence_width = width;
        fence_begin = at;
      }
    }
    at = next;
  }
  if (in_fence) fences.push_back({fence_begin, text.size()});
}

// Behind a full stop (with closing quotes or brackets) that white space follows, and behind East Asian full stops.
void sentence_borders(std::string_view text, std::vector<Border>& borders) {
  static constexpr std::string_view kWide[] = {"\xe3\x80\x82", "\xef\xbc\x81", "\xef\xbc\x9f"};
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '.' || c == '!' || c == '?') {
      size_t end = i + 1;
      while (end < text.size() && (text[end] == '"' || text[end] == '\'' || text[end] == ')' || text[end] == ']')) ++end;
      if (end < text.size() && (text[end] == ' ' || text[end] == '\n' || text[end] == '\t' || text[end] == '\r'))
        borders.push_back({end, kSentence});
    } else if (uint8_t(c) >= 0xe3) {
      for (const auto wide : kWide)
        if (text.substr(i, 3) == wide && i + 3 < text.size()) borders.push_back({i + 3, kSentence});
    }
  }
}

// Behind every comma at the outermost level, when the whole text is one JSON array or object.
void json_borders(std::string_view text, std::vector<Border>& borders) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || (text[first] != '[' && text[first] != '{')) return;
  std::vector<Border> found;
  size_t depth = 0, i = first;
  for (; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      for (++i; i < text.size() && text[i] != '"'; ++i)
        if (text[i] == '\\') ++i;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}') {
      if (--depth == 0) break;
    } else if (c == ',' && depth == 1) {
      found.push_back({i + 1, kItem});
    }
  }
  if (depth == 0 && i < text.size() && blank(text.substr(i + 1))) borders.insert(borders.end(), found.begin(), found.end());
}

}  // namespace

std::vector<uint32_t> split_field(std::string_view text, const std::vector<uint64_t>& token_begin, const SplitRule& rule) {
  const size_t n = token_begin.size();
  if (n == 0) return {};
  const bool paragraphs = rule.kind == SplitRule::Kind::paragraph;
  if (rule.kind == SplitRule::Kind::message || (!paragraphs && n <= rule.max_tokens)) return {uint32_t(n)};

  std::vector<Border> borders;
  std::vector<Fence> fences;
  line_borders(text, borders, fences);
  sentence_borders(text, borders);
  json_borders(text, borders);

  std::vector<BorderClass> kind(n + 1, kToken);  // [token]: the border before it
  for (const Border& b : borders) {
    size_t token = size_t(std::lower_bound(token_begin.begin(), token_begin.end(), b.byte) - token_begin.begin());
    // Inside a token: it goes where most of its bytes are, ties to the earlier side.
    if (token > 0 && (token == n || token_begin[token] != b.byte)) {
      const uint64_t end = token < n ? token_begin[token] : text.size();
      if (end - b.byte > b.byte - token_begin[token - 1]) --token;
    }
    if (token > 0 && token < n) kind[token] = std::min(kind[token], b.kind);
  }
  const uint32_t most = paragraphs ? uint32_t(n) : rule.max_tokens;
  for (const Fence& f : fences) {
    const size_t first = size_t(std::upper_bound(token_begin.begin(), token_begin.end(), f.begin) - token_begin.begin());
    const size_t last = size_t(std::lower_bound(token_begin.begin(), token_begin.end(), f.end) - token_begin.begin());
    if (last > first - (first > 0 ? 1 : 0) && last - (first > 0 ? first - 1 : 0) > most) continue;  // longer than a leaf
    for (size_t t = first; t < last; ++t) kind[t] = kForbidden;
  }

  std::vector<uint32_t> out;
  if (paragraphs) {
    size_t at = 0;
    for (size_t t = 1; t <= n; ++t)
      if (t == n || kind[t] <= kBlankLine) {
        out.push_back(uint32_t(t - at));
        at = t;
      }
    return out;
  }
  size_t at = 0;
  while (n - at > most) {
    const size_t low = at + std::max<size_t>(1, most / 4), high = at + most;
    size_t best = 0;
    BorderClass best_kind = kForbidden;
    for (size_t t = high; t >= low; --t)
      if (kind[t] < best_kind) {
        best = t;
        best_kind = kind[t];
      }
    // A code block that fits into a leaf fills the whole range: it begins a leaf of its own.
    for (size_t t = low; best == 0 && --t > at;)
      if (kind[t] != kForbidden) best = t;
    if (best == 0) best = high;
    out.push_back(uint32_t(best - at));
    at = best;
  }
  out.push_back(uint32_t(n - at));
  return out;
}

Result<SplitRule> parse_split_rule(const std::string& text) {
  SplitRule rule;
  if (text == "message") {
    rule.kind = SplitRule::Kind::message;
    return rule;
  }
  if (text == "paragraph") {
    rule.kind = SplitRule::Kind::paragraph;
    return rule;
  }
  uint32_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size() || n < 4 || n > (1u << 24))
    return make_error(ErrorCode::invalid, "SPAN-USAGE",
                      "expected message, paragraph or a number of tokens from 4 to 16777216, found \"" + text + "\"", "--split");
  rule.max_tokens = n;
  return rule;
}

}  // namespace spanscope
