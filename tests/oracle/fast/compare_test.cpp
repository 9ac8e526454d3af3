// SPDX-License-Identifier: GPL-3.0-or-later
// Fast path against reference path: everything that a pass gives back, over leaves of all shapes, in passes
// of 1, of 7 and of many rows. Tolerances are those of the reference data (its README), for sums of f32
// masses: 1e-5 x max(|ref|, 1).
#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "tests/oracle/fast/fast_case.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {

constexpr double kRouter = 2e-4, kHidden = 2e-4, kMass = 2e-5, kSums = 1e-5, kWeights = 1e-5;

// Largest |a - b| / max(|b|, 1).
double largest_relative(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return std::nan("");
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a[i] - b[i]) / std::max(std::abs(b[i]), 1.0);
    if (!(difference <= worst)) worst = difference;
  }
  return worst;
}

// A spike may sit in another place where two masses are as good as equal.
void compare_spikes(const KeptLayer& f, const KeptLayer& r) {
  for (uint32_t s = 0; s < r.leaves; ++s) {
    CHECK((f.spike[s] < 0) == (r.spike[s] < 0));
    CHECK(std::abs(f.spike[s] - r.spike[s]) <= kMass);
    if (r.spike[s] < 0 || r.row_mass.empty()) continue;
    const float there = r.row_mass[(size_t(f.spike_row[s]) * r.heads + f.spike_head[s]) * (r.leaves + 2) + s];
    CHECK(std::abs(there - r.spike[s]) <= kMass);
  }
}

// Events whose mass is not within the tolerance of their bound have to be in both.
uint64_t compare_events(const KeptLayer& f, const KeptLayer& r, const RecordPlan& plan, uint32_t base) {
  using Key = std::tuple<uint32_t, uint32_t, uint32_t>;
  const auto collect = [&](const KeptLayer& k) {
    std::map<Key, ReadEvent> events;
    Key before{};
    for (const ReadEvent& e : k.events) {
      const Key key{e.row, e.leaf, e.head};
      CHECK(e.layer == k.layer);
      CHECK((events.empty() || before < key));  // sorted by (row, leaf, head)
      before = key;
      events[key] = e;
    }
    return events;
  };
  const auto a = collect(f), b = collect(r);
  const auto missing = [&](const auto& from, const auto& in) {
    for (const auto& [key, e] : from) {
      const auto found = in.find(key);
      if (found != in.end()) {
        CHECK(std::abs(found->second.mass - e.mass) <= kMass);
        CHECK(found->second.habit == e.habit);
        continue;
      }
      const PlanLeaf& leaf = plan.leaves[e.leaf];
      const double uniform =
          double(leaf.len) / double(base + e.row + 1);  // the models here see every earlier key
      const double bound = std::min(double(plan.cap), std::max({double(plan.theta_rec), plan.factor * uniform,
                                                                double(plan.factor) * double(e.habit)}));
      CHECK(std::abs(double(e.mass) - bound) <= kMass);
    }
  };
  missing(a, b);
  missing(b, a);
  return a.size();
}

struct Compared {
  uint64_t events = 0, rows = 0;
  double logits = 0, mass = 0, sums = 0;
};

Compared compare(const FastCase& c, uint32_t tokens, uint32_t chunk, const Layout& layout,
                 bool exact_events) {
  INFO(c.name << ", " << tokens << " tokens in passes of " << chunk);
  const Recipe& recipe = c.model->recipe;
  const std::vector<TokenId> ids = some_ids(recipe, tokens, chunk + tokens);
  const auto fast = fast_backend(c), reference = reference_backend(c);
  const Session f = run_session(*fast, ids, chunk, &layout), r = run_session(*reference, ids, chunk, &layout);
  Compared out;
  out.logits = largest_difference(f.logits, r.logits);
  CHECK(out.logits <= logit_tolerance(r.logits));
  CHECK(largest_difference(f.hidden, r.hidden) <= kHidden);
  CHECK(largest_difference(f.router_logits, r.router_logits) <= kRouter);
  REQUIRE(f.records.size() == r.records.size());
  for (size_t pass = 0; pass < f.records.size(); ++pass) {
    const uint32_t begin = uint32_t(pass) * chunk, end = std::min(tokens, begin + chunk);
    const RecordPlan plan = make_plan(layout, recipe, tokens, begin, end, true);
    REQUIRE(f.records[pass].size() == recipe.layers);
    for (uint32_t l = 0; l < recipe.layers; ++l) {
      const KeptLayer &a = f.records[pass][l], &b = r.records[pass][l];
      REQUIRE((a.layer == l && a.rows == end - begin && a.heads == recipe.query_heads &&
               a.leaves == plan.leaves.size()));
      const double mass = largest_difference(a.row_mass, b.row_mass);
      CHECK(mass <= kMass);
      const double sums = std::max(
          {largest_relative(a.head_mass, b.head_mass), largest_relative(a.inside, b.inside),
           largest_relative(a.query_leaf, b.query_leaf), largest_relative(a.unattributed, b.unattributed)});
      CHECK(sums <= kSums);
      CHECK(a.learned_sink == b.learned_sink);
      compare_spikes(a, b);
      if (exact_events) out.events += compare_events(a, b, plan, begin);
      REQUIRE(a.expert_ids.size() == b.expert_ids.size());
      CHECK(largest_difference(a.expert_weights, b.expert_weights) <= kWeights);
      CHECK(largest_difference(a.expert_margin, b.expert_margin) <= kWeights);
      for (size_t i = 0; i < b.expert_ids.size(); ++i)
        if (b.expert_margin[i / b.experts_used] > 1e-4f) CHECK(a.expert_ids[i] == b.expert_ids[i]);
      CHECK(b.expert_ids.empty() == !recipe.moe_layer[l]);
      // Conservation (definitions D3): leaves + gaps + learned sink = rows, per head and phase.
      for (uint32_t h = 0; h < a.heads; ++h)
        for (uint32_t p = 0; p < kPhases; ++p) {
          double total = a.unattributed[h * kPhases + p] + a.learned_sink[h * kPhases + p];
          for (uint32_t s = 0; s < a.leaves; ++s)
            total += a.head_mass[(size_t(h) * kPhases + p) * a.leaves + s];
          const double rows = double(std::count(plan.row_phase.begin(), plan.row_phase.end(), RowPhase(p)));
          CHECK(std::abs(total - rows) <= 1e-5 * std::max(rows, 1.0));
        }
      out.mass = std::max(out.mass, mass);
      out.sums = std::max(out.sums, sums);
    }
    out.rows += end - begin;
  }
  if (tokens >= 333)
    std::cout << c.name << ", " << tokens << " tokens in passes of " << chunk << ": logits within "
              << out.logits << ", row masses " << out.mass << ", sums " << out.sums << ", " << out.events
              << " events\n";
  return out;
}

}  // namespace

