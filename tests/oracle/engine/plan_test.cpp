// SPDX-License-Identifier: GPL-3.0-or-later
// The record contract (core/model/record_plan.h) against sums over the reference's full attention: every
// array of a LayerRecord, over passes that break before the answer, with gaps between leaves, nesting, habits
// and all four phases.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "tests/oracle/engine/engine_case.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {

// Sums of an f32 engine against double sums: the tolerance of the derived reference data.
bool near(double found, double expected) {
  return std::abs(found - expected) <= 1e-5 * std::max(std::abs(expected), 1.0);
}

// What a recorder would keep of several passes over the same leaves.
class Totals final : public RecordSink {
 public:
  Totals(uint32_t levels, uint32_t query_leaves) : levels_(levels), query_leaves_(query_leaves) {}
  void on_layer(const LayerRecord& r) override {
    auto add = [&](std::vector<double>& to, const double* from, size_t count) {
      to.resize(count);
      for (size_t i = 0; i < count; ++i) to[i] += from[i];
    };
    if (layers.size() <= r.layer) layers.resize(r.layer + 1);
    Layer& l = layers[r.layer];
    // Leaves of an earlier pass are a prefix of those of a later one, so arrays of a pass are widened to the
    // full width.
    add_wide(l.head_mass, r.head_mass, size_t(r.query_heads) * kPhases, r.leaves);
    add_wide(l.inside, r.inside, size_t(r.query_heads) * levels_, r.leaves);
    add_wide(l.query_leaf, r.query_leaf, size_t(kPhases) * query_leaves_, r.leaves);
    add(l.unattributed, r.unattributed, size_t(r.query_heads) * kPhases);
    add(l.learned_sink, r.learned_sink, size_t(r.query_heads) * kPhases);
    l.spike.assign(r.spike, r.spike + r.leaves);  // of the last pass, which has all answer rows
    l.spike_head.assign(r.spike_head, r.spike_head + r.leaves);
    l.spike_row.assign(r.spike_row, r.spike_row + r.leaves);
    l.events.insert(l.events.end(), r.events, r.events + r.event_count);
    l.routed += r.expert_ids != nullptr;
  }
  struct Layer {
    std::vector<double> head_mass, inside, query_leaf, unattributed, learned_sink;
    std::vector<float> spike;
    std::vector<uint16_t> spike_head;
    std::vector<uint32_t> spike_row;
    std::vector<ReadEvent> events;
    uint32_t routed = 0;
  };
  std::vector<Layer> layers;
  uint32_t width = 0;

 private:
  void add_wide(std::vector<double>& to, const double* from, size_t outer, uint32_t leaves) {
    to.resize(outer * width);
    for (size_t o = 0; o < outer; ++o)
      for (uint32_t s = 0; s < leaves; ++s) to[o * width + s] += from[o * leaves + s];
  }
  uint32_t levels_, query_leaves_;
};

struct Span {
  uint32_t begin, end;
  bool readable;
  int32_t parent;  // group of level 1
};
// Slots 20 and 21 belong to no leaf.
const std::vector<Span> kSpans = {{0, 4, false, -1}, {4, 6, false, -1},   {6, 13, true, 0},
                                  {13, 20, true, 0}, {22, 24, false, -1}, {24, 30, true, 1},
                                  {30, 36, true, 1}, {36, 39, false, -1}, {39, 48, true, 2}};
constexpr uint32_t kBreak = 38;  // first answer row

RowPhase phase_of(uint32_t row) {
  if (row >= kBreak) return RowPhase::answer;
  if (row >= 13 && row < 17) return RowPhase::recompute;
  if (row == 8) return RowPhase::unrecorded;
  return RowPhase::prompt;
}
int32_t leaf_of(uint32_t row) {
  for (size_t s = 0; s < kSpans.size(); ++s)
    if (row >= kSpans[s].begin && row < kSpans[s].end) return int32_t(s);
  return -1;
}

RecordPlan plan_for(uint32_t first_row, uint32_t rows, const std::vector<float>& habit,
                    const Recipe& recipe) {
  RecordPlan plan;
  plan.levels = 2;
  for (const Span& s : kSpans)
    if (s.end <= first_row + rows) plan.leaves.push_back({s.begin, s.end - s.begin, s.end, s.readable});
  const size_t leaves = plan.leaves.size();
  plan.group_of_leaf.resize(2 * leaves);
  for (size_t s = 0; s < leaves; ++s) {
    plan.group_of_leaf[s] = int32_t(s);
    plan.group_of_leaf[leaves + s] = kSpans[s].parent;
  }
  plan.group_of_row.resize(2 * rows);
  plan.query_leaves = uint32_t(kSpans.size()) + 1;  // the last one for rows in no leaf
  for (uint32_t i = 0; i < rows; ++i) {
    const int32_t leaf = leaf_of(first_row + i);
    plan.group_of_row[i] = leaf;
    plan.group_of_row[rows + i] = leaf < 0 ? -1 : kSpans[size_t(leaf)].parent;
    plan.row_phase.push_back(phase_of(first_row + i));
    plan.row_query.push_back(leaf < 0 ? plan.query_leaves - 1 : uint32_t(leaf));
  }
  if (!habit.empty()) {
    plan.habit.resize(size_t(recipe.layers) * recipe.query_heads * leaves);
    for (size_t lh = 0; lh < size_t(recipe.layers) * recipe.query_heads; ++lh)
      for (size_t s = 0; s < leaves; ++s) plan.habit[lh * leaves + s] = habit[lh * kSpans.size() + s];
  }
  plan.theta_rec = 0.05f;  // low, so that a tiny model gives many events
  plan.factor = 1.5f;
  plan.cap = 0.4f;
  plan.want_routing = true;
  return plan;
}

}  // namespace

