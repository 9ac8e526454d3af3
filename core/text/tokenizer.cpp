// SPDX-License-Identifier: GPL-3.0-or-later
// All kinds of tokenizer behind one interface: added tokens are cut out, the text between them is normalised and cut into
// words, a word model turns words into tokens; a map of bytes leads back to the input.
#include "core/text/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "core/text/added_tokens.h"
#include "core/text/byte_alphabet.h"
#include "core/text/byte_pairs.h"
#include "core/text/normaliser.h"
#include "core/text/piece_pairs.h"
#include "core/text/pre_tokenizer.h"
#include "core/text/unigram.h"
#include "core/text/vocabulary_digest.h"

namespace spanscope {
namespace {

constexpr std::string_view kSpace = "\xe2\x96\x81";  // U+2581 stands for a space in SentencePiece vocabularies

Error refuse(std::string message, std::string where) {
  return make_error(ErrorCode::unsupported, "SPAN-TOKENIZER", std::move(message), std::move(where));
}

std::string with_spaces(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t next = std::min(text.find(kSpace, at), text.size());
    out.append(text.substr(at, next - at));
    if (next < text.size()) out.push_back(' ');
    at = next + kSpace.size();
  }
  return out;
}

class ModelTokenizer : public Tokenizer {
 public:
  Status build(Vocabulary vocabulary);
  Encoding encode(std::string_view text, EncodeOptions options) const override;
  std::string piece(TokenId id) const override;
  std::string decode(std::span<const TokenId> ids) const override {
    std::string out;
    for (TokenId id : ids) out += piece(id);
    if (vocabulary_.decode_drops_space && out.starts_with(' ')) out.erase(0, 1);
    return out;
  }
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  bool is_control(TokenId id) const override { return known(id) && vocabulary_.kinds[size_t(id)] == TokenKind::control; }
  bool ends_generation(TokenId id) const override { return id >= 0 && std::binary_search(ends_.begin(), ends_.end(), id); }
  std::string digest() const override {
    std::call_once(digest_once_, [&] { digest_ = vocabulary_digest(vocabulary_); });
    return digest_;
  }

 private:
  bool known(TokenId id) const { return id >= 0 && size_t(id) < vocabulary_.tokens.size(); }
  Status check() const;
  Status add_words();
  void add_specials();
  void add_ends();
  // Buffers and switches of one call of encode().
  struct Call {
    Encoding out;
    WordScratch scratch;
    std::vector<WordPart> parts;
    bool special = true, continues = false;
  };
  // A stretch of the input between tokens that are found in the text as it is.
  void stretch(std::string_view text, uint64_t base, Call& call) const;
  void mapped(MappedText text, Call& call) const;
  template <class Origin>
  void words(std::string_view text, Origin origin, Call& call) const;

