// SPDX-License-Identifier: GPL-3.0-or-later
// GPU modules that are wrong in one way, or that find no card: SPANSCOPE_FAKE says which (device_test.cpp).
//   0 another magic   1 another version   2 another build   3 no driver   4 a driver that knows no device   5 a device that fails
//   6 a table that is not there
#include <cstdio>

#include "core/device/gpu_abi.h"

namespace {
constexpr int kFake = SPANSCOPE_FAKE;
const char* driver() { return kFake == 3 ? "none" : "12.4"; }
int32_t count(char* why) {
  if (kFake != 3) return kFake == 4 ? 0 : 2;
  std::snprintf(why, kSpanscopeGpuText, "no driver is installed");
  return -1;
}
int32_t describe(int32_t device, SpanscopeGpuDevice* out, char* why) {
  if (device == 1) {
    std::snprintf(why, kSpanscopeGpuText, "it has fallen off the bus");
    return -1;
  }
  *out = SpanscopeGpuDevice{"a card", 9, 0, 132, 1000, 900, 232448};
  return 0;
}
void* make(int32_t, const void*, const void*, void*) { return nullptr; }
}  // namespace

extern "C" __attribute__((visibility("default"))) const SpanscopeGpuModule* spanscope_gpu_module() {
  static const SpanscopeGpuModule table = {{'S', 'P', 'A', 'N', 'G', 'P', kFake == 0 ? 'X' : 'U', 0},
                                           uint32_t(kSpanscopeGpuAbi + (kFake == 1)),
                                           sizeof(SpanscopeGpuModule),
                                           kFake == 2 ? "spanscope 0.0.1 of long ago" : SPANSCOPE_GPU_BUILD,
                                           "a test's",
                                           driver,
                                           count,
                                           describe,
                                           make};
  return kFake == 6 ? nullptr : &table;
}
