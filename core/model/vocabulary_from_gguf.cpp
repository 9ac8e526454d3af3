// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/model/vocabulary_from_gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "core/text/pre_tokenizer.h"
#include "core/text/sentencepiece_rules.h"

namespace spanscope {
namespace {

Error key_error(const GgufFile& file, const char* key, const std::string& message) {
  const GgufValue* v = file.find(key);
  return make_error(ErrorCode::corrupt, "SPAN-GGUF-KEY", fmt::format("metadata key \"{}\": {}", key, message),
                    file.where(), v ? std::optional<uint64_t>(v->offset) : std::nullopt);
}

// One number per token, or none.
Result<std::vector<float>> scores_of(const GgufFile& file, size_t tokens) {
  constexpr const char* kKey = "tokenizer.ggml.scores";
  std::vector<float> out;
  const GgufValue* v = file.find(kKey);
  if (!v) return out;
  const bool floats = v->element == GgufType::f32, whole = v->element == GgufType::i32;
  if (v->type != GgufType::array || (!floats && !whole)) return key_error(file, kKey, "expected an array of f32 or i32");
  if (v->count != tokens)
    return key_error(file, kKey, fmt::format("expected {} values (one per token), found {}", tokens, v->count));
  out.resize(tokens);
  if (floats) {
    if (tokens > 0) std::memcpy(out.data(), file.bytes().data() + v->offset, tokens * sizeof(float));
    return out;
  }
  for (size_t i = 0; i < tokens; ++i) {
    int32_t value;
    std::memcpy(&value, file.bytes().data() + v->offset + 4 * i, 4);
    out[i] = float(value);
  }
  return out;
}

// These tokens of Phi-3 take in the white space behind them; the file has no key that could say so.
constexpr std::array<std::string_view, 11> kPhi3TakesSpace = {
    "</s>", "<|assistant|>", "<|system|>", "<|end|>", "<|user|>", "<|placeholder1|>",
    "<|placeholder2|>", "<|placeholder3|>", "<|placeholder4|>", "<|placeholder5|>", "<|placeholder6|>"};

// What the file leaves to the kind of tokenizer.
Status read_sentencepiece(const GgufFile& file, Vocabulary& out) {
  auto scores = scores_of(file, out.tokens.size());
  if (!scores) return std::move(scores).error();
  out.scores = std::move(*scores);
  const bool bpe = out.kind == "llama";
  auto prefix = file.boolean("tokenizer.ggml.add_space_prefix", bpe);
  if (!prefix) return std::move(prefix).error();
  auto strip = file.boolean("tokenizer.ggml.remove_extra_whitespaces", false);
  if (!strip) return std::move(strip).error();
  const GgufValue* map = file.find("tokenizer.ggml.precompiled_charsmap");
  SPANSCOPE_TRY(refuse_sentencepiece_rules(*strip, map && map->count > 0, file.where()));
  set_sentencepiece_spaces(out, *prefix);
  out.byte_fallback = std::find(out.kinds.begin(), out.kinds.end(), TokenKind::byte) != out.kinds.end();
  if (out.kind != "llama") return {};
  auto architecture = file.text("general.architecture", std::string());
  if (!architecture) return std::move(architecture).error();
  if (*architecture == "phi3") {
    out.flags.assign(out.tokens.size(), 0);
    for (size_t i = 0; i < out.tokens.size(); ++i)
      if (std::find(kPhi3TakesSpace.begin(), kPhi3TakesSpace.end(), out.tokens[i]) != kPhi3TakesSpace.end())
        out.flags[i] = kTakesSpaceAfter;
  }
  return {};
}

}  // namespace

Result<Vocabulary> vocabulary_from_gguf(const GgufFile& file) {
  Vocabulary out;
  auto tokens = file.texts("tokenizer.ggml.tokens");
  if (!tokens) return std::move(tokens).error();
  out.tokens = std::move(*tokens);
  if (out.tokens.empty()) return out;
  auto kind = file.text("tokenizer.ggml.model");
  if (!kind) return std::move(kind).error();
  out.kind = std::move(*kind);
  auto pre = file.text("tokenizer.ggml.pre", std::string());
  if (!pre) return std::move(pre).error();
  out.pre = std::move(*pre);
  if (out.kind == "gpt2") {
    auto merges = file.texts("tokenizer.ggml.merges");
    if (!merges) return std::move(merges).error();
    out.merges = std::move(*merges);
  }

  auto kinds = file.integers("tokenizer.ggml.token_type");
  if (!kinds) return std::move(kinds).error();
  out.kinds.assign(out.tokens.size(), TokenKind::normal);
  if (!kinds->empty()) {
    if (kinds->size() != out.tokens.size())
      return key_error(
          file, "tokenizer.ggml.token_type",
          fmt::format("expected {} values (one per token), found {}", out.tokens.size(), kinds->size()));
    for (size_t i = 0; i < kinds->size(); ++i) {
      if ((*kinds)[i] < 1 || (*kinds)[i] > 6)
        return key_error(file, "tokenizer.ggml.token_type",
                         fmt::format("token {} has type {}, expected 1 to 6", i, (*kinds)[i]));
      out.kinds[i] = TokenKind((*kinds)[i]);
    }
  }

  struct IdKey {
    const char* key;
    int32_t Vocabulary::*id;
    int32_t llama;  // what the kind "llama" means without the key
  };
  static constexpr IdKey kIds[] = {{"tokenizer.ggml.bos_token_id", &Vocabulary::bos, 1},
                                   {"tokenizer.ggml.eos_token_id", &Vocabulary::eos, 2},
                                   {"tokenizer.ggml.eot_token_id", &Vocabulary::eot, -1},
                                   {"tokenizer.ggml.unknown_token_id", &Vocabulary::unknown, 0},
                                   {"tokenizer.ggml.padding_token_id", &Vocabulary::pad, -1}};
  const auto read_id = [&](const char* key, int32_t& target) -> Status {
    auto id = file.unsigned_value(key);
    if (!id) return std::move(id).error();
    if (*id >= out.tokens.size())
      return key_error(file, key,
                       fmt::format("expected an id below {} (the number of tokens), found {}", out.tokens.size(), *id));
    target = int32_t(*id);
    return {};
  };
  for (const IdKey& k : kIds) {
    if (file.find(k.key)) SPANSCOPE_TRY(read_id(k.key, out.*k.id));
    else if (out.kind == "llama" && size_t(k.llama + 1) <= out.tokens.size()) out.*k.id = k.llama;
  }
  if (constexpr const char* kEom = "tokenizer.ggml.eom_token_id"; file.find(kEom)) {
    int32_t id = -1;
    SPANSCOPE_TRY(read_id(kEom, id));
    out.ends.push_back(id);
  }
  bool bos_without_key = out.kind == "llama", eos_without_key = out.kind == "t5";
  if (out.kind == "llama" || out.kind == "t5") {
    SPANSCOPE_TRY(read_sentencepiece(file, out));
  } else if (const KnownPreTokenizer* known = find_pre_tokenizer(out.pre)) {
    out.ignore_merges = known->ignore_merges;
    bos_without_key = known->add_bos;
  }
  auto add_bos = file.boolean("tokenizer.ggml.add_bos_token", bos_without_key);
  if (!add_bos) return std::move(add_bos).error();
  out.add_bos = *add_bos;
  auto add_eos = file.boolean("tokenizer.ggml.add_eos_token", eos_without_key);
  if (!add_eos) return std::move(add_eos).error();
  out.add_eos = *add_eos;
  return out;
}

}  // namespace spanscope
