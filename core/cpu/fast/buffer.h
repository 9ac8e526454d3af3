// SPDX-License-Identifier: GPL-3.0-or-later
// A float buffer that starts on a cache line, as the kernels expect. Grows, never shrinks; growing forgets
// the contents.
#pragma once
#include <cstddef>
#include <cstring>
#include <new>
#include <utility>

namespace spanscope::fast {

class Buffer {
 public:
  Buffer() = default;
  ~Buffer() { release(); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  // At least `floats` floats; fresh memory is 0.
  float* need(size_t floats) {
    if (floats > size_) {
      release();
      data_ = static_cast<float*>(::operator new (floats * sizeof(float), std::align_val_t{64}));
      size_ = floats;
      std::memset(data_, 0, floats * sizeof(float));
    }
    return data_;
  }
  float* data() { return data_; }
  const float* data() const { return data_; }

 private:
  void release() {
    ::operator delete (data_, std::align_val_t{64});
    data_ = nullptr;
    size_ = 0;
  }
  float* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace spanscope::fast
