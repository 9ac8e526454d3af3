// SPDX-License-Identifier: GPL-3.0-or-later
// Whole models through the GPU backend on the host layer against the CPU reference path: logits, hidden states, routing, and
// every sum of the record, for every family of the reference data; what cannot be done yet is refused by name.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <numeric>

#include "core/cpu/backends.h"
#include "core/file/safetensors.h"
#include "gpu/backend.h"
#include "tests/support/catch.h"
#include "tests/support/oracles.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {

constexpr double kLogits = 2e-3, kMass = 1e-4;

struct Kept final : RecordSink {
  struct Layer {
    std::vector<double> head_mass, inside, query_leaf, learned_sink, unattributed;
    std::vector<float> spike;
    std::vector<std::tuple<uint32_t, uint32_t, uint16_t>> events;
    std::vector<float> event_mass;
    std::vector<int32_t> experts;
  };
  std::vector<Layer> layers;
  uint32_t levels, query_leaves;
  explicit Kept(const RecordPlan& plan) : levels(plan.levels), query_leaves(plan.query_leaves) {}
  void on_layer(const LayerRecord& r) override {
    Layer l;
    const size_t h = r.query_heads, s = r.leaves;
    l.head_mass.assign(r.head_mass, r.head_mass + h * 3 * s);
    l.inside.assign(r.inside, r.inside + h * levels * s);
    l.query_leaf.assign(r.query_leaf, r.query_leaf + 3 * query_leaves * s);
    l.learned_sink.assign(r.learned_sink, r.learned_sink + h * 3);
    l.unattributed.assign(r.unattributed, r.unattributed + h * 3);
    l.spike.assign(r.spike, r.spike + s);
    for (uint64_t i = 0; i < r.event_count; ++i) {
      l.events.emplace_back(r.events[i].row, r.events[i].leaf, r.events[i].head);
      l.event_mass.push_back(r.events[i].mass);
    }
    if (r.expert_ids) l.experts.assign(r.expert_ids, r.expert_ids + size_t(r.rows) * r.experts_used);
    layers.push_back(std::move(l));
  }
};

// Leaves of 1, 2, 3 ... 9, 1, ... keys with a hole after every fifth; the second half of the rows answers.
RecordPlan ragged_plan(uint32_t slots, uint32_t rows) {
  RecordPlan plan;
  for (uint32_t at = 0, len = 1, n = 0; at < slots; len = len % 9 + 1, ++n) {
    if (n % 5 == 4) ++at;
    if (at >= slots) break;
    plan.leaves.push_back({at, std::min(len, slots - at), std::min(at + len, slots), n % 3 != 0});
    at += len;
  }
  plan.levels = 2;
  for (uint32_t k = 0; k < 2; ++k)
    for (size_t s = 0; s < plan.leaves.size(); ++s) plan.group_of_leaf.push_back(int32_t(k ? s / 3 : s));
  for (uint32_t k = 0; k < 2; ++k)
    for (uint32_t i = 0; i < rows; ++i) {
      const uint32_t slot = slots - rows + i;
      int32_t group = -1;
      for (size_t s = 0; s < plan.leaves.size(); ++s)
        if (plan.leaves[s].slot <= slot && slot < plan.leaves[s].slot + plan.leaves[s].len) group = int32_t(k ? s / 3 : s);
      plan.group_of_row.push_back(group);
    }
  for (uint32_t i = 0; i < rows; ++i) {
    plan.row_phase.push_back(i >= rows / 2 ? RowPhase::answer : i % 5 == 2 ? RowPhase::recompute : RowPhase::prompt);
    plan.row_query.push_back(i * 2 / rows);
  }
  plan.query_leaves = 2;
  plan.want_routing = true;
  return plan;
}

struct Run {
  std::vector<float> logits, hidden;
  std::vector<Kept::Layer> layers;
};
// The first rows at once, the last in two pieces of `chunk` (0: all at once).
Run run(Backend& backend, const std::vector<TokenId>& ids, uint32_t chunk, bool planned) {
  auto cache = backend.new_cache(0);
  Run out;
  const uint32_t all = uint32_t(ids.size());
  for (uint32_t at = 0, rows = 0; at < all; at += rows) {
    rows = at == 0 ? all - 2 * chunk : chunk;
    std::vector<TokenPos> positions(rows);
    std::iota(positions.begin(), positions.end(), at);
    ForwardOptions options;
    options.logits = LogitRows::all;
    options.hidden = true;
    const RecordPlan plan = ragged_plan(at + rows, rows);
    Kept kept(plan);
    if (planned) {
      options.plan = &plan;
      options.sink = &kept;
    }
    auto result = backend.forward(*cache, Batch{std::span(ids).subspan(at, rows), positions, ids.size()}, options);
    if (!result) FAIL(result.error().line());
    out.logits.insert(out.logits.end(), result->logits.begin(), result->logits.end());
    out.hidden.insert(out.hidden.end(), result->hidden.begin(), result->hidden.end());
    out.layers.insert(out.layers.end(), kept.layers.begin(), kept.layers.end());
  }
  return out;
}

double difference(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double d = std::abs(double(a[i]) - double(b[i]));
    if (!(d <= largest)) largest = d;
  }
  return largest;
}

