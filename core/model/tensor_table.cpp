// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/model/tensor_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/file/safetensors.h"

namespace spanscope {
namespace {

std::optional<TensorType> type_of(DType type) {
  switch (type) {
    case DType::f32: return TensorType::f32;
    case DType::f16: return TensorType::f16;
    case DType::bf16: return TensorType::bf16;
    default: return {};
  }
}

}  // namespace

Status TensorTable::insert(SourceTensor tensor) {
  const auto [at, fresh] = index_.try_emplace(tensor.name, tensors_.size());
  if (!fresh)
    return make_error(ErrorCode::corrupt, kind == Kind::gguf ? "SPAN-GGUF-TENSOR" : "SPAN-HF-TENSOR",
                      fmt::format("tensor \"{}\" is also in {}", printable(tensor.name), tensors_[at->second].where),
                      tensor.where, tensor.offset);
  tensors_.push_back(std::move(tensor));
  return {};
}

void TensorTable::identify(std::span<const uint8_t> header, uint64_t size) {
  identity_.insert(identity_.end(), header.begin(), header.end());
  for (int i = 0; i < 8; ++i) identity_.push_back(uint8_t(size >> (8 * i)));
  file_bytes_ += size;
}

Status TensorTable::add(const GgufFile& file) {
  for (const GgufTensor& t : file.tensors()) {
    SourceTensor s{t.name, tensor_type_from_ggml(t.type), ggml_type_name(t.type), t.shape, file.bytes().data() + t.data,
                   t.bytes, file.where(), t.entry};
    std::reverse(s.shape.begin(), s.shape.end());
    SPANSCOPE_TRY(insert(std::move(s)));
  }
  identify(file.bytes().first(size_t(file.header_bytes())), file.bytes().size());
  return {};
}

Status TensorTable::add_safetensors(std::span<const uint8_t> bytes, const std::string& path) {
  BlobLimits limits;
  limits.header = 100u << 20;  // what the format's own library allows
  limits.tensors = 1u << 20;
  limits.name = 1024;
  auto directory = parse_safetensors_header(bytes, path, limits);
  if (!directory) return std::move(directory).error();
  for (TensorEntry& e : directory->tensors)
    SPANSCOPE_TRY(insert({std::move(e.name), type_of(e.dtype), dtype_name(e.dtype), std::move(e.shape),
                          bytes.data() + e.begin, e.end - e.begin, path, {}}));
  identify(bytes.first(size_t(directory->header_bytes)), bytes.size());
  return {};
}

const SourceTensor* TensorTable::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

}  // namespace spanscope
