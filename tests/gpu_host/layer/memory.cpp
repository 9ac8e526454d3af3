// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/gpu_host/layer/memory.h"

#include <atomic>
#include <cstdlib>

namespace spanscope::gpu::layer {
namespace {
std::atomic<uint64_t> in_use{0};

uint64_t set_or(const char* name, uint64_t otherwise) {
  const char* set = std::getenv(name);
  return set && *set ? std::strtoull(set, nullptr, 10) : otherwise;
}
}  // namespace

uint64_t memory_total() { return set_or("GPU_HOST_LAYER_MEMORY", uint64_t(16) << 30); }
uint64_t shared_limit() { return set_or("GPU_HOST_LAYER_SHARED", 227u << 10); }

uint64_t memory_free() {
  const uint64_t total = memory_total(), used = in_use;
  return used < total ? total - used : 0;
}

bool Held::to(uint64_t bytes) {
  if (bytes > bytes_ && bytes - bytes_ > memory_free()) return false;
  in_use += bytes - bytes_;  // modulo 2^64: also when it shrinks
  bytes_ = bytes;
  return true;
}

}  // namespace spanscope::gpu::layer
