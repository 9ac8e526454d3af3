// SPDX-License-Identifier: GPL-3.0-or-later
// Binds tensors to their roles by the family's table, each shape checked against the recipe. Every tensor of the files
// must have a role: one that nothing reads would silently change the result. Any thread.
#pragma once
#include "core/model/family.h"
#include "core/model/tensor_table.h"
#include "core/model/weights.h"

namespace spanscope {

// Fills weights, `weight_types` and what the tensors say about the recipe (rotary factors, tied output). model.recipe is
// filled already. Errors: SPAN-GGUF-TENSOR or SPAN-HF-TENSOR (missing, wrong shape), SPAN-UNSUPPORTED-TYPE,
// SPAN-UNSUPPORTED-TENSOR, SPAN-MODEL.
Status bind_weights(const TensorTable& table, const Family& family, Model& model);

}  // namespace spanscope