  Vocabulary vocabulary_;
  bool byte_level_ = false;
  // Tokens found in the text as it is and in normalised text: all of them, and the user-defined ones.
  std::vector<AddedTokens> raw_, normalised_;  // [0]: all, [1]: user-defined
  Normaliser normalise_, prepare_;
  std::unique_ptr<const PreTokenizer> words_;  // nullptr: a stretch is one word
  std::unique_ptr<const WordModel> model_;
  std::vector<TokenId> ends_;  // sorted
  mutable std::once_flag digest_once_;
  mutable std::string digest_;
};

Status ModelTokenizer::check() const {
  const Vocabulary& v = vocabulary_;
  const size_t n = v.tokens.size();
  if (n >= size_t(INT32_MAX) / 2 || v.merges.size() >= size_t(INT32_MAX))
    return make_error(ErrorCode::limit, "SPAN-LIMIT", fmt::format("{} tokens and {} merges are too many", n, v.merges.size()), "vocabulary");
  const auto corrupt = [](std::string message, const char* where) {
    return make_error(ErrorCode::corrupt, "SPAN-TOKENIZER", std::move(message), where);
  };
  if (v.kinds.size() != n) return corrupt(fmt::format("expected {} token kinds, found {}", n, v.kinds.size()), "tokenizer.ggml.token_type");
  if (!v.flags.empty() && v.flags.size() != n) return corrupt(fmt::format("expected {} token flags, found {}", n, v.flags.size()), "vocabulary");
  if (!v.merge_left.empty() && v.merge_left.size() != v.merges.size()) return corrupt("expected one border per merge", "vocabulary");
  for (size_t i = 0; i < n; ++i)
    if (v.tokens[i].size() > AddedTokens::kLongest && v.kinds[i] != TokenKind::normal)
      return make_error(ErrorCode::limit, "SPAN-LIMIT",
                        fmt::format("token {} has {} bytes, of special tokens at most {}", i, v.tokens[i].size(), AddedTokens::kLongest), "vocabulary");
  std::vector<int32_t> ids = {v.bos, v.eos, v.eot, v.unknown, v.pad};
  ids.insert(ids.end(), v.ends.begin(), v.ends.end());
  for (int32_t id : ids)
    if (id >= 0 && size_t(id) >= n) return corrupt(fmt::format("special token {} lies outside of {} tokens", id, n), "tokenizer.ggml");
  return {};
}

Status ModelTokenizer::add_words() {
  const Vocabulary& v = vocabulary_;
  Result<std::unique_ptr<const WordModel>> model = byte_level_          ? BytePairs::make(v)
                                                   : v.kind == "llama" ? PiecePairs::make(v)
                                                                       : Unigram::make(v);
  if (!model) return std::move(model).error();
  model_ = std::move(*model);
  if (!byte_level_ && (v.pre != "custom" || v.split.empty())) return {};
  auto words = v.pre == "custom" ? PreTokenizer::make(v.split, "pre_tokenizer") : PreTokenizer::make(v.pre);
  if (!words) return std::move(words).error();
  words_ = std::move(*words);
  return {};
}

void ModelTokenizer::add_specials() {
  std::vector<AddedTokens::Entry> raw[2], normalised[2];
  for (size_t i = 0; i < vocabulary_.tokens.size(); ++i) {
    const TokenKind kind = vocabulary_.kinds[i];
    const bool user = kind == TokenKind::user_defined;
    if (!user && kind != TokenKind::control && kind != TokenKind::unknown) continue;
    const uint8_t flags = vocabulary_.flags.empty() ? 0 : vocabulary_.flags[i];
    const bool in_normal = flags & kFoundNormalised;
    std::string text = user && !byte_level_ && !in_normal ? with_spaces(vocabulary_.tokens[i]) : vocabulary_.tokens[i];
    if (text.empty()) continue;
    if (in_normal) text = normalise_.apply(unmapped(text, 0), true, false).text;
    auto* lists = in_normal ? normalised : raw;
    lists[0].push_back({text, TokenId(i), flags});
    if (user) lists[1].push_back({std::move(text), TokenId(i), flags});
  }
  for (const auto& list : raw) raw_.emplace_back(list);
  for (const auto& list : normalised) normalised_.emplace_back(list);
}

// Files without an end-of-turn key: the markers that end a turn in known templates, where they are control tokens.
void ModelTokenizer::add_ends() {
  for (int32_t id : {vocabulary_.eos, vocabulary_.eot})
    if (id >= 0) ends_.push_back(id);
  for (int32_t id : vocabulary_.ends)
    if (id >= 0) ends_.push_back(id);
  if (vocabulary_.eot < 0)
    raw_[0].each("<|im_end|>\n<|eot_id|>\n<|eom_id|>\n<end_of_turn>", [](size_t, size_t) {},
                 [&](TokenId id, size_t, size_t) {
                   if (is_control(id)) ends_.push_back(id);
                 });
  std::sort(ends_.begin(), ends_.end());
  ends_.erase(std::unique(ends_.begin(), ends_.end()), ends_.end());
}

Status ModelTokenizer::build(Vocabulary vocabulary) {
  if (vocabulary.tokens.empty()) return refuse("the model has no vocabulary", "tokenizer.ggml.tokens");
  byte_level_ = vocabulary.kind == "gpt2";
  if (!byte_level_ && vocabulary.kind != "llama" && vocabulary.kind != "unigram" && vocabulary.kind != "t5")
    return refuse("tokenizer kind \"" + vocabulary.kind +
                      "\" is not known; expected gpt2 (byte-level BPE), llama (SentencePiece BPE), unigram or t5 (SentencePiece unigram)",
                  "tokenizer.ggml.model");
  if (vocabulary.kinds.empty()) vocabulary.kinds.assign(vocabulary.tokens.size(), TokenKind::normal);
  vocabulary_ = std::move(vocabulary);
  SPANSCOPE_TRY(check());
  auto normalise = Normaliser::make(vocabulary_.normalise, "normalizer");
  if (!normalise) return std::move(normalise).error();
  normalise_ = std::move(*normalise);
  auto prepare = Normaliser::make(vocabulary_.prepare, "pre_tokenizer");
  if (!prepare) return std::move(prepare).error();
  prepare_ = std::move(*prepare);
  SPANSCOPE_TRY(add_words());
  add_specials();
  add_ends();
  return {};
}

std::string ModelTokenizer::piece(TokenId id) const {
  if (!known(id)) return {};
  const std::string& text = vocabulary_.tokens[size_t(id)];
  const TokenKind kind = vocabulary_.kinds[size_t(id)];
  if (kind == TokenKind::control || kind == TokenKind::unknown) return text;
  if (byte_level_) {
    if (kind == TokenKind::user_defined) return text;
    // Fillers need not be written in the byte alphabet; they keep their text.
    return bytes_of_alphabet_text(text).value_or(text);
  }
  if (kind == TokenKind::byte)
    if (const auto byte = byte_of_piece(text)) return std::string(1, char(*byte));
  return with_spaces(text);
}

template <class Origin>
void ModelTokenizer::words(std::string_view text, Origin origin, Call& call) const {
  const auto word = [&](size_t begin, size_t end) {
    call.parts.clear();
    model_->encode(text.substr(begin, end - begin), call.scratch, call.parts);
    for (const WordPart& part : call.parts) {
      const ByteRange range{origin(begin + part.begin), origin(begin + part.end)};
      if (part.id >= 0) {
        call.out.ids.push_back(part.id);
        call.out.offsets.push_back(range);
      } else if (range.size() > 0) {
        call.out.dropped.push_back(range);
      }
    }
  };
  if (words_) words_->split(text, word);
  else if (!text.empty()) word(0, text.size());
}

void ModelTokenizer::mapped(MappedText text, Call& call) const {
  normalised_[call.special ? 0 : 1].each(
      text.text,
      [&](size_t begin, size_t end) {
        MappedText piece = begin == 0 && end == text.text.size() ? std::move(text) : part_of(text, begin, end);
        const bool first = piece.origin.front() == 0;
        piece = prepare_.apply(std::move(piece), first, call.continues);
        call.continues = false;
        words(piece.text, [&](size_t at) { return piece.origin[at]; }, call);
      },
      [&](TokenId id, size_t begin, size_t end) {
        call.out.ids.push_back(id);
        call.out.offsets.push_back({text.origin[begin], text.origin[end]});
        call.continues = false;
      });
}

void ModelTokenizer::stretch(std::string_view text, uint64_t base, Call& call) const {
  if (normalise_.empty() && prepare_.empty() && normalised_[0].empty())
    return words(text, [&](size_t at) { return base + at; }, call);
  mapped(normalise_.apply(unmapped(text, base), base == 0, call.continues), call);
}

Encoding ModelTokenizer::encode(std::string_view text, EncodeOptions options) const {
  Call call;
  call.special = options.parse_special;
  call.continues = options.continues;
  Encoding& out = call.out;
  if (options.add_special && vocabulary_.add_bos && vocabulary_.bos >= 0) {
    out.ids.push_back(vocabulary_.bos);
    out.offsets.push_back({0, 0});
  }
  raw_[call.special ? 0 : 1].each(
      text, [&](size_t begin, size_t end) { stretch(text.substr(begin, end - begin), begin, call); },
      [&](TokenId id, size_t begin, size_t end) {
        out.ids.push_back(id);
        out.offsets.push_back({begin, end});
        call.continues = false;
      });
  if (options.add_special && vocabulary_.add_eos && vocabulary_.eos >= 0) {
    out.ids.push_back(vocabulary_.eos);
    out.offsets.push_back({text.size(), text.size()});
  }
  return std::move(out);
}

}  // namespace

Result<std::shared_ptr<const Tokenizer>> make_tokenizer(Vocabulary vocabulary) {
  auto out = std::make_shared<ModelTokenizer>();
  if (auto built = out->build(std::move(vocabulary)); !built) return std::move(built).error();
  return std::shared_ptr<const Tokenizer>(std::move(out));
}

}  // namespace spanscope
