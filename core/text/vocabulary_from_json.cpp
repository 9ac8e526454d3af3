// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/text/vocabulary_from_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/text/piece_pairs.h"
#include "core/text/text_table.h"
#include "core/text/tokenizer_json.h"
#include "core/text/tokenizer_json_steps.h"

namespace spanscope {
namespace {

class Reader {
 public:
  Reader(TokenizerJson json, const std::string& where) : json_(std::move(json)), where_(where) {}

  Result<Vocabulary> read() {
    const auto model = json_.root.find("model");
    if (model == json_.root.end() || !model->is_object()) return corrupt("\"model\" is missing");
    model_ = &*model;
    if (!json_.has_vocabulary) return corrupt("\"model.vocab\" is missing");
    std::string type = text_or(*model_, "type", json_.has_merges ? "BPE" : "Unigram");
    if (type != "BPE" && type != "Unigram") return unsupported("model type \"" + type + "\" is not known; expected BPE or Unigram");
    bpe_ = type == "BPE";
    SPANSCOPE_TRY(bpe_ ? read_bpe() : read_unigram());
    SPANSCOPE_TRY(read_added());
    auto steps = read_tokenizer_steps(json_.root, where_);
    if (!steps) return std::move(steps).error();
    out_.normalise = std::move(steps->normalise);
    out_.prepare = std::move(steps->prepare);
    out_.split = std::move(steps->split);
    out_.decode_drops_space = steps->decode_drops_space;
    out_.pre = "custom";
    if (steps->byte_level && !bpe_) return unsupported("a unigram model over bytes is not supported");
    if (bpe_ && !json_.has_merges) return corrupt("\"model.merges\" is missing");
    out_.kind = steps->byte_level ? "gpt2" : bpe_ ? "llama" : "unigram";
    if (!steps->byte_level) mark_bytes();
    SPANSCOPE_TRY(read_template(json_.root));
    return std::move(out_);
  }

 private:
  Error corrupt(std::string message) const { return make_error(ErrorCode::corrupt, "SPAN-TOKENIZER", std::move(message), where_); }
  Error unsupported(std::string message) const { return make_error(ErrorCode::unsupported, "SPAN-TOKENIZER", std::move(message), where_); }

  static std::string text_or(const Json& object, const char* key, std::string fallback) {
    const auto found = object.find(key);
    return found != object.end() && found->is_string() ? found->get<std::string>() : fallback;
  }
  Result<bool> flag(const Json& object, const char* key, bool fallback) const {
    const auto found = object.find(key);
    if (found == object.end() || found->is_null()) return fallback;
    if (!found->is_boolean()) return corrupt(fmt::format("\"{}\": expected true or false, found {}", key, found->type_name()));
    return found->get<bool>();
  }

  // Ids far apart would cost more than the file is worth.
  static bool too_far(int64_t id, size_t entries) { return id < 0 || size_t(id) >= entries * 8 + (1 << 16); }

  // Room for token `id`.
  Status make_room(int64_t id, size_t entries) {
    if (too_far(id, entries))
      return make_error(ErrorCode::limit, "SPAN-LIMIT", fmt::format("token id {} with {} tokens in the file", id, entries), where_);
    if (size_t(id) >= out_.tokens.size()) {
      out_.tokens.resize(size_t(id) + 1);
      out_.kinds.resize(size_t(id) + 1, TokenKind::unused);
    }
    return {};
  }

  Status index_tokens() {
    // The index looks at the texts where they lie: added tokens must not move them.
    size_t room = out_.tokens.size();
    if (const auto added = json_.root.find("added_tokens"); added != json_.root.end() && added->is_array())
      for (const Json& token : *added)
        if (const auto id = token.find("id"); token.is_object() && id != token.end() && id->is_number_integer())
          if (const int64_t at = id->get<int64_t>(); !too_far(at, std::max(out_.tokens.size(), added->size()))) room = std::max(room, size_t(at) + 1);
    out_.tokens.reserve(room);
    index_.reserve(out_.tokens.size());
    for (size_t i = 0; i < out_.tokens.size(); ++i)
      if (out_.kinds[i] == TokenKind::normal && !index_.insert(out_.tokens[i], uint32_t(i)))
        return corrupt(fmt::format("tokens {} and {} have the same text", index_.find(out_.tokens[i]), i));
    return {};
  }

