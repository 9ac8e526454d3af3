// SPDX-License-Identifier: GPL-3.0-or-later
// The GPU backend in exact mode: walks the recipe with the kernels of this folder. What it cannot do yet is refused by name
// when it is made or asked: weight formats without a kernel (SPAN-GPU-TYPE), head sizes (SPAN-GPU-HEADS), f16 caches, token
// statistics (SPAN-GPU-UNSUPPORTED). Engine thread.
#pragma once
#include <memory>

#include "core/model/backend.h"

namespace spanscope::gpu {
Result<std::unique_ptr<Backend>> make_gpu_backend(std::shared_ptr<const Model> model, BackendOptions options = {});
}  // namespace spanscope::gpu
