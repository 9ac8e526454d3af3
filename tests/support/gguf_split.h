// SPDX-License-Identifier: GPL-3.0-or-later
// Splits a GGUF file into shards, correctly or with something wrong.
#pragma once
#include <fmt/format.h>

#include <fstream>
#include <functional>

#include "core/base/files.h"
#include "core/model/gguf.h"
#include "tests/support/catch.h"
#include "tests/support/gguf_builder.h"

namespace spanscope::test {

struct ShardSpec {
  std::string path;
  uint16_t no = 0, count = 0;
  int32_t tensors_count = 0;         // of all shards
  std::vector<std::string> tensors;  // of this one, by name
  bool metadata = false;             // has the keys of the whole file
  bool keys = true;                  // has split.no and so on
  bool written = true;
};

// Writes PREFIX-00001-of-0000N.gguf ...; the first has the metadata and, like the other ones, a stretch of
// the tensors. `change` may spoil the shards before they are written.
inline std::vector<std::string> split_gguf(const std::string& path, const std::string& prefix, uint32_t count,
                                           const std::function<void(std::vector<ShardSpec>&)>& change = {}) {
  auto mapped = MappedFile::open(path);
  if (!mapped) FAIL(mapped.error().line());
  const auto bytes = (*mapped)->bytes();
  auto file = GgufFile::parse(bytes, path);
  if (!file) FAIL(file.error().line());
  const auto& tensors = file->tensors();

  std::vector<ShardSpec> shards;
  for (uint32_t i = 0; i < count; ++i) {
    ShardSpec s;
    s.path = fmt::format("{}-{:05}-of-{:05}.gguf", prefix, i + 1, count);
    s.no = uint16_t(i), s.count = uint16_t(count), s.tensors_count = int32_t(tensors.size());
    s.metadata = i == 0;
    for (size_t t = i * tensors.size() / count; t < (i + 1) * tensors.size() / count; ++t)
      s.tensors.push_back(tensors[t].name);
    shards.push_back(std::move(s));
  }
  if (change) change(shards);

  uint64_t all_keys = 0;
  std::memcpy(&all_keys, bytes.data() + 16, sizeof all_keys);
  const uint64_t keys_end = tensors.empty() ? file->header_bytes() : tensors[0].entry,
                 alignment = file->alignment();
  std::vector<std::string> paths;
  for (const ShardSpec& s : shards) {
    paths.push_back(s.path);
    if (!s.written) continue;
    Bytes out, data;
    const bool says_alignment = !s.metadata && alignment != 32;
    for (char c : std::string("GGUF")) out.put(c);
    out.put<uint32_t>(file->version()).put<uint64_t>(s.tensors.size());
    out.put<uint64_t>((s.metadata ? all_keys : says_alignment) + (s.keys ? 3 : 0));
    if (s.metadata) out.data.insert(out.data.end(), bytes.begin() + 24, bytes.begin() + ptrdiff_t(keys_end));
    if (says_alignment) out.text("general.alignment").put<uint32_t>(4).put(uint32_t(alignment));
    if (s.keys) {
      out.text("split.no").put<uint32_t>(2).put(s.no).text("split.count").put<uint32_t>(2).put(s.count);
      out.text("split.tensors.count").put<uint32_t>(5).put(s.tensors_count);
    }
    for (const std::string& name : s.tensors) {
      const GgufTensor& t = *file->tensor(name);
      data.data.resize((data.data.size() + alignment - 1) / alignment * alignment);
      out.text(name).put(uint32_t(t.shape.size()));
      for (uint64_t d : t.shape) out.put(d);
      out.put(t.type).put<uint64_t>(data.data.size());
      data.data.insert(data.data.end(), bytes.begin() + ptrdiff_t(t.data),
                       bytes.begin() + ptrdiff_t(t.data + t.bytes));
    }
    out.data.resize((out.data.size() + alignment - 1) / alignment * alignment);
    out.data.insert(out.data.end(), data.data.begin(), data.data.end());
    std::ofstream to(s.path, std::ios::binary);
    to.write(reinterpret_cast<const char*>(out.data.data()), std::streamsize(out.data.size()));
    if (!to) FAIL("cannot write " << s.path);
  }
  return paths;
}

}  // namespace spanscope::test
