// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/model/batch_check.h"

#include <fmt/format.h>

namespace spanscope {
namespace {

Error batch_error(const std::string& message) {
  return make_error(ErrorCode::invalid, "SPAN-BATCH", message);
}

Status plan_size(const char* what, uint64_t found, uint64_t expected) {
  if (found == expected) return {};
  return make_error(ErrorCode::invalid, "SPAN-PLAN",
                    fmt::format("{}: expected {} values, found {}", what, expected, found));
}

Status check_plan(const RecordPlan& plan, const Recipe& recipe, uint64_t rows, uint64_t slots) {
  auto plan_error = [](const std::string& message) {
    return make_error(ErrorCode::invalid, "SPAN-PLAN", message);
  };
  if (rows > kMaxPlannedRows)
    return make_error(ErrorCode::limit, "SPAN-PLAN",
                      fmt::format("{} rows in a planned pass, at most {}", rows, kMaxPlannedRows));
  uint64_t end = 0;
  for (size_t s = 0; s < plan.leaves.size(); ++s) {
    const PlanLeaf& leaf = plan.leaves[s];
    if (leaf.slot < end)
      return plan_error(
          fmt::format("leaf {} begins at slot {}, before the end of its forerunner ({})", s, leaf.slot, end));
    end = uint64_t(leaf.slot) + leaf.len;
    if (end > slots)
      return plan_error(fmt::format("leaf {} ends at slot {}, the pass ends at {}", s, end, slots));
  }
  const uint64_t leaves = plan.leaves.size();
  SPANSCOPE_TRY(plan_size("group_of_leaf", plan.group_of_leaf.size(), plan.levels * leaves));
  SPANSCOPE_TRY(plan_size("group_of_row", plan.group_of_row.size(), plan.levels * rows));
  SPANSCOPE_TRY(plan_size("row_phase", plan.row_phase.size(), rows));
  SPANSCOPE_TRY(plan_size("row_query", plan.row_query.size(), rows));
  if (!plan.row_mass_layers.empty()) SPANSCOPE_TRY(plan_size("row_mass_layers", plan.row_mass_layers.size(), recipe.layers));
  if (!plan.habit.empty())
    SPANSCOPE_TRY(
        plan_size("habit", plan.habit.size(), uint64_t(recipe.layers) * recipe.query_heads * leaves));
  for (uint64_t i = 0; i < rows; ++i) {
    if (plan.row_phase[i] > RowPhase::unrecorded)
      return plan_error(fmt::format("row {} has phase {}", i, int(plan.row_phase[i])));
    if (plan.row_phase[i] != RowPhase::unrecorded && plan.row_query[i] >= plan.query_leaves)
      return plan_error(
          fmt::format("row {} has query leaf {}, there are {}", i, plan.row_query[i], plan.query_leaves));
  }
  return {};
}


Status check_token_stats(const ForwardOptions& options, const Recipe& recipe, uint64_t rows) {
  const TokenStatsPlan& plan = *options.token_stats;
  const auto wrong = [](std::string message) { return make_error(ErrorCode::invalid, "SPAN-PLAN", std::move(message)); };
  if (!options.token_sink) return wrong("token statistics without a sink");
  if (rows > kMaxPlannedRows)
    return make_error(ErrorCode::limit, "SPAN-PLAN",
                      fmt::format("{} rows with token statistics, at most {} in a pass", rows, kMaxPlannedRows));
  if (plan.windows > kMaxStatWindows)
    return wrong(fmt::format("{} windows of token statistics, at most {}", plan.windows, kMaxStatWindows));
  if (!plan.counted.empty() && plan.counted.size() != rows)
    return wrong(fmt::format("{} rows, but {} of them are said to count or not", rows, plan.counted.size()));
  if (plan.row_windows.size() != (plan.windows ? rows : 0))
    return wrong(fmt::format("{} rows and {} windows, but windows for {} rows", rows, plan.windows, plan.row_windows.size()));
  const size_t heads = size_t(recipe.layers) * recipe.query_heads;
  if ((!plan.layers.empty() && plan.layers.size() != recipe.layers) || (!plan.heads.empty() && plan.heads.size() != heads))
    return wrong(fmt::format("token statistics of some of {} layers and {} heads, but {} and {} are said to be wanted or not", recipe.layers,
                             heads, plan.layers.size(), plan.heads.size()));
  return {};
}

}  // namespace

Status check_batch(const Recipe& recipe, std::span<const TokenPos> cached, const Batch& batch,
                   const ForwardOptions& options) {
  const uint64_t rows = batch.ids.size();
  if (rows == 0) return batch_error("no rows to run");
  if (batch.positions.size() != rows)
    return batch_error(fmt::format("{} token ids but {} positions", rows, batch.positions.size()));
  if (rows + cached.size() > INT32_MAX)
    return batch_error(fmt::format("{} slots, at most {}", rows + cached.size(), INT32_MAX));
  for (uint64_t i = 0; i < rows; ++i) {
    if (batch.ids[i] < 0 || uint32_t(batch.ids[i]) >= recipe.vocab)
      return batch_error(
          fmt::format("token id {} in row {}, the vocabulary has {}", batch.ids[i], i, recipe.vocab));
    const bool first = i == 0;
    if (first && cached.empty()) continue;
    const TokenPos before = first ? cached.back() : batch.positions[i - 1];
    if (batch.positions[i] <= before)
      return batch_error(fmt::format("position {} in row {} follows position {}, expected a larger one",
                                     batch.positions[i], i, before));
  }
  if (recipe.learned_positions && batch.positions.back() >= recipe.learned_positions)
    return batch_error(fmt::format("position {} in row {}, the model has learned {} positions", batch.positions.back(),
                                   rows - 1, recipe.learned_positions));
  if (options.token_stats) SPANSCOPE_TRY(check_token_stats(options, recipe, rows));
  if (options.plan) {
    if (!options.sink)
      return make_error(ErrorCode::invalid, "SPAN-PLAN", "a plan without a sink for its records");
    SPANSCOPE_TRY(check_plan(*options.plan, recipe, rows, rows + cached.size()));
  }
  return {};
}

}  // namespace spanscope
