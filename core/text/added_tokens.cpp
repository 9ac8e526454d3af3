// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/text/added_tokens.h"

#include "core/text/pattern.h"
#include "core/text/utf8.h"

namespace spanscope {
namespace {

size_t bytes_of(const std::vector<AddedTokens::Entry>& entries) {
  size_t bytes = 0;
  for (const auto& entry : entries) bytes += entry.text.size();
  return bytes;
}

// Begin of the well-formed character that ends at `end`, or `end` when none does.
size_t character_before(std::string_view text, size_t end) {
  for (size_t back = 1; back <= 4 && back <= end; ++back)
    if (utf8_sequence(text, end - back) == back) return end - back;
  return end;
}

}  // namespace

AddedTokens::AddedTokens(const std::vector<Entry>& entries) : trie_(bytes_of(entries)) {
  for (const Entry& entry : entries) {
    if (entry.text.empty()) continue;
    trie_.insert(entry.text, uint32_t(ids_.size()));
    starts_.set(uint8_t(entry.text[0]));
    ids_.push_back(entry.id);
    flags_.push_back(entry.flags);
  }
}

uint32_t AddedTokens::longest(std::string_view text, size_t at, size_t& end) const {
  uint32_t found = kNoEntry;
  trie_.each(text, at, [&](size_t stop, uint32_t value) {
    end = stop;
    found = value;
  });
  return found;
}

bool AddedTokens::stands_alone(std::string_view text, size_t begin, size_t end) {
  const size_t before = character_before(text, begin);
  if (before < begin && is_word_character(utf8_code_point(text, before, begin - before))) return false;
  const size_t length = utf8_sequence(text, end);
  return length == 0 || !is_word_character(utf8_code_point(text, end, length));
}

size_t AddedTokens::space_before(std::string_view text, size_t from, size_t at) {
  while (at > from) {
    const size_t begin = character_before(text, at);
    if (begin == at || begin < from || !is_white_space(utf8_code_point(text, begin, at - begin))) break;
    at = begin;
  }
  return at;
}

size_t AddedTokens::space_behind(std::string_view text, size_t at) {
  for (;;) {
    const size_t length = utf8_sequence(text, at);
    if (length == 0 || !is_white_space(utf8_code_point(text, at, length))) return at;
    at += length;
  }
}

}  // namespace spanscope