TEST_CASE("fast equals reference over ragged leaves") {
  for (const FastCase& c : fast_cases()) {
    CHECK(compare(c, 90, 1, ragged_layout(90, 5), true).rows == 90);
    CHECK(compare(c, 200, 7, ragged_layout(200, 6), true).events > 20);
    CHECK(compare(c, 700, 700, ragged_layout(700, 7), true).events > 20);
    compare(c, 333, 100, ragged_layout(333, 8), true);
  }
}

TEST_CASE("fast equals reference over one-token leaves") {
  for (const FastCase& c : fast_cases()) {
    compare(c, 130, 130, one_token_layout(130), true);
    compare(c, 70, 7, one_token_layout(70), true);
  }
}

TEST_CASE("decoding far behind the first key partition") {
  // Partitions have 512 keys: single rows behind 1,000 keys join two, behind 1,100 keys three.
  const FastCase c = fast_cases().back();
  const Recipe& recipe = c.model->recipe;
  const std::vector<TokenId> ids = some_ids(recipe, 1100, 3);
  const Layout layout = ragged_layout(1100, 9);
  const auto fast = fast_backend(c), reference = reference_backend(c);
  std::vector<float> logits[2];
  std::vector<std::vector<KeptLayer>> records[2];
  Backend* const backends[] = {fast.get(), reference.get()};
  for (int b = 0; b < 2; ++b) {
    auto cache = backends[b]->new_cache(1100);
    for (uint32_t at = 0; at < 1100;) {
      const uint32_t end = at < 1000 ? at + 500 : at < 1020 ? at + 1 : at == 1020 ? 1096 : at + 1;
      const RecordPlan plan = make_plan(layout, recipe, 1100, at, end, true);
      KeepingSink sink(plan);
      ForwardOptions options;
      options.plan = &plan;
      options.sink = &sink;
      std::vector<TokenPos> positions;
      for (uint32_t i = at; i < end; ++i) positions.push_back(i);
      auto result = backends[b]->forward(*cache, {std::span(ids).subspan(at, end - at), positions}, options);
      if (!result) FAIL(result.error().line());
      logits[b].insert(logits[b].end(), result->logits.begin(), result->logits.end());
      records[b].push_back(std::move(sink.layers));
      at = end;
    }
  }
  CHECK(largest_difference(logits[0], logits[1]) <= logit_tolerance(logits[1]));
  for (size_t pass = 0; pass < records[0].size(); ++pass)
    for (uint32_t l = 0; l < recipe.layers; ++l) {
      CHECK(largest_difference(records[0][pass][l].row_mass, records[1][pass][l].row_mass) <= kMass);
      CHECK(largest_relative(records[0][pass][l].query_leaf, records[1][pass][l].query_leaf) <= kSums);
      compare_spikes(records[0][pass][l], records[1][pass][l]);
    }
}

TEST_CASE("windows and capped scores") {
  for (const FastCase& plain : fast_cases())
    for (const FastCase& c : {with_window(plain, 16), with_window(plain, 70), with_cap(plain, 2.0f)}) {
      // The bound of an event depends on the window; events are compared by the reference data's window
      // family.
      compare(c, 200, 200, ragged_layout(200, 11), false);
      compare(c, 150, 7, ragged_layout(150, 12), false);
      compare(c, 90, 1, one_token_layout(90), false);
    }
}
