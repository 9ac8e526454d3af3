// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/reattend/reattend.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "core/reattend/context.h"

namespace spanscope {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Takes one pass's row masses into the result's [rows][layers][query heads][S + 1].
class MassSink : public RecordSink {
 public:
  // column_of[i] = column in the result of the plan's leaf i
  MassSink(ReattendResult& result, std::vector<uint32_t> column_of) : result_(result), column_of_(std::move(column_of)) {}
  void set_first_row(uint32_t row) { first_row_ = row; }
  void on_layer(const LayerRecord& r) override {
    const size_t columns = result_.leaves.size() + 1;
    for (uint32_t row = 0; row < r.rows; ++row)
      for (uint32_t head = 0; head < r.query_heads; ++head) {
        const float* in = r.row_mass + (size_t(row) * r.query_heads + head) * (r.leaves + 2);
        float* out = result_.mass.data() +
                     ((size_t(first_row_ + row) * result_.layers + r.layer) * result_.query_heads + head) * columns;
        for (uint32_t leaf = 0; leaf < r.leaves; ++leaf) out[column_of_[leaf]] = in[leaf];
        out[columns - 1] = in[r.leaves];  // keys in no leaf: the new tokens
      }
  }

 private:
  ReattendResult& result_;
  std::vector<uint32_t> column_of_;
  uint32_t first_row_ = 0;
};

// log softmax of one entry, in double.
double log_probability(const std::vector<float>& logits, TokenId id) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (float x : logits) sum += std::exp(double(x) - top);
  return double(logits[size_t(id)]) - top - std::log(sum);
}

}  // namespace

Result<std::unique_ptr<Cache>> rebuild_cache(Backend& backend, const std::vector<TokenId>& ids, std::stop_token stop,
                                             const std::vector<uint32_t>& pass_borders) {
  auto cache = backend.new_cache(uint32_t(ids.size()));
  std::vector<TokenPos> positions(ids.size());
  std::iota(positions.begin(), positions.end(), 0u);
  ForwardOptions options;
  options.logits = LogitRows::none;
  options.stop = stop;
  constexpr uint32_t kPassRows = 512;
  uint32_t at = 0;
  size_t border = 0;
  while (at < ids.size()) {
    uint32_t end = std::min<uint32_t>(uint32_t(ids.size()), at + kPassRows);
    while (border < pass_borders.size() && pass_borders[border] <= at) ++border;
    if (border < pass_borders.size()) end = std::min(end, pass_borders[border]);
    Batch batch{std::span(ids).subspan(at, end - at), std::span<const TokenPos>(positions).subspan(at, end - at), ids.size()};
    auto result = backend.forward(*cache, batch, options);
    if (!result) return std::move(result).error();
    at = end;
  }
  return cache;
}