TEST_CASE("layer records equal sums over the reference's attention") {
  for (const char* name : {"llama-gqa", "llama-mha", "mixtral"}) {
    const Family* f = family(name);
    if (!f) continue;
    const Recipe& r = f->model->recipe;
    const uint32_t n = uint32_t(f->ids.size()), S = uint32_t(kSpans.size()), H = r.query_heads;
    const std::vector<float> attention = f->floats("attn");
    auto mass = [&](uint32_t l, uint32_t h, uint32_t i, uint32_t s) {
      double sum = 0;
      const float* row = attention.data() + ((size_t(l) * H + h) * n + i) * n;
      for (uint32_t j = kSpans[s].begin; j < kSpans[s].end && j <= i; ++j) sum += double(row[j]);
      return sum;
    };
    // Some heads have a habit on some spans.
    std::vector<float> habit(size_t(r.layers) * H * S);
    for (size_t i = 0; i < habit.size(); ++i) habit[i] = float(i % 5) * 0.04f;

    for (const BackendCase& c : backend_cases())
      for (unsigned threads : {1u, 2u}) {
        INFO(name << ", " << c.name << ", threads " << threads);
        auto backend = made(c, f->model, threads);
        auto cache = backend->new_cache(0);
        Totals totals(2, S + 1);
        totals.width = S;
        // Breaks: inside the prompt at a leaf border, and before the first answer row; the last leaf exists
        // only then.
        uint32_t first = 0;
        for (uint32_t end : {24u, kBreak, n}) {
          const uint32_t rows = end - first;
          const RecordPlan plan = plan_for(first, rows, habit, r);
          std::vector<TokenPos> positions(rows);
          std::iota(positions.begin(), positions.end(), first);
          ForwardOptions options;
          options.plan = &plan;
          options.sink = &totals;
          auto result =
              backend->forward(*cache, Batch{std::span(f->ids).subspan(first, rows), positions}, options);
          if (!result) FAIL(result.error().line());
          first = end;
        }
        REQUIRE(totals.layers.size() == r.layers);
        uint64_t events_seen = 0;
        for (uint32_t l = 0; l < r.layers; ++l) {
          const Totals::Layer& t = totals.layers[l];
          CHECK(t.routed == (r.moe_layer[l] ? 3u : 0u));
          std::map<std::tuple<uint32_t, uint32_t, uint32_t>, double> expected_events;
          std::set<std::tuple<uint32_t, uint32_t, uint32_t>> near_bound;
          std::vector<double> spike(S, -1), query_leaf(3 * (S + 1) * S, 0.0);
          std::vector<std::pair<uint32_t, uint32_t>> spike_at(S);
          for (uint32_t h = 0; h < H; ++h) {
            std::vector<double> total(3 * S, 0.0), gap(3, 0.0), rows_of(3, 0.0), inside(2 * S, 0.0);
            for (uint32_t i = 0; i < n; ++i) {
              const RowPhase phase = phase_of(i);
              if (phase == RowPhase::unrecorded) continue;
              const size_t p = size_t(phase);
              const int32_t leaf = leaf_of(i);
              // A row of an unfinished leaf sees keys that no leaf of its pass has: unattributed, as the
              // contract says.
              const uint32_t pass_end = i < 24 ? 24 : i < kBreak ? kBreak : n;
              rows_of[p] += 1;
              double attributed = 0;
              for (uint32_t s = 0; s < S; ++s) {
                if (kSpans[s].end > pass_end) continue;
                const double m = mass(l, h, i, s);
                attributed += m;
                total[p * S + s] += m;
                query_leaf[(p * (S + 1) + size_t(leaf < 0 ? int32_t(S) : leaf)) * S + s] += m;
                if (phase != RowPhase::recompute) {
                  if (leaf == int32_t(s)) inside[s] += m;
                  if (leaf >= 0 && kSpans[size_t(leaf)].parent >= 0 &&
                      kSpans[size_t(leaf)].parent == kSpans[s].parent)
                    inside[S + s] += m;
                }
                if (phase != RowPhase::answer || i < kSpans[s].end) continue;
                if (m > spike[s] + 1e-7 || spike[s] < 0) {
                  spike[s] = m;
                  spike_at[s] = {h, i - kBreak};
                }
                if (!kSpans[s].readable) continue;
                const double u = double(kSpans[s].end - kSpans[s].begin) / double(i + 1);
                const double bound = std::min(
                    double(0.4f),
                    std::max({double(0.05f), 1.5 * u, 1.5 * double(habit[(size_t(l) * H + h) * S + s])}));
                if (m > bound) expected_events[{i - kBreak, s, h}] = m;
                if (std::abs(m - bound) < 1e-5) near_bound.insert({i - kBreak, s, h});
              }
              gap[p] += 1.0 - attributed;
            }
            for (size_t p = 0; p < 3; ++p) {
              double sum = t.unattributed[h * 3 + p] + t.learned_sink[h * 3 + p];
              for (uint32_t s = 0; s < S; ++s) {
                CHECK(near(t.head_mass[(h * 3 + p) * S + s], total[p * S + s]));
                sum += t.head_mass[(h * 3 + p) * S + s];
              }
              CHECK(near(t.unattributed[h * 3 + p], gap[p]));
              CHECK(t.learned_sink[h * 3 + p] == 0.0);
              CHECK(std::abs(sum - rows_of[p]) <=
                    1e-5 * std::max(rows_of[p], 1.0));  // conservation, definitions D3
            }
            for (uint32_t k = 0; k < 2; ++k)
              for (uint32_t s = 0; s < S; ++s) CHECK(near(t.inside[(h * 2 + k) * S + s], inside[k * S + s]));
          }
          for (size_t i = 0; i < query_leaf.size(); ++i) CHECK(near(t.query_leaf[i], query_leaf[i]));
          for (uint32_t s = 0; s < S; ++s) {
            if (spike[s] < 0) {
              CHECK(t.spike[s] == -1.0f);
              continue;
            }
            CHECK(near(t.spike[s], spike[s]));
            CHECK(t.spike_head[s] == spike_at[s].first);
            CHECK(t.spike_row[s] == spike_at[s].second);
          }
          std::set<std::tuple<uint32_t, uint32_t, uint32_t>> found;
          for (const ReadEvent& e : t.events) {
            const std::tuple<uint32_t, uint32_t, uint32_t> key{e.row, e.leaf, e.head};
            CHECK(e.layer == l);
            CHECK(e.habit == habit[(size_t(l) * H + e.head) * S + e.leaf]);
            if (!found.empty()) CHECK(*found.rbegin() < key);  // sorted by (row, leaf, head)
            found.insert(key);
            if (near_bound.count(key)) continue;
            REQUIRE(expected_events.count(key) == 1);
            CHECK(near(e.mass, expected_events[key]));
          }
          for (const auto& [key, m] : expected_events)
            if (!near_bound.count(key)) CHECK(found.count(key) == 1);
          events_seen += found.size();
        }
        CHECK(events_seen > 20);  // the bound was set so that there is something to compare
      }
  }
}

