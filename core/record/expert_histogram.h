// SPDX-License-Identifier: GPL-3.0-or-later
// Expert picks of a span in bounded form (definitions D6): a number of distinct experts is tracked, picks of others are only
// counted. Which ones are tracked depends on the order of picks; the sums of those never do. Any thread.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace spanscope {

class ExpertHistogram {
 public:
  static constexpr size_t kDistinct = 64;
  struct Entry {
    uint16_t expert = 0;
    uint32_t count = 0;
    double weight = 0;
  };

  void add(uint16_t expert, double weight, uint32_t count = 1) {
    const auto at = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.expert == expert; });
    if (at != entries_.end()) at->count += count, at->weight += weight;
    else if (entries_.size() < kDistinct) entries_.push_back({expert, count, weight});
    else overflow_ += count;
  }
  void add_overflow(uint32_t count) { overflow_ += count; }
  const std::vector<Entry>& entries() const { return entries_; }  // in the order of their first pick
  uint32_t overflow() const { return overflow_; }                 // picks of experts that are not tracked
  // Mean combine weight of the tracked picks; 0 without any.
  double mean_weight() const {
    double weight = 0, count = 0;
    for (const Entry& e : entries_) weight += e.weight, count += e.count;
    return count > 0 ? weight / count : 0;
  }

 private:
  std::vector<Entry> entries_;
  uint32_t overflow_ = 0;
};

}  // namespace spanscope
