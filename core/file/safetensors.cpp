// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/file/safetensors.h"

#include <algorithm>
#include <optional>
#include <set>

#include "core/base/files.h"
#include "core/base/json.h"

namespace spanscope {
namespace {

struct TypeRow {
  DType type;
  const char* name;
  uint32_t size;
};
constexpr TypeRow kTypes[] = {
    {DType::u8, "U8", 1},   {DType::i8, "I8", 1},   {DType::u16, "U16", 2}, {DType::i16, "I16", 2},
    {DType::f16, "F16", 2}, {DType::bf16, "BF16", 2}, {DType::u32, "U32", 4}, {DType::i32, "I32", 4},
    {DType::f32, "F32", 4}, {DType::u64, "U64", 8}, {DType::i64, "I64", 8}, {DType::f64, "F64", 8},
    {DType::boolean, "BOOL", 1}};

const TypeRow* find_type(std::string_view name) {
  for (const TypeRow& row : kTypes)
    if (name == row.name) return &row;
  return nullptr;
}

Error bad(const std::string& where, std::string message, std::optional<uint64_t> offset = {}) {
  return make_error(ErrorCode::corrupt, "SPAN-SAFETENSORS", std::move(message), where, offset);
}

// The JSON library keeps one of two equal keys; two tensors would silently become one.
std::optional<std::string> duplicate_key(std::string_view text) {
  std::set<std::string> seen;
  std::optional<std::string> twice;
  auto watch = [&](int depth, OrderedJson::parse_event_t event, OrderedJson& value) {
    if (event == OrderedJson::parse_event_t::key && depth == 1 && !seen.insert(value.get<std::string>()).second)
      twice = value.get<std::string>();
    return true;
  };
  [[maybe_unused]] const auto parsed = OrderedJson::parse(text.begin(), text.end(), watch);
  return twice;
}

struct Extent {
  uint64_t begin, end;
  size_t index;
};

}  // namespace

bool tensor_name_ok(std::string_view name, uint32_t limit) {
  if (name.empty() || name.size() > limit) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '/' || c == '-';
  });
}

uint32_t dtype_size(DType dtype) { return kTypes[size_t(dtype)].size; }
const char* dtype_name(DType dtype) { return kTypes[size_t(dtype)].name; }

Result<std::vector<uint16_t>> Blob::get_f16(std::string_view name, uint64_t expected) const {
  const Tensor* t = find(name);
  if (!t) return make_error(ErrorCode::not_found, "SPAN-TENSOR", "tensor missing", std::string(name));
  const uint64_t n = t->data.size() / 2;
  if (t->dtype != DType::f16 || (expected != UINT64_MAX && n != expected))
    return make_error(ErrorCode::corrupt, "SPAN-TENSOR",
                      "expected " + std::to_string(expected) + " values of F16, found " + std::to_string(n) + " of " + dtype_name(t->dtype), std::string(name));
  std::vector<uint16_t> out(n);
  if (n) std::memcpy(out.data(), t->data.data(), n * 2);
  return out;
}

const Tensor* Blob::find(std::string_view name) const {
  for (const Tensor& t : tensors)
    if (t.name == name) return &t;
  return nullptr;
}

std::vector<uint8_t> write_safetensors(const Blob& blob) {
  OrderedJson header = OrderedJson::object();
  if (!blob.metadata.empty()) {
    OrderedJson metadata = OrderedJson::object();
    for (const auto& [key, value] : blob.metadata) metadata[key] = value;
    header["__metadata__"] = std::move(metadata);
  }
  uint64_t offset = 0;
  for (const Tensor& t : blob.tensors) {
    header[t.name] = {{"dtype", dtype_name(t.dtype)}, {"shape", t.shape}, {"data_offsets", {offset, offset + t.data.size()}}};
    offset += t.data.size();
  }
  std::string text = header.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
  text.append((8 - text.size() % 8) % 8, ' ');  // readers map tensors: keep the data aligned
  std::vector<uint8_t> out(8 + text.size() + offset);
  const uint64_t size = text.size();
  std::memcpy(out.data(), &size, 8);
  std::memcpy(out.data() + 8, text.data(), text.size());
  uint8_t* at = out.data() + 8 + text.size();
  for (const Tensor& t : blob.tensors) {
    if (!t.data.empty()) std::memcpy(at, t.data.data(), t.data.size());
    at += t.data.size();
  }
  return out;
}

