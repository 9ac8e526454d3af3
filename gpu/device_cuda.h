// SPDX-License-Identifier: GPL-3.0-or-later
// gpu/device.h on the device. Included by gpu/device.h only. sm_75 (device_turing.h has what that lacks) and newer.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <type_traits>

#define SPANSCOPE_DEVICE __device__ __forceinline__
#define SPANSCOPE_CALLED static __device__ __noinline__
#define SPANSCOPE_KERNEL(threads) __global__ void __launch_bounds__(threads)
#define SPANSCOPE_UNROLL _Pragma("unroll")

namespace spanscope::gpu {

SPANSCOPE_DEVICE uint32_t thread_x() { return threadIdx.x; }
SPANSCOPE_DEVICE uint32_t block_x() { return blockIdx.x; }
SPANSCOPE_DEVICE uint32_t block_y() { return blockIdx.y; }
SPANSCOPE_DEVICE uint32_t block_z() { return blockIdx.z; }

namespace detail {
SPANSCOPE_DEVICE uint32_t add(uint32_t* at, uint32_t v) { return atomicAdd(at, v); }
SPANSCOPE_DEVICE uint64_t add(uint64_t* at, uint64_t v) {
  return atomicAdd(reinterpret_cast<unsigned long long*>(at), static_cast<unsigned long long>(v));
}
SPANSCOPE_DEVICE void largest(uint64_t* at, uint64_t v) {
  atomicMax(reinterpret_cast<unsigned long long*>(at), static_cast<unsigned long long>(v));
}
extern __shared__ __align__(16) unsigned char dynamic_shared[];
}  // namespace detail

template <class T>
struct Global {
  T* data = nullptr;
  uint64_t size = 0;
  using Value = std::remove_const_t<T>;
  __host__ __device__ explicit operator bool() const { return data != nullptr; }
  SPANSCOPE_DEVICE Value load(uint64_t i) const { return data[i]; }
  SPANSCOPE_DEVICE void store(uint64_t i, Value v) const { data[i] = v; }
  SPANSCOPE_DEVICE Value add(uint64_t i, Value v) const { return detail::add(data + i, v); }
  SPANSCOPE_DEVICE void largest(uint64_t i, Value v) const { detail::largest(data + i, v); }
};

template <class T>
struct Shared {
  T* data;
  SPANSCOPE_DEVICE T get(uint32_t i) const { return data[i]; }
  SPANSCOPE_DEVICE void set(uint32_t i, T v) const { data[i] = v; }
};
template <class T>
SPANSCOPE_DEVICE Shared<T> shared_array(uint32_t byte_offset, uint32_t) {
  return {reinterpret_cast<T*>(detail::dynamic_shared + byte_offset)};
}

SPANSCOPE_DEVICE uint32_t shared_address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

SPANSCOPE_DEVICE void sync_block() { __syncthreads(); }
SPANSCOPE_DEVICE void sync_warp() { __syncwarp(); }
template <class T>
SPANSCOPE_DEVICE T shuffle(T v, uint32_t lane, uint32_t mask = kAllLanes) {
  return __shfl_sync(mask, v, static_cast<int>(lane));
}
template <class T>
SPANSCOPE_DEVICE T shuffle_xor(T v, uint32_t bits, uint32_t mask = kAllLanes) {
  return __shfl_xor_sync(mask, v, static_cast<int>(bits));
}
SPANSCOPE_DEVICE bool any_lane(bool v, uint32_t mask = kAllLanes) { return __any_sync(mask, v); }

SPANSCOPE_DEVICE void load_matrix_x4(uint32_t* out, const Shared<uint16_t>& from, uint32_t i) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(shared_address(from.data + i))
               : "memory");
}
SPANSCOPE_DEVICE void load_matrix_x4_transposed(uint32_t* out, const Shared<uint16_t>& from, uint32_t i) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(shared_address(from.data + i))
               : "memory");
}

SPANSCOPE_DEVICE float exponential(float x) { return expf(x); }
SPANSCOPE_DEVICE float logarithm(float x) { return logf(x); }
SPANSCOPE_DEVICE float tangent_hyperbolic(float x) { return tanhf(x); }
SPANSCOPE_DEVICE float square_root(float x) { return sqrtf(x); }
SPANSCOPE_DEVICE double square_root(double x) { return sqrt(x); }
SPANSCOPE_DEVICE float error_function(float x) { return erff(x); }
SPANSCOPE_DEVICE uint32_t bits_of(float x) { return __float_as_uint(x); }
SPANSCOPE_DEVICE float float_of(uint32_t x) { return __uint_as_float(x); }
SPANSCOPE_DEVICE uint16_t to_f16(float x) { return __half_as_ushort(__float2half_rn(x)); }
SPANSCOPE_DEVICE uint16_t to_bf16(float x) { return __bfloat16_as_ushort(__float2bfloat16_rn(x)); }
SPANSCOPE_DEVICE float from_f16(uint16_t x) { return __half2float(__ushort_as_half(x)); }
SPANSCOPE_DEVICE float from_bf16(uint16_t x) { return __uint_as_float(static_cast<uint32_t>(x) << 16); }
SPANSCOPE_DEVICE uint64_t round_to_u64(float x) { return __float2ull_rn(x); }
SPANSCOPE_DEVICE float infinity() { return __int_as_float(0x7f800000); }

}  // namespace spanscope::gpu

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#include "gpu/device_turing.h"
#else
namespace spanscope::gpu {

template <class T>
SPANSCOPE_DEVICE void copy_async(const Shared<T>& to, uint32_t i, const Global<const T>& from, uint64_t j, bool valid) {
  // A source size of 0 fills with zeros and reads nothing.
  const int bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to.data + i)),
               "l"(__cvta_generic_to_global(from.data + (valid ? j : 0))), "r"(bytes)
               : "memory");
}
SPANSCOPE_DEVICE void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kOpen>
SPANSCOPE_DEVICE void copy_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kOpen) : "memory");
}

SPANSCOPE_DEVICE void mma_tf32(float* d, const uint32_t* a, const uint32_t* b) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
SPANSCOPE_DEVICE void mma_f16(float* d, const uint32_t* a, const uint32_t* b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
SPANSCOPE_DEVICE void mma_bf16(float* d, const uint32_t* a, const uint32_t* b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

SPANSCOPE_DEVICE uint32_t to_tf32(float x) {
  uint32_t out;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(out) : "f"(x));
  return out;
}

}  // namespace spanscope::gpu
#endif
