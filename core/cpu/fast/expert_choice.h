// SPDX-License-Identifier: GPL-3.0-or-later
// Which experts a token goes to, and how much of each (definitions D6). Any thread.
#pragma once
#include <cstdint>

#include "core/model/recipe.h"

namespace spanscope::fast {
// logits [experts]. ids, weights [experts_used]: falling score, the lower index first among equals. Returns
// the margin: the score of the last chosen expert minus that of the best one left out (0 when none is), where
// the score is what the rule selects by: probability over all experts, or the logit.
float choose_experts(const Recipe& recipe, const float* logits, int32_t* ids, float* weights);
}  // namespace spanscope::fast
