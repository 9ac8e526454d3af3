// SPDX-License-Identifier: GPL-3.0-or-later
// gpu/runtime.h on the host layer. Included by gpu/runtime.h only.
#pragma once
#include <algorithm>
#include <cstdio>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/gpu_host/layer/launch.h"
#include "tests/gpu_host/layer/memory.h"

namespace spanscope::gpu {

inline std::string runtime_name() { return "host execution layer"; }
inline std::string driver_version() { return "none"; }
inline DeviceMemory device_memory() { return {layer::memory_free(), layer::memory_total()}; }
inline Result<int> device_count() { return 1; }
inline Status use_device(int device) {
  if (device == 0) return {};
  return make_error(ErrorCode::not_found, "SPAN-GPU-DEVICE", "device " + std::to_string(device) + ": there is only device 0");
}
inline Result<SpanscopeGpuDevice> describe_device(int device) {
  SPANSCOPE_TRY(use_device(device));
  SpanscopeGpuDevice out{};
  std::snprintf(out.name, sizeof out.name, "host execution layer");
  out.compute_major = 8;
  out.multiprocessors = 1;
  out.memory_bytes = device_memory().total;
  out.free_bytes = device_memory().free;
  out.shared_bytes_of_block = layer::shared_limit();
  return out;
}

inline Status has_code() { return {}; }

template <class T>
class Array {
 public:
  Status resize(size_t n) {
    SPANSCOPE_TRY(hold(n));
    values_.assign(n, T{});
    return {};
  }
  Status grow(size_t n) {
    if (n <= values_.size()) return {};
    SPANSCOPE_TRY(hold(n));
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
  Status hold(size_t n) {
    if (held_.to(n * sizeof(T))) return {};
    return out_of_device_memory(n * sizeof(T), device_memory(), "an array");
  }
  layer::Held held_;
  std::vector<T> values_;
};

template <class P>
Status launch(void (*kernel)(P), Grid grid, uint32_t threads, uint32_t shared_bytes, const std::type_identity_t<P>& params) {
  const layer::LaunchReport report = layer::launch(kernel, {grid.x, grid.y, grid.z}, threads, shared_bytes, params);
  if (!report.ok) return make_error(ErrorCode::invalid, "SPAN-GPU-KERNEL", report.fault);
  return {};
}

}  // namespace spanscope::gpu
