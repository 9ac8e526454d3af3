// SPDX-License-Identifier: GPL-3.0-or-later
// Which of many byte strings begin at a place in a text. Built once, then immutable; any thread.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/text/text_table.h"

namespace spanscope {

class ByteTrie {
 public:
  explicit ByteTrie(size_t bytes) { edges_.reserve(bytes); }  // of all texts together

  // The first value of a text counts. Empty texts are not kept.
  void insert(std::string_view text, uint32_t value) {
    if (text.empty()) return;
    uint32_t node = 0;
    for (char byte : text) {
      const uint32_t next = uint32_t(values_.size());
      edges_.insert(node, uint8_t(byte), {0, next});
      const uint32_t found = edges_.find(node, uint8_t(byte)).symbol;
      if (found == next) values_.push_back(kNoEntry);
      node = found;
    }
    if (values_[node] == kNoEntry) values_[node] = value;
  }

  // visit(end, value) for each text that begins at `at`, shortest first.
  template <class Visit>
  void each(std::string_view text, size_t at, Visit visit) const {
    uint32_t node = 0;
    while (at < text.size()) {
      node = edges_.find(node, uint8_t(text[at++])).symbol;
      if (node == kNoEntry) return;
      if (values_[node] != kNoEntry) visit(at, values_[node]);
    }
  }

 private:
  PairTable edges_;
  std::vector<uint32_t> values_ = {kNoEntry};  // [nodes]
};

}  // namespace spanscope
