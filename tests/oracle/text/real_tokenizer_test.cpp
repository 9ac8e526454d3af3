// SPDX-License-Identifier: GPL-3.0-or-later
// Vectors of published vocabularies. Their files are not shipped: SPANSCOPE_VOCABULARIES names a folder that holds them as
// the reference data's RECIPES.json says (path inside the package); each that is not there is skipped with a line.
#include <algorithm>
#include <unordered_map>

#include "core/base/digest.h"
#include "core/base/files.h"
#include "core/model/vocabulary_from_hf.h"
#include "core/model/weights.h"
#include "core/text/byte_alphabet.h"
#include "tests/oracle/text/tokenizer_vectors.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {

std::string from_base64(std::string_view text) {
  std::string out;
  uint32_t bits = 0;
  int count = 0;
  for (char c : text) {
    const int digit = c >= 'A' && c <= 'Z'   ? c - 'A'
                      : c >= 'a' && c <= 'z' ? c - 'a' + 26
                      : c >= '0' && c <= '9' ? c - '0' + 52
                      : c == '+'             ? 62
                      : c == '/'             ? 63
                                             : -1;
    if (digit < 0) break;
    bits = bits << 6 | uint32_t(digit);
    count += 6;
    if (count >= 8) {
      count -= 8;
      out.push_back(char(bits >> count & 0xff));
    }
  }
  return out;
}

using Ranks = std::vector<std::pair<std::string, int32_t>>;  // bytes, rank

// A vocabulary of ranks as one of merges: each token's last merge is what its bytes come to with the ranks below its own.
Vocabulary from_ranks(Ranks ranks, int32_t first_id, const std::map<std::string, int32_t>& specials, const std::string& pre) {
  std::sort(ranks.begin(), ranks.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  std::unordered_map<std::string, int32_t> rank_of;
  int32_t most = 0;
  for (const auto& [bytes, rank] : ranks) {
    rank_of.emplace(bytes, rank);
    most = std::max(most, rank + first_id);
  }
  for (const auto& [text, id] : specials) most = std::max(most, id);
  Vocabulary out;
  out.kind = "gpt2";
  out.pre = pre;
  out.ignore_merges = true;
  out.tokens.resize(size_t(most) + 1);
  out.kinds.resize(out.tokens.size(), TokenKind::unused);
  for (const auto& [bytes, rank] : ranks) {
    out.tokens[size_t(rank + first_id)] = alphabet_text_of_bytes(bytes);
    out.kinds[size_t(rank + first_id)] = TokenKind::normal;
    std::vector<std::string> parts;
    for (char c : bytes) parts.emplace_back(1, c);
    while (parts.size() > 2) {
      size_t best = parts.size();
      int32_t least = rank;
      for (size_t i = 0; i + 1 < parts.size(); ++i)
        if (const auto found = rank_of.find(parts[i] + parts[i + 1]); found != rank_of.end() && found->second < least) {
          least = found->second;
          best = i;
        }
      if (best == parts.size()) break;
      parts[best] += parts[best + 1];
      parts.erase(parts.begin() + ptrdiff_t(best) + 1);
    }
    if (parts.size() == 2) out.merges.push_back(alphabet_text_of_bytes(parts[0]) + " " + alphabet_text_of_bytes(parts[1]));
  }
  for (const auto& [text, id] : specials) {
    out.tokens[size_t(id)] = text;
    out.kinds[size_t(id)] = TokenKind::control;
  }
  return out;
}

Ranks read_ranks(const std::string& text) {
  Ranks out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size()), space = text.find(' ', at);
    if (space < end) out.emplace_back(from_base64(std::string_view(text).substr(at, space - at)), std::stoi(text.substr(space + 1, end - space - 1)));
    at = end + 1;
  }
  return out;
}

const std::map<std::string, const char*> kPre = {{"llama3", "llama-bpe"}, {"o200k", "gpt-4o"}, {"qwen2", "qwen2"}, {"qwen35", "qwen35"}, {"cl100k", "cl100k"}, {"tekken", "tekken"}};

Vocabulary from_tekken(const std::string& text) {
  const Json json = Json::parse(text);
  const int32_t specials = json["config"]["default_num_special_tokens"].get<int32_t>();
  const int32_t ordinary = json["config"]["default_vocab_size"].get<int32_t>() - specials;
  Ranks ranks;
  for (const Json& token : json["vocab"])
    if (token["rank"].get<int32_t>() < ordinary) ranks.emplace_back(from_base64(token["token_bytes"].get<std::string>()), token["rank"].get<int32_t>());
  std::map<std::string, int32_t> names;
  for (const char* name : {"<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]",
                           "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]"})
    names.emplace(name, int32_t(names.size()));
  return from_ranks(std::move(ranks), specials, names, "tekken");
}

Result<Vocabulary> read(const std::string& path, const std::string& bytes, const Json& recipe) {
  const std::string format = recipe["format"].get<std::string>();
  if (format.starts_with("GGUF")) {
    auto model = load_vocabulary(path);
    if (!model) return std::move(model).error();
    return (*model)->vocabulary;
  }
  if (format.starts_with("tiktoken"))
    return from_ranks(read_ranks(bytes), 0, recipe["special_ids"].get<std::map<std::string, int32_t>>(), kPre.at(recipe["pattern_kind"].get<std::string>()));
  if (format.starts_with("tekken")) return from_tekken(bytes);
  return vocabulary_from_file(path);
}

}  // namespace

TEST_CASE("published vocabularies") {
  const auto recipes = oracle("tokenizers/RECIPES.json");
  if (!recipes) return;
  const char* root = std::getenv("SPANSCOPE_VOCABULARIES");
  size_t found = 0;
  const Json all = json_file(*recipes);
  for (const auto& [name, recipe] : all.items()) {
    if (name == "real-smollm2") continue;  // tokenizer_test.cpp
    const std::string inside = recipe["path_inside"].get<std::string>();
    const std::string path = root && *root ? std::string(root) + "/" + inside : std::string();
    if (path.empty() || !std::filesystem::exists(path)) {
      std::cout << "SKIPPED: " << name << ": " << inside << " is not below SPANSCOPE_VOCABULARIES\n";
      continue;
    }
    const auto bytes = read_file(path);
    REQUIRE(bytes);
    INFO(name);
    REQUIRE(sha256_hex(*bytes) == recipe["sha256"].get<std::string>());
    auto vocabulary = read(path, *bytes, recipe);
    if (!vocabulary) FAIL(vocabulary.error().line());
    const bool said = recipe["format"].get<std::string>().starts_with("GGUF") || recipe["format"].get<std::string>().starts_with("SentencePiece");
    if (said) {
      CHECK(vocabulary->add_bos == recipe["add_bos"].get<bool>());
    } else if (recipe["add_bos"].get<bool>()) {
      const auto bos = std::find_if(vocabulary->tokens.begin(), vocabulary->tokens.end(), [](const auto& t) { return t == "<|begin_of_text|>" || t == "<s>"; });
      REQUIRE(bos != vocabulary->tokens.end());
      vocabulary->bos = int32_t(bos - vocabulary->tokens.begin());
      vocabulary->add_bos = true;
    }
    const auto tokenizer = tokenizer_of(std::move(vocabulary));
    const std::string folder = *oracle("tokenizers/" + name);
    VectorRun run;
    check_vectors(folder, *tokenizer, run);
    check_decode(folder, tokenizer, run);
    std::cout << name << ": " << run.vectors << " vectors, " << run.decoded << " decoded\n";
    ++found;
  }
  std::cout << found << " published vocabularies checked\n";
}
