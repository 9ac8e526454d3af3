// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/commands/record_size.h"

#include <algorithm>
#include <vector>

namespace spanscope {

void RecordSizes::add(const TurnPlan& plan, const Ledger& ledger) {
  const Recipe& r = model_.recipe;
  ++turns_;
  spans_ = ledger.spans.size();
  longest_ = std::max<uint64_t>(longest_, plan.ids.size());
  most_leaves_ = std::max<uint64_t>(most_leaves_, plan.layout.size());
  uint64_t query_leaves = 0;
  for (const LayoutEntry& e : plan.layout) query_leaves += e.slot + e.len > plan.cached && e.slot < plan.executed_end;
  uint64_t parents = 0;
  for (const Span& s : ledger.spans) parents += s.kind == SpanKind::parent;
  const double leaves = double(plan.layout.size());
  // A query leaf has rows of one phase, rarely two: the other phases of mass_qk and uniform_qk are zeros and vanish.
  dense_ += 4.0 * 2 * double(query_leaves) * leaves + 4.0 * 2 * r.layers * (leaves + double(parents)) + 16.0 * leaves;
  if (heads_) dense_ += 4.0 * 2 * r.layers * r.query_heads * (leaves + double(parents));
  const double answer_rows = double(std::count(plan.phase.begin(), plan.phase.end(), RowPhase::answer));
  events_ += 0.2 * answer_rows * r.layers * r.query_heads * 20.0;  // definitions D5: about 0.2 a row, layer and head
  if (routing_) routed_ += double(plan.phase.size()) * r.moe_layers() * (r.experts_used * 6.0 + 4.0);
  if (text_) text_bytes_ += double(plan.phase.size()) * (4.0 + 4.0 + 4.0);
}

uint64_t RecordSizes::file_bytes() const {
  // Measured on recordings of the demo conversations: floats keep about 0.8 of their size under zstd level 1, events 0.6,
  // routing 0.8, text and ids 0.5; a frame's header and hash cost about 0.5 KB.
  const double frames = 5.0 * double(turns_);
  return uint64_t(0.8 * dense_ + 0.6 * events_ + 0.8 * routed_ + 0.5 * text_bytes_ + 512.0 * frames + 60.0 * double(spans_));
}

uint64_t RecordSizes::memory_bytes() const {
  const Recipe& r = model_.recipe;
  const uint64_t kv = longest_ * r.layers * r.kv_heads * r.head_dim * 2 * sizeof(float);
  uint64_t weights = uint64_t(r.vocab) * r.hidden * (r.tied_output ? 1 : 2);
  const uint64_t attention = uint64_t(r.hidden) * r.head_dim * (2 * r.query_heads + 2 * r.kv_heads);
  for (uint32_t l = 0; l < r.layers; ++l) {
    const bool moe = l < r.moe_layer.size() && r.moe_layer[l];
    weights += attention + 3ull * r.hidden * (moe ? uint64_t(r.experts) * r.expert_feed_forward : r.feed_forward);
  }
  const uint64_t of_head = heads_ ? 56 : 16;  // bytes held per leaf, layer and head
  const uint64_t record = most_leaves_ * r.query_heads * 8 * 8 + most_leaves_ * r.layers * r.query_heads * of_head;
  return model_.file_bytes + weights * sizeof(float) + kv + record + (64u << 20);
}

}  // namespace spanscope
