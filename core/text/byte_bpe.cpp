// SPDX-License-Identifier: GPL-3.0-or-later
// Byte-level BPE: special tokens first, then pre-tokens, then merges by rank.
#include <algorithm>
#include <queue>
#include <unordered_map>

#include "core/base/digest.h"
#include "core/text/byte_level.h"
#include "core/text/pretokenizer.h"
#include "core/text/tokenizer.h"

namespace spanscope {
namespace {

struct Merge {
  uint32_t rank;
  TokenId id;
};

class ByteBpe : public Tokenizer {
 public:
  ByteBpe(Vocabulary vocabulary, std::shared_ptr<const PreTokenizer> pre) : vocabulary_(std::move(vocabulary)), pre_(std::move(pre)) {}

  Status build() {
    const size_t n = vocabulary_.tokens.size();
    std::unordered_map<std::string, TokenId> id_of;
    id_of.reserve(n * 2);
    pieces_.resize(n);
    for (size_t i = 0; i < n; ++i) {
      const std::string& text = vocabulary_.tokens[i];
      id_of.emplace(text, TokenId(i));  // of two equal entries the first counts
      const TokenKind kind = kind_of(TokenId(i));
      if (kind == TokenKind::normal || kind == TokenKind::byte || kind == TokenKind::unused) {
        auto bytes = bytes_of_spelling(text);
        pieces_[i] = bytes ? std::move(*bytes) : text;
      } else {
        pieces_[i] = text;
        if (!text.empty()) specials_[uint8_t(text[0])].push_back(TokenId(i));
      }
    }
    for (auto& list : specials_)
      std::stable_sort(list.begin(), list.end(), [&](TokenId a, TokenId b) { return pieces_[size_t(a)].size() > pieces_[size_t(b)].size(); });
    for (uint32_t b = 0; b < 256; ++b) {
      const auto it = id_of.find(byte_character(uint8_t(b)));
      byte_id_[b] = it == id_of.end() ? -1 : it->second;
    }
    merges_.reserve(vocabulary_.merges.size() * 2);
    for (size_t rank = 0; rank < vocabulary_.merges.size(); ++rank) {
      const std::string& m = vocabulary_.merges[rank];
      const size_t space = m.find(' ', 1);
      if (space == std::string::npos || space + 1 >= m.size())
        return make_error(ErrorCode::corrupt, "SPAN-MERGE", "merge " + std::to_string(rank) + " is no pair", "tokenizer.ggml.merges");
      const auto left = id_of.find(m.substr(0, space)), right = id_of.find(m.substr(space + 1));
      const auto both = id_of.find(m.substr(0, space) + m.substr(space + 1));
      if (left == id_of.end() || right == id_of.end() || both == id_of.end()) continue;  // can never apply
      merges_.emplace(key(left->second, right->second), Merge{uint32_t(rank), both->second});
    }
    std::string all = vocabulary_.kind + '\n' + vocabulary_.pre + '\n';
    for (size_t i = 0; i < n; ++i) all += vocabulary_.tokens[i] + char('0' + int(kind_of(TokenId(i)))) + '\n';
    for (const std::string& m : vocabulary_.merges) all += m + '\n';
    digest_ = sha256_hex(all);
    return {};
  }

  Encoding encode(std::string_view text, EncodeOptions options) const override {
    Encoding out;
    if (options.add_special && vocabulary_.add_bos && vocabulary_.bos >= 0) emit(out, vocabulary_.bos, 0, 0);
    size_t begin = 0;
    for (size_t at = 0; at < text.size();) {
      const TokenId special = special_at(text, at, options.parse_special);
      if (special < 0) {
        ++at;
        continue;
      }
      encode_plain(text, begin, at, out);
      const size_t size = pieces_[size_t(special)].size();
      emit(out, special, at, at + size);
      at += size;
      begin = at;
    }
    encode_plain(text, begin, text.size(), out);
    if (options.add_special && vocabulary_.add_eos && vocabulary_.eos >= 0) emit(out, vocabulary_.eos, text.size(), text.size());
    return out;
  }

  std::string piece(TokenId id) const override {
    return id >= 0 && size_t(id) < pieces_.size() ? pieces_[size_t(id)] : std::string();
  }
  std::string decode(std::span<const TokenId> ids) const override {
    std::string out;
    for (TokenId id : ids) out += piece(id);
    return out;
  }
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  bool is_control(TokenId id) const override { return kind_of(id) == TokenKind::control; }
  bool ends_generation(TokenId id) const override {
    if (id < 0) return false;
    // <|im_end|> ends a turn of the ChatML template whatever the file calls its end token.
    return id == vocabulary_.eos || id == vocabulary_.eot || (is_control(id) && piece(id) == "<|im_end|>");
  }
  std::string digest() const override { return digest_; }

