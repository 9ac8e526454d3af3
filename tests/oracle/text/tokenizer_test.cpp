// SPDX-License-Identifier: GPL-3.0-or-later
// Ids, byte offsets, dropped bytes, pieces and streaming against reference vectors, from every kind of file.
#include <set>

#include "core/base/digest.h"
#include "core/base/files.h"
#include "core/model/vocabulary_from_hf.h"
#include "core/model/weights.h"
#include "core/text/pre_tokenizer.h"
#include "core/text/vocabulary_from_json.h"
#include "core/text/vocabulary_from_sentencepiece.h"
#include "tests/oracle/text/tokenizer_vectors.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {

Result<Vocabulary> from_gguf(const std::string& path) {
  auto model = load_vocabulary(path);
  if (!model) return std::move(model).error();
  return (*model)->vocabulary;
}

const std::vector<std::string> kByteLevel = {"bbpe-gaps", "bbpe-gpt2", "bbpe-gpt4o", "bbpe-granite", "bbpe-llama3", "bbpe-olmo", "bbpe-olmo2",
                                             "bbpe-qwen2", "bbpe-qwen35", "bbpe-refact", "bbpe-smollm", "bbpe-starcoder", "bbpe-tekken"};
const std::vector<std::string> kSentencePiece = {"spm-bpe-nodummy", "spm-gemma", "spm-llama2", "spm-unigram", "spm-unigram-nodummy"};
const std::vector<std::string> kLayouts = {"bbpe-flags", "hf-bytelevel-prefix", "hf-gemma-split", "hf-metaspace-always", "hf-metaspace-first"};

void check_folder(const std::string& name, const char* file, Result<Vocabulary> vocabulary, const std::string& folder, bool normaliser) {
  const auto tokenizer = tokenizer_of(std::move(vocabulary));
  VectorRun run;
  run.normaliser = normaliser;
  check_vectors(folder, *tokenizer, run);
  if (std::filesystem::exists(folder + "/decode.jsonl")) check_decode(folder, tokenizer, run);
  std::cout << name << " from " << file << ": " << run.vectors << " vectors (" << run.normalised << " of them normalised), " << run.decoded << " decoded\n";
}

}  // namespace

TEST_CASE("vectors from GGUF vocabularies") {
  for (const auto* list : {&kByteLevel, &kSentencePiece})
    for (const std::string& name : *list) {
      const auto folder = oracle("tokenizers/" + name);
      if (!folder) return;
      check_folder(name, "vocab.gguf", from_gguf(*folder + "/vocab.gguf"), *folder, false);
    }
}

TEST_CASE("vectors from tokenizer.json") {
  for (const auto* list : {&kByteLevel, &kSentencePiece, &kLayouts})
    for (const std::string& name : *list) {
      const auto folder = oracle("tokenizers/" + name);
      if (!folder) return;
      check_folder(name, "tokenizer.json", vocabulary_from_file(*folder + "/tokenizer.json"), *folder, true);
    }
}

TEST_CASE("vectors from SentencePiece models") {
  for (const std::string& name : kSentencePiece) {
    const auto folder = oracle("tokenizers/" + name);
    if (!folder) return;
    auto vocabulary = vocabulary_from_file(*folder + "/tokenizer.model");
    if (!vocabulary) FAIL(vocabulary.error().line());
    vocabulary->add_bos = json_file(*folder + "/config.json")["add_bos_token"].get<bool>();  // the model file does not say
    check_folder(name, "tokenizer.model", std::move(vocabulary), *folder, false);
  }
}

TEST_CASE("a directory with a vocabulary gives the same as the file in it") {
  for (const std::string& family : {"llama-gqa", "gemma3-text", "gpt-oss"}) {
    const auto folder = oracle("tiny/" + family);
    if (!folder || !std::filesystem::is_directory(*folder + "/hf")) return;
    const auto from_dir = tokenizer_of(vocabulary_from_directory(*folder + "/hf"));
    const auto gguf = tokenizer_of(from_gguf(*folder + "/model.gguf"));
    CHECK(from_dir->vocabulary().bos == gguf->vocabulary().bos);
    CHECK(from_dir->vocabulary().eos == gguf->vocabulary().eos);
    CHECK(from_dir->vocabulary().pad == gguf->vocabulary().pad);
    CHECK(from_dir->vocabulary().tokens == gguf->vocabulary().tokens);
    CHECK(from_dir->vocabulary().kinds == gguf->vocabulary().kinds);
    for (TokenId id = 0; id < TokenId(from_dir->vocabulary().tokens.size()); ++id) {
      CHECK(from_dir->piece(id) == gguf->piece(id));
      CHECK(from_dir->ends_generation(id) == gguf->ends_generation(id));
    }
    for (const char* text : {"The end of the <|user|> story.\n  12345", "", "\xff\xf0\x9f\x98\x80", "it's <|eos|>"})
      CHECK(from_dir->encode(text, {false, true}).ids == gguf->encode(text, {false, true}).ids);
  }
}

