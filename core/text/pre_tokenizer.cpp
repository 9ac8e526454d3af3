// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/text/pre_tokenizer.h"

#include <algorithm>

#include "core/base/json.h"
#include "core/text/pattern.h"
#include "core/text/utf8.h"

namespace spanscope {
namespace {

// Patterns as their families publish them.
constexpr const char* kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr const char* kDigit = R"(\p{N})";
constexpr const char* kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen35 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kO200k =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kDigits3 = R"(\p{N}{1,3})";
constexpr const char* kDeepSeekHan = "[\xe4\xb8\x80-\xe9\xbe\xa5\xe3\x81\x80-\xe3\x82\x9f\xe3\x82\xa0-\xe3\x83\xbf]+";
constexpr const char* kDeepSeek =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
    R"(| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kCl100k =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++\z|\s*[\r\n]|\s+(?!\S)|\s)";
// Both steps of the families that cut digits out first, as one: a digit ends the look-ahead of the white-space rule as the
// end of a piece does.
constexpr const char* kDigitsThenGpt2 = R"(\p{N}|'(?:[stdm]|re|ve|ll)| ?\p{L}++| ?[^\s\p{L}\p{N}]++|\s+(?![^\s\p{N}])|\s++)";

SplitStep alone(const char* pattern) { return {SplitStep::Kind::pattern, pattern, SplitStep::Match::alone}; }

const std::vector<KnownPreTokenizer>& known() {
  static const std::vector<KnownPreTokenizer> table = [] {
    const std::vector<SplitStep> gpt2 = {alone(kGpt2)}, digits = {alone(kDigit), alone(kGpt2)}, llama3 = {alone(kLlama3)},
                                 qwen2 = {alone(kQwen2)}, qwen35 = {alone(kQwen35)}, o200k = {alone(kO200k)}, tekken = {alone(kTekken)},
                                 deepseek = {alone(kDigits3), alone(kDeepSeekHan), alone(kDeepSeek)}, cl100k = {alone(kCl100k)};
    std::vector<KnownPreTokenizer> out;
    const auto add = [&](const std::vector<SplitStep>& steps, std::initializer_list<std::string_view> names, bool ignore_merges = false,
                         bool add_bos = false) {
      for (std::string_view name : names) out.push_back({name, steps, ignore_merges, add_bos});
    };
    add(gpt2, {"gpt-2", "phi-2", "olmo", "mpt", "gigachat", "mellum", "exaone4", "trillion", "granite-docling"});
    add(digits, {"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"});
    add(llama3, {"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"}, true, true);
    add(llama3, {"dbrx", "smaug-bpe"});
    add(qwen2, {"qwen2", "deepseek-r1-qwen", "stablelm2", "megrez", "hunyuan", "solar-open"});
    add(qwen35, {"qwen35"});
    add(o200k, {"gpt-4o", "llama4"});
    add(tekken, {"tekken"}, true, true);
    add(deepseek, {"deepseek-v3", "hunyuan-dense"});
    add(cl100k, {"cl100k"});
    return out;
  }();
  return table;
}

bool ours(const std::string& pattern) {
  for (const KnownPreTokenizer& k : known())
    for (const SplitStep& step : k.steps)
      if (step.text == pattern) return true;
  return false;
}

// An ill-formed byte b is carried through the pattern as U+10FE00 + b: four bytes, private use.
constexpr uint32_t kCarrier = 0x10fe00;
constexpr size_t kCarrierBytes = 4;
constexpr size_t kMostSteps = 16;

}  // namespace

const KnownPreTokenizer* find_pre_tokenizer(std::string_view name) {
  for (const KnownPreTokenizer& k : known())
    if (k.name == name) return &k;
  return nullptr;
}

std::string pre_tokenizer_names() {
  std::string out;
  for (const KnownPreTokenizer& k : known()) out.append(out.empty() ? "" : ", ").append(k.name);
  return out;
}

SplitStep gpt2_split() { return alone(kGpt2); }
SplitStep digit_split() { return alone(kDigit); }

bool matches_everything(const SplitStep& step) {
  for (const char* pattern : {kGpt2, kLlama3, kQwen2, kQwen35, kO200k, kTekken, kCl100k})
    if (step.kind == SplitStep::Kind::pattern && step.text == pattern) return true;
  return false;
}

struct PreTokenizer::Stage {
  SplitStep step;
  std::optional<Pattern> pattern;
};

// One call of split(): a matcher for each stage.
struct PreTokenizer::Run {
  const std::vector<Stage>& stages;
  std::vector<std::optional<Pattern::Matcher>> matchers;
  const std::function<void(size_t)>& end_of_word;

