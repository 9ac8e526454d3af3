// SPDX-License-Identifier: GPL-3.0-or-later
// Finds, checks and uses the GPU module (gpu_abi.h). A program without one, or on a machine without a card, goes on with the
// CPU; these functions say why. Any thread; a backend that comes of it: engine thread.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/device/gpu_abi.h"
#include "core/model/backend.h"

namespace spanscope {

struct GpuDevice {
  int index = 0;
  std::string name;
  int compute_major = 0, compute_minor = 0, multiprocessors = 0;
  uint64_t memory_bytes = 0, free_bytes = 0, shared_bytes_of_block = 0;
};

class GpuModule {
 public:
  // Looks at SPANSCOPE_CUDA_MODULE when it is set and nowhere else; else beside the program, then in ../lib/spanscope.
  // A module stays loaded until the program ends. Errors: SPAN-GPU-MODULE with what was looked for, or what does not fit.
  static Result<GpuModule> find();
  static Result<GpuModule> load(const std::string& path);

  const std::string& path() const { return path_; }
  std::string runtime() const { return table_->runtime; }
  std::string driver() const { return table_->driver(); }
  // Errors: SPAN-GPU-DEVICE when no card can be used (no driver, none there), with the driver's words.
  Result<std::vector<GpuDevice>> devices() const;
  // Errors: SPAN-GPU-DEVICE (no such device), SPAN-GPU-MEMORY (too small, with sizes), and what the GPU cannot do for this model.
  Result<std::unique_ptr<Backend>> make_backend(int device, std::shared_ptr<const Model> model, BackendOptions options = {}) const;

 private:
  GpuModule(std::string path, const SpanscopeGpuModule* table) : path_(std::move(path)), table_(table) {}
  std::string path_;
  const SpanscopeGpuModule* table_;
};

// What --device says: cpu, cuda, cuda:N, auto. Errors: SPAN-USAGE at `where`.
struct DeviceChoice {
  enum class Kind : uint8_t { automatic, cpu, cuda } kind = Kind::automatic;
  int index = 0;
};
Result<DeviceChoice> parse_device(const std::string& text, const std::string& where = "--device");

// What this program was built with; a module must name the same.
const char* gpu_build_identity();

}  // namespace spanscope
