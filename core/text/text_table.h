// SPDX-License-Identifier: GPL-3.0-or-later
// Hash tables for vocabularies: text to number, and pairs of numbers to a merge. Open addressing in one allocation, because
// building them is most of what a start costs. Built once, then immutable.
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace spanscope {

inline constexpr uint32_t kNoEntry = 0xffffffffu;

inline uint64_t mix_bits(uint64_t x) {
  x ^= x >> 32;
  x *= 0x9e3779b97f4a7c15u;
  return x ^ x >> 29;
}

// The bytes behind each key must outlive the table.
class TextTable {
 public:
  void reserve(size_t entries) {
    texts_.clear();
    texts_.reserve(entries);
    values_.clear();
    values_.reserve(entries);
    slots_.assign(std::bit_ceil(entries + entries / 2 + 8), Slot{});
  }
  // False when the text is there already; the first value stays. Never more than the reserved number of entries.
  bool insert(std::string_view text, uint32_t value) {
    const uint64_t h = hash(text);
    Slot& slot = slots_[place(text, h)];
    if (slot.entry != kNoEntry) return false;
    slot = {uint32_t(h >> 32), uint32_t(texts_.size())};
    texts_.push_back(text);
    values_.push_back(value);
    return true;
  }
  uint32_t find(std::string_view text) const {
    if (slots_.empty()) return kNoEntry;
    const Slot& slot = slots_[place(text, hash(text))];
    return slot.entry == kNoEntry ? kNoEntry : values_[slot.entry];
  }

 private:
  struct Slot {
    uint32_t tag = 0, entry = kNoEntry;
  };
  static uint64_t hash(std::string_view text) {
    uint64_t h = text.size();
    const char* at = text.data();
    size_t left = text.size();
    for (; left >= 8; left -= 8, at += 8) {
      uint64_t word;
      std::memcpy(&word, at, 8);
      h = mix_bits(h ^ word);
    }
    uint64_t word = 0;
    for (size_t i = 0; i < left; ++i) word = word << 8 | uint8_t(at[i]);
    return mix_bits(mix_bits(h ^ word));
  }
  // The entry of `text`, or the empty slot where it would stand.
  size_t place(std::string_view text, uint64_t h) const {
    const size_t mask = slots_.size() - 1;
    const uint32_t tag = uint32_t(h >> 32);
    size_t at = h & mask;
    while (slots_[at].entry != kNoEntry && (slots_[at].tag != tag || texts_[slots_[at].entry] != text)) at = (at + 1) & mask;
    return at;
  }
  std::vector<Slot> slots_;
  std::vector<std::string_view> texts_;
  std::vector<uint32_t> values_;
};

struct PairMerge {
  uint32_t rank = kNoEntry, symbol = kNoEntry;
  explicit operator bool() const { return rank != kNoEntry; }
};

class PairTable {
 public:
  void reserve(size_t entries) { slots_.assign(std::bit_ceil(entries + entries / 2 + 8), Slot{}); }
  // The first merge of a pair counts.
  void insert(uint32_t left, uint32_t right, PairMerge merge) {
    Slot& slot = slots_[place(left, right)];
    if (!slot.merge) slot = {left, right, merge};
  }
  PairMerge find(uint32_t left, uint32_t right) const { return slots_[place(left, right)].merge; }

 private:
  struct Slot {
    uint32_t left = 0, right = 0;
    PairMerge merge;
  };
  size_t place(uint32_t left, uint32_t right) const {
    const size_t mask = slots_.size() - 1;
    size_t at = mix_bits(mix_bits(uint64_t(left) << 32 | right)) & mask;
    while (slots_[at].merge && (slots_[at].left != left || slots_[at].right != right)) at = (at + 1) & mask;
    return at;
  }
  std::vector<Slot> slots_ = std::vector<Slot>(1);
};

}  // namespace spanscope
