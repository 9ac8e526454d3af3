// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/gpu_host/layer/launch.h"

#include <atomic>
#include <mutex>

#include "core/base/thread_pool.h"

namespace spanscope::gpu::layer {

LaunchReport launch_blocks(Dim3 grid, uint32_t threads, uint32_t shared_bytes, void (*entry)(const void*), const void* argument,
                           const LaunchOptions& options) {
  LaunchReport report;
  if (threads == 0 || threads > kMaxThreads || grid.y > 65535 || grid.z > 65535 || shared_bytes > (227u << 10)) {
    report.ok = false;
    report.fault = "no device takes " + std::to_string(threads) + " threads and " + std::to_string(shared_bytes) +
                   " bytes of shared memory a block";
    return report;
  }
  const uint64_t blocks = uint64_t(grid.x) * grid.y * grid.z;
  std::atomic<uint64_t> next{0};
  std::mutex mutex;
  auto work = [&] {
    if (next.load() >= blocks) return;
    Block block(threads, shared_bytes, grid);
    for (uint64_t b; (b = next.fetch_add(1)) < blocks;) {
      const Dim3 index{uint32_t(b % grid.x), uint32_t(b / grid.x % grid.y), uint32_t(b / grid.x / grid.y)};
      if (block.run(index, entry, argument, options.backwards)) continue;
      next.store(blocks);
      const std::lock_guard lock(mutex);
      if (report.ok) report.fault = block.fault();
      report.ok = false;
    }
    const std::lock_guard lock(mutex);
    report.traffic += block.traffic;
  };
  // One pool for all launches; blocks are taken one by one by whoever is free.
  static ThreadPool pool(2);
  if (options.os_threads < 2 || blocks < 2) work();
  else pool.parallel_for(pool.threads(), [&](size_t, unsigned) { work(); });
  return report;
}

}  // namespace spanscope::gpu::layer
