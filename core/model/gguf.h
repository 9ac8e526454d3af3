// SPDX-License-Identifier: GPL-3.0-or-later
// The GGUF container (versions 2 and 3, little-endian): metadata and tensor directory as views into the
// file's bytes. A pure function of bytes, safe on hostile input: every count is compared with the bytes that
// remain before anything is allocated. Not for: what the keys mean (family.h) or what the weights hold
// (weights.h). Any thread.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace spanscope {

enum class GgufType : uint32_t { u8 = 0, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };
const char* gguf_type_name(GgufType type);

struct GgufValue {
  GgufType type = GgufType::u8;
  GgufType element = GgufType::u8;  // of an array
  uint64_t count = 0;               // elements of an array
  uint64_t offset = 0;              // first byte of the value (of an array: of its first element)
};

struct GgufTensor {
  std::string name;
  std::vector<uint64_t> shape;  // fastest dimension first, as stored
  uint32_t type = 0;            // the file format's number; ggml_type_name() names it
  uint64_t data = 0;            // absolute byte offset of the first element
  uint64_t bytes = 0;
  uint64_t entry = 0;  // byte offset of the directory entry, for errors
};

// Name of a tensor type number ("Q4_K"), or "type 99".
std::string ggml_type_name(uint32_t type);

struct GgufLimits {
  uint64_t keys = 1 << 16, tensors = 1 << 20, name = 1 << 16;
  uint32_t dimensions = 4;
};

class GgufFile {
 public:
  // `where` names the file in errors. check_tensors: tensors must have known types and lie inside the file,
  // aligned and apart (off for vocabulary-only use: `data` then counts from the data section, `bytes` is 0).
  // Errors: SPAN-GGUF-MAGIC, SPAN-GGUF-VERSION, SPAN-TRUNCATED, SPAN-GGUF-KEY, SPAN-GGUF-TENSOR,
  // SPAN-UNSUPPORTED-TYPE, SPAN-LIMIT.
  static Result<GgufFile> parse(std::span<const uint8_t> bytes, const std::string& where,
                                bool check_tensors = true, GgufLimits limits = {});

  uint32_t version() const { return version_; }
  uint64_t alignment() const { return alignment_; }
  uint64_t header_bytes() const { return header_bytes_; }  // magic, metadata and tensor directory
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  const GgufTensor* tensor(std::string_view name) const;
  const std::string& where() const { return where_; }
  std::span<const uint8_t> bytes() const { return bytes_; }

  const GgufValue* find(std::string_view key) const;
  // Typed reads. A key that is there with another type is an error (SPAN-GGUF-KEY: key, expected, found,
  // offset); a key that is not there gives `fallback`, or an error when there is none.
  Result<uint64_t> unsigned_value(std::string_view key, std::optional<uint64_t> fallback = {}) const;
  Result<double> number(std::string_view key, std::optional<double> fallback = {}) const;
  Result<bool> boolean(std::string_view key, bool fallback) const;
  Result<std::string> text(std::string_view key, std::optional<std::string> fallback = {}) const;
  // An absent array is empty.
  Result<std::vector<std::string>> texts(std::string_view key) const;
  Result<std::vector<int64_t>> integers(std::string_view key) const;

 private:
  Error key_error(std::string_view key, const std::string& expected, const GgufValue* found) const;
  std::optional<int64_t> integer_at(GgufType type, uint64_t offset) const;

  std::span<const uint8_t> bytes_;
  std::string where_;
  uint32_t version_ = 0;
  uint64_t alignment_ = 32, header_bytes_ = 0;
  std::map<std::string, GgufValue, std::less<>> keys_;
  std::vector<GgufTensor> tensors_;
  std::map<std::string, size_t, std::less<>> tensor_index_;
};

// Untrusted text for an error message: control bytes as \xNN, at most 80 bytes.
std::string printable(std::string_view text);

}  // namespace spanscope
