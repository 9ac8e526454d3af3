// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/commands/record_size.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/record/session_data.h"

namespace spanscope {
namespace {

constexpr double kFrame = 300;   // a frame's header and metadata, compressed
constexpr double kSmall = 150;   // of a frame without arrays
constexpr double kIndexed = 58;  // a frame's line in the index and the seek table

}  // namespace

RecordSizes::RecordSizes(const Model& model, const RecorderOptions& options) : model_(model), options_(options) {
  SessionHeader h;  // knows what is kept
  h.layers = model.recipe.layers;
  h.query_heads = model.recipe.query_heads;
  h.kept_heads = options.kept_heads;
  pairs_ = uint32_t(h.pairs_kept().size());
  layers_ = uint32_t(h.layers_kept().size());
  bytes_["session"] = 800;
}

// kept: what zstd at level 1 leaves of content of that sort, measured on recordings of chats with real and small models.
void RecordSizes::grow(const char* kind, double content, double kept) { bytes_[kind] += content * kept; }

void RecordSizes::add(const TurnPlan& plan, const Ledger& ledger) {
  const Recipe& r = model_.recipe;
  longest_ = std::max<uint64_t>(longest_, plan.ids.size());
  most_leaves_ = std::max<uint64_t>(most_leaves_, plan.layout.size());
  most_rows_ = std::max<uint64_t>(most_rows_, plan.phase.size());
  double query_leaves = 0, parents = 0;
  for (const LayoutEntry& e : plan.layout) query_leaves += e.slot + e.len > plan.cached && e.slot < plan.executed_end;
  for (const Span& s : ledger.spans) parents += s.kind == SpanKind::parent;
  const double leaves = double(plan.layout.size()), profiles = leaves + parents, rows = double(plan.phase.size());
  const double answers = double(std::count(plan.phase.begin(), plan.phase.end(), RowPhase::answer));
  const double new_spans = double(ledger.spans.size() - spans_);
  spans_ = ledger.spans.size();

  // A span's digest does not compress; template pieces have none.
  if (new_spans > 0) grow("ledger", 2 * kFrame + 60.0 * new_spans, 1), ++frames_;
  frames_ += 4;
  grow("turn_begin", kFrame + 16.0 * leaves * 0.4 + 0.2 * rows, 1);
  if (options_.text) grow("turn_begin", rows * 12.0, 0.5);
  // A query leaf has rows of one phase, rarely two: the other phases of mass_qk and uniform_qk are zeros and vanish.
  grow("mass", kFrame, 1);
  grow("mass", 4.0 * query_leaves * leaves, 0.85);  // mass_qk
  grow("mass", 4.0 * query_leaves * leaves, 0.55);  // uniform_qk: few different numbers
  grow("mass", 2.0 * 2 * r.layers * profiles, 0.9);
  grow("mass", 16.0 * leaves, 0.6);
  // Events a row, layer and head: up to about 0.2 (definitions D5), fewer where there is little to read. Fitted to recordings.
  const double events = 0.14 * (1 - std::exp(-leaves / 40)) * answers * r.layers * r.query_heads;
  grow("reads", kFrame, 1);
  grow("reads", events * 20.0, 0.55);
  grow("turn_end", kSmall, 1);
  if (options_.heads) {
    grow("profile", kFrame, 1), ++frames_;
    grow("profile", 2.0 * 2 * pairs_ * profiles, 0.9);
  }
  if (options_.routing && r.moe_layers()) {
    grow("routing", kFrame, 1), ++frames_;
    grow("routing", rows * r.moe_layers() * (r.experts_used * 6.0 + 4.0), 0.8);
  }
  if (options_.tokens) {
    const double keys = double(plan.executed_end), windows = double(options_.stat_windows.size());
    grow("tokenstat", 2 * kFrame * layers_, 1), frames_ += layers_ + 1;
    grow("tokenstat", pairs_ * keys * (16.0 + 4.0 * windows), 0.9);        // sums, squares, maxima, last row, windows
    grow("tokenstat", pairs_ * keys * (4.0 + 4.0 * windows), 0.3);         // counts
    grow("tokenstat", pairs_ * rows * 20.0 + layers_ * rows * 4.0 * (r.kv_heads + 1), 0.85);
    grow("residual", kFrame + (r.layers + 1) * 44.0 * (1 + rows / 512), 1);
  }
  if (options_.rows != RowDetail::none) {
    grow("rows", kFrame * layers_, 1), frames_ += layers_;
    grow("rows", 4.0 * answers * leaves * (options_.rows == RowDetail::heads ? pairs_ : layers_), 0.9);
  }
  if (options_.pairs) {
    grow("pairs", kFrame * layers_, 1), frames_ += layers_;
    grow("pairs", 4.0 * layers_ * query_leaves * leaves, 1.0);  // with the zeros of the other phases
  }
  const double cache = 2.0 * r.kv_heads * rows * r.head_dim;
  const uint32_t key_layers = options_.keys == KeyDetail::all ? layers_ : options_.keys == KeyDetail::first_layer ? 1 : 0;
  if (key_layers) grow("keys", (cache + kFrame) * key_layers, 0.95), frames_ += key_layers;
  if (options_.values) grow("values", (cache + kFrame) * layers_, 0.95), frames_ += layers_;
}

std::map<std::string, uint64_t> RecordSizes::by_kind() const {
  std::map<std::string, uint64_t> out;
  for (const auto& [kind, bytes] : bytes_) out[kind] = uint64_t(bytes);
  out["closing"] = uint64_t(kFrame + double(spans_) * 24 * 8 * 0.45);
  out["index"] = uint64_t(400 + kIndexed * frames_);
  return out;
}

uint64_t RecordSizes::file_bytes() const {
  uint64_t sum = 0;
  for (const auto& [kind, bytes] : by_kind()) sum += bytes;
  return sum;
}

uint64_t RecordSizes::memory_bytes() const {
  const Recipe& r = model_.recipe;
  const bool originals = options_.keys != KeyDetail::none;
  const uint64_t kv = longest_ * r.layers * r.kv_heads * r.head_dim * (originals ? 3 : 2) * sizeof(float);
  uint64_t weights = uint64_t(r.vocab) * r.hidden * (r.tied_output ? 1 : 2);
  const uint64_t attention = uint64_t(r.hidden) * r.head_dim * (2 * r.query_heads + 2 * r.kv_heads);
  for (uint32_t l = 0; l < r.layers; ++l) {
    const bool moe = l < r.moe_layer.size() && r.moe_layer[l];
    weights += attention + 3ull * r.hidden * (moe ? uint64_t(r.experts) * r.expert_feed_forward : r.feed_forward);
  }
  // Per leaf, layer and head: 16 bytes always, 40 more of a head whose profile is kept; per key and head of token detail
  // 28 bytes and 12 a window while the turn runs, and once more when it is written.
  uint64_t record = most_leaves_ * r.query_heads * 8 * 8 + most_leaves_ * r.layers * r.query_heads * 16;
  if (options_.heads) record += most_leaves_ * pairs_ * 40;
  if (options_.tokens) record += longest_ * pairs_ * 2 * (28 + 12 * options_.stat_windows.size()) + uint64_t(r.layers) * r.query_heads * r.head_dim * r.head_dim * 8;
  if (options_.rows != RowDetail::none)
    record += 4 * most_rows_ * most_leaves_ * (r.query_heads + 2 * (options_.rows == RowDetail::heads ? pairs_ : layers_));
  return model_.file_bytes + weights * sizeof(float) + kv + record + (64u << 20);
}

}  // namespace spanscope