TEST_CASE("routing records equal the pass's own routing") {
  const Family* f = family("mixtral");
  if (!f) return;
  const Recipe& r = f->model->recipe;
  struct RoutingSink final : RecordSink {
    std::vector<int32_t> ids;
    std::vector<float> weights, margins;
    void on_layer(const LayerRecord& record) override {
      REQUIRE(record.expert_ids);
      ids.insert(ids.end(), record.expert_ids, record.expert_ids + record.rows * record.experts_used);
      weights.insert(weights.end(), record.expert_weights,
                     record.expert_weights + record.rows * record.experts_used);
      margins.insert(margins.end(), record.expert_margin, record.expert_margin + record.rows);
    }
  };
  for (const BackendCase& c : backend_cases()) {
    INFO(c.name);
    auto backend = made(c, f->model);
    auto cache = backend->new_cache(0);
    const uint32_t n = uint32_t(f->ids.size());
    RecordPlan plan = simple_plan({{0, n, n, false}}, n);
    plan.want_routing = true;
    RoutingSink sink;
    ForwardOptions options;
    options.plan = &plan;
    options.sink = &sink;
    options.router_logits = true;
    std::vector<TokenPos> positions(n);
    std::iota(positions.begin(), positions.end(), 0);
    auto result = backend->forward(*cache, Batch{f->ids, positions}, options);
    if (!result) FAIL(result.error().line());
    CHECK(sink.ids == f->integers("topk_ids"));
    CHECK(largest_difference(sink.weights, f->floats("topk_weights")) <= 1e-5);
    // Margin: K-th minus next probability of a softmax over the reference's router scores.
    const std::vector<float> scores = f->floats("router_logits");
    for (size_t row = 0; row < sink.margins.size(); ++row) {
      std::vector<double> p(scores.begin() + ptrdiff_t(row * r.experts),
                            scores.begin() + ptrdiff_t((row + 1) * r.experts));
      double sum = 0;
      for (double& x : p) sum += x = std::exp(x);
      std::sort(p.rbegin(), p.rend());
      CHECK(std::abs((p[r.experts_used - 1] - p[r.experts_used]) / sum - double(sink.margins[row])) <= 1e-5);
    }
  }
}
