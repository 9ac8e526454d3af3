// SPDX-License-Identifier: GPL-3.0-or-later
// The module's table (core/device/gpu_abi.h): everything that a program may call. Exceptions end here.
#include <cstdio>
#include <exception>

#include "core/device/gpu_abi.h"
#include "gpu/backend.h"
#include "gpu/runtime.h"

namespace spanscope::gpu {
namespace {

// Matrix instructions in the shapes that the kernels use: nothing older has them.
constexpr int kLeast = 75;

void say(char* to, const std::string& text) { std::snprintf(to, kSpanscopeGpuText, "%s", text.c_str()); }

const char* driver() {
  static const std::string text = driver_version();
  return text.c_str();
}

int32_t count_devices(char* why) {
  try {
    const auto count = device_count();
    if (count) return int32_t(*count);
    say(why, count.error().message);
  } catch (const std::exception& e) {
    say(why, e.what());
  }
  return -1;
}

int32_t describe(int32_t device, SpanscopeGpuDevice* out, char* why) {
  try {
    const auto found = describe_device(device);
    if (found) {
      *out = *found;
      return 0;
    }
    say(why, found.error().message);
  } catch (const std::exception& e) {
    say(why, e.what());
  }
  return -1;
}

Result<std::unique_ptr<Backend>> make(int32_t device, const std::shared_ptr<const Model>& model, const BackendOptions& options) {
  auto found = describe_device(device);
  if (!found) return found.error();
  const std::string card = std::string(found->name) + " has compute capability " + std::to_string(found->compute_major) + "." +
                           std::to_string(found->compute_minor);
  if (found->compute_major * 10 + found->compute_minor < kLeast)
    return make_error(ErrorCode::unsupported, "SPAN-GPU-DEVICE", card + ", expected 7.5 or later");
  SPANSCOPE_TRY(use_device(device));
  if (const Status code = has_code(); !code)
    return make_error(ErrorCode::unsupported, "SPAN-GPU-DEVICE", card + "; this module was not built for it: " + code.error().message);
  return make_gpu_backend(model, options, device);
}

void* make_backend(int32_t device, const void* model, const void* options, void* error) {
  Error& out = *static_cast<Error*>(error);
  try {
    auto backend = make(device, *static_cast<const std::shared_ptr<const Model>*>(model), *static_cast<const BackendOptions*>(options));
    if (backend) return backend->release();
    out = backend.error();
  } catch (const std::bad_alloc&) {
    out = make_error(ErrorCode::memory, "SPAN-MEMORY", "not enough memory on the host for the GPU backend");
  } catch (const std::exception& e) {
    out = make_error(ErrorCode::invalid, "SPAN-GPU", e.what());
  }
  return nullptr;
}

}  // namespace
}  // namespace spanscope::gpu

extern "C" __attribute__((visibility("default"))) const SpanscopeGpuModule* spanscope_gpu_module() {
  namespace gpu = spanscope::gpu;
  static const std::string runtime = gpu::runtime_name();
  static const SpanscopeGpuModule table = {{'S', 'P', 'A', 'N', 'G', 'P', 'U', 0},
                                           kSpanscopeGpuAbi,
                                           sizeof(SpanscopeGpuModule),
                                           SPANSCOPE_GPU_BUILD,
                                           runtime.c_str(),
                                           gpu::driver,
                                           gpu::count_devices,
                                           gpu::describe,
                                           gpu::make_backend};
  return &table;
}
