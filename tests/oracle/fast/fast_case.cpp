// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/oracle/fast/fast_case.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

namespace spanscope::test {
namespace {

std::unique_ptr<Backend> unwrap(Result<std::unique_ptr<Backend>> backend) {
  if (!backend) FAIL(backend.error().line());
  return std::move(*backend);
}

uint32_t next(uint32_t& state) {
  state = state * 1664525u + 1013904223u;
  return state >> 9;
}

template <class T>
void append(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

std::vector<FastCase> fast_cases() {
  std::vector<FastCase> cases;
  const auto add = [&](const std::string& name, const std::string& path) {
    auto model = load_model(path);
    if (!model) FAIL(model.error().line());
    cases.push_back({name, *model});
  };
  for (const char* name : {"llama-gqa", "llama-mha", "mixtral"})
    if (const auto path = oracle(std::string("tiny/") + name + "/model.gguf")) add(name, *path);
  for (const char* name : {"relay-dense", "relay-moe"}) add(name, demo(std::string(name) + ".gguf"));
  return cases;
}

FastCase with_window(const FastCase& c, uint32_t window) {
  auto model = std::make_shared<Model>(*c.model);
  for (uint32_t l = 0; l < model->recipe.layers; l += 2) model->recipe.window[l] = window;
  return {c.name + ", window " + std::to_string(window), model};
}

FastCase with_cap(const FastCase& c, float cap) {
  auto model = std::make_shared<Model>(*c.model);
  model->recipe.score_cap = cap;
  return {c.name + ", scores capped", model};
}

std::unique_ptr<Backend> fast_backend(const FastCase& c, unsigned threads) {
  return unwrap(make_fast_backend(c.model, BackendOptions{threads}));
}
std::unique_ptr<Backend> reference_backend(const FastCase& c) {
  return unwrap(make_reference_backend(c.model, {}));
}

std::vector<TokenId> some_ids(const Recipe& recipe, uint32_t count, uint32_t seed) {
  std::vector<TokenId> ids(count);
  for (TokenId& id : ids) id = TokenId(next(seed) % recipe.vocab);
  return ids;
}

void KeepingSink::on_layer(const LayerRecord& r) {
  KeptLayer k;
  k.layer = r.layer;
  k.rows = r.rows;
  k.heads = r.query_heads;
  k.leaves = r.leaves;
  k.head_mass.assign(r.head_mass, r.head_mass + size_t(r.query_heads) * kPhases * r.leaves);
  k.inside.assign(r.inside, r.inside + size_t(r.query_heads) * plan_.levels * r.leaves);
  k.query_leaf.assign(r.query_leaf, r.query_leaf + size_t(kPhases) * plan_.query_leaves * r.leaves);
  k.learned_sink.assign(r.learned_sink, r.learned_sink + size_t(r.query_heads) * kPhases);
  k.unattributed.assign(r.unattributed, r.unattributed + size_t(r.query_heads) * kPhases);
  k.spike.assign(r.spike, r.spike + r.leaves);
  k.spike_head.assign(r.spike_head, r.spike_head + r.leaves);
  k.spike_row.assign(r.spike_row, r.spike_row + r.leaves);
  k.events.assign(r.events, r.events + r.event_count);
  if (r.row_mass) k.row_mass.assign(r.row_mass, r.row_mass + size_t(r.rows) * r.query_heads * (r.leaves + 2));
  if (r.expert_ids) {
    const size_t picks = size_t(r.rows) * r.experts_used;
    k.experts_used = r.experts_used;
    k.expert_ids.assign(r.expert_ids, r.expert_ids + picks);
    k.expert_weights.assign(r.expert_weights, r.expert_weights + picks);
    k.expert_margin.assign(r.expert_margin, r.expert_margin + r.rows);
  }
  layers.push_back(std::move(k));
}

Layout ragged_layout(uint32_t tokens, uint32_t seed) {
  Layout layout = {4};
  for (int at = 4; at < int(tokens);) {
    const uint32_t kind = next(seed) % 8;
    const int length = kind < 2 ? 1 : kind == 2 ? 64 : kind == 3 ? 150 : int(2 + next(seed) % 30);
    const bool gap = next(seed) % 10 == 0;
    layout.push_back(gap ? -length : length);
    at += length;
  }
  return layout;
}

Layout one_token_layout(uint32_t tokens) { return Layout(tokens, 1); }

RecordPlan make_plan(const Layout& layout, const Recipe& recipe, uint32_t tokens, uint32_t begin,
                     uint32_t end, bool row_masses) {
  RecordPlan plan;
  plan.levels = 2;
  std::vector<int32_t> leaf_of_slot(tokens, -1);
  uint32_t at = 0;
  for (const int length : layout) {
    const uint32_t to = std::min(tokens, at + uint32_t(std::abs(length)));
    if (length > 0 && at < end && at < to) {
      for (uint32_t slot = at; slot < to; ++slot) leaf_of_slot[slot] = int32_t(plan.leaves.size());
      plan.leaves.push_back({at, std::min(to, end) - at, to, plan.leaves.size() % 3 != 0});
    }
    at = to;
  }
  const size_t leaves = plan.leaves.size(), rows = end - begin;
  plan.group_of_leaf.resize(2 * leaves);
  for (size_t s = 0; s < leaves; ++s) {
    plan.group_of_leaf[s] = int32_t(s);
    plan.group_of_leaf[leaves + s] = s % 7 == 0 ? -1 : int32_t(s / 3);
  }
  plan.group_of_row.resize(2 * rows);
  plan.query_leaves = uint32_t(leaves) + 1;
  const uint32_t answer_from = tokens - tokens / 5;
  for (uint32_t i = 0; i < rows; ++i) {
    const uint32_t slot = begin + i;
    const int32_t leaf = leaf_of_slot[slot];
    plan.group_of_row[i] = leaf;
    plan.group_of_row[rows + i] = leaf < 0 ? -1 : plan.group_of_leaf[leaves + size_t(leaf)];
    plan.row_query.push_back(leaf < 0 ? plan.query_leaves - 1 : uint32_t(leaf));
    plan.row_phase.push_back(slot >= answer_from  ? RowPhase::answer
                             : slot / 11 % 7 == 3 ? RowPhase::recompute
                             : slot / 5 % 19 == 0 ? RowPhase::unrecorded
                                                  : RowPhase::prompt);
  }
  plan.habit.resize(size_t(recipe.layers) * recipe.query_heads * leaves);
  for (size_t i = 0; i < plan.habit.size(); ++i) plan.habit[i] = float(i % 5) * 0.02f;
  plan.theta_rec = 0.03f;
  plan.factor = 1.5f;
  plan.cap = 0.4f;
  plan.want_routing = true;
  plan.want_row_masses = row_masses;
  return plan;
}

Session run_session(Backend& backend, const std::vector<TokenId>& ids, uint32_t chunk, const Layout* layout,
                    bool row_masses, bool everything) {
  const Recipe& recipe = backend.model().recipe;
  const uint32_t n = uint32_t(ids.size());
  auto cache = backend.new_cache(n);
  std::vector<TokenPos> positions(n);
  std::iota(positions.begin(), positions.end(), 0u);
  Session session;
  for (uint32_t at = 0; at < n; at += chunk) {
    const uint32_t end = std::min(n, at + chunk);
    RecordPlan plan;
    KeepingSink sink(plan);
    ForwardOptions options;
    options.logits = LogitRows::all;
    options.hidden = everything;
    options.router_logits = everything;
    if (layout) {
      plan = make_plan(*layout, recipe, n, at, end, row_masses);
      options.plan = &plan;
      options.sink = &sink;
    }
    auto result = backend.forward(
        *cache,
        {std::span(ids).subspan(at, end - at), std::span<const TokenPos>(positions).subspan(at, end - at)},
        options);
    if (!result) FAIL(result.error().line());
    append(session.logits, result->logits);
    append(session.hidden, result->hidden);
    append(session.router_logits, result->router_logits);
    append(session.topk_weights, result->topk_weights);
    session.records.push_back(std::move(sink.layers));
  }
  return session;
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::quiet_NaN();
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(double(a[i]) - double(b[i]));
    if (!(difference <= worst)) worst = difference;
    if (std::isnan(difference)) return difference;
  }
  return worst;
}

double logit_tolerance(const std::vector<float>& expected) {
  double size = 12;
  for (const float x : expected) size = std::max(size, std::abs(double(x)));
  return 2e-4 * size / 12;
}

bool same_bytes(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

}  // namespace spanscope::test
