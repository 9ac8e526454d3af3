// SPDX-License-Identifier: GPL-3.0-or-later
// gpu/runtime.h on a device. Included by gpu/runtime.h only.
#pragma once
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

namespace spanscope::gpu {

inline Error cuda_error(cudaError_t code, const std::string& what) {
  return make_error(ErrorCode::unsupported, "SPAN-GPU", what + ": " + cudaGetErrorString(code));
}

inline std::string cuda_version(int number) { return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10); }
inline std::string runtime_name() { return "CUDA " + cuda_version(CUDART_VERSION); }
inline std::string driver_version() {
  int number = 0;
  return cudaDriverGetVersion(&number) == cudaSuccess && number ? cuda_version(number) : "none";
}
inline Result<int> device_count() {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaSuccess) return count;
  cudaGetLastError();
  if (code == cudaErrorNoDevice) return 0;
  if (driver_version() == "none") return make_error(ErrorCode::not_found, "SPAN-GPU-DEVICE", "no NVIDIA driver is installed");
  return make_error(ErrorCode::not_found, "SPAN-GPU-DEVICE", "the NVIDIA driver (" + driver_version() + ") cannot be used: " + cudaGetErrorString(code));
}
inline Status use_device(int device) {
  if (const cudaError_t code = cudaSetDevice(device); code != cudaSuccess) {
    cudaGetLastError();
    return make_error(ErrorCode::not_found, "SPAN-GPU-DEVICE", "device " + std::to_string(device) + ": " + cudaGetErrorString(code));
  }
  return {};
}
inline DeviceMemory device_memory() {
  size_t free = 0, total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) cudaGetLastError();
  return {free, total};
}
inline Result<SpanscopeGpuDevice> describe_device(int device) {
  cudaDeviceProp properties{};
  if (const cudaError_t code = cudaGetDeviceProperties(&properties, device); code != cudaSuccess) {
    cudaGetLastError();
    return make_error(ErrorCode::not_found, "SPAN-GPU-DEVICE", "device " + std::to_string(device) + ": " + cudaGetErrorString(code));
  }
  SPANSCOPE_TRY(use_device(device));
  const DeviceMemory memory = device_memory();
  SpanscopeGpuDevice out{};
  std::snprintf(out.name, sizeof out.name, "%s", properties.name);
  out.compute_major = properties.major;
  out.compute_minor = properties.minor;
  out.multiprocessors = properties.multiProcessorCount;
  out.memory_bytes = memory.total;
  out.free_bytes = memory.free;
  out.shared_bytes_of_block = properties.sharedMemPerBlockOptin;
  return out;
}

template <class T>
__global__ void empty_kernel(T) {}
// Whether the program has code that the device in use can run.
inline Status has_code() {
  cudaFuncAttributes unused{};
  if (const cudaError_t code = cudaFuncGetAttributes(&unused, empty_kernel<int>); code != cudaSuccess) {
    cudaGetLastError();
    return cuda_error(code, "kernels");
  }
  return {};
}

template <class T>
class Array {
 public:
  Array() = default;
  Array(Array&& o) noexcept : data_(std::exchange(o.data_, nullptr)), size_(std::exchange(o.size_, 0)), room_(std::exchange(o.room_, 0)) {}
  Array& operator=(Array&& o) noexcept {
    std::swap(data_, o.data_);
    std::swap(size_, o.size_);
    std::swap(room_, o.room_);
    return *this;
  }
  ~Array() { cudaFree(data_); }

  Status resize(size_t n) {
    if (n > room_) {
      cudaFree(data_);
      data_ = nullptr;
      size_ = room_ = 0;
      if (const Status s = allocate(n, &data_); !s) return s.error();
      room_ = n;
    }
    size_ = n;
    return zero();
  }
  Status grow(size_t n) {
    if (n <= size_) return {};
    T* bigger = nullptr;
    if (const Status s = allocate(n, &bigger); !s) return s.error();
    cudaMemset(bigger, 0, n * sizeof(T));
    if (size_) cudaMemcpy(bigger, data_, size_ * sizeof(T), cudaMemcpyDeviceToDevice);
    cudaFree(data_);
    data_ = bigger;
    size_ = room_ = n;
    return {};
  }
  size_t size() const { return size_; }
  Status upload(const T* from, size_t n, size_t at = 0) { return copied(cudaMemcpy(data_ + at, from, n * sizeof(T), cudaMemcpyHostToDevice), n, "to"); }
  Status download(T* to, size_t n, size_t at = 0) const {
    return copied(cudaMemcpy(to, data_ + at, n * sizeof(T), cudaMemcpyDeviceToHost), n, "from");
  }
  Status zero() { return size_ ? copied(cudaMemset(data_, 0, size_ * sizeof(T)), size_, "to") : Status{}; }
  Global<T> view() { return {data_, size_}; }
  Global<const T> view() const { return {data_, size_}; }

 private:
  static Status allocate(size_t n, T** out) {
    if (n == 0) return {};
    if (const cudaError_t code = cudaMalloc(out, n * sizeof(T)); code != cudaSuccess) {
      cudaGetLastError();
      if (code == cudaErrorMemoryAllocation) return out_of_device_memory(n * sizeof(T), device_memory(), "an array");
      return cuda_error(code, "an array of " + std::to_string(n * sizeof(T)) + " bytes");
    }
    return {};
  }
  static Status copied(cudaError_t code, size_t n, const char* way) {
    if (code == cudaSuccess) return {};
    return cuda_error(code, "copying " + std::to_string(n * sizeof(T)) + " bytes " + way + " the card");
  }
  T* data_ = nullptr;
  size_t size_ = 0, room_ = 0;
};

template <class P>
Status launch(void (*kernel)(P), Grid grid, uint32_t threads, uint32_t shared_bytes, const std::type_identity_t<P>& params) {
  if (shared_bytes > 48u << 10)
    if (const cudaError_t code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(shared_bytes)); code != cudaSuccess)
      return cuda_error(code, std::to_string(shared_bytes) + " bytes of shared memory a block");
  kernel<<<dim3(grid.x, grid.y, grid.z), threads, shared_bytes>>>(params);
  if (const cudaError_t code = cudaGetLastError(); code != cudaSuccess) return cuda_error(code, "a launch");
  return {};
}

}  // namespace spanscope::gpu
