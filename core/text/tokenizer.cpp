// SPDX-License-Identifier: GPL-3.0-or-later
// Byte-level BPE behind the Tokenizer interface.
#include "core/text/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_map>

#include "core/base/digest.h"
#include "core/text/byte_alphabet.h"
#include "core/text/byte_pairs.h"
#include "core/text/pre_tokenizer.h"

namespace spanscope {
namespace {

class BytePairTokenizer : public Tokenizer {
 public:
  Status build(Vocabulary vocabulary);
  Encoding encode(std::string_view text, EncodeOptions options) const override;
  std::string piece(TokenId id) const override {
    return id >= 0 && size_t(id) < pieces_.size() ? pieces_[size_t(id)] : std::string();
  }
  std::string decode(std::span<const TokenId> ids) const override {
    std::string out;
    for (TokenId id : ids)
      if (id >= 0 && size_t(id) < pieces_.size()) out += pieces_[size_t(id)];
    return out;
  }
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  bool is_control(TokenId id) const override {
    return id >= 0 && size_t(id) < pieces_.size() && vocabulary_.kinds[size_t(id)] == TokenKind::control;
  }
  bool ends_generation(TokenId id) const override {
    return id >= 0 && (id == vocabulary_.eos || id == vocabulary_.eot || id == turn_end_);
  }
  std::string digest() const override { return digest_; }

 private:
  // The longest special that begins at `at`, or -1.
  TokenId special_at(std::string_view text, size_t at, bool control) const;
  void encode_words(std::string_view text, size_t base, Encoding& out) const;

  Vocabulary vocabulary_;
  std::vector<std::string> pieces_;  // [tokens] bytes
  std::array<std::vector<TokenId>, 256> specials_;  // by first byte, longest first
  std::unique_ptr<const PreTokenizer> words_;
  std::unique_ptr<BytePairs> pairs_;
  TokenId turn_end_ = -1;
  std::string digest_;
};

std::string digest_of(const Vocabulary& v) {
  std::string all;
  const auto add = [&](std::string_view text) {
    all += std::to_string(text.size());
    all += ':';
    all += text;
  };
  add(v.kind);
  add(v.pre);
  for (const auto& token : v.tokens) add(token);
  for (TokenKind kind : v.kinds) all += char('0' + int(kind));
  for (const auto& merge : v.merges) add(merge);
  return sha256_hex(all);
}

Status BytePairTokenizer::build(Vocabulary vocabulary) {
  const auto refuse = [](std::string message, std::string where) {
    return make_error(ErrorCode::unsupported, "SPAN-TOKENIZER", std::move(message), std::move(where));
  };
  if (vocabulary.tokens.empty()) return refuse("the model has no vocabulary", "tokenizer.ggml.tokens");
  if (vocabulary.kind != "gpt2")
    return refuse("tokenizer kind \"" + vocabulary.kind + "\" is not known; expected gpt2 (byte-level BPE)", "tokenizer.ggml.model");
  auto words = PreTokenizer::make(vocabulary.pre);
  if (!words) return std::move(words).error();
  words_ = std::move(*words);
  if (vocabulary.kinds.empty()) vocabulary.kinds.assign(vocabulary.tokens.size(), TokenKind::normal);
  if (vocabulary.kinds.size() != vocabulary.tokens.size())
    return make_error(ErrorCode::corrupt, "SPAN-TOKENIZER",
                      fmt::format("expected {} token kinds, found {}", vocabulary.tokens.size(), vocabulary.kinds.size()),
                      "tokenizer.ggml.token_type");
  for (int32_t id : {vocabulary.bos, vocabulary.eos, vocabulary.eot})
    if (id >= 0 && size_t(id) >= vocabulary.tokens.size())
      return make_error(ErrorCode::corrupt, "SPAN-TOKENIZER",
                        fmt::format("special token {} lies outside of {} tokens", id, vocabulary.tokens.size()), "tokenizer.ggml");
  vocabulary_ = std::move(vocabulary);
  pieces_.resize(vocabulary_.tokens.size());
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const std::string& text = vocabulary_.tokens[i];
    const TokenKind kind = vocabulary_.kinds[i];
    const bool special = kind == TokenKind::control || kind == TokenKind::user_defined;
    if (special) {
      pieces_[i] = text;
      if (!text.empty()) specials_[uint8_t(text[0])].push_back(TokenId(i));
      continue;
    }
    // Fillers and unknown-tokens need not be written in the byte alphabet; they keep their text.
    pieces_[i] = bytes_of_alphabet_text(text).value_or(text);
  }
  for (auto& list : specials_)
    std::stable_sort(list.begin(), list.end(), [&](TokenId a, TokenId b) { return pieces_[size_t(a)].size() > pieces_[size_t(b)].size(); });
  auto pairs = BytePairs::make(vocabulary_, pieces_);
  if (!pairs) return std::move(pairs).error();
  pairs_ = std::make_unique<BytePairs>(std::move(*pairs));
  // Files without an end-of-turn key: ChatML's marker ends a generation whenever it is a control token.
  if (vocabulary_.eot < 0)
    for (TokenId id : specials_[uint8_t('<')])
      if (is_control(id) && pieces_[size_t(id)] == "<|im_end|>") turn_end_ = id;
  digest_ = digest_of(vocabulary_);
  return {};
}

TokenId BytePairTokenizer::special_at(std::string_view text, size_t at, bool control) const {
  for (TokenId id : specials_[uint8_t(text[at])]) {
    if (!control && vocabulary_.kinds[size_t(id)] == TokenKind::control) continue;
    const std::string& piece = pieces_[size_t(id)];
    if (text.compare(at, piece.size(), piece) == 0) return id;
  }
  return -1;
}

void BytePairTokenizer::encode_words(std::string_view text, size_t base, Encoding& out) const {
  std::vector<BytePairs::Part> parts;
  words_->split(text, [&](size_t begin, size_t end) {
    parts.clear();
    pairs_->merge(text.substr(begin, end - begin), parts);
    for (const auto& part : parts) {
      const ByteRange range{base + begin + part.begin, base + begin + part.end};
      if (part.id >= 0) {
        out.ids.push_back(part.id);
        out.offsets.push_back(range);
      } else {
        out.dropped.push_back(range);
      }
    }
  });
}

Encoding BytePairTokenizer::encode(std::string_view text, EncodeOptions options) const {
  Encoding out;
  if (options.add_special && vocabulary_.add_bos && vocabulary_.bos >= 0) {
    out.ids.push_back(vocabulary_.bos);
    out.offsets.push_back({0, 0});
  }
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const TokenId special = special_at(text, at, options.parse_special);
    if (special < 0) {
      ++at;
      continue;
    }
    encode_words(text.substr(begin, at - begin), begin, out);
    const size_t end = at + pieces_[size_t(special)].size();
    out.ids.push_back(special);
    out.offsets.push_back({at, end});
    begin = at = end;
  }
  encode_words(text.substr(begin), begin, out);
  if (options.add_special && vocabulary_.add_eos && vocabulary_.eos >= 0) {
    out.ids.push_back(vocabulary_.eos);
    out.offsets.push_back({text.size(), text.size()});
  }
  return out;
}

}  // namespace

Result<std::shared_ptr<const Tokenizer>> make_tokenizer(Vocabulary vocabulary) {
  auto out = std::make_shared<BytePairTokenizer>();
  if (auto built = out->build(std::move(vocabulary)); !built) return std::move(built).error();
  return std::shared_ptr<const Tokenizer>(std::move(out));
}

}  // namespace spanscope
