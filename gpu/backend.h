// SPDX-License-Identifier: GPL-3.0-or-later
// The GPU backend, exact or fast (Arithmetic): walks the recipe with the kernels of this folder. What it cannot do yet is refused by name
// when it is made: head sizes (SPAN-GPU-HEADS), f16 caches in exact mode
// (SPAN-GPU-UNSUPPORTED). A model that does not fit the device is refused before anything is put there (SPAN-GPU-MEMORY).
// Engine thread.
#pragma once
#include <memory>

#include "core/model/backend.h"

namespace spanscope::gpu {
Result<std::unique_ptr<Backend>> make_gpu_backend(std::shared_ptr<const Model> model, BackendOptions options = {}, int device = 0);
}  // namespace spanscope::gpu
