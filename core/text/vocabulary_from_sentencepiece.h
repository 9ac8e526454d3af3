// SPDX-License-Identifier: GPL-3.0-or-later
// A SentencePiece model file (tokenizer.model: a protocol buffer) as a Vocabulary. A pure function of bytes, safe on hostile
// input: no length is believed before it was compared with the bytes that are left. Any thread.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "core/base/result.h"
#include "core/text/vocabulary.h"

namespace spanscope {

// BPE and unigram models without a character map. BOS is added where the model has one: the file does not say.
// Errors: SPAN-PROTO - broken encoding, with the byte; SPAN-TOKENIZER - kinds and rules that are not supported; SPAN-LIMIT.
Result<Vocabulary> vocabulary_from_sentencepiece(std::span<const uint8_t> bytes, const std::string& where);

}  // namespace spanscope
