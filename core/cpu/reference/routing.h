// SPDX-License-Identifier: GPL-3.0-or-later
// Which experts a token goes to: selection, combine weights, margin (definitions D6). Any thread.
#pragma once
#include <cstdint>

#include "core/model/recipe.h"

namespace spanscope::reference {

// scores [experts] = the router's output. ids, weights [experts_used], ids in selection order: falling score,
// on ties the lower index. Returns the selection margin: score K minus score K+1, where the score is what the
// rule selects by (softmax over all experts, or the raw output); 0 when every expert is chosen.
float route(const Recipe& recipe, const float* scores, int32_t* ids, float* weights);

}  // namespace spanscope::reference
