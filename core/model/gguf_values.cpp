// SPDX-License-Identifier: GPL-3.0-or-later
// Typed access to GGUF metadata. Offsets were checked by GgufFile::parse.
#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "core/model/gguf.h"

namespace spanscope {
namespace {

template <class T>
T load(std::span<const uint8_t> bytes, uint64_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

uint32_t integer_bytes(GgufType type) {
  switch (type) {
    case GgufType::u8:
    case GgufType::i8:
      return 1;
    case GgufType::u16:
    case GgufType::i16:
      return 2;
    case GgufType::u32:
    case GgufType::i32:
      return 4;
    case GgufType::u64:
    case GgufType::i64:
      return 8;
    default:
      return 0;
  }
}

}  // namespace

const char* gguf_type_name(GgufType type) {
  static constexpr const char* kNames[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                           "bool", "string", "array", "u64", "i64", "f64"};
  return uint32_t(type) < std::size(kNames) ? kNames[uint32_t(type)] : "unknown type";
}

const GgufTensor* GgufFile::tensor(std::string_view name) const {
  auto it = tensor_index_.find(name);
  return it == tensor_index_.end() ? nullptr : &tensors_[it->second];
}

const GgufValue* GgufFile::find(std::string_view key) const {
  auto it = keys_.find(key);
  return it == keys_.end() ? nullptr : &it->second;
}

Error GgufFile::key_error(std::string_view key, const std::string& expected, const GgufValue* found) const {
  if (!found)
    return make_error(ErrorCode::not_found, "SPAN-GGUF-KEY",
                      fmt::format("metadata key \"{}\" ({}) is missing", key, expected), where_);
  const std::string type = found->type == GgufType::array
                               ? fmt::format("array of {}", gguf_type_name(found->element))
                               : gguf_type_name(found->type);
  return make_error(ErrorCode::corrupt, "SPAN-GGUF-KEY",
                    fmt::format("metadata key \"{}\": expected {}, found {}", key, expected, type), where_,
                    found->offset);
}

// Nothing for u64 values that do not fit and for types that are no integers.
std::optional<int64_t> GgufFile::integer_at(GgufType type, uint64_t offset) const {
  switch (type) {
    case GgufType::u8:
      return load<uint8_t>(bytes_, offset);
    case GgufType::i8:
      return load<int8_t>(bytes_, offset);
    case GgufType::u16:
      return load<uint16_t>(bytes_, offset);
    case GgufType::i16:
      return load<int16_t>(bytes_, offset);
    case GgufType::u32:
      return load<uint32_t>(bytes_, offset);
    case GgufType::i32:
      return load<int32_t>(bytes_, offset);
    case GgufType::i64:
      return load<int64_t>(bytes_, offset);
    case GgufType::u64: {
      const uint64_t value = load<uint64_t>(bytes_, offset);
      if (value > uint64_t(INT64_MAX)) return {};
      return int64_t(value);
    }
    default:
      return {};
  }
}

Result<uint64_t> GgufFile::unsigned_value(std::string_view key, std::optional<uint64_t> fallback) const {
  const GgufValue* v = find(key);
  if (!v && fallback) return *fallback;
  if (!v) return key_error(key, "a whole number", v);
  const std::optional<int64_t> value = integer_at(v->type, v->offset);
  if (!value || *value < 0) return key_error(key, "a whole number from 0", v);
  return uint64_t(*value);
}

Result<double> GgufFile::number(std::string_view key, std::optional<double> fallback) const {
  const GgufValue* v = find(key);
  if (!v && fallback) return *fallback;
  if (!v) return key_error(key, "a number", v);
  double value;
  if (v->type == GgufType::f32)
    value = load<float>(bytes_, v->offset);
  else if (v->type == GgufType::f64)
    value = load<double>(bytes_, v->offset);
  else if (auto whole = integer_at(v->type, v->offset))
    value = double(*whole);
  else
    return key_error(key, "a number", v);
  if (!std::isfinite(value))
    return make_error(ErrorCode::corrupt, "SPAN-GGUF-KEY",
                      fmt::format("metadata key \"{}\" is not a finite number", key), where_, v->offset);
  return value;
}

Result<bool> GgufFile::boolean(std::string_view key, bool fallback) const {
  const GgufValue* v = find(key);
  if (!v) return fallback;
  if (v->type != GgufType::boolean) return key_error(key, "bool", v);
  return load<uint8_t>(bytes_, v->offset) != 0;
}

Result<std::string> GgufFile::text(std::string_view key, std::optional<std::string> fallback) const {
  const GgufValue* v = find(key);
  if (!v && fallback) return *fallback;
  if (!v || v->type != GgufType::string) return key_error(key, "string", v);
  return std::string(reinterpret_cast<const char*>(bytes_.data()) + v->offset + 8,
                     load<uint64_t>(bytes_, v->offset));
}

Result<std::vector<std::string>> GgufFile::texts(std::string_view key) const {
  std::vector<std::string> out;
  const GgufValue* v = find(key);
  if (!v) return out;
  if (v->type != GgufType::array || v->element != GgufType::string)
    return key_error(key, "array of string", v);
  out.reserve(v->count);
  uint64_t at = v->offset;
  for (uint64_t i = 0; i < v->count; ++i) {
    const uint64_t length = load<uint64_t>(bytes_, at);
    out.emplace_back(reinterpret_cast<const char*>(bytes_.data()) + at + 8, length);
    at += 8 + length;
  }
  return out;
}

Result<std::vector<int64_t>> GgufFile::integers(std::string_view key) const {
  std::vector<int64_t> out;
  const GgufValue* v = find(key);
  if (!v) return out;
  const uint32_t size = integer_bytes(v->element);
  if (v->type != GgufType::array || size == 0) return key_error(key, "array of whole numbers", v);
  out.reserve(v->count);
  for (uint64_t i = 0; i < v->count; ++i) {
    const std::optional<int64_t> value = integer_at(v->element, v->offset + i * size);
    if (!value) return key_error(key, "array of whole numbers below 2^63", v);
    out.push_back(*value);
  }
  return out;
}

}  // namespace spanscope
