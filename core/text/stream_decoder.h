// SPDX-License-Identifier: GPL-3.0-or-later
// Tokens to text while they are generated: what can be shown is everything but an unfinished UTF-8 sequence at the end.
// One thread.
#pragma once
#include <memory>
#include <string>
#include <utility>

#include "core/text/tokenizer.h"
#include "core/text/utf8.h"

namespace spanscope {

class StreamDecoder {
 public:
  // begins_text: the tokens begin a text, so that the space which encoding put there is left out (Tokenizer::decode).
  explicit StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, bool begins_text = false)
      : tokenizer_(std::move(tokenizer)), drop_(begins_text && tokenizer_->vocabulary().decode_drops_space) {}

  // The bytes that can be shown now and could not before.
  std::string add(TokenId id) {
    waiting_ += tokenizer_->piece(id);
    if (drop_ && !waiting_.empty()) {
      if (waiting_[0] == ' ') waiting_.erase(0, 1);
      drop_ = false;
    }
    const size_t ready = utf8_complete_prefix(waiting_);
    std::string out = waiting_.substr(0, ready);
    waiting_.erase(0, ready);
    return out;
  }
  // What is left at the end: the begin of a sequence that never came to its end.
  std::string finish() { return std::exchange(waiting_, {}); }

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::string waiting_;
  bool drop_;
};

}  // namespace spanscope
