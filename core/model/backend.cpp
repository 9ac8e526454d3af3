// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/model/backend.h"

#include <fmt/format.h>

namespace spanscope {

Status settle_rotary_length(const Recipe& recipe, Cache& cache, const Batch& batch) {
  if (recipe.long_from == 0) return {};
  const uint64_t reached = batch.positions_reached();
  const bool wanted = recipe.long_rotary(reached);
  if (cache.size() == 0) cache.set_long_rotary(wanted);
  if (cache.long_rotary() == wanted) return {};
  return make_error(ErrorCode::invalid, "SPAN-ROTARY-LENGTH",
                    fmt::format("the sequence reaches {} positions, the cache was made for sequences of {} {}: this model "
                                "rotates all keys otherwise there, so the cache has to be built again",
                                reached, cache.long_rotary() ? "more than" : "at most", recipe.long_from));
}

}  // namespace spanscope
