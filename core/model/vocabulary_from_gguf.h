// SPDX-License-Identifier: GPL-3.0-or-later
// The tokenizer keys of a GGUF file as a Vocabulary. A file without tokens gives an empty one. Any thread.
#pragma once
#include "core/base/result.h"
#include "core/model/gguf.h"
#include "core/text/vocabulary.h"

namespace spanscope {
// Errors: SPAN-GGUF-KEY - a key of another type, counts that differ, an id or kind outside its range.
Result<Vocabulary> vocabulary_from_gguf(const GgufFile& file);
}  // namespace spanscope
