// SPDX-License-Identifier: GPL-3.0-or-later
// Text to token ids and back, byte-exact with byte offsets. Immutable; any thread.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/text/vocabulary.h"

namespace spanscope {

struct Encoding {
  std::vector<TokenId> ids;
  std::vector<ByteRange> offsets;  // bytes of the input per token; monotone, covers the input except for `dropped`
  std::vector<ByteRange> dropped;  // input bytes for which the vocabulary has no token: the model does not read them
};

struct EncodeOptions {
  bool add_special = false;    // BOS / EOS as the model says
  bool parse_special = true;   // control tokens are found in the text; off: only user-defined ones
  // The text goes on where ordinary text stopped: no space is put in front of it (SentencePiece's dummy prefix). Behind a
  // control token and at the begin of a context it is off.
  bool continues = false;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  // Throws std::bad_alloc when memory runs out, or when a pattern given by a file needs more steps than allowed.
  virtual Encoding encode(std::string_view text, EncodeOptions options = {}) const = 0;
  virtual std::string piece(TokenId id) const = 0;  // bytes of a token; specials as their text
  // The pieces one after another, without the first space where encoding puts one there. Streaming: StreamDecoder.
  virtual std::string decode(std::span<const TokenId> ids) const = 0;
  virtual const Vocabulary& vocabulary() const = 0;
  virtual bool is_control(TokenId id) const = 0;
  // eos, eot and every token that ends a generation
  virtual bool ends_generation(TokenId id) const = 0;
  virtual std::string digest() const = 0;  // SHA-256 over all that decides about ids
};

// Unknown kinds or pre-tokenizers are refused by name.
Result<std::shared_ptr<const Tokenizer>> make_tokenizer(Vocabulary vocabulary);

}  // namespace spanscope
