// SPDX-License-Identifier: GPL-3.0-or-later
// Memory and launches, for the code around the kernels. On a device this is CUDA (runtime_cuda.h); on the host layer the
// build names a header with the same things (SPANSCOPE_RUNTIME_HEADER): arrays of exactly the asked size, so that each access
// behind an end shows.
//
//   Array<T>   device memory: resize(n) (contents are lost, zeroed), grow(n) (contents are kept), upload, download, zero, view
//   launch(kernel, Grid, threads, shared bytes, params) -> Status
// Everything is in order on one stream; download() waits. Engine thread.
#pragma once
#include "core/base/result.h"
#include "gpu/device.h"

namespace spanscope::gpu {
struct Grid {
  uint32_t x = 1, y = 1, z = 1;
};
}  // namespace spanscope::gpu

#if defined(__CUDACC__)
#include "gpu/runtime_cuda.h"
#else
#include SPANSCOPE_RUNTIME_HEADER
#endif
