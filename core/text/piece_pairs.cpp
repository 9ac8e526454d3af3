// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/text/piece_pairs.h"

#include <fmt/format.h>

#include <cmath>
#include <unordered_map>

#include "core/text/utf8.h"

namespace spanscope {
namespace {

// Higher scores get lower numbers; equal scores the same. Zeros of both signs are equal.
uint32_t rank_of_score(float score) {
  const uint32_t bits = std::bit_cast<uint32_t>(score == 0 ? 0.0f : score);
  const uint32_t ascending = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return ~ascending;
}

}  // namespace

std::optional<uint8_t> byte_of_piece(std::string_view text) {
  if (text.size() != 6 || text.substr(0, 3) != "<0x" || text[5] != '>') return std::nullopt;
  const auto digit = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1; };
  const int high = digit(text[3]), low = digit(text[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return uint8_t(high * 16 + low);
}

ByteFallback::ByteFallback(const Vocabulary& vocabulary)
    : unknown_(vocabulary.unknown), fallback_(vocabulary.byte_fallback), fuse_(vocabulary.fuse_unknown) {
  bytes_.fill(-1);
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i)
    if (vocabulary.kinds[i] == TokenKind::byte)
      if (const auto byte = byte_of_piece(vocabulary.tokens[i]); byte && bytes_[*byte] < 0) bytes_[*byte] = TokenId(i);
}

void ByteFallback::append(std::string_view word, uint32_t begin, uint32_t end, bool ill_formed, bool& after_unknown,
                          std::vector<WordPart>& out) const {
  bool all = fallback_ || ill_formed;
  for (uint32_t b = begin; b < end; ++b) all = all && bytes_[uint8_t(word[b])] >= 0;
  if (all) {
    for (uint32_t b = begin; b < end; ++b) out.push_back({bytes_[uint8_t(word[b])], b, b + 1});
    after_unknown = false;
    return;
  }
  if (after_unknown && fuse_ && unknown_ >= 0 && !out.empty()) {
    out.back().end = end;
    return;
  }
  out.push_back({unknown_, begin, end});
  after_unknown = unknown_ >= 0;
}

Result<std::unique_ptr<const WordModel>> PiecePairs::make(const Vocabulary& vocabulary) {
  std::unique_ptr<PiecePairs> out(new PiecePairs(vocabulary));
  const size_t n = vocabulary.tokens.size();
  out->by_score_ = vocabulary.merges.empty();
  out->ignore_merges_ = vocabulary.ignore_merges;
  if (out->by_score_ && vocabulary.scores.size() != n)
    return make_error(ErrorCode::corrupt, "SPAN-TOKENIZER", fmt::format("expected {} scores, found {}", n, vocabulary.scores.size()), "scores");
  out->pieces_.reserve(n);
  out->unused_.assign(n, false);
  out->normal_.assign(n, false);
  if (out->by_score_) out->rank_of_token_.resize(n);
  for (size_t i = 0; i < n; ++i) {
    const TokenKind kind = vocabulary.kinds[i];
    if (vocabulary.tokens[i].empty()) continue;
    // A list of merges may name any token; without one only these join.
    if (out->by_score_ && kind != TokenKind::normal && kind != TokenKind::unused) continue;
    if (out->by_score_) {
      if (std::isnan(vocabulary.scores[i]))
        return make_error(ErrorCode::corrupt, "SPAN-TOKENIZER", fmt::format("the score of token {} is not a number", i), "scores");
      out->rank_of_token_[i] = std::min(rank_of_score(vocabulary.scores[i]), kNoEntry - 1);
    }
    out->pieces_.insert(vocabulary.tokens[i], uint32_t(i));
    out->unused_[i] = out->by_score_ && kind == TokenKind::unused;
    out->normal_[i] = kind == TokenKind::normal;
    out->has_unused_ = out->has_unused_ || out->unused_[i];
    out->longest_ = std::max(out->longest_, vocabulary.tokens[i].size());
  }
  out->merges_.reserve(vocabulary.merges.size());
  std::string text;
  for (size_t rank = 0; rank < vocabulary.merges.size(); ++rank) {
    const MergeParts parts = merge_parts(vocabulary, rank);
    text.assign(parts.left).append(parts.right);
    const uint32_t left = out->pieces_.find(parts.left), right = out->pieces_.find(parts.right), whole = out->pieces_.find(text);
    if (parts.left.empty() || left == kNoEntry || right == kNoEntry || whole == kNoEntry)
      return make_error(ErrorCode::corrupt, "SPAN-MERGES", fmt::format("merge {} is not two tokens that make a third", rank), "merges");
    out->merges_.insert(left, right, {uint32_t(rank), whole});
  }
  return std::unique_ptr<const WordModel>(std::move(out));
}

PairMerge PiecePairs::joined(std::string_view word, const PairNode& left, const PairNode& right) const {
  if (!by_score_) return left.symbol == kNoEntry || right.symbol == kNoEntry ? PairMerge{} : merges_.find(left.symbol, right.symbol);
  if (right.end - left.begin > longest_) return {};
  const uint32_t token = pieces_.find(word.substr(left.begin, right.end - left.begin));
  return token == kNoEntry ? PairMerge{} : PairMerge{rank_of_token_[token], token};
}

void PiecePairs::encode(std::string_view word, WordScratch& scratch, std::vector<WordPart>& out) const {
  check_word_size(word);
  if (ignore_merges_)
    if (const uint32_t token = pieces_.find(word); token != kNoEntry && normal_[token]) {
      out.push_back({TokenId(token), 0, uint32_t(word.size())});
      return;
    }
  std::vector<PairNode>& nodes = scratch.nodes;
  nodes.clear();
  std::vector<bool> ill_formed;  // [nodes], only when there is one
  for (uint32_t at = 0; at < word.size();) {
    const uint32_t length = uint32_t(utf8_sequence(word, at)), i = uint32_t(nodes.size());
    const uint32_t end = at + std::max<uint32_t>(length, 1);
    if (length == 0) {
      ill_formed.resize(i + 1, false);
      ill_formed[i] = true;
    }
    nodes.push_back({length == 0 ? kNoEntry : pieces_.find(word.substr(at, length)), at, end, i == 0 ? kNoEntry : i - 1,
                     end == word.size() ? kNoEntry : i + 1});
    at = end;
  }
  const auto broken = [&](const PairNode& node) {
    const size_t i = size_t(&node - nodes.data());
    return i < ill_formed.size() && ill_formed[i];
  };
  // Pairs that made an unused token, which is taken apart again at the end.
  std::unordered_map<std::string_view, uint32_t> made;  // text of the token -> bytes of its left part
  merge_pairs(scratch, [&](const PairNode& left, const PairNode& right) {
    if (!ill_formed.empty() && (broken(left) || broken(right))) return PairMerge{};
    const PairMerge merge = joined(word, left, right);
    if (has_unused_ && merge && unused_[merge.symbol])
      made[word.substr(left.begin, right.end - left.begin)] = left.end - left.begin;
    return merge;
  });
  bool after_unknown = false;
  const auto emit = [&](auto&& self, uint32_t symbol, uint32_t begin, uint32_t end) -> void {
    if (symbol != kNoEntry && unused_[symbol])
      if (const auto parts = made.find(word.substr(begin, end - begin)); parts != made.end()) {
        const uint32_t middle = begin + parts->second;
        self(self, pieces_.find(word.substr(begin, middle - begin)), begin, middle);
        self(self, pieces_.find(word.substr(middle, end - middle)), middle, end);
        return;
      }
    if (symbol != kNoEntry) {
      out.push_back({TokenId(symbol), begin, end});
      after_unknown = false;
      return;
    }
    fallback_.append(word, begin, end, utf8_sequence(word, begin) == 0, after_unknown, out);
  };
  for (uint32_t i = nodes.empty() ? kNoEntry : 0; i != kNoEntry; i = nodes[i].next) emit(emit, nodes[i].symbol, nodes[i].begin, nodes[i].end);
}

}  // namespace spanscope
