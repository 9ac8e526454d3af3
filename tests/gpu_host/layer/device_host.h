// SPDX-License-Identifier: GPL-3.0-or-later
// gpu/device.h on the host: the same functions as checked accesses and defined arithmetic. Included by gpu/device.h only.
#pragma once
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "tests/gpu_host/layer/block.h"
#include "tests/gpu_host/layer/matrix_units.h"

#define SPANSCOPE_DEVICE inline
#define SPANSCOPE_CALLED inline
#define SPANSCOPE_KERNEL(threads) inline void
#define SPANSCOPE_UNROLL

namespace spanscope::gpu {

using layer::Place;
#define SPANSCOPE_HERE Place here = Place::current()

inline uint32_t thread_x() { return layer::current->thread(); }
inline uint32_t block_x() { return layer::current->index().x; }
inline uint32_t block_y() { return layer::current->index().y; }
inline uint32_t block_z() { return layer::current->index().z; }

template <class T>
struct Global {
  T* data = nullptr;
  uint64_t size = 0;
  using Value = std::remove_const_t<T>;

  explicit operator bool() const { return data != nullptr; }
  void check(uint64_t i, uint64_t count, const Place& here) const {
    if (i > size || size - i < count)
      layer::current->fail("global access to element " + std::to_string(i) + " of " + std::to_string(size), here);
  }
  Value load(uint64_t i, SPANSCOPE_HERE) const {
    check(i, 1, here);
    layer::current->traffic.loaded += sizeof(T);
    return data[i];
  }
  void store(uint64_t i, Value v, SPANSCOPE_HERE) const {
    check(i, 1, here);
    layer::current->traffic.stored += sizeof(T);
    data[i] = v;
  }
  Value add(uint64_t i, Value v, SPANSCOPE_HERE) const {
    check(i, 1, here);
    layer::current->traffic.atomic += 2 * sizeof(T);
    return std::atomic_ref<Value>(data[i]).fetch_add(v, std::memory_order_relaxed);
  }
  void largest(uint64_t i, Value v, SPANSCOPE_HERE) const {
    check(i, 1, here);
    layer::current->traffic.atomic += 2 * sizeof(T);
    std::atomic_ref<Value> at(data[i]);
    for (Value old = at.load(std::memory_order_relaxed); old < v && !at.compare_exchange_weak(old, v);) {
    }
  }
};

template <class T>
struct Shared {
  uint32_t offset = 0, count = 0;
  T get(uint32_t i, SPANSCOPE_HERE) const {
    if (i >= count) layer::current->fail("shared element " + std::to_string(i) + " of " + std::to_string(count), here);
    T v;
    layer::current->shared_read(offset + i * uint32_t(sizeof(T)), sizeof(T), &v, here);
    return v;
  }
  void set(uint32_t i, T v, SPANSCOPE_HERE) const {
    if (i >= count) layer::current->fail("shared element " + std::to_string(i) + " of " + std::to_string(count), here);
    layer::current->shared_write(offset + i * uint32_t(sizeof(T)), sizeof(T), &v, here);
  }
};

template <class T>
Shared<T> shared_array(uint32_t byte_offset, uint32_t count, SPANSCOPE_HERE) {
  if (byte_offset + uint64_t(count) * sizeof(T) > layer::current->shared_bytes())
    layer::current->fail("a shared array ends behind the launch's " + std::to_string(layer::current->shared_bytes()) + " bytes", here);
  return {byte_offset, count};
}

// 16 bytes, both ends aligned to 16. Not valid: zeros, and nothing is read.
template <class T>
void copy_async(const Shared<T>& to, uint32_t i, const Global<const T>& from, uint64_t j, bool valid, SPANSCOPE_HERE) {
  constexpr uint32_t kCount = 16 / sizeof(T);
  if (i + kCount > to.count) layer::current->fail("asynchronous copy behind a shared array", here);
  if (valid) from.check(j, kCount, here);
  if (valid && reinterpret_cast<uintptr_t>(from.data + j) % 16 != 0) layer::current->fail("asynchronous copy from a misaligned address", here);
  layer::current->copy_async(to.offset + i * uint32_t(sizeof(T)), valid ? from.data + j : nullptr, 16, valid, here);
}
inline void copy_commit() { layer::current->copy_commit(); }
template <int kOpen>
void copy_wait(SPANSCOPE_HERE) {
  layer::current->copy_wait(kOpen, here);
}

inline void sync_block(SPANSCOPE_HERE) { layer::current->barrier(here); }
inline void sync_warp(SPANSCOPE_HERE) { layer::current->sync_warp(here); }

namespace layer {
template <class T>
struct Exchange {
  T in, out;
  uint32_t from;
};
template <class T>
void exchange(void* const* lanes, uint32_t mask) {
  for (uint32_t l = 0; l < kWarp; ++l) {
    if (!(mask >> l & 1)) continue;
    Exchange<T>& mine = *static_cast<Exchange<T>*>(lanes[l]);
    // A lane that takes no part gives no defined value.
    if (!(mask >> mine.from & 1)) std::memset(&mine.out, 0xff, sizeof(T));
    else mine.out = static_cast<Exchange<T>*>(lanes[mine.from])->in;
  }
}
struct Vote {
  bool in, out;
};
inline void vote_any(void* const* lanes, uint32_t mask) {
  bool any = false;
  for (uint32_t l = 0; l < kWarp; ++l)
    if (mask >> l & 1) any |= static_cast<Vote*>(lanes[l])->in;
  for (uint32_t l = 0; l < kWarp; ++l)
    if (mask >> l & 1) static_cast<Vote*>(lanes[l])->out = any;
}
}  // namespace layer

template <class T>
T shuffle(T v, uint32_t lane, uint32_t mask = kAllLanes, SPANSCOPE_HERE) {
  layer::Exchange<T> e{v, v, lane % layer::kWarp};
  layer::current->converge(&layer::exchange<T>, mask, &e, here);
  return e.out;
}
template <class T>
T shuffle_xor(T v, uint32_t bits, uint32_t mask = kAllLanes, SPANSCOPE_HERE) {
  return shuffle(v, (thread_x() % layer::kWarp) ^ bits, mask, here);
}
inline bool any_lane(bool v, uint32_t mask = kAllLanes, SPANSCOPE_HERE) {
  layer::Vote e{v, false};
  layer::current->converge(&layer::vote_any, mask, &e, here);
  return e.out;
}

// d += A B
inline void mma_tf32(float* d, const uint32_t* a, const uint32_t* b, SPANSCOPE_HERE) {
  layer::MmaLane lane{d, a, b};
  layer::current->converge(&layer::mma_tf32_warp, kAllLanes, &lane, here);
}
inline void mma_f16(float* d, const uint32_t* a, const uint32_t* b, SPANSCOPE_HERE) {
  layer::MmaLane lane{d, a, b};
  layer::current->converge(&layer::mma_f16_warp, kAllLanes, &lane, here);
}
inline void mma_bf16(float* d, const uint32_t* a, const uint32_t* b, SPANSCOPE_HERE) {
  layer::MmaLane lane{d, a, b};
  layer::current->converge(&layer::mma_bf16_warp, kAllLanes, &lane, here);
}
namespace layer {
// Four 8x8 matrices of 16-bit values: lane l names row l % 8 of matrix l / 8 (8 values, 16 bytes).
inline void load_matrices(uint32_t* out, const Shared<uint16_t>& from, uint32_t i, bool transposed, const Place& here) {
  if (i % 8 != 0) current->fail("a matrix row begins at element " + std::to_string(i) + ", not a multiple of 8", here);
  MatrixLane lane{{}, out};
  for (uint32_t k = 0; k < 8; k += 2) {  // each value through the checks of shared memory
    lane.row[k] = from.get(i + k, here);
    lane.row[k + 1] = from.get(i + k + 1, here);
  }
  current->converge(transposed ? &load_matrix_transposed_warp : &load_matrix_warp, kAllLanes, &lane, here);
}
}  // namespace layer
inline void load_matrix_x4(uint32_t* out, const Shared<uint16_t>& from, uint32_t i, SPANSCOPE_HERE) {
  layer::load_matrices(out, from, i, false, here);
}
inline void load_matrix_x4_transposed(uint32_t* out, const Shared<uint16_t>& from, uint32_t i, SPANSCOPE_HERE) {
  layer::load_matrices(out, from, i, true, here);
}

inline float exponential(float x) { return std::exp(x); }
inline float logarithm(float x) { return std::log(x); }
inline float tangent_hyperbolic(float x) { return std::tanh(x); }
inline float square_root(float x) { return std::sqrt(x); }
inline double square_root(double x) { return std::sqrt(x); }
inline float error_function(float x) { return std::erf(x); }
inline uint32_t bits_of(float x) { return std::bit_cast<uint32_t>(x); }
inline float float_of(uint32_t x) { return std::bit_cast<float>(x); }
inline uint32_t to_tf32(float x) { return layer::round_tf32(x); }
inline uint16_t to_f16(float x) { return layer::round_f16(x); }
inline uint16_t to_bf16(float x) { return layer::round_bf16(x); }
inline float from_f16(uint16_t x) { return layer::widen_f16(x); }
inline float from_bf16(uint16_t x) { return std::bit_cast<float>(uint32_t(x) << 16); }
inline uint64_t round_to_u64(float x) { return uint64_t(std::nearbyint(x)); }  // x >= 0
inline float infinity() { return INFINITY; }

}  // namespace spanscope::gpu
