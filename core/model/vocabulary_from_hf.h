// SPDX-License-Identifier: GPL-3.0-or-later
// The tokenizer of a Hugging Face directory as a Vocabulary: tokenizer.json, else tokenizer.model (SentencePiece), with
// what tokenizer_config.json, special_tokens_map.json, generation_config.json and config.json say about special tokens.
// Not for: how text becomes tokens (core/text/tokenizer.h). No weights are read. Any thread.
#pragma once
#include <string>

#include "core/base/result.h"
#include "core/text/vocabulary.h"

namespace spanscope {

// Errors: not_found when the directory holds no vocabulary; SPAN-JSON, SPAN-TOKENIZER, SPAN-PROTO from the files, which
// `where` names. Token lists may be shorter than the model's embeddings (padding).
Result<Vocabulary> vocabulary_from_directory(const std::string& dir);

// One tokenizer.json or SentencePiece tokenizer.model, told apart by their content, without the files beside it.
Result<Vocabulary> vocabulary_from_file(const std::string& path);

// The chat template's text: chat_template.jinja, else chat_template.json, else the key in tokenizer_config.json (of
// several named ones "default"). Empty when the directory has none.
Result<std::string> chat_template_of_directory(const std::string& dir);

}  // namespace spanscope
