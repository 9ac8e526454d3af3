// SPDX-License-Identifier: GPL-3.0-or-later
// The host layer's pretended device memory: GPU_HOST_LAYER_MEMORY bytes (16 GiB when not set). Any thread.
#pragma once
#include <cstdint>
#include <utility>

namespace spanscope::gpu::layer {

uint64_t memory_total();
uint64_t memory_free();
uint64_t shared_limit();  // of a block: GPU_HOST_LAYER_SHARED bytes (227 KiB when not set)

// What one array holds of it.
class Held {
 public:
  Held() = default;
  Held(Held&& o) noexcept : bytes_(std::exchange(o.bytes_, 0)) {}
  Held& operator=(Held&& o) noexcept {
    std::swap(bytes_, o.bytes_);
    return *this;
  }
  ~Held() { to(0); }
  bool to(uint64_t bytes);  // false: there is not so much, and nothing changes

 private:
  uint64_t bytes_ = 0;
};

}  // namespace spanscope::gpu::layer