Result<TensorDirectory> parse_safetensors_header(std::span<const uint8_t> bytes, const std::string& where,
                                                 BlobLimits limits) {
  if (bytes.size() < 8)
    return make_error(ErrorCode::truncated, "SPAN-TRUNCATED",
                      "expected 8 bytes of header size, found " + std::to_string(bytes.size()), where, 0);
  uint64_t size;
  std::memcpy(&size, bytes.data(), 8);
  if (size > limits.header)
    return bad(where, "header of " + std::to_string(size) + " bytes, the most is " + std::to_string(limits.header), 0);
  if (size > bytes.size() - 8)
    return make_error(ErrorCode::truncated, "SPAN-TRUNCATED",
                      "header of " + std::to_string(size) + " bytes, " + std::to_string(bytes.size() - 8) + " remain",
                      where, 0);
  const std::string_view header(reinterpret_cast<const char*>(bytes.data()) + 8, size_t(size));
  auto parsed = parse_json(header, where, 1, {8});
  if (!parsed) return std::move(parsed).error();
  if (!parsed->is_object()) return bad(where, "the header is not a JSON object", 8);
  if (auto twice = duplicate_key(header)) return bad(where, "tensor " + *twice + " is there twice");
  const std::span<const uint8_t> data = bytes.subspan(8 + size_t(size));

  TensorDirectory blob;
  blob.header_bytes = 8 + size;
  std::vector<Extent> extents;
  for (const auto& [name, entry] : parsed->items()) {
    if (name == "__metadata__") {
      if (!entry.is_object()) return bad(where, "__metadata__ is not an object");
      for (const auto& [key, value] : entry.items()) {
        if (!value.is_string()) return bad(where, "__metadata__." + key + " is not a string");
        blob.metadata[key] = value.get<std::string>();
      }
      continue;
    }
    if (blob.tensors.size() >= limits.tensors)
      return bad(where, "more than " + std::to_string(limits.tensors) + " tensors");
    if (!tensor_name_ok(name, limits.name)) return bad(where, "tensor name that is empty, too long or has other characters than [A-Za-z0-9_./-]");
    if (!entry.is_object() || !entry.contains("dtype") || !entry.contains("shape") || !entry.contains("data_offsets"))
      return bad(where, "tensor " + name + " lacks dtype, shape or data_offsets");
    const auto& dtype = entry["dtype"];
    const TypeRow* type = dtype.is_string() ? find_type(dtype.get<std::string>()) : nullptr;
    if (!type) return bad(where, "tensor " + name + " has unknown dtype " + dtype.dump());
    TensorEntry tensor;
    tensor.name = name;
    tensor.dtype = type->type;
    const auto& shape = entry["shape"];
    if (!shape.is_array() || shape.size() > limits.dimensions)
      return bad(where, "tensor " + name + " has a shape that is no list of at most " + std::to_string(limits.dimensions));
    uint64_t elements = type->size;  // counts bytes
    for (const auto& d : shape) {
      if (!d.is_number_unsigned()) return bad(where, "tensor " + name + " has a dimension that is no count");
      const uint64_t dimension = d.get<uint64_t>();
      if (__builtin_mul_overflow(elements, dimension, &elements))
        return bad(where, "tensor " + name + ": the product of its shape overflows");
      tensor.shape.push_back(dimension);
    }
    const auto& offsets = entry["data_offsets"];
    if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() || !offsets[1].is_number_unsigned())
      return bad(where, "tensor " + name + " has data_offsets that are no pair of counts");
    const uint64_t begin = offsets[0].get<uint64_t>(), end = offsets[1].get<uint64_t>();
    if (begin > end || end > data.size())
      return bad(where, "tensor " + name + " at bytes " + std::to_string(begin) + ".." + std::to_string(end) + ", the data has " +
                            std::to_string(data.size()));
    if (end - begin != elements)
      return bad(where, "tensor " + name + " has " + std::to_string(end - begin) + " bytes, its shape needs " +
                            std::to_string(elements));
    extents.push_back({begin, end, blob.tensors.size()});
    tensor.begin = blob.header_bytes + begin;
    tensor.end = blob.header_bytes + end;
    blob.tensors.push_back(std::move(tensor));
  }
  std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) { return a.begin != b.begin ? a.begin < b.begin : a.end < b.end; });
  uint64_t at = 0;
  for (const Extent& e : extents) {
    if (e.begin != at)
      return bad(where, std::string(e.begin > at ? "hole" : "overlap") + " in the data before tensor " +
                            blob.tensors[e.index].name, e.begin);
    at = e.end;
  }
  if (at != data.size())
    return bad(where, "tensors cover " + std::to_string(at) + " bytes, the data has " + std::to_string(data.size()), at);
  return blob;
}

Result<Blob> parse_safetensors(std::span<const uint8_t> bytes, const std::string& where, BlobLimits limits) {
  auto directory = parse_safetensors_header(bytes, where, limits);
  if (!directory) return std::move(directory).error();
  Blob blob;
  blob.metadata = std::move(directory->metadata);
  for (TensorEntry& e : directory->tensors)
    blob.tensors.push_back({std::move(e.name), e.dtype, std::move(e.shape),
                            {bytes.begin() + ptrdiff_t(e.begin), bytes.begin() + ptrdiff_t(e.end)}});
  return blob;
}

Status write_safetensors_file(const std::string& path, const Blob& blob, bool force) {
  const std::vector<uint8_t> bytes = write_safetensors(blob);
  return write_file(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}, force);
}

Result<Blob> read_safetensors_file(const std::string& path) {
  auto file = MappedFile::open(path);
  if (!file) return std::move(file).error();
  BlobLimits limits;
  limits.header = 100u << 20;
  limits.tensors = 1u << 20;
  limits.name = 1024;
  return parse_safetensors((*file)->bytes(), path, limits);
}

}  // namespace spanscope
