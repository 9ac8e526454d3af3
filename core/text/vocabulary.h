// SPDX-License-Identifier: GPL-3.0-or-later
// What a tokenizer is made from, as the model's files state it. Plain data.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace spanscope {

enum class TokenKind : uint8_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

// How a control or user-defined token is looked for in text.
enum TokenFlag : uint8_t {
  kTakesSpaceBefore = 1,  // "lstrip": white space before it belongs to it
  kTakesSpaceAfter = 2,   // "rstrip"
  kFoundNormalised = 4,   // "normalized": looked for in the normalised text, itself normalised
  kWholeWord = 8,         // "single_word": not where a word character touches it
};

// One step that rewrites text before it is cut into words.
struct NormaliseStep {
  enum class Kind : uint8_t { nfc, nfd, nfkc, nfkd, lowercase, replace, prefix } kind = Kind::nfc;
  std::string from, to;  // replace: each `from` becomes `to`; prefix: `to` is put in front
  // Of a prefix: in front of every stretch of text; only where it is not there already; likewise and at the begin of the
  // input alone.
  enum class When : uint8_t { always, unless_there, first_unless_there } when = When::always;
  bool operator==(const NormaliseStep&) const = default;
};

// One step that cuts a piece of text into smaller ones. Nothing is left out.
struct SplitStep {
  enum class Kind : uint8_t { pattern, literal } kind = Kind::pattern;
  std::string text;  // a regular expression as tokenizer.json writes them, or the literal text
  // What matches stands alone, ends the piece before it, or begins the one behind it.
  enum class Match : uint8_t { alone, ends, begins } match = Match::alone;
  bool operator==(const SplitStep&) const = default;
};

struct Vocabulary {
  // "gpt2": byte-level BPE; "llama": BPE over characters (SentencePiece); "unigram" or "t5": SentencePiece unigram.
  std::string kind;
  // Name of a known way to cut text into words ("gpt-2", "smollm": tokenizer.ggml.pre), or "custom": `split` says it.
  // Of the kinds over characters only "custom" cuts.
  std::string pre;
  std::vector<std::string> tokens;   // as stored: gpt2 in the byte alphabet, the others with U+2581 for a space
  std::vector<TokenKind> kinds;      // [tokens]
  std::vector<std::string> merges;   // "left right", best first
  int32_t bos = -1, eos = -1, eot = -1, unknown = -1, pad = -1;
  bool add_bos = false, add_eos = false;

  std::vector<uint32_t> merge_left;  // [merges] bytes of the left part, or empty: it ends at the first space
  std::vector<float> scores;         // [tokens] SentencePiece; without merges they order the pairs
  std::vector<uint8_t> flags;        // [tokens] TokenFlag, or empty
  std::vector<int32_t> ends;         // further tokens that end a generation
  std::vector<NormaliseStep> normalise;  // before tokens with kFoundNormalised are looked for
  std::vector<NormaliseStep> prepare;    // behind that, on each stretch between such tokens
  std::vector<SplitStep> split;          // pre == "custom"
  bool ignore_merges = false;      // a word that is a token is that token, whatever the merges say
  bool byte_fallback = false;      // characters without a token become their bytes' tokens (<0x41>)
  bool fuse_unknown = true;        // neighbouring characters without a token become one unknown token
  bool decode_drops_space = false; // decoded text loses its first space, which encoding had put there
};

}  // namespace spanscope
