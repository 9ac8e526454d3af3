// SPDX-License-Identifier: GPL-3.0-or-later
// Reading files whole (bounded) and memory-mapped; writing small outputs. Any thread.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace spanscope {

// A read-only mapping. Refuses directories, empty files and anything that is not a regular file, by name.
class MappedFile {
 public:
  static Result<std::shared_ptr<const MappedFile>> open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::span<const uint8_t> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

 private:
  MappedFile() = default;
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
  std::string path_;
};

// The whole file ("-" is standard input), at most `limit` bytes; more is an error that says both numbers.
Result<std::string> read_file(const std::string& path, uint64_t limit = uint64_t(1) << 30);

// Writes by a temporary file beside the target and a rename. An existing target is an error unless `force`. "-" is stdout.
Status write_file(const std::string& path, std::string_view bytes, bool force);

}  // namespace spanscope
