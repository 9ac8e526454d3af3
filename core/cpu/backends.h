// SPDX-License-Identifier: GPL-3.0-or-later
// The CPU backends. `reference` is plain and readable (float32 activations, double where it matters); `fast` shares no
// kernel with it. Both are held equal by tests/oracle.
#pragma once
#include <memory>

#include "core/model/backend.h"

namespace spanscope {
Result<std::unique_ptr<Backend>> make_reference_backend(std::shared_ptr<const Model> model, BackendOptions options = {});
Result<std::unique_ptr<Backend>> make_fast_backend(std::shared_ptr<const Model> model, BackendOptions options = {});
}  // namespace spanscope
