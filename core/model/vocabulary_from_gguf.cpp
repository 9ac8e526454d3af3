// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/model/vocabulary_from_gguf.h"

#include <fmt/format.h>

namespace spanscope {
namespace {

Error key_error(const GgufFile& file, const char* key, const std::string& message) {
  const GgufValue* v = file.find(key);
  return make_error(ErrorCode::corrupt, "SPAN-GGUF-KEY", fmt::format("metadata key \"{}\": {}", key, message),
                    file.where(), v ? std::optional<uint64_t>(v->offset) : std::nullopt);
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
  auto merges = file.texts("tokenizer.ggml.merges");
  if (!merges) return std::move(merges).error();
  out.merges = std::move(*merges);

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
  };
  static constexpr IdKey kIds[] = {{"tokenizer.ggml.bos_token_id", &Vocabulary::bos},
                                   {"tokenizer.ggml.eos_token_id", &Vocabulary::eos},
                                   {"tokenizer.ggml.eot_token_id", &Vocabulary::eot},
                                   {"tokenizer.ggml.unknown_token_id", &Vocabulary::unknown},
                                   {"tokenizer.ggml.padding_token_id", &Vocabulary::pad}};
  for (const IdKey& k : kIds) {
    if (!file.find(k.key)) continue;
    auto id = file.unsigned_value(k.key);
    if (!id) return std::move(id).error();
    if (*id >= out.tokens.size())
      return key_error(
          file, k.key,
          fmt::format("expected an id below {} (the number of tokens), found {}", out.tokens.size(), *id));
    out.*k.id = int32_t(*id);
  }
  auto add_bos = file.boolean("tokenizer.ggml.add_bos_token", false);
  if (!add_bos) return std::move(add_bos).error();
  out.add_bos = *add_bos;
  auto add_eos = file.boolean("tokenizer.ggml.add_eos_token", false);
  if (!add_eos) return std::move(add_eos).error();
  out.add_eos = *add_eos;
  return out;
}

}  // namespace spanscope