TEST_CASE("pre-token borders") {
  const auto folder = oracle("tokenizers/pretokenizer");
  if (!folder) return;
  const Json patterns = json_file(*folder + "/patterns.json");
  const std::map<std::string, const char*> names = {{"gpt2", "gpt-2"}, {"digits-gpt2", "smollm"}, {"llama3", "llama-bpe"},
                                                    {"qwen2", "qwen2"}, {"qwen35", "qwen35"}, {"o200k", "gpt-4o"},
                                                    {"tekken", "tekken"}, {"deepseek3", "deepseek-v3"}, {"cl100k", "cl100k"}};
  CHECK(patterns.size() == names.size());
  for (const auto& [kind, name] : names) {
    auto words = PreTokenizer::make(name);
    REQUIRE(words);
    // The same steps as a file would give them, with the pattern's text from the reference.
    std::vector<SplitStep> steps;
    for (const Json& pattern : patterns[kind].is_array() ? patterns[kind] : Json::array({patterns[kind]})) {
      std::string text = pattern.get<std::string>();
      if (text == "each \\p{N} alone") text = "\\p{N}";
      if (const size_t at = text.find("\\s++$"); at != std::string::npos) text.replace(at, 5, "\\s++\\z");
      steps.push_back({SplitStep::Kind::pattern, text, SplitStep::Match::alone});
    }
    auto from_text = PreTokenizer::make(steps, kind);
    if (!from_text) FAIL(from_text.error().line());
    size_t checked = 0;
    for (const Json& j : json_lines(*folder + "/" + kind + ".jsonl")) {
      std::vector<size_t> ends, ends_from_text;
      const std::string text = input_of(j);
      (*words)->split(text, [&](size_t, size_t end) { ends.push_back(end); });
      (*from_text)->split(text, [&](size_t, size_t end) { ends_from_text.push_back(end); });
      INFO(kind << " " << j.dump().substr(0, 300));
      CHECK(Json(ends) == j["ends"]);
      CHECK(ends_from_text == ends);
      ++checked;
    }
    std::cout << "pre-tokenizer " << kind << ": " << checked << " texts\n";
  }
}

TEST_CASE("end to end: rendered conversations to tokens and their spans") {
  for (const auto& [name, chat] : {std::pair<const char*, const char*>{"bbpe-smollm", "smollm2"}, {"real-smollm2", "smollm2"}, {"bbpe-qwen2", "qwen2.5-instruct"},
                                   {"bbpe-llama3", "llama-3.1-instruct"}, {"spm-llama2", "llama-2-chat"}, {"spm-gemma", "gemma-3-it"}, {"bbpe-gpt4o", "gpt-oss"}}) {
    const auto cases = oracle(std::string("templates/cases/") + chat + ".jsonl");
    const auto expected = oracle(std::string("tokenizers/e2e/") + name + "+" + chat + ".jsonl");
    if (!cases || !expected) return;
    std::string path;
    if (std::string(name) == "real-smollm2") {
      const auto model = smollm2();
      if (!model) continue;
      path = *model;
    } else {
      path = *oracle(std::string("tokenizers/") + name + "/vocab.gguf");
    }
    const auto tokenizer = tokenizer_of(from_gguf(path));
    std::map<std::string, Json> rendered;
    for (const Json& c : json_lines(*cases)) rendered[c["conv"].get<std::string>()] = c;
    size_t checked = 0, spans = 0;
    for (const Json& want : json_lines(*expected)) {
      const Json& c = rendered.at(want["conv"].get<std::string>());
      INFO(name << "+" << chat << " " << want["conv"]);
      REQUIRE(c.contains("rendered"));
      const std::string text = c["rendered"].get<std::string>();
      REQUIRE(sha256_hex(text) == want["sha256"]);
      const Encoding e = tokenizer->encode(text, {false, true});
      CHECK(Json(e.ids) == want["ids"]);
      Json ends = Json::array(), found = Json::array();
      for (const ByteRange& r : e.offsets) ends.push_back(r.end);
      CHECK(ends == want["ends"]);
      for (const Json& range : c["ranges"]) {
        const std::string field = range[2].get<std::string>();
        if (field.ends_with(".role") || field.ends_with(".type")) continue;
        const uint64_t begin = range[0].get<uint64_t>(), end = range[1].get<uint64_t>();
        size_t first = e.ids.size(), last = 0;
        for (size_t t = 0; t < e.ids.size(); ++t)
          if (e.offsets[t].begin < end && e.offsets[t].end > begin) {
            first = std::min(first, t);
            last = t;
          }
        if (first < e.ids.size())
          found.push_back({field, first, last + 1, int(e.offsets[first].begin == begin && e.offsets[last].end == end)});
      }
      CHECK(found == want["spans"]);
      spans += found.size();
      ++checked;
    }
    std::cout << name << "+" << chat << ": " << checked << " conversations, " << spans << " spans\n";
  }
}

TEST_CASE("what is not known is refused by name") {
  const auto path = oracle("tokenizers/bbpe-qwen2/vocab.gguf");
  if (!path) return;
  for (const char* pre : {"default", "bloom", "no-such-pre", ""}) {
    auto vocabulary = from_gguf(*path);
    REQUIRE(vocabulary);
    vocabulary->pre = pre;
    auto tokenizer = make_tokenizer(std::move(*vocabulary));
    REQUIRE_FALSE(tokenizer);
    CHECK(tokenizer.error().code == ErrorCode::unsupported);
    CHECK(tokenizer.error().message.find(std::string("\"") + pre + "\"") != std::string::npos);
  }
}

TEST_CASE("SmolLM2: vectors of the real vocabulary") {
  const auto model = smollm2();
  const auto folder = oracle("tokenizers/real-smollm2");
  if (!model || !folder) return;
  check_folder("real-smollm2", "GGUF", from_gguf(*model), *folder, false);
}
