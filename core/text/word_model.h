// SPDX-License-Identifier: GPL-3.0-or-later
// What turns one word into tokens, and the merge loop that two of the models share. Immutable; any thread.
#pragma once
#include <algorithm>
#include <cstdint>
#include <new>
#include <string_view>
#include <vector>

#include "core/base/ids.h"
#include "core/text/text_table.h"
#include "core/text/vocabulary.h"

namespace spanscope {

struct WordPart {
  TokenId id;           // -1: no token
  uint32_t begin, end;  // bytes of the word
};

// A stretch of the word that merges as one; neighbours are linked. begin == end: it went into the one before it.
struct PairNode {
  uint32_t symbol, begin, end, previous, next;
};
struct PairCandidate {
  uint32_t rank, left, right, middle, end, symbol;
  bool operator<(const PairCandidate& o) const { return rank != o.rank ? rank > o.rank : left > o.left; }  // least on top
};
// Buffers that one call of encode() uses again for each word.
struct WordScratch {
  std::vector<PairNode> nodes;
  std::vector<PairCandidate> queue;
};

class WordModel {
 public:
  virtual ~WordModel() = default;
  // Appends the tokens of `word` in order; together they cover it. Throws std::bad_alloc.
  virtual void encode(std::string_view word, WordScratch& scratch, std::vector<WordPart>& out) const = 0;
};

// The two parts of a merge; both empty when the line is not two pieces with a space between.
struct MergeParts {
  std::string_view left, right;
};
inline MergeParts merge_parts(const Vocabulary& vocabulary, size_t rank) {
  const std::string_view line = vocabulary.merges[rank];
  const size_t middle = vocabulary.merge_left.empty() ? line.find(' ', 1) : vocabulary.merge_left[rank];
  if (middle == 0 || middle >= line.size() || line[middle] != ' ' || middle + 1 == line.size()) return {};
  return {line.substr(0, middle), line.substr(middle + 1)};
}

inline void check_word_size(std::string_view word) {
  if (word.size() >= kNoEntry) throw std::bad_alloc();  // positions inside a word are 32 bits wide
}

// Merges neighbours in `nodes` (linked, in order), least rank first, leftmost among equals, until no pair is left.
// find(left, right) -> PairMerge. O(n log n).
template <class Find>
void merge_pairs(WordScratch& scratch, Find find) {
  std::vector<PairNode>& nodes = scratch.nodes;
  std::vector<PairCandidate>& queue = scratch.queue;
  queue.clear();
  const auto propose = [&](uint32_t left, uint32_t right) -> bool {
    if (left == kNoEntry || right == kNoEntry) return false;
    const PairNode &l = nodes[left], &r = nodes[right];
    const PairMerge merge = find(l, r);
    if (merge) queue.push_back({merge.rank, left, right, r.begin, r.end, merge.symbol});
    return bool(merge);
  };
  for (uint32_t i = 0; i + 1 < nodes.size(); ++i) propose(i, i + 1);
  std::make_heap(queue.begin(), queue.end());
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end());
    const PairCandidate c = queue.back();
    queue.pop_back();
    PairNode &left = nodes[c.left], &right = nodes[c.right];
    // Stale when either side was merged since: nodes only grow, and one that is gone begins where it ends.
    if (left.begin == left.end || left.end != c.middle || right.begin != c.middle || right.end != c.end) continue;
    left.symbol = c.symbol;
    left.end = right.end;
    left.next = right.next;
    if (right.next != kNoEntry) nodes[right.next].previous = c.left;
    right.begin = right.end;
    if (propose(left.previous, c.left)) std::push_heap(queue.begin(), queue.end());
    if (propose(c.left, left.next)) std::push_heap(queue.begin(), queue.end());
  }
}

}  // namespace spanscope
