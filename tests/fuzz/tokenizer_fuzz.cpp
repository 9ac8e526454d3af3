// SPDX-License-Identifier: GPL-3.0-or-later
// Any text through the demo model's tokenizer: offsets ascend, pieces are the text's own bytes, nothing is lost unsaid.
#include <cstdlib>

#include "core/base/files.h"
#include "core/model/vocabulary_from_gguf.h"
#include "core/text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace spanscope;
  static const std::shared_ptr<const Tokenizer> tokenizer = [] {
    auto file = MappedFile::open(SPANSCOPE_DEMO_DIR "/relay-dense.gguf");
    auto gguf = file ? GgufFile::parse((*file)->bytes(), "demo") : Result<GgufFile>(file.error());
    auto vocabulary = gguf ? vocabulary_from_gguf(*gguf) : Result<Vocabulary>(gguf.error());
    auto made = vocabulary ? make_tokenizer(std::move(*vocabulary)) : Result<std::shared_ptr<const Tokenizer>>(vocabulary.error());
    if (!made) std::abort();
    return *made;
  }();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const bool special : {true, false}) {
    const Encoding encoding = tokenizer->encode(text, {false, special});
    if (encoding.ids.size() != encoding.offsets.size()) std::abort();
    uint64_t at = 0, covered = 0;
    for (size_t i = 0; i < encoding.ids.size(); ++i) {
      const ByteRange r = encoding.offsets[i];
      if (r.begin < at || r.end < r.begin || r.end > size) std::abort();
      if (tokenizer->piece(encoding.ids[i]) != text.substr(r.begin, r.size())) std::abort();
      at = r.end;
      covered += r.size();
    }
    for (const ByteRange& r : encoding.dropped) covered += r.size();
    if (covered != size) std::abort();
  }
  return 0;
}