Result<ReattendResult> reattend(Backend& backend, const Cache& context, const std::vector<LayoutEntry>& layout,
                                const Ledger& ledger, const ReattendRequest& request) {
  if (request.question.empty())
    return make_error(ErrorCode::invalid, "SPAN-QUESTION", "the question has no tokens");
  if (request.question.size() > kMaxPlannedRows)
    return make_error(ErrorCode::limit, "SPAN-QUESTION",
                      "the question has " + std::to_string(request.question.size()) + " tokens, at most " +
                          std::to_string(kMaxPlannedRows) + " are run in one pass");
  const uint32_t slots = context.size();
  for (const LayoutEntry& e : layout)
    if (uint64_t(e.slot) + e.len > slots)
      return make_error(ErrorCode::invalid, "SPAN-CONTEXT",
                        "a span ends at slot " + std::to_string(uint64_t(e.slot) + e.len) + ", the cache holds " +
                            std::to_string(slots));
  const Recipe& recipe = backend.model().recipe;
  if (recipe.context && slots + request.question.size() + request.answer_tokens > recipe.context)
    return make_error(ErrorCode::limit, "SPAN-CONTEXT",
                      std::to_string(slots + request.question.size() + request.answer_tokens) +
                          " tokens with question and answer, the model's context has " + std::to_string(recipe.context));

  ReattendResult out;
  out.mode = request.mode;
  out.layers = recipe.layers;
  out.query_heads = recipe.query_heads;
  out.question_rows = uint32_t(request.question.size());
  out.tokens_context = slots;
  for (const LayoutEntry& e : layout) out.leaves.push_back(e.leaf);
  if (request.mode == ReattendMode::everything) {
    out.visible.assign(layout.size(), 1);
  } else {
    auto visible = visible_leaves(ledger, layout, request.subset);
    if (!visible) return std::move(visible).error();
    out.visible = std::move(*visible);
  }

  // The kept keys at their original positions; leaves follow them into the new slots.
  std::vector<SlotRange> ranges;
  RecordPlan plan;
  std::vector<uint32_t> column_of;
  Slot next = 0;
  for (size_t i = 0; i < layout.size(); ++i) {
    if (!out.visible[i] || layout[i].len == 0) continue;
    const LayoutEntry& e = layout[i];
    if (!ranges.empty() && ranges.back().end == e.slot) ranges.back().end = e.slot + e.len;
    else ranges.push_back({e.slot, e.slot + e.len});
    plan.leaves.push_back({next, e.len, e.position + e.len, false});
    column_of.push_back(uint32_t(i));
    next += e.len;
  }
  out.tokens_visible = next;
  std::unique_ptr<Cache> cache;
  if (request.mode == ReattendMode::everything) {
    const SlotRange all{0, slots};
    cache = context.select({&all, 1});
  } else {
    cache = context.select(ranges);
  }
  plan.group_of_leaf.assign(plan.leaves.size(), -1);
  plan.query_leaves = 1;
  plan.want_row_masses = true;

  const size_t row_values = size_t(out.layers) * out.query_heads * (out.leaves.size() + 1);
  out.mass.assign(request.question.size() * row_values, 0.0f);
  MassSink sink(out, std::move(column_of));
  TokenPos position = slots ? context.position(slots - 1) + 1 : 0;

  auto pass = [&](std::span<const TokenId> ids) -> Result<std::vector<float>> {
    std::vector<TokenPos> positions(ids.size());
    std::iota(positions.begin(), positions.end(), position);
    plan.row_phase.assign(ids.size(), RowPhase::prompt);
    plan.row_query.assign(ids.size(), 0);
    plan.group_of_row.assign(ids.size(), -1);
    ForwardOptions options;
    options.logits = LogitRows::last;
    options.plan = &plan;
    options.sink = &sink;
    options.stop = request.stop;
    sink.set_first_row(out.rows);
    auto result = backend.forward(*cache, Batch{ids, positions}, options);
    if (!result) return std::move(result).error();
    position += TokenPos(ids.size());
    out.rows += uint32_t(ids.size());
    return std::move(result->logits);
  };

  auto start = Clock::now();
  auto logits = pass(request.question);
  if (!logits) return std::move(logits).error();
  out.logits_last = *logits;
  out.seconds_question = seconds_since(start);

  start = Clock::now();
  std::vector<float> current = out.logits_last;
  for (uint32_t i = 0; i < request.answer_tokens; ++i) {
    // Greedy; std::max_element keeps the first, so ties go to the lower id.
    const TokenId id = TokenId(std::max_element(current.begin(), current.end()) - current.begin());
    out.answer.push_back(id);
    out.answer_logp.push_back(log_probability(current, id));
    ++out.answer_rows;
    if (std::find(request.stop_ids.begin(), request.stop_ids.end(), id) != request.stop_ids.end()) break;
    if (i + 1 == request.answer_tokens) break;
    out.mass.resize((size_t(out.rows) + 1) * row_values, 0.0f);
    auto following = pass({&id, 1});
    if (!following) return std::move(following).error();
    current = std::move(*following);
  }
  out.seconds_answer = seconds_since(start);
  return out;
}

}  // namespace spanscope
