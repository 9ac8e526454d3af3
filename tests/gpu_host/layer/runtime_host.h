// SPDX-License-Identifier: GPL-3.0-or-later
// gpu/runtime.h on the host layer. Included by gpu/runtime.h only.
#pragma once
#include <algorithm>
#include <type_traits>
#include <vector>

#include "tests/gpu_host/layer/launch.h"

namespace spanscope::gpu {

template <class T>
class Array {
 public:
  Status resize(size_t n) {
    values_.assign(n, T{});
    return {};
  }
  Status grow(size_t n) {
    values_.resize(n);
    return {};
  }
  size_t size() const { return values_.size(); }
  Status upload(const T* from, size_t n, size_t at = 0) {
    std::copy_n(from, n, values_.begin() + ptrdiff_t(at));
    return {};
  }
  Status download(T* to, size_t n, size_t at = 0) const {
    std::copy_n(values_.begin() + ptrdiff_t(at), n, to);
    return {};
  }
  Status zero() {
    std::fill(values_.begin(), values_.end(), T{});
    return {};
  }
  Global<T> view() { return {values_.data(), values_.size()}; }
  Global<const T> view() const { return {values_.data(), values_.size()}; }

 private:
  std::vector<T> values_;
};

template <class P>
Status launch(void (*kernel)(P), Grid grid, uint32_t threads, uint32_t shared_bytes, const std::type_identity_t<P>& params) {
  const layer::LaunchReport report = layer::launch(kernel, {grid.x, grid.y, grid.z}, threads, shared_bytes, params);
  if (!report.ok) return make_error(ErrorCode::invalid, "SPAN-GPU-KERNEL", report.fault);
  return {};
}

}  // namespace spanscope::gpu
