// SPDX-License-Identifier: GPL-3.0-or-later
// What a backend checks before a pass, so that nothing later has to. Any thread.
#pragma once
#include <span>

#include "core/model/backend.h"

namespace spanscope {
// Errors: SPAN-BATCH (no rows, lengths differ, unknown token id, positions not ascending), SPAN-PLAN (a plan
// that does not fit the batch, the model or the cache, or has no sink).
Status check_batch(const Recipe& recipe, std::span<const TokenPos> cached, const Batch& batch,
                   const ForwardOptions& options);
}  // namespace spanscope
