// SPDX-License-Identifier: GPL-3.0-or-later
// Where a value stands in JSON text that was parsed without error before: the parser keeps no places, errors need lines.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace spanscope {

// Offset of the value of `key` in the object that begins at or behind `at`; npos: not there, or no object.
size_t json_member(std::string_view text, size_t at, std::string_view key);
// Offsets of the elements of the array that begins at or behind `at`; empty when there is none.
std::vector<size_t> json_elements(std::string_view text, size_t at);

// Line numbers (1-based, plus first_line - 1) of offsets asked for in ascending or any order.
class LineIndex {
 public:
  explicit LineIndex(std::string_view text, uint64_t first_line = 1);
  uint64_t line(size_t offset) const;

 private:
  std::vector<size_t> starts_;
  uint64_t first_line_;
};

}  // namespace spanscope
