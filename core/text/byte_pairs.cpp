// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/text/byte_pairs.h"

#include <fmt/format.h>

#include "core/text/byte_alphabet.h"

namespace spanscope {

uint32_t BytePairs::symbol_of(std::string_view text) {
  if (const uint32_t token = symbols_.find(text); token != kNoEntry) return token;
  return extra_.emplace(std::string(text), tokens_ + uint32_t(extra_.size())).first->second;
}

Result<std::unique_ptr<const WordModel>> BytePairs::make(const Vocabulary& vocabulary) {
  auto made = std::make_unique<BytePairs>();
  BytePairs& out = *made;
  out.tokens_ = uint32_t(vocabulary.tokens.size());
  out.ignore_merges_ = vocabulary.ignore_merges;
  out.symbols_.reserve(vocabulary.tokens.size());
  bool unique = true;
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    if (vocabulary.kinds[i] != TokenKind::normal || vocabulary.tokens[i].empty()) continue;
    unique = out.symbols_.insert(vocabulary.tokens[i], uint32_t(i)) && unique;
    out.longest_ = std::max(out.longest_, vocabulary.tokens[i].size());
  }
  // Every byte is a symbol, also one that the vocabulary lacks (SmolLM2 lacks 21): it merges with nothing and is dropped.
  for (uint32_t b = 0; b < 256; ++b) {
    out.byte_text_[b] = alphabet_text_of_bytes(std::string(1, char(b)));
    out.byte_symbol_[b] = out.symbol_of(out.byte_text_[b]);
  }
  out.merges_.reserve(vocabulary.merges.size());
  std::string joined;
  uint32_t whole = kNoEntry;
  for (size_t rank = 0; rank < vocabulary.merges.size(); ++rank) {
    const auto bad = [&](const char* what) {
      return make_error(ErrorCode::corrupt, "SPAN-MERGES", fmt::format("merge {} {}", rank, what), "merges");
    };
    const MergeParts parts = merge_parts(vocabulary, rank);
    if (parts.left.empty()) return bad("is not two pieces with a space between");
    uint32_t symbols[2];
    for (int side : {0, 1}) {
      const std::string_view part = side == 0 ? parts.left : parts.right;
      symbols[side] = out.symbols_.find(part);
      if (symbols[side] != kNoEntry) continue;
      if (!bytes_of_alphabet_text(part)) return bad("holds a character outside of the byte alphabet");
      symbols[side] = out.symbol_of(part);
    }
    joined.assign(parts.left).append(parts.right);
    // Most lists name the tokens in the order of their ids: the one that was made last, or the next.
    const auto is = [&](uint32_t token) {
      return unique && token < out.tokens_ && vocabulary.kinds[token] == TokenKind::normal && vocabulary.tokens[token] == joined;
    };
    if (is(whole + 1)) ++whole;
    else if (!is(whole)) whole = out.symbol_of(joined);
    out.merges_.insert(symbols[0], symbols[1], {uint32_t(rank), whole});
  }
  return std::unique_ptr<const WordModel>(std::move(made));
}

TokenId BytePairs::whole_word(std::string_view word) const {
  if (word.size() > longest_) return -1;
  std::string text;
  text.reserve(word.size() * 2);
  for (char byte : word) text += byte_text_[uint8_t(byte)];
  const uint32_t token = symbols_.find(text);
  return token == kNoEntry ? -1 : TokenId(token);
}

void BytePairs::encode(std::string_view word, WordScratch& scratch, std::vector<WordPart>& out) const {
  check_word_size(word);
  const uint32_t n = uint32_t(word.size());
  if (ignore_merges_)
    if (const TokenId token = whole_word(word); token >= 0) {
      out.push_back({token, 0, n});
      return;
    }
  scratch.nodes.resize(n);
  for (uint32_t i = 0; i < n; ++i)
    scratch.nodes[i] = {byte_symbol_[uint8_t(word[i])], i, i + 1, i == 0 ? kNoEntry : i - 1, i + 1 == n ? kNoEntry : i + 1};
  merge_pairs(scratch, [&](const PairNode& left, const PairNode& right) { return merges_.find(left.symbol, right.symbol); });
  for (uint32_t i = n == 0 ? kNoEntry : 0; i != kNoEntry; i = scratch.nodes[i].next) {
    const PairNode& node = scratch.nodes[i];
    const TokenId id = token_of(node.symbol);
    if (id >= 0 || node.end - node.begin == 1) {
      out.push_back({id, node.begin, node.end});
      continue;
    }
    // A merge whose result is no token: its bytes stand alone.
    for (uint32_t b = node.begin; b < node.end; ++b) out.push_back({token_of(byte_symbol_[uint8_t(word[b])]), b, b + 1});
  }
}

}  // namespace spanscope
