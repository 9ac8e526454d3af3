// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/model/vocabulary_from_hf.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "core/base/files.h"
#include "core/base/json.h"
#include "core/text/vocabulary_from_json.h"
#include "core/text/vocabulary_from_sentencepiece.h"

namespace spanscope {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kLargestVocabulary = uint64_t(256) << 20;
constexpr uint64_t kLargestConfiguration = uint64_t(16) << 20;

bool there(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error) && !error;
}

// An object, or null when the directory has no such file.
Result<OrderedJson> read_object(const std::string& path) {
  if (!there(path)) return OrderedJson();
  auto bytes = read_file(path, kLargestConfiguration);
  if (!bytes) return std::move(bytes).error();
  auto json = parse_json(*bytes, path);
  if (!json) return std::move(json).error();
  if (!json->is_object()) return make_error(ErrorCode::corrupt, "SPAN-JSON", "expected an object", path);
  return std::move(*json);
}

const OrderedJson* find(const OrderedJson& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

Result<Vocabulary> read_vocabulary(const std::string& path) {
  auto bytes = read_file(path, kLargestVocabulary);
  if (!bytes) return std::move(bytes).error();
  const size_t first = bytes->find_first_not_of(" \t\r\n");
  if (first != std::string::npos && (*bytes)[first] == '{') return vocabulary_from_tokenizer_json(*bytes, path);
  return vocabulary_from_sentencepiece({reinterpret_cast<const uint8_t*>(bytes->data()), bytes->size()}, path);
}

// What the files beside the vocabulary say about special tokens.
class Beside {
 public:
  Beside(Vocabulary& vocabulary, const std::string& dir) : vocabulary_(vocabulary), dir_(dir) {}

  Status read(bool sentencepiece) {
    for (const auto& [name, target] : {std::pair<const char*, OrderedJson*>{"/tokenizer_config.json", &config_},
                                       {"/special_tokens_map.json", &map_},
                                       {"/generation_config.json", &generation_},
                                       {"/config.json", &model_}}) {
      auto json = read_object(dir_ + name);
      if (!json) return std::move(json).error();
      *target = std::move(*json);
    }
    if (sentencepiece) SPANSCOPE_TRY(add_tokens());
    for (size_t i = 0; i < vocabulary_.tokens.size(); ++i)
      if (vocabulary_.kinds[i] == TokenKind::control || vocabulary_.kinds[i] == TokenKind::user_defined ||
          vocabulary_.kinds[i] == TokenKind::unknown)
        ids_.emplace(vocabulary_.tokens[i], int32_t(i));
    SPANSCOPE_TRY(named("bos_token", vocabulary_.bos));
    SPANSCOPE_TRY(named("eos_token", vocabulary_.eos));
    SPANSCOPE_TRY(named("unk_token", vocabulary_.unknown));
    SPANSCOPE_TRY(named("pad_token", vocabulary_.pad));
    for (const auto& [key, target] : {std::pair<const char*, bool*>{"add_bos_token", &vocabulary_.add_bos}, {"add_eos_token", &vocabulary_.add_eos}})
      if (const OrderedJson* value = find(config_, key); value && value->is_boolean()) *target = value->get<bool>();
    SPANSCOPE_TRY(numbered(generation_, "generation_config.json"));
    if (vocabulary_.eos < 0 && vocabulary_.ends.empty()) SPANSCOPE_TRY(numbered(model_, "config.json"));
    if (vocabulary_.eos < 0 && !vocabulary_.ends.empty()) vocabulary_.eos = vocabulary_.ends.front();
    return {};
  }

 private:
  // "bos_token": "<s>" or {"content": "<s>"}; tokenizer_config.json first.
  Status named(const char* key, int32_t& target) {
    for (const OrderedJson* file : {&config_, &map_}) {
      const OrderedJson* value = find(*file, key);
      if (value && value->is_object()) value = find(*value, "content");
      if (!value || !value->is_string()) continue;
      const std::string text = value->get<std::string>();
      if (text.empty()) return {};
      const auto id = ids_.find(text);
      if (id != ids_.end()) {
        target = id->second;
        return {};
      }
      const auto plain = std::find(vocabulary_.tokens.begin(), vocabulary_.tokens.end(), text);
      if (plain == vocabulary_.tokens.end())
        return make_error(ErrorCode::corrupt, "SPAN-TOKENIZER", fmt::format("\"{}\" is \"{}\", which is no token", key, text),
                          dir_ + (file == &config_ ? "/tokenizer_config.json" : "/special_tokens_map.json"));
      target = int32_t(plain - vocabulary_.tokens.begin());
      return {};
    }
    return {};
  }

  // "eos_token_id": 2 or [2, 3]: all of them end a generation.
  Status numbered(const OrderedJson& file, const char* name) {
    const OrderedJson* value = find(file, "eos_token_id");
    if (!value) return {};
    const OrderedJson list = value->is_array() ? *value : OrderedJson::array({*value});
    for (const OrderedJson& one : list) {
      if (!one.is_number_integer() || one.get<int64_t>() < 0)
        return make_error(ErrorCode::corrupt, "SPAN-TOKENIZER", "\"eos_token_id\": expected ids from 0", dir_ + "/" + name);
      // Ids behind the vocabulary are padding of the embeddings; no text leads to them.
      if (one.get<int64_t>() < int64_t(vocabulary_.tokens.size())) vocabulary_.ends.push_back(one.get<int32_t>());
    }
    return {};
  }

  // A SentencePiece file knows nothing of tokens that were added to it later.
  Status add_tokens() {
    if (const OrderedJson* added = find(config_, "added_tokens_decoder"); added && added->is_object())
      for (const auto& [key, token] : added->items()) {
        const OrderedJson* content = find(token, "content");
        char* end = nullptr;
        const long long id = std::strtoll(key.c_str(), &end, 10);
        if (key.empty() || *end || !content || !content->is_string())
          return make_error(ErrorCode::corrupt, "SPAN-TOKENIZER", "\"added_tokens_decoder\": expected ids with \"content\"", dir_ + "/tokenizer_config.json");
        const OrderedJson& entry = token;  // a structured binding cannot be captured
        const auto set = [&](const char* name) {
          const OrderedJson* value = find(entry, name);
          return value && value->is_boolean() && value->get<bool>();
        };
        const uint8_t flags = uint8_t((set("lstrip") ? kTakesSpaceBefore : 0) | (set("rstrip") ? kTakesSpaceAfter : 0) | (set("single_word") ? kWholeWord : 0));
        SPANSCOPE_TRY(add(id, content->get<std::string>(), set("special"), flags, "/tokenizer_config.json"));
      }
    auto more = read_object(dir_ + "/added_tokens.json");
    if (!more) return std::move(more).error();
    if (more->is_object())
      for (const auto& [content, id] : more->items()) {
        if (!id.is_number_integer()) return make_error(ErrorCode::corrupt, "SPAN-TOKENIZER", "expected ids", dir_ + "/added_tokens.json");
        const int64_t number = id.get<int64_t>();
        if (number >= 0 && size_t(number) < vocabulary_.tokens.size() && vocabulary_.tokens[size_t(number)] == content) continue;
        SPANSCOPE_TRY(add(number, content, true, 0, "/added_tokens.json"));
      }
    return {};
  }
  Status add(int64_t id, const std::string& content, bool special, uint8_t flags, const char* file) {
    Vocabulary& v = vocabulary_;
    if (id < 0 || id > int64_t(v.tokens.size()) + (1 << 16))
      return make_error(ErrorCode::limit, "SPAN-LIMIT", fmt::format("added token id {} with {} tokens", id, v.tokens.size()), dir_ + file);
    const size_t at = size_t(id);
    if (at >= v.tokens.size()) {
      v.tokens.resize(at + 1);
      v.scores.resize(at + 1, 0.0f);
      v.kinds.resize(at + 1, TokenKind::unused);
    }
    if (!v.tokens[at].empty() && v.tokens[at] != content)
      return make_error(ErrorCode::corrupt, "SPAN-TOKENIZER", fmt::format("added token {} is \"{}\", the vocabulary has \"{}\" there", id, content, v.tokens[at]), dir_ + file);
    v.tokens[at] = content;
    if (v.kinds[at] != TokenKind::unknown) v.kinds[at] = special ? TokenKind::control : TokenKind::user_defined;
    if (flags != 0 || !v.flags.empty()) {
      v.flags.resize(v.tokens.size(), 0);
      v.flags[at] = flags;
    }
    return {};
  }

  Vocabulary& vocabulary_;
  const std::string& dir_;
  OrderedJson config_, map_, generation_, model_;
  std::map<std::string, int32_t> ids_;
};

Result<Vocabulary> directory_impl(const std::string& dir) {
  for (const char* name : {"/tokenizer.json", "/tokenizer.model"}) {
    if (!there(dir + name)) continue;
    auto vocabulary = read_vocabulary(dir + name);
    if (!vocabulary) return std::move(vocabulary).error();
    SPANSCOPE_TRY(Beside(*vocabulary, dir).read(std::string(name) == "/tokenizer.model"));
    return std::move(*vocabulary);
  }
  return make_error(ErrorCode::not_found, "SPAN-NOT-FOUND", "the directory holds neither tokenizer.json nor tokenizer.model", dir);
}

Result<std::string> template_impl(const std::string& dir) {
  const std::string file = dir + "/chat_template.jinja";
  if (there(file)) return read_file(file, kLargestConfiguration);
  for (const char* name : {"/chat_template.json", "/tokenizer_config.json"}) {
    auto json = read_object(dir + name);
    if (!json) return std::move(json).error();
    const OrderedJson* value = find(*json, "chat_template");
    if (!value) continue;
    if (value->is_string()) return value->get<std::string>();
    const auto bad = [&](const std::string& message) { return make_error(ErrorCode::corrupt, "SPAN-TEMPLATE", message, dir + name); };
    if (!value->is_array()) return bad("\"chat_template\": expected a text or a list of named texts");
    std::string names;
    const OrderedJson* chosen = nullptr;
    for (const OrderedJson& one : *value) {
      const OrderedJson *label = find(one, "name"), *text = find(one, "template");
      if (!label || !text || !label->is_string() || !text->is_string()) return bad("\"chat_template\": expected objects with \"name\" and \"template\"");
      names += (names.empty() ? "" : ", ") + label->get<std::string>();
      if (value->size() == 1 || label->get<std::string>() == "default") chosen = text;
    }
    if (!chosen) return bad("of several chat templates (" + names + ") none is named default");
    return chosen->get<std::string>();
  }
  return std::string();
}

template <class F>
auto guarded(const std::string& where, F read) -> decltype(read(where)) {
  try {
    return read(where);
  } catch (const std::bad_alloc&) {
    return make_error(ErrorCode::memory, "SPAN-MEMORY", "not enough memory to read the vocabulary", where);
  }
}

}  // namespace

Result<Vocabulary> vocabulary_from_file(const std::string& path) { return guarded(path, read_vocabulary); }
Result<Vocabulary> vocabulary_from_directory(const std::string& dir) { return guarded(dir, directory_impl); }
Result<std::string> chat_template_of_directory(const std::string& dir) { return guarded(dir, template_impl); }

}  // namespace spanscope
