// SPDX-License-Identifier: GPL-3.0-or-later
// A bounded reader over little-endian bytes. Every read is checked against what remains; the first failure sticks.
#pragma once
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace spanscope {

class ByteReader {
 public:
  explicit ByteReader(std::span<const uint8_t> bytes, uint64_t offset = 0) : bytes_(bytes), at_(offset) {
    if (offset > bytes.size()) fail(offset - bytes.size());
  }
  template <class T>
  T read() {
    T value{};
    if (!take(sizeof(T))) return value;
    std::memcpy(&value, bytes_.data() + at_ - sizeof(T), sizeof(T));
    return value;
  }
  std::string_view text(uint64_t size) {
    if (!take(size)) return {};
    return {reinterpret_cast<const char*>(bytes_.data()) + at_ - size, size_t(size)};
  }
  bool skip(uint64_t size) { return take(size); }
  bool ok() const { return !failed_; }
  uint64_t offset() const { return at_; }
  uint64_t remaining() const { return failed_ ? 0 : bytes_.size() - at_; }
  uint64_t wanted() const { return wanted_; }  // size of the read that failed

 private:
  bool take(uint64_t size) {
    if (failed_ || size > bytes_.size() - at_) {
      fail(size);
      return false;
    }
    at_ += size;
    return true;
  }
  void fail(uint64_t size) {
    if (!failed_) wanted_ = size;
    failed_ = true;
  }
  std::span<const uint8_t> bytes_;
  uint64_t at_ = 0, wanted_ = 0;
  bool failed_ = false;
};

}  // namespace spanscope