  Status read_bpe() {
    if (!json_.scored.empty()) return corrupt("\"model.vocab\" of a BPE model: expected an object, found a list");
    int64_t most = -1;
    for (const auto& entry : json_.ids) most = std::max(most, entry.second);
    if (most >= 0) SPANSCOPE_TRY(make_room(most, json_.ids.size()));
    for (auto& [text, id] : json_.ids) {
      if (out_.kinds[size_t(id)] == TokenKind::normal) return corrupt(fmt::format("token id {} is there twice", id));
      out_.tokens[size_t(id)] = std::move(text);
      out_.kinds[size_t(id)] = TokenKind::normal;
    }
    SPANSCOPE_TRY(index_tokens());
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
      if (!text_or(*model_, key, "").empty()) return unsupported(fmt::format("\"model.{}\" is not supported", key));
    if (const auto dropout = model_->find("dropout"); dropout != model_->end() && dropout->is_number() && dropout->get<double>() != 0)
      return unsupported("\"model.dropout\" would make encoding random");
    for (const auto& [key, target] : {std::pair<const char*, bool*>{"byte_fallback", &out_.byte_fallback}, {"fuse_unk", &out_.fuse_unknown},
                                      {"ignore_merges", &out_.ignore_merges}}) {
      auto value = flag(*model_, key, false);
      if (!value) return std::move(value).error();
      *target = *value;
    }
    if (const std::string unknown = text_or(*model_, "unk_token", ""); !unknown.empty()) {
      unknown_ = unknown;
      if (const uint32_t id = index_.find(unknown); id != kNoEntry) out_.unknown = int32_t(id);
    }
    out_.merges = std::move(json_.merges);
    // The border is the first space unless a piece holds one itself.
    for (size_t i = 0; i < out_.merges.size(); ++i)
      if (out_.merges[i].find(' ', 1) != json_.merge_left[i]) {
        out_.merge_left = std::move(json_.merge_left);
        break;
      }
    return {};
  }

  Status read_unigram() {
    if (!json_.ids.empty()) return corrupt("\"model.vocab\" of a unigram model: expected a list of pairs, found an object");
    for (auto& [text, score] : json_.scored) {
      if (!std::isfinite(float(score))) return corrupt(fmt::format("the score of token {} is {}", out_.tokens.size(), score));
      out_.tokens.push_back(std::move(text));
      out_.scores.push_back(float(score));
    }
    out_.kinds.assign(out_.tokens.size(), TokenKind::normal);
    SPANSCOPE_TRY(index_tokens());
    auto fallback = flag(*model_, "byte_fallback", false);
    if (!fallback) return std::move(fallback).error();
    out_.byte_fallback = *fallback;
    if (const auto id = model_->find("unk_id"); id != model_->end() && !id->is_null()) {
      if (!id->is_number_integer() || id->get<int64_t>() < 0 || id->get<int64_t>() >= int64_t(out_.tokens.size()))
        return corrupt(fmt::format("\"model.unk_id\": expected an id below {}, found {}", out_.tokens.size(), id->dump()));
      out_.unknown = id->get<int32_t>();
      out_.kinds[size_t(out_.unknown)] = TokenKind::unknown;
    }
    return {};
  }