 private:
  static uint64_t key(TokenId a, TokenId b) { return uint64_t(uint32_t(a)) << 32 | uint32_t(b); }
  TokenKind kind_of(TokenId id) const {
    return id >= 0 && size_t(id) < vocabulary_.kinds.size() ? vocabulary_.kinds[size_t(id)] : TokenKind::normal;
  }
  static void emit(Encoding& out, TokenId id, size_t begin, size_t end) {
    out.ids.push_back(id);
    out.offsets.push_back({begin, end});
  }

  // The longest special that begins here, or -1.
  TokenId special_at(std::string_view text, size_t at, bool parse_special) const {
    for (TokenId id : specials_[uint8_t(text[at])]) {
      if (!parse_special && kind_of(id) != TokenKind::user_defined) continue;
      if (text.compare(at, pieces_[size_t(id)].size(), pieces_[size_t(id)]) == 0) return id;
    }
    return -1;
  }

  void encode_plain(std::string_view text, size_t begin, size_t end, Encoding& out) const {
    if (begin >= end) return;
    size_t from = begin;
    for (size_t piece_end : pre_->ends(text.substr(begin, end - begin))) {
      encode_word(text, from, begin + piece_end, out);
      from = begin + piece_end;
    }
  }

  struct Symbol {
    TokenId id;  // -1: a byte that the vocabulary lacks, which separates its neighbours
    size_t begin, end;
    int prev, next;
    bool alive;
  };
  struct Candidate {
    uint32_t rank;
    int left;
    TokenId a, b, merged;
    bool operator<(const Candidate& o) const { return rank != o.rank ? rank > o.rank : left > o.left; }
  };

  // Merges of the lowest rank first, among equals the leftmost. A queue keeps long words from costing their square.
  void encode_word(std::string_view text, size_t begin, size_t end, Encoding& out) const {
    std::vector<Symbol> symbols;
    symbols.reserve(end - begin);
    for (size_t i = begin; i < end; ++i)
      symbols.push_back({byte_id_[uint8_t(text[i])], i, i + 1, int(i - begin) - 1, i + 1 < end ? int(i - begin) + 1 : -1, true});
    std::priority_queue<Candidate> queue;
    auto consider = [&](int left) {
      if (left < 0) return;
      const int right = symbols[size_t(left)].next;
      if (right < 0) return;
      const TokenId a = symbols[size_t(left)].id, b = symbols[size_t(right)].id;
      if (a < 0 || b < 0) return;
      if (const auto it = merges_.find(key(a, b)); it != merges_.end())
        queue.push({it->second.rank, left, a, b, it->second.id});
    };
    for (size_t i = 0; i + 1 < symbols.size(); ++i) consider(int(i));
    while (!queue.empty()) {
      const Candidate c = queue.top();
      queue.pop();
      Symbol& left = symbols[size_t(c.left)];
      if (!left.alive || left.id != c.a || left.next < 0 || symbols[size_t(left.next)].id != c.b) continue;  // outdated
      Symbol& right = symbols[size_t(left.next)];
      left.id = c.merged;
      left.end = right.end;
      right.alive = false;
      left.next = right.next;
      if (left.next >= 0) symbols[size_t(left.next)].prev = c.left;
      consider(left.prev);
      consider(c.left);
    }
    for (const Symbol& s : symbols) {
      if (!s.alive) continue;
      if (s.id >= 0) emit(out, s.id, s.begin, s.end);
      else out.dropped.push_back({s.begin, s.end});
    }
  }

  Vocabulary vocabulary_;
  std::shared_ptr<const PreTokenizer> pre_;
  std::vector<std::string> pieces_;
  std::vector<TokenId> specials_[256];
  TokenId byte_id_[256];
  std::unordered_map<uint64_t, Merge> merges_;
  std::string digest_;
};

}  // namespace

Result<std::shared_ptr<const Tokenizer>> make_tokenizer(Vocabulary vocabulary) {
  if (vocabulary.kind.empty())
    return make_error(ErrorCode::not_found, "SPAN-TOKENIZER", "the file holds no tokenizer", "tokenizer.ggml.model");
  if (vocabulary.kind != "gpt2")
    return make_error(ErrorCode::unsupported, "SPAN-TOKENIZER",
                      "tokenizer \"" + vocabulary.kind + "\" is not supported; known is gpt2 (byte-level BPE)", "tokenizer.ggml.model");
  auto pre = PreTokenizer::make(vocabulary.pre);
  if (!pre) return std::move(pre).error();
  auto out = std::make_shared<ByteBpe>(std::move(vocabulary), *pre);
  SPANSCOPE_TRY(out->build());
  return std::shared_ptr<const Tokenizer>(std::move(out));
}

}  // namespace spanscope
