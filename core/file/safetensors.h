// SPDX-License-Identifier: GPL-3.0-or-later
// safetensors blobs: a pure function of bytes in both directions. Safe on hostile input: the header is bounded, tensors
// must tile the data exactly, products are overflow-checked. Any thread.
#pragma once
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/base/result.h"

namespace spanscope {

enum class DType : uint8_t { u8, i8, u16, i16, f16, bf16, u32, i32, f32, u64, i64, f64, boolean };
uint32_t dtype_size(DType dtype);
const char* dtype_name(DType dtype);  // "F32"

template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) return DType::f32;
  else if constexpr (std::is_same_v<T, double>) return DType::f64;
  else if constexpr (std::is_same_v<T, uint8_t>) return DType::u8;
  else if constexpr (std::is_same_v<T, int8_t>) return DType::i8;
  else if constexpr (std::is_same_v<T, uint16_t>) return DType::u16;
  else if constexpr (std::is_same_v<T, int16_t>) return DType::i16;
  else if constexpr (std::is_same_v<T, uint32_t>) return DType::u32;
  else if constexpr (std::is_same_v<T, int32_t>) return DType::i32;
  else if constexpr (std::is_same_v<T, uint64_t>) return DType::u64;
  else {
    static_assert(std::is_same_v<T, int64_t>);
    return DType::i64;
  }
}

struct Tensor {
  std::string name;
  DType dtype = DType::f32;
  std::vector<uint64_t> shape;
  std::vector<uint8_t> data;  // little-endian, row-major
};

struct Blob {
  std::map<std::string, std::string> metadata;
  std::vector<Tensor> tensors;

  const Tensor* find(std::string_view name) const;
  template <class T>
  void add(std::string name, std::vector<uint64_t> shape, std::span<const T> values) {
    Tensor t{std::move(name), dtype_of<T>(), std::move(shape), {}};
    t.data.resize(values.size_bytes());
    if (!values.empty()) std::memcpy(t.data.data(), values.data(), values.size_bytes());
    tensors.push_back(std::move(t));
  }
  template <class T>
  void add(std::string name, std::vector<uint64_t> shape, const std::vector<T>& values) {
    add<T>(std::move(name), std::move(shape), std::span<const T>(values));
  }
  // 16-bit floats by their bits.
  void add_f16(std::string name, std::vector<uint64_t> shape, std::span<const uint16_t> bits) {
    add<uint16_t>(std::move(name), std::move(shape), bits);
    tensors.back().dtype = DType::f16;
  }
  Result<std::vector<uint16_t>> get_f16(std::string_view name, uint64_t expected = UINT64_MAX) const;
  // Values of a tensor that must exist with this type and number of elements (expected = UINT64_MAX: any number).
  template <class T>
  Result<std::vector<T>> get(std::string_view name, uint64_t expected = UINT64_MAX) const {
    const Tensor* t = find(name);
    if (!t) return make_error(ErrorCode::not_found, "SPAN-TENSOR", "tensor missing", std::string(name));
    if (t->dtype != dtype_of<T>())
      return make_error(ErrorCode::corrupt, "SPAN-TENSOR",
                        std::string("expected ") + dtype_name(dtype_of<T>()) + ", found " + dtype_name(t->dtype),
                        std::string(name));
    const uint64_t n = t->data.size() / sizeof(T);
    if (expected != UINT64_MAX && n != expected)
      return make_error(ErrorCode::corrupt, "SPAN-TENSOR",
                        "expected " + std::to_string(expected) + " values, found " + std::to_string(n),
                        std::string(name));
    std::vector<T> out(n);
    if (n) std::memcpy(out.data(), t->data.data(), n * sizeof(T));
    return out;
  }
};

struct BlobLimits {
  uint64_t header = 1 << 20;
  uint32_t tensors = 4096, dimensions = 8, name = 128;
};

// 1 to `limit` bytes of [A-Za-z0-9_./-].
bool tensor_name_ok(std::string_view name, uint32_t limit);

// One tensor of a file, its data at bytes [begin, end) of the file.
struct TensorEntry {
  std::string name;
  DType dtype = DType::f32;
  std::vector<uint64_t> shape;
  uint64_t begin = 0, end = 0;
};
struct TensorDirectory {
  std::map<std::string, std::string> metadata;
  std::vector<TensorEntry> tensors;  // as the header names them
  uint64_t header_bytes = 0;         // size field and header
};
// The header of one blob that fills `bytes`, checked as parse_safetensors does; no tensor is copied.
Result<TensorDirectory> parse_safetensors_header(std::span<const uint8_t> bytes, const std::string& where,
                                                 BlobLimits limits = {});

std::vector<uint8_t> write_safetensors(const Blob& blob);
// Parses exactly one blob that fills `bytes`. `where` names it in errors.
Result<Blob> parse_safetensors(std::span<const uint8_t> bytes, const std::string& where, BlobLimits limits = {});
Status write_safetensors_file(const std::string& path, const Blob& blob, bool force);
Result<Blob> read_safetensors_file(const std::string& path);  // relaxed limits: for oracles and exports

}  // namespace spanscope
