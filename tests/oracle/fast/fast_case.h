// SPDX-License-Identifier: GPL-3.0-or-later
// What the tests of the fast path share: models that both paths run, made-up plans, records kept after a
// pass, and the comparison of two records.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/cpu/backends.h"
#include "tests/support/catch.h"
#include "tests/support/oracles.h"

namespace spanscope::test {

struct FastCase {
  std::string name;
  std::shared_ptr<const Model> model;
};
// The tiny models (when their data is here) and the two demo models that ship with the program.
std::vector<FastCase> fast_cases();
// The same model with a window in every second layer, or with capped scores.
FastCase with_window(const FastCase& c, uint32_t window);
FastCase with_cap(const FastCase& c, float cap);

std::unique_ptr<Backend> fast_backend(const FastCase& c, unsigned threads = 2);
std::unique_ptr<Backend> reference_backend(const FastCase& c);

std::vector<TokenId> some_ids(const Recipe& recipe, uint32_t count, uint32_t seed = 1);

// A record that outlives its pass.
struct KeptLayer {
  uint32_t layer = 0, rows = 0, heads = 0, leaves = 0, experts_used = 0;
  std::vector<double> head_mass, inside, query_leaf, learned_sink, unattributed;
  std::vector<float> spike, row_mass, expert_weights, expert_margin;
  std::vector<uint16_t> spike_head;
  std::vector<uint32_t> spike_row;
  std::vector<ReadEvent> events;
  std::vector<int32_t> expert_ids;
};
class KeepingSink final : public RecordSink {
 public:
  explicit KeepingSink(const RecordPlan& plan) : plan_(plan) {}
  void on_layer(const LayerRecord& record) override;
  std::vector<KeptLayer> layers;

 private:
  const RecordPlan& plan_;
};

// Lengths of consecutive leaves; a negative length is a gap that belongs to no leaf.
using Layout = std::vector<int>;
Layout ragged_layout(uint32_t tokens, uint32_t seed);  // 1 to 150 tokens, some gaps
Layout one_token_layout(uint32_t tokens);
// Leaves of the layout that begin before `end`, cut there; rows [begin, end) with phases in stretches, the
// last fifth of the tokens answer rows; two levels; a habit on some leaves; low bounds, so that small models
// give many events.
RecordPlan make_plan(const Layout& layout, const Recipe& recipe, uint32_t tokens, uint32_t begin,
                     uint32_t end, bool row_masses);

struct Session {
  std::vector<float> logits, hidden, router_logits, topk_weights;  // joined over passes
  std::vector<std::vector<KeptLayer>> records;                     // [pass][layer]
};
// Runs ids in passes of `chunk` rows; with a layout every pass has a plan.
Session run_session(Backend& backend, const std::vector<TokenId>& ids, uint32_t chunk, const Layout* layout,
                    bool row_masses = true, bool everything = true);

// Largest difference; NaN when sizes differ or a value is not a number.
double largest_difference(const std::vector<float>& a, const std::vector<float>& b);
// What the reference data's README allows for logits, 2e-4, belongs to models whose logits stay below 12;
// rounding grows with size, and the demo models' logits reach 28.
double logit_tolerance(const std::vector<float>& expected);
bool same_bytes(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace spanscope::test
