// SPDX-License-Identifier: GPL-3.0-or-later
// Launching a kernel on the host layer: blocks are spread over OS threads, the report says what was moved and, when the
// kernel is wrong, which rule it broke first.
#pragma once
#include <string>

#include "tests/gpu_host/layer/block.h"

namespace spanscope::gpu::layer {

struct LaunchReport {
  bool ok = true;
  std::string fault;
  Traffic traffic;
};

struct LaunchOptions {
  unsigned os_threads = 2;
  bool backwards = false;  // the order in which threads get their turns
};

LaunchReport launch_blocks(Dim3 grid, uint32_t threads, uint32_t shared_bytes, void (*entry)(const void*), const void* argument,
                           const LaunchOptions& options);

// kernel(params) for every thread of the grid.
template <class P>
LaunchReport launch(void (*kernel)(P), Dim3 grid, uint32_t threads, uint32_t shared_bytes, const std::type_identity_t<P>& params,
                    const LaunchOptions& options = {}) {
  struct Call {
    void (*kernel)(P);
    const P* params;
  } call{kernel, &params};
  return launch_blocks(
      grid, threads, shared_bytes, [](const void* c) { static_cast<const Call*>(c)->kernel(*static_cast<const Call*>(c)->params); },
      &call, options);
}

}  // namespace spanscope::gpu::layer
