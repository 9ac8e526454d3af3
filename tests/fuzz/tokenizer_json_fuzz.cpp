// SPDX-License-Identifier: GPL-3.0-or-later
// tokenizer.json from any bytes; a file that is accepted must make a tokenizer that covers a text, or a named error.
#include <cstdlib>
#include <new>

#include "core/text/tokenizer.h"
#include "core/text/vocabulary_from_json.h"
#include "tests/fuzz/tokenizer_checks.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace spanscope;
  auto vocabulary = vocabulary_from_tokenizer_json({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!vocabulary) {
    if (vocabulary.error().tag.empty() || vocabulary.error().message.empty()) std::abort();
    return 0;
  }
  check_fuzzed_vocabulary(std::move(*vocabulary));
  return 0;
}
