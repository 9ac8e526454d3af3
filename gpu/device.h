// SPDX-License-Identifier: GPL-3.0-or-later
// What kernels are written against. Compiled by nvcc these are the device's own instructions (device_cuda.h); compiled as
// plain C++ the build names a header with the same functions for its host execution layer (SPANSCOPE_DEVICE_HEADER), on
// which every access is checked. A kernel uses nothing else: no raw pointers, no __shared__, no intrinsics.
//
//   Global<T>     an array in device memory: load(i), store(i, v), add(i, v), largest(i, v)
//   Shared<T>     a piece of the block's dynamic shared memory, made by shared_array<T>(byte offset, count): get, set
//   sync_block, sync_warp, shuffle, shuffle_xor, any_lane, copy_async, copy_commit, copy_wait<N>
//   mma_tf32 (m16n8k8), mma_f16, mma_bf16 (m16n8k16), load_matrix_x4 (and _transposed)
//   thread_x, block_x, block_y, block_z, exponential, logarithm, tangent_hyperbolic, square_root, error_function, to_tf32, to_f16 ...
//
// Fragments (lane = 4 g + t), as the PTX manual defines them; C and D: d0 (g, 2t) d1 (g, 2t+1) d2 (g+8, 2t) d3 (g+8, 2t+1);
//   tf32 A: a0 (g, t) a1 (g+8, t) a2 (g, t+4) a3 (g+8, t+4)         B: b0 (t, g) b1 (t+4, g)
//   16-bit A: a0 (g, 2t..) a1 (g+8, 2t..) a2 (g, 2t+8..) a3 (g+8, 2t+8..)   B: b0 (2t.., g) b1 (2t+8.., g)
#pragma once
#include <cstdint>

#ifndef SPANSCOPE_MUTANT
#define SPANSCOPE_MUTANT 0
#endif

namespace spanscope::gpu {

// Whether this build carries the seeded bug of that number: the tests of the tests (tests/gpu_host/support/mutant.cpp).
template <int kNumber>
inline constexpr bool kMutant = SPANSCOPE_MUTANT == kNumber;

// Arrays as kernels and launching code both see them. size is looked at by the host layer only.
template <class T>
struct Global;

inline constexpr uint32_t kAllLanes = 0xffffffffu;

}  // namespace spanscope::gpu

#if defined(__CUDACC__)
#include "gpu/device_cuda.h"
#else
#include SPANSCOPE_DEVICE_HEADER
#endif
