// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/text/byte_pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <queue>

#include "core/text/byte_alphabet.h"

namespace spanscope {

uint32_t BytePairs::symbol_of(const std::string& bytes) {
  const auto [at, added] = symbols_.emplace(bytes, uint32_t(token_of_symbol_.size()));
  if (added) token_of_symbol_.push_back(-1);
  return at->second;
}

Result<BytePairs> BytePairs::make(const Vocabulary& vocabulary, const std::vector<std::string>& pieces) {
  BytePairs out;
  out.symbols_.reserve(pieces.size() + 256);
  for (size_t i = 0; i < pieces.size(); ++i) {
    const TokenKind kind = vocabulary.kinds[i];
    if (kind == TokenKind::control || kind == TokenKind::user_defined || pieces[i].empty()) continue;
    const uint32_t symbol = out.symbol_of(pieces[i]);
    if (out.token_of_symbol_[symbol] < 0) out.token_of_symbol_[symbol] = TokenId(i);
  }
  // Every byte is a symbol, also one that the vocabulary lacks (SmolLM2 lacks 21): it merges with nothing and is dropped.
  for (uint32_t b = 0; b < 256; ++b) out.byte_symbol_[b] = out.symbol_of(std::string(1, char(b)));
  out.merges_.reserve(vocabulary.merges.size());
  for (size_t rank = 0; rank < vocabulary.merges.size(); ++rank) {
    const std::string& line = vocabulary.merges[rank];
    const size_t space = line.find(' ', 1);
    const auto bad = [&](const char* what) {
      return make_error(ErrorCode::corrupt, "SPAN-MERGES", fmt::format("merge {} {}", rank, what), "tokenizer.ggml.merges");
    };
    if (line.empty() || space == std::string::npos || space + 1 >= line.size()) return bad("is not two pieces with a space between");
    const auto left = bytes_of_alphabet_text(std::string_view(line).substr(0, space));
    const auto right = bytes_of_alphabet_text(std::string_view(line).substr(space + 1));
    if (!left || !right) return bad("holds a character outside of the byte alphabet");
    const uint64_t pair = uint64_t(out.symbol_of(*left)) << 32 | out.symbol_of(*right);
    out.merges_.emplace(pair, Merge{uint32_t(rank), out.symbol_of(*left + *right)});  // the first rank of a pair counts
  }
  return out;
}

void BytePairs::merge(std::string_view word, std::vector<Part>& out) const {
  constexpr uint32_t kNo = 0xffffffffu;
  struct Node {
    uint32_t symbol, begin, end, previous, next;
  };
  struct Candidate {
    uint32_t rank, left, right, left_symbol, right_symbol, symbol;
    bool operator<(const Candidate& o) const { return rank != o.rank ? rank > o.rank : left > o.left; }  // least on top
  };
  const uint32_t n = uint32_t(word.size());
  std::vector<Node> nodes(n);
  for (uint32_t i = 0; i < n; ++i)
    nodes[i] = {byte_symbol_[uint8_t(word[i])], i, i + 1, i == 0 ? kNo : i - 1, i + 1 == n ? kNo : i + 1};
  std::priority_queue<Candidate> queue;
  const auto propose = [&](uint32_t left, uint32_t right) {
    if (left == kNo || right == kNo) return;
    const auto found = merges_.find(uint64_t(nodes[left].symbol) << 32 | nodes[right].symbol);
    if (found != merges_.end())
      queue.push({found->second.rank, left, right, nodes[left].symbol, nodes[right].symbol, found->second.symbol});
  };
  for (uint32_t i = 0; i + 1 < n; ++i) propose(i, i + 1);
  while (!queue.empty()) {
    const Candidate c = queue.top();
    queue.pop();
    Node& left = nodes[c.left];
    // Stale when either side was merged since: a dead node has no bytes, a grown one another symbol.
    if (left.begin == left.end || left.next != c.right || left.symbol != c.left_symbol || nodes[c.right].symbol != c.right_symbol)
      continue;
    Node& right = nodes[c.right];
    left.symbol = c.symbol;
    left.end = right.end;
    left.next = right.next;
    if (right.next != kNo) nodes[right.next].previous = c.left;
    right.begin = right.end;
    propose(left.previous, c.left);
    propose(c.left, left.next);
  }
  for (uint32_t i = n == 0 ? kNo : 0; i != kNo; i = nodes[i].next) {
    const Node& node = nodes[i];
    const TokenId id = token_of_symbol_[node.symbol];
    if (id >= 0 || node.end - node.begin == 1) {
      out.push_back({id, node.begin, node.end});
      continue;
    }
    // A merge whose result is no token: its bytes stand alone.
    for (uint32_t b = node.begin; b < node.end; ++b) out.push_back({token_of_symbol_[byte_symbol_[uint8_t(word[b])]], b, b + 1});
  }
}

}  // namespace spanscope
