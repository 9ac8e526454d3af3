// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/text/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <new>
#include <vector>

#include "core/base/json.h"
#include "core/text/utf8.h"

namespace spanscope {
namespace {

// White space is written out: PCRE2's own \s takes U+180E in, the tokenizers' regex engines do not.
#define SPANSCOPE_WS "\\x09-\\x0d\\x20\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"

// Possessive where nothing that follows could make the engine give characters back.
constexpr const char* kGpt2 =
    "'(?:[stdm]|re|ve|ll)| ?\\p{L}++| ?\\p{N}++| ?[^" SPANSCOPE_WS "\\p{L}\\p{N}]++|[" SPANSCOPE_WS "]+(?![^" SPANSCOPE_WS
    "])|[" SPANSCOPE_WS "]++";
// First every digit is cut out alone, then each piece between digits is split as above. In one pattern: a digit ends the
// look-ahead of the white-space rule as the end of a piece does.
constexpr const char* kDigitsThenGpt2 =
    "\\p{N}|'(?:[stdm]|re|ve|ll)| ?\\p{L}++| ?[^" SPANSCOPE_WS "\\p{L}\\p{N}]++|[" SPANSCOPE_WS "]+(?![^" SPANSCOPE_WS
    "\\p{N}])|[" SPANSCOPE_WS "]++";

// An ill-formed byte b is carried through the pattern as U+10FE00 + b: four bytes, private use.
constexpr uint32_t kCarrier = 0x10fe00;
constexpr size_t kCarrierBytes = 4;

}  // namespace

struct PreTokenizer::Compiled {
  pcre2_code* code = nullptr;
  ~Compiled() { pcre2_code_free(code); }
};

PreTokenizer::PreTokenizer() : compiled_(std::make_unique<Compiled>()) {}
PreTokenizer::~PreTokenizer() = default;

Result<std::unique_ptr<const PreTokenizer>> PreTokenizer::make(const std::string& name) {
  const char* pattern = name == "gpt-2" ? kGpt2 : name == "smollm" ? kDigitsThenGpt2 : nullptr;
  if (!pattern)
    return make_error(ErrorCode::unsupported, "SPAN-PRETOKENIZER",
                      "pre-tokenizer \"" + name + "\" is not known; expected gpt-2 or smollm", "tokenizer.ggml.pre");
  std::unique_ptr<PreTokenizer> out(new PreTokenizer());
  int error = 0;
  PCRE2_SIZE at = 0;
  out->compiled_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern), PCRE2_ZERO_TERMINATED,
                                       PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK, &error, &at, nullptr);
  if (!out->compiled_->code)
    return make_error(ErrorCode::unsupported, "SPAN-PRETOKENIZER",
                      "the regular expression library refuses the pattern (code " + std::to_string(error) + ")", name, at);
  // Without JIT (not built in, or not allowed by the system) matching is the same, only slower.
  pcre2_jit_compile(out->compiled_->code, PCRE2_JIT_COMPLETE);
  return std::unique_ptr<const PreTokenizer>(std::move(out));
}

void PreTokenizer::split(std::string_view text, const std::function<void(size_t, size_t)>& word) const {
  if (text.empty()) return;
  // Most text is well-formed and is matched in place.
  std::string carried;
  std::vector<size_t> ill_formed;  // offsets of carriers in `carried`
  std::string_view subject = text;
  if (find_invalid_utf8(text) != std::string_view::npos) {
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
    subject = carried;
  }
  size_t carriers_before = 0;
  const auto original = [&](size_t offset) {
    while (carriers_before < ill_formed.size() && ill_formed[carriers_before] < offset) ++carriers_before;
    return offset - (kCarrierBytes - 1) * carriers_before;
  };

  std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> data(pcre2_match_data_create(1, nullptr), pcre2_match_data_free);
  std::unique_ptr<pcre2_match_context, void (*)(pcre2_match_context*)> context(pcre2_match_context_create(nullptr),
                                                                               pcre2_match_context_free);
  if (!data || !context) throw std::bad_alloc();
  // The white-space rule gives back one character at most, so work is linear; the default limits count every repeat.
  pcre2_set_match_limit(context.get(), 0xffffffffu);
  pcre2_set_depth_limit(context.get(), 0xffffffffu);
  pcre2_set_heap_limit(context.get(), 0xffffffffu);
  const auto* bytes = reinterpret_cast<PCRE2_SPTR>(subject.data());
  size_t at = 0, begin = 0;
  const uint32_t options = PCRE2_ANCHORED | PCRE2_NO_UTF_CHECK;
  while (at < subject.size()) {
    int found = pcre2_match(compiled_->code, bytes, subject.size(), at, options, data.get(), context.get());
    if (found == PCRE2_ERROR_JIT_STACKLIMIT)
      found = pcre2_match(compiled_->code, bytes, subject.size(), at, options | PCRE2_NO_JIT, data.get(), context.get());
    // Every character begins one of the alternatives, so a failure means that memory ran out.
    if (found < 0) throw std::bad_alloc();
    at = pcre2_get_ovector_pointer(data.get())[1];
    const size_t end = original(at);
    word(begin, end);
    begin = end;
  }
}

}  // namespace spanscope