  // Every added token stands alone in text; special ones are control tokens.
  Status read_added() {
    const auto added = json_.root.find("added_tokens");
    if (added == json_.root.end() || added->is_null()) return {};
    if (!added->is_array()) return corrupt("\"added_tokens\": expected a list");
    const size_t from_model = out_.tokens.size();
    std::vector<bool> seen;
    for (const Json& token : *added) {
      const auto id_there = token.is_object() ? token.find("id") : token.end();
      if (!token.is_object() || id_there == token.end() || !id_there->is_number_integer() || !token.contains("content") || !token["content"].is_string())
        return corrupt("\"added_tokens\": expected objects with \"id\" and \"content\"");
      int64_t id = id_there->get<int64_t>();
      const std::string content = token["content"].get<std::string>();
      if (const uint32_t in_model = index_.find(content); in_model != kNoEntry) id = in_model;  // the model's own id holds
      SPANSCOPE_TRY(make_room(id, std::max(from_model, added->size())));
      seen.resize(std::max(seen.size(), size_t(id) + 1), false);
      const bool taken = size_t(id) < from_model && !out_.tokens[size_t(id)].empty();
      if (seen[size_t(id)] || (taken && out_.tokens[size_t(id)] != content))
        return corrupt(fmt::format("added token {} is \"{}\", but that id belongs to \"{}\"", id, content, out_.tokens[size_t(id)]));
      seen[size_t(id)] = true;
      if (content.empty()) continue;
      if (!taken) out_.tokens[size_t(id)] = content;
      auto special = flag(token, "special", false);
      if (!special) return std::move(special).error();
      out_.kinds[size_t(id)] = *special ? TokenKind::control : TokenKind::user_defined;
      uint8_t flags = 0;
      for (const auto& [key, bit, usual] : {std::tuple<const char*, uint8_t, bool>{"lstrip", kTakesSpaceBefore, false},
                                            {"rstrip", kTakesSpaceAfter, false},
                                            {"single_word", kWholeWord, false},
                                            {"normalized", kFoundNormalised, !*special}}) {
        auto set = flag(token, key, usual);
        if (!set) return std::move(set).error();
        if (*set) flags |= bit;
      }
      if (flags != 0) {
        out_.flags.resize(std::max(out_.flags.size(), size_t(id) + 1), 0);
        out_.flags[size_t(id)] = flags;
      }
      if (content == unknown_) out_.unknown = int32_t(id);
    }
    if (!out_.flags.empty()) out_.flags.resize(out_.tokens.size(), 0);
    if (!out_.scores.empty()) out_.scores.resize(out_.tokens.size(), 0.0f);
    if (!unknown_.empty() && out_.unknown < 0) return corrupt("\"model.unk_token\" \"" + unknown_ + "\" is no token");
    return {};
  }

  void mark_bytes() {
    if (!out_.byte_fallback) return;
    for (size_t i = 0; i < out_.tokens.size(); ++i)
      if (out_.kinds[i] == TokenKind::normal && byte_of_piece(out_.tokens[i])) out_.kinds[i] = TokenKind::byte;
  }

  // Tokens that the post-processor puts around a text: at most one on each side.
  Status read_template(const Json& root) {
    auto around = read_tokenizer_template(root, where_);
    if (!around) return std::move(around).error();
    const auto check = [&](int64_t id, int32_t& target, bool& add) -> Status {
      if (id < 0) return {};
      if (size_t(id) >= out_.tokens.size()) return corrupt(fmt::format("the post-processor puts in token {}, of {} tokens", id, out_.tokens.size()));
      target = int32_t(id);
      add = true;
      return {};
    };
    SPANSCOPE_TRY(check(around->before, out_.bos, out_.add_bos));
    return check(around->behind, out_.eos, out_.add_eos);
  }

  TokenizerJson json_;
  const std::string& where_;
  const Json* model_ = nullptr;
  Vocabulary out_;
  TextTable index_;  // of the model's own tokens
  std::string unknown_;
  bool bpe_ = true;
};

}  // namespace

Result<Vocabulary> vocabulary_from_tokenizer_json(std::string_view text, const std::string& where) {
  auto json = parse_tokenizer_json(text, where);
  if (!json) return std::move(json).error();
  return Reader(std::move(*json), where).read();
}

}  // namespace spanscope
