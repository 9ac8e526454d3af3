// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cpu/fast/batch_check.h"

#include <fmt/format.h>

namespace spanscope::fast {
namespace {

Error bad_batch(std::string message) {
  return make_error(ErrorCode::invalid, "SPAN-BATCH", std::move(message));
}
Error bad_plan(std::string message) {
  return make_error(ErrorCode::invalid, "SPAN-PLAN", std::move(message));
}

Status check_plan(const RecordPlan& plan, const Recipe& recipe, uint64_t rows, uint64_t slots) {
  if (rows > kMaxPlannedRows)
    return make_error(
        ErrorCode::limit, "SPAN-PLAN",
        fmt::format("a planned pass has at most {} rows, this one has {}", kMaxPlannedRows, rows));
  const uint64_t leaves = plan.leaves.size();
  uint64_t free_from = 0;
  for (uint64_t s = 0; s < leaves; ++s) {
    const uint64_t begin = plan.leaves[s].slot, end = begin + plan.leaves[s].len;
    if (begin < free_from)
      return bad_plan(fmt::format("leaf {} begins at slot {}, expected {} or later", s, begin, free_from));
    if (end > slots)
      return bad_plan(fmt::format("leaf {} ends at slot {}, but the pass ends at slot {}", s, end, slots));
    free_from = end;
  }
  struct {
    const char* name;
    uint64_t found, expected;
  } const sizes[] = {
      {"group_of_leaf", plan.group_of_leaf.size(), plan.levels * leaves},
      {"group_of_row", plan.group_of_row.size(), plan.levels * rows},
      {"row_phase", plan.row_phase.size(), rows},
      {"row_query", plan.row_query.size(), rows},
      {"row_mass_layers", plan.row_mass_layers.size(), plan.row_mass_layers.empty() ? 0 : recipe.layers},
      {"habit", plan.habit.size(),
       plan.habit.empty() ? 0 : uint64_t(recipe.layers) * recipe.query_heads * leaves},
  };
  for (const auto& s : sizes)
    if (s.found != s.expected)
      return bad_plan(fmt::format("{} has {} values, expected {}", s.name, s.found, s.expected));
  for (uint64_t i = 0; i < rows; ++i) {
    if (uint8_t(plan.row_phase[i]) > uint8_t(RowPhase::unrecorded))
      return bad_plan(fmt::format("row {} has the unknown phase {}", i, int(plan.row_phase[i])));
    if (plan.row_phase[i] != RowPhase::unrecorded && plan.row_query[i] >= plan.query_leaves)
      return bad_plan(
          fmt::format("row {} names query leaf {} of {}", i, plan.row_query[i], plan.query_leaves));
  }
  return {};
}


Status check_token_stats(const ForwardOptions& options, const Recipe& recipe, uint64_t rows) {
  const TokenStatsPlan& plan = *options.token_stats;
  if (!options.token_sink) return bad_plan("token statistics need a sink");
  if (rows > kMaxPlannedRows)
    return make_error(ErrorCode::limit, "SPAN-PLAN",
                      fmt::format("a pass with token statistics has at most {} rows, this one has {}", kMaxPlannedRows, rows));
  if (plan.windows > kMaxStatWindows)
    return bad_plan(fmt::format("{} windows, at most {}", plan.windows, kMaxStatWindows));
  if (!plan.counted.empty() && plan.counted.size() != rows)
    return bad_plan(fmt::format("counted has {} values for {} rows", plan.counted.size(), rows));
  if (plan.row_windows.size() != (plan.windows ? rows : 0))
    return bad_plan(fmt::format("row_windows has {} values for {} rows and {} windows", plan.row_windows.size(), rows, plan.windows));
  const size_t heads = size_t(recipe.layers) * recipe.query_heads;
  if ((!plan.layers.empty() && plan.layers.size() != recipe.layers) || (!plan.heads.empty() && plan.heads.size() != heads))
    return bad_plan(fmt::format("token statistics of some of {} layers and {} heads, but {} and {} are said to be wanted or not", recipe.layers,
                             heads, plan.layers.size(), plan.heads.size()));
  return {};
}

}  // namespace

Status check_batch(const Recipe& recipe, std::span<const TokenPos> cached, const Batch& batch,
                   const ForwardOptions& options) {
  const uint64_t rows = batch.ids.size(), slots = rows + cached.size();
  if (rows == 0) return bad_batch("a pass needs at least one row");
  if (batch.positions.size() != rows)
    return bad_batch(fmt::format("{} token ids come with {} positions", rows, batch.positions.size()));
  if (slots > uint64_t(INT32_MAX))
    return bad_batch(fmt::format("the cache would hold {} slots, at most {}", slots, INT32_MAX));
  int64_t before = cached.empty() ? -1 : int64_t(cached.back());
  for (uint64_t i = 0; i < rows; ++i) {
    const TokenId id = batch.ids[i];
    if (id < 0 || uint32_t(id) >= recipe.vocab)
      return bad_batch(fmt::format("row {} has token id {}, the vocabulary has {}", i, id, recipe.vocab));
    if (int64_t(batch.positions[i]) <= before)
      return bad_batch(
          fmt::format("row {} has position {}, expected one above {}", i, batch.positions[i], before));
    before = batch.positions[i];
  }
  if (recipe.learned_positions && uint64_t(before) >= recipe.learned_positions)
    return bad_batch(fmt::format("position {}, but the model has learned {} positions", before, recipe.learned_positions));
  if (options.token_stats) SPANSCOPE_TRY(check_token_stats(options, recipe, rows));
  if (!options.plan) return {};
  if (!options.sink) return bad_plan("a planned pass needs a sink for its records");
  return check_plan(*options.plan, recipe, rows, slots);
}

}  // namespace spanscope::fast
