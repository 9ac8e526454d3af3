// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/gpu_host/layer/launch.h"

#include <atomic>
#include <mutex>
#include <thread>

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
  const unsigned workers = unsigned(std::min<uint64_t>(options.os_threads, blocks));
  std::vector<std::thread> others;
  for (unsigned i = 1; i < workers; ++i) others.emplace_back(work);
  work();
  for (std::thread& t : others) t.join();
  return report;
}

}  // namespace spanscope::gpu::layer
