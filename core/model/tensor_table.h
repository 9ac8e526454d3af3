// SPDX-License-Identifier: GPL-3.0-or-later
// The tensors of a model's files under one roof, whatever the files are: name, type, shape and where the bytes lie.
// Views into mapped files; the files outlive the table. Any thread.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/files.h"
#include "core/base/result.h"
#include "core/model/gguf.h"
#include "core/model/tensor_type.h"

namespace spanscope {

struct SourceTensor {
  std::string name;
  std::optional<TensorType> type;  // none: a type whose weights are not read here
  std::string type_name;           // as the file calls it
  std::vector<uint64_t> shape;     // outermost first
  const uint8_t* data = nullptr;
  uint64_t bytes = 0;
  std::string where;               // file
  std::optional<uint64_t> offset;  // of the tensor's directory entry, for errors
};

class TensorTable {
 public:
  enum class Kind : uint8_t { gguf, hugging_face } kind = Kind::gguf;

  // Errors: SPAN-GGUF-TENSOR - the same name in two shards.
  Status add(const GgufFile& file);
  // One .safetensors file. Errors: as parse_safetensors_header; SPAN-HF-TENSOR - a name that another file has, too.
  Status add_safetensors(std::span<const uint8_t> bytes, const std::string& path);

  const SourceTensor* find(std::string_view name) const;
  const std::vector<SourceTensor>& all() const { return tensors_; }
  // Bytes that name the files without a pass over the weights: headers and sizes.
  const std::vector<uint8_t>& identity() const { return identity_; }
  uint64_t file_bytes() const { return file_bytes_; }

 private:
  Status insert(SourceTensor tensor);
  void identify(std::span<const uint8_t> header, uint64_t size);
  std::vector<SourceTensor> tensors_;
  std::map<std::string, size_t, std::less<>> index_;
  std::vector<uint8_t> identity_;
  uint64_t file_bytes_ = 0;
};

}  // namespace spanscope
