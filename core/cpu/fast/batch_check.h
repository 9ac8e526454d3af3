// SPDX-License-Identifier: GPL-3.0-or-later
// What is checked before a pass, so that kernels need not. Any thread.
#pragma once
#include <span>

#include "core/model/backend.h"

namespace spanscope::fast {
// Errors: SPAN-BATCH - no rows, lengths differ, an id outside the vocabulary, positions that do not ascend;
// SPAN-PLAN - a plan without a sink, or one that does not fit batch, model or cache.
Status check_batch(const Recipe& recipe, std::span<const TokenPos> cached, const Batch& batch,
                   const ForwardOptions& options);
}  // namespace spanscope::fast