template <class T>
double check_masses(const char* name, const std::vector<T>& expected, const std::vector<T>& found) {
  REQUIRE(expected.size() == found.size());
  double worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double e = double(expected[i]), d = std::abs(e - double(found[i]));
    if (std::abs(e) > 1e-5) worst = std::max(worst, d / std::abs(e));
    INFO(name << "[" << i << "]: expected " << e << ", found " << double(found[i]));
    if (!(d <= kMass * std::abs(e) + 1e-8)) CHECK(d <= kMass * std::abs(e) + 1e-8);
  }
  return worst;
}

}  // namespace

TEST_CASE("every family on the host layer") {
  const std::filesystem::path folder = std::filesystem::path(SPANSCOPE_ORACLE_DIR) / "tiny";
  std::vector<std::string> names = {"llama-gqa", "llama-mha", "mixtral"};
  if (std::filesystem::is_directory(folder)) {
    names.clear();
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      if (std::filesystem::is_directory(entry.path())) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
  }
  for (const std::string& name : names) {
    // One family has no file, only a folder as it was published.
    const bool file = !std::filesystem::is_directory(folder) || std::filesystem::exists(folder / name / "model.gguf");
    const auto path = oracle("tiny/" + name + (file ? "/model.gguf" : "/hf")), reference = oracle("tiny/" + name + "/ref.safetensors");
    if (!path || !reference) continue;
    auto model = load_model(*path);
    if (!model) FAIL(model.error().line());
    auto blob = read_safetensors_file(*reference);
    if (!blob) FAIL(blob.error().line());
    const std::vector<TokenId> ids = *blob->get<int32_t>("ids");
    auto gpu = gpu::make_gpu_backend(*model);
    if (!gpu) FAIL(gpu.error().line());
    auto cpu = make_reference_backend(*model, BackendOptions{2});
    REQUIRE(cpu);
    for (const uint32_t chunk : {0u, 7u, 3u}) {
      INFO(name << ", pieces of " << chunk);
      const Run expected = run(**cpu, ids, chunk, true), found = run(**gpu, ids, chunk, true), plain = run(**gpu, ids, chunk, false);
      const double logits = difference(expected.logits, found.logits), hidden = difference(expected.hidden, found.hidden);
      CHECK(logits <= kLogits);
      CHECK(hidden <= kLogits);
      CHECK((found.logits.size() == plain.logits.size() && std::equal(found.logits.begin(), found.logits.end(), plain.logits.begin())));
      REQUIRE(expected.layers.size() == found.layers.size());
      double mass = 0;
      size_t events = 0;
      for (size_t l = 0; l < expected.layers.size(); ++l) {
        const Kept::Layer &e = expected.layers[l], &f = found.layers[l];
        mass = std::max(mass, check_masses("head mass", e.head_mass, f.head_mass));
        mass = std::max(mass, check_masses("inside", e.inside, f.inside));
        mass = std::max(mass, check_masses("query leaf", e.query_leaf, f.query_leaf));
        mass = std::max(mass, check_masses("learned sink", e.learned_sink, f.learned_sink));
        mass = std::max(mass, check_masses("unattributed", e.unattributed, f.unattributed));
        mass = std::max(mass, check_masses("spike", e.spike, f.spike));
        CHECK(e.events == f.events);  // no mass of these models lies on its bound
        if (e.event_mass.size() == f.event_mass.size()) check_masses("event", e.event_mass, f.event_mass);
        CHECK(e.experts == f.experts);
        events += e.events.size();
      }
      std::printf("%-16s pieces of %3u: logits %.1e hidden %.1e mass %.1e events %zu\n", name.c_str(), chunk, logits, hidden, mass, events);
    }
  }
}

TEST_CASE("what the GPU backend cannot do is an error, and leaves the cache as it was") {
  const auto path = oracle("tiny/llama-gqa/model.gguf");
  if (!path) return;
  auto model = load_model(*path);
  REQUIRE(model);
  CHECK(!gpu::make_gpu_backend(*model, BackendOptions{1, CacheType::f16}));
  auto odd = std::make_shared<Model>(**model);
  odd->recipe.head_dim = 24;
  const auto refused = gpu::make_gpu_backend(odd);
  REQUIRE(!refused);
  CHECK(refused.error().tag == "SPAN-GPU-HEADS");
  auto backend = gpu::make_gpu_backend(*model);
  REQUIRE(backend);
  auto cache = (*backend)->new_cache(0);
  const TokenId id = 1;
  const TokenPos position = 0;
  REQUIRE((*backend)->forward(*cache, Batch{{&id, 1}, {&position, 1}}, {}));
  CHECK(cache->size() == 1);
  RecordPlan plan = ragged_plan(2, 1);
  plan.levels = 9;
  plan.group_of_leaf.assign(9 * plan.leaves.size(), -1);
  plan.group_of_row.assign(9, -1);
  Kept kept(plan);
  ForwardOptions options;
  options.plan = &plan;
  options.sink = &kept;
  const TokenPos next = 1;
  const auto deep = (*backend)->forward(*cache, Batch{{&id, 1}, {&next, 1}}, options);
  REQUIRE(!deep);
  CHECK(deep.error().tag == "SPAN-GPU-PLAN");
  CHECK(cache->size() == 1);
  const SlotRange all{0, 1};
  CHECK(cache->select({&all, 1})->size() == 1);
}
