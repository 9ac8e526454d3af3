// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/model/backend.h"

#include <fmt/format.h>

namespace spanscope {
namespace {

Status not_kept(const char* what) {
  return make_error(ErrorCode::unsupported, "SPAN-ORIGINALS", std::string("this cache cannot ") + what);
}

}  // namespace

Status Cache::move_to(std::span<const TokenPos>) { return not_kept("move keys: it keeps none from before rotation"); }
Status Cache::read_keys(uint32_t, SlotRange, bool, float*) const { return not_kept("hand out keys"); }
Status Cache::read_values(uint32_t, SlotRange, float*) const { return not_kept("hand out values"); }

Status check_move(const Recipe& recipe, const Cache& cache, std::span<const TokenPos> positions) {
  if (recipe.learned_positions)
    return make_error(ErrorCode::unsupported, "SPAN-ORIGINALS", "this model learned its positions: they are in every key, so keys cannot be moved");
  if (!cache.has_originals()) return not_kept("move keys: it keeps none from before rotation");
  if (positions.size() != cache.size())
    return make_error(ErrorCode::invalid, "SPAN-POSITIONS", fmt::format("{} positions for {} keys", positions.size(), cache.size()));
  for (size_t i = 1; i < positions.size(); ++i)
    if (positions[i] <= positions[i - 1])
      return make_error(ErrorCode::invalid, "SPAN-POSITIONS", fmt::format("position {} of key {} follows {}, expected a larger one", positions[i], i, positions[i - 1]));
  return {};
}

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
