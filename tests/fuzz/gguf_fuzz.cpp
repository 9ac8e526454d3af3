// SPDX-License-Identifier: GPL-3.0-or-later
// Any bytes: a directory of a model file or an error; every key can be asked for in every type; tensors lie in
// the file and apart, and any bits in them are numbers.
#include <algorithm>
#include <cstdlib>
#include <vector>

#include "core/model/block_formats.h"
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
    if (check_tensors) {
      std::vector<std::pair<uint64_t, uint64_t>> places;
      for (const GgufTensor& t : file->tensors()) {
        if (t.bytes == 0 || t.data > size || t.bytes > size - t.data) std::abort();
        places.emplace_back(t.data, t.data + t.bytes);
        if (const auto type = tensor_type_from_ggml(t.type)) {
          const uint64_t blocks = t.bytes / block_bytes(*type);
          if (blocks * block_bytes(*type) != t.bytes) std::abort();
          std::vector<float> out(blocks * block_elements(*type));
          dequantise_blocks(*type, data + t.data, blocks, out.data());
        }
      }
      std::sort(places.begin(), places.end());
      for (size_t i = 1; i < places.size(); ++i)
        if (places[i].first < places[i - 1].second) std::abort();
    }
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
