// SPDX-License-Identifier: GPL-3.0-or-later
// Memory and launches, for the code around the kernels. On a device this is CUDA (runtime_cuda.h); on the host layer the
// build names a header with the same things (SPANSCOPE_RUNTIME_HEADER): arrays of exactly the asked size, so that each access
// behind an end shows.
//
//   Array<T>   device memory: resize(n) (contents are lost, zeroed), grow(n) (contents are kept), upload, download, zero, view
//   launch(kernel, Grid, threads, shared bytes, params) -> Status
//   runtime_name(), driver_version()               "CUDA 13.0"; "13.0", or "none"
//   device_count(), describe_device(i)             SPAN-GPU-DEVICE when no device can be used
//   use_device(i)                                  what this thread's arrays and launches go to
//   device_memory(), has_code()                    of the device in use; whether the module was built for it
// Everything is in order on one stream; download() waits. Engine thread; what describes devices: any thread.
#pragma once
#include <string>

#include "core/base/result.h"
#include "core/device/gpu_abi.h"
#include "gpu/device.h"

namespace spanscope::gpu {
struct Grid {
  uint32_t x = 1, y = 1, z = 1;
};

struct DeviceMemory {
  uint64_t free = 0, total = 0;
};

// SPAN-GPU-MEMORY. what: what the bytes are for.
inline Error out_of_device_memory(uint64_t bytes, const DeviceMemory& memory, const std::string& what) {
  Error e = make_error(ErrorCode::memory, "SPAN-GPU-MEMORY",
                       what + ": " + std::to_string(bytes) + " bytes needed on the card, " + std::to_string(memory.free) + " of " +
                           std::to_string(memory.total) + " are free");
  e.advice = {"use a shorter context, a smaller quantisation of the model, or --device cpu"};
  return e;
}
}  // namespace spanscope::gpu

#if defined(__CUDACC__)
#include "gpu/runtime_cuda.h"
#else
#include SPANSCOPE_RUNTIME_HEADER
#endif