  Run(const std::vector<Stage>& all, const std::function<void(size_t)>& word) : stages(all), matchers(all.size()), end_of_word(word) {
    for (size_t i = 0; i < all.size(); ++i)
      if (all[i].pattern) matchers[i].emplace(*all[i].pattern);
  }

  std::optional<std::pair<size_t, size_t>> find(size_t stage, std::string_view text, size_t from) {
    if (matchers[stage]) return matchers[stage]->next(text, from);
    const size_t at = text.find(stages[stage].step.text, from);
    if (at == std::string_view::npos) return std::nullopt;
    return std::pair{at, at + stages[stage].step.text.size()};
  }

  // `text` begins at byte `base`.
  void piece(size_t stage, std::string_view text, size_t base) {
    if (text.empty()) return;
    if (stage == stages.size()) return end_of_word(base + text.size());
    const SplitStep::Match match = stages[stage].step.match;
    size_t begin = 0;
    const auto cut = [&](size_t end) {
      if (end > begin) piece(stage + 1, text.substr(begin, end - begin), base + begin);
      begin = end;
    };
    for (size_t at = 0; at < text.size();) {
      const auto found = find(stage, text, at);
      if (!found) break;
      if (match != SplitStep::Match::ends) cut(found->first);
      if (match != SplitStep::Match::begins) cut(found->second);
      at = found->second;
    }
    cut(text.size());
  }
};

PreTokenizer::PreTokenizer() = default;
PreTokenizer::~PreTokenizer() = default;

Result<std::unique_ptr<const PreTokenizer>> PreTokenizer::make(const std::string& name) {
  const KnownPreTokenizer* known_one = find_pre_tokenizer(name);
  if (!known_one)
    return make_error(ErrorCode::unsupported, "SPAN-PRETOKENIZER",
                      "pre-tokenizer \"" + name + "\" is not known; known are: " + pre_tokenizer_names(), "tokenizer.ggml.pre");
  return make(known_one->steps, "tokenizer.ggml.pre");
}

Result<std::unique_ptr<const PreTokenizer>> PreTokenizer::make(const std::vector<SplitStep>& steps, const std::string& where) {
  if (steps.size() > kMostSteps)
    return make_error(ErrorCode::limit, "SPAN-LIMIT", std::to_string(steps.size()) + " pre-tokenizer steps, more than 16", where);
  std::unique_ptr<PreTokenizer> out(new PreTokenizer());
  const bool digits = steps.size() == 2 && steps[0] == digit_split() && steps[1] == gpt2_split();
  for (const SplitStep& step : digits ? std::vector<SplitStep>{alone(kDigitsThenGpt2)} : steps) {
    if (step.text.empty()) return make_error(ErrorCode::unsupported, "SPAN-PATTERN", "a pre-tokenizer step has an empty pattern", where);
    Stage stage{step, std::nullopt};
    if (step.kind == SplitStep::Kind::pattern) {
      auto pattern = Pattern::compile(step.text, where, digits || ours(step.text));
      if (!pattern) return std::move(pattern).error();
      stage.pattern = std::move(*pattern);
    }
    out->stages_.push_back(std::move(stage));
  }
  return std::unique_ptr<const PreTokenizer>(std::move(out));
}

void PreTokenizer::split(std::string_view text, const std::function<void(size_t, size_t)>& word) const {
  if (text.empty()) return;
  size_t begin = 0;
  if (find_invalid_utf8(text) == std::string_view::npos) {  // most text is matched in place
    const std::function<void(size_t)> in_place = [&](size_t end) {
      word(begin, end);
      begin = end;
    };
    Run(stages_, in_place).piece(0, text, 0);
    return;
  }
  std::string carried;
  std::vector<size_t> ill_formed;  // offsets of carriers in `carried`
  carried.reserve(text.size() + 64);
  for (size_t i = 0; i < text.size();) {
    const size_t length = utf8_sequence(text, i);
    if (length == 0) {
      ill_formed.push_back(carried.size());
      append_utf8(carried, kCarrier + uint8_t(text[i]));
      ++i;
    } else {
      carried.append(text.substr(i, length));
      i += length;
    }
  }
  size_t carriers_before = 0;
  const std::function<void(size_t)> through_carriers = [&](size_t carried_end) {
    while (carriers_before < ill_formed.size() && ill_formed[carriers_before] < carried_end) ++carriers_before;
    const size_t end = carried_end - (kCarrierBytes - 1) * carriers_before;
    word(begin, end);
    begin = end;
  };
  Run(stages_, through_carriers).piece(0, carried, 0);
}

}  // namespace spanscope
