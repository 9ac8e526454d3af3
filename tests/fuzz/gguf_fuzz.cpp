// SPDX-License-Identifier: GPL-3.0-or-later
// Any bytes: a directory of a model file or an error; every key can be asked for in every type.
#include <cstdlib>

#include "core/model/gguf.h"
#include "core/model/vocabulary_from_gguf.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace spanscope;
  for (const bool check_tensors : {true, false}) {
    const auto file = GgufFile::parse({data, size}, "fuzz", check_tensors);
    if (!file) {
      if (file.error().tag.empty()) std::abort();
      continue;
    }
    if (check_tensors)
      for (const GgufTensor& t : file->tensors())
        if (t.data > size || t.bytes > size - t.data) std::abort();
    for (const char* key : {"general.architecture", "tokenizer.ggml.tokens", "llama.block_count", "a"}) {
      (void)file->unsigned_value(key);
      (void)file->number(key);
      (void)file->boolean(key, false);
      (void)file->text(key);
      (void)file->texts(key);
      (void)file->integers(key);
    }
    (void)vocabulary_from_gguf(*file);
  }
  return 0;
}
