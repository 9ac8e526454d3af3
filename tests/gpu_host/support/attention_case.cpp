// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/gpu_host/support/attention_case.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "core/base/half.h"
#include "core/cpu/reference/attention.h"
#include "gpu/plan_arrays.h"

namespace spanscope::gpu::test {
namespace {

template <class T>
Global<const T> view(const std::vector<T>& v) {
  return {v.data(), v.size()};
}
template <class T>
Global<T> place(std::vector<T>& v) {
  return {v.data(), v.size()};
}

float rounded(Mode mode, float x) {
  if (mode == Mode::f16) return f16_to_f32(f32_to_f16(x));
  if (mode == Mode::bf16) return bf16_to_f32(f32_to_bf16(x));
  return x;
}

struct Problem {
  std::vector<float> q, keys, values, sinks;  // keys, values [kv heads][slots][dim]
  std::vector<TokenPos> positions;            // [slots]
  RecordPlan plan;
  uint32_t slots = 0;
};

Problem make_problem(const AttentionCase& c) {
  Problem p;
  std::mt19937_64 random(c.seed);
  std::normal_distribution<float> normal;
  p.slots = c.before + c.rows;
  for (uint32_t i = 0; i < p.slots; ++i) p.positions.push_back(i + (i >= p.slots / 2 ? c.position_gap : 0));
  // In 16-bit modes all inputs are 16-bit numbers, so that what differs is the kernel's own rounding.
  for (size_t i = 0; i < size_t(c.rows) * c.heads * c.dim; ++i) p.q.push_back(rounded(c.mode, c.spread * normal(random)));
  for (size_t i = 0; i < size_t(c.kv_heads) * p.slots * c.dim; ++i) p.keys.push_back(rounded(c.mode, normal(random)));
  for (size_t i = 0; i < p.keys.size(); ++i) p.values.push_back(rounded(c.mode, normal(random)));
  if (c.sinks)
    for (uint32_t h = 0; h < c.heads; ++h) p.sinks.push_back(3 * normal(random));

  RecordPlan& plan = p.plan;
  uint32_t at = 0, count = 0;
  while (at < p.slots) {
    if (c.gap_every && count % c.gap_every == c.gap_every - 1) at += 1 + uint32_t(random() % 9);
    ++count;
    const uint32_t len = std::min(p.slots - std::min(at, p.slots), c.leaf_len ? c.leaf_len : 1 + uint32_t(random() % 40));
    if (len == 0) break;
    plan.leaves.push_back({at, len, p.positions[at + len - 1] + 1, random() % 4 != 0});
    at += len;
  }
  const size_t leaves = plan.leaves.size();
  plan.levels = c.levels;
  plan.query_leaves = 3;
  for (uint32_t k = 0; k < c.levels; ++k) {
    const uint32_t wide = 1 + 3 * k;  // leaves of one group
    for (size_t s = 0; s < leaves; ++s) plan.group_of_leaf.push_back(k && s % 7 == 6 ? -1 : int32_t(s / wide));
    for (uint32_t i = 0; i < c.rows; ++i) {
      int32_t group = -1;
      for (size_t s = 0; s < leaves; ++s)
        if (plan.leaves[s].slot <= c.before + i && c.before + i < plan.leaves[s].slot + plan.leaves[s].len)
          group = plan.group_of_leaf[k * leaves + s];
      plan.group_of_row.push_back(group);
    }
  }
  for (uint32_t i = 0; i < c.rows; ++i) {
    const bool answer = i + c.answer_rows >= c.rows;
    plan.row_phase.push_back(answer ? RowPhase::answer : i % 11 == 4 ? RowPhase::recompute : i % 13 == 5 ? RowPhase::unrecorded : RowPhase::prompt);
    plan.row_query.push_back(i * 3 / c.rows);
  }
  std::uniform_real_distribution<float> share(0.0f, 0.2f);
  for (size_t i = 0; i < 2 * c.heads * leaves; ++i) plan.habit.push_back(share(random));
  plan.want_row_masses = c.row_masses;
  plan.want_row_lse = c.row_masses;
  return p;
}

// Keeps copies of what the reference path's record points to.
struct Kept {
  std::vector<double> head_mass, inside, query_leaf, learned_sink, unattributed;
  std::vector<float> spike, row_mass, row_lse;
  std::vector<uint16_t> spike_head;
  std::vector<uint32_t> spike_row;
  std::vector<ReadEvent> events;
  Kept(const LayerRecord& r, const RecordPlan& plan) {
    const size_t s = r.leaves, h = r.query_heads;
    head_mass.assign(r.head_mass, r.head_mass + h * 3 * s);
    inside.assign(r.inside, r.inside + h * plan.levels * s);
    query_leaf.assign(r.query_leaf, r.query_leaf + 3 * plan.query_leaves * s);
    learned_sink.assign(r.learned_sink, r.learned_sink + h * 3);
    unattributed.assign(r.unattributed, r.unattributed + h * 3);
    spike.assign(r.spike, r.spike + s);
    spike_head.assign(r.spike_head, r.spike_head + s);
    spike_row.assign(r.spike_row, r.spike_row + s);
    events.assign(r.events, r.events + r.event_count);
    if (r.row_mass) row_mass.assign(r.row_mass, r.row_mass + r.rows * h * (s + 2));
    if (r.row_lse) row_lse.assign(r.row_lse, r.row_lse + r.rows * h);
  }
};

class Comparison {
 public:
  explicit Comparison(AttentionOutcome& out) : out_(out) {}
  void say(const std::string& what) {
    if (out_.problem.empty()) out_.problem = what;
  }
  // 1e-4 relative in every mode: masses come from the float32 scores, 16 bits only lose digits of the inputs, and those are
  // 16-bit numbers here. The floor is above what rounding to multiples of 2^-40 can add up to.
  template <class T>
  void masses(const char* name, const std::vector<T>& expected, const std::vector<T>& found) {
    if (expected.size() != found.size()) return say(std::string(name) + ": sizes differ");
    for (size_t i = 0; i < expected.size(); ++i) {
      const double e = double(expected[i]), f = double(found[i]), d = std::abs(e - f);
      if (e > 1e-6) out_.mass_error = std::max(out_.mass_error, d / e);
      if (!(d <= 1e-4 * std::abs(e) + 1e-9))
        return say(std::string(name) + "[" + std::to_string(i) + "]: expected " + std::to_string(e) + ", found " + std::to_string(f));
    }
  }

 private:
  AttentionOutcome& out_;
};

void compare_events(const Problem& p, const Kept& expected, const Kept& found, std::span<const uint32_t> first, std::span<const uint32_t> end,
                    Comparison& comparison) {
  auto key = [](const ReadEvent& e) { return std::tuple(e.row, e.leaf, e.head); };
  std::map<std::tuple<uint32_t, uint32_t, uint16_t>, ReadEvent> a, b;
  for (const ReadEvent& e : expected.events) a[key(e)] = e;
  for (const ReadEvent& e : found.events) b[key(e)] = e;
  if (!std::is_sorted(found.events.begin(), found.events.end(), [&](auto& x, auto& y) { return key(x) < key(y); }) || b.size() != found.events.size())
    comparison.say("events are not sorted, or twice there");
  // An event that one side lacks must lie on its bound.
  auto on_bound = [&](const ReadEvent& e) {
    const PlanLeaf& leaf = p.plan.leaves[e.leaf];
    const double keys = std::min<double>(leaf.slot + leaf.len, end[e.row]) - std::max<double>(leaf.slot, first[e.row]);
    const double bound = std::min<double>(p.plan.cap, std::max({double(p.plan.theta_rec), 3.0 * keys / (end[e.row] - first[e.row]), 3.0 * double(e.habit)}));
    return std::abs(double(e.mass) - bound) <= 1e-3 * bound;
  };
  for (const auto& [k, e] : a) {
    const auto at = b.find(k);
    if (at == b.end() ? !on_bound(e) : std::abs(at->second.mass - e.mass) > 1e-3f * e.mass || at->second.habit != e.habit || at->second.layer != e.layer)
      return comparison.say("event at row " + std::to_string(e.row) + ", leaf " + std::to_string(e.leaf) + ", head " + std::to_string(e.head) + " differs");
  }
  for (const auto& [k, e] : b)
    if (!a.contains(k) && !on_bound(e)) return comparison.say("an event too many at row " + std::to_string(e.row) + ", leaf " + std::to_string(e.leaf));
}

}  // namespace

AttentionOutcome run_case(const AttentionCase& c) {
  AttentionOutcome outcome;
  Comparison comparison(outcome);
  const Problem p = make_problem(c);
  constexpr uint32_t kLayer = 1;

  // The reference path.
  auto model = std::make_shared<Model>();
  Recipe& r = model->recipe;
  r.layers = 2;
  r.query_heads = c.heads;
  r.kv_heads = c.kv_heads;
  r.head_dim = c.dim;
  r.attention_scale = 1.0f / std::sqrt(float(c.dim));
  r.score_cap = c.score_cap;
  r.window = {0, c.window};
  r.rotary_of_layer = {-1, -1};
  reference::ReferenceCache cache(model, CacheType::f32, false);
  cache.reserve(p.slots);
  for (uint32_t h = 0; h < c.kv_heads; ++h)
    for (uint32_t s = 0; s < p.slots; ++s) {
      const size_t from = (size_t(h) * p.slots + s) * c.dim;
      std::copy_n(p.keys.data() + from, c.dim, cache.key(kLayer, h, s));
      std::copy_n(p.values.data() + from, c.dim, cache.value(kLayer, h, s));
    }
  ThreadPool pool(2);
  std::vector<reference::ThreadScratch> scratch(pool.threads());
  reference::MassFold fold(p.plan, r, c.rows, pool);
  fold.begin_layer(kLayer);
  const reference::AttentionInput in{r, kLayer, c.rows, p.q.data(), cache, c.before, p.positions, c.sinks ? p.sinks.data() : nullptr, {}};
  std::vector<float> expected_out(p.q.size());
  reference::attention(pool, in, &p.plan, &fold, scratch, expected_out.data());
  const Kept expected(fold.record(), p.plan);

  // The kernels. Pages lie in falling order, so that a page table that is not looked at shows.
  const uint32_t pages = (p.slots + kPage - 1) / kPage;
  std::vector<uint32_t> page_of(pages), row_first(c.rows), row_end(c.rows), tile;
  for (uint32_t i = 0; i < pages; ++i) page_of[i] = pages - 1 - i;
  const float nan = std::nanf("");
  std::vector<float> pool32(size_t(pages) * c.kv_heads * 2 * kPage * c.dim, nan);
  for (uint32_t h = 0; h < c.kv_heads; ++h)
    for (uint32_t s = 0; s < p.slots; ++s)
      for (uint32_t value = 0; value < 2; ++value)
        std::copy_n((value ? p.values : p.keys).data() + (size_t(h) * p.slots + s) * c.dim, c.dim,
                    pool32.data() + (((size_t(page_of[s / kPage]) * c.kv_heads + h) * 2 + value) * kPage + s % kPage) * c.dim);
  std::vector<uint16_t> pool16;
  if (c.mode != Mode::exact)
    for (float x : pool32) pool16.push_back(c.mode == Mode::f16 ? f32_to_f16(x) : f32_to_bf16(x));
  for (uint32_t i = 0; i < c.rows; ++i) {
    const auto visible = reference::visible_slots(p.positions, c.before + i, c.window);
    row_first[i] = visible.first;
    row_end[i] = visible.end;
  }
  auto made = PlanTables::make(p.plan, c.heads, std::span(p.positions).subspan(c.before), p.slots);
  if (!made) {
    outcome.problem = made.error().line();
    return outcome;
  }
  PlanTables& tables = *made;
  uint32_t most_leaves = 0;
  for (uint32_t i = 0; i < c.rows; i += kTileRows) {
    const uint32_t last = std::min(c.rows, i + kTileRows) - 1;
    const auto leaves = tables.leaves_in(row_first[i], row_end[last]);
    tile.insert(tile.end(), {row_first[i], row_end[last], leaves.first, leaves.second});
    most_leaves = std::max(most_leaves, leaves.second - leaves.first);
  }
  AttentionParams<float> a;
  std::vector<float> out(p.q.size(), nan), spill;
  a.q = view(p.q);
  a.out = place(out);
  a.page_of = view(page_of);
  a.row_first = view(row_first);
  a.row_end = view(row_end);
  a.tile = view(tile);
  if (c.sinks) a.sinks = view(p.sinks);
  a.rows = c.rows;
  a.heads = c.heads;
  a.kv_heads = c.kv_heads;
  a.scale = r.attention_scale;
  a.score_cap = c.score_cap;
  a.shared_leaves = c.shared_leaves;
  if (most_leaves > c.shared_leaves) {
    a.spill_leaves = most_leaves;
    spill.resize(size_t(c.heads) * (tile.size() / 4) * most_leaves * kTileRows, nan);
    a.spill = place(spill);
  }
  a.shared_leaves = std::min(c.shared_leaves, most_leaves);
  a.parts = (p.slots + kPartKeys - 1) / kPartKeys;
  a.segments = uint32_t(tables.segment_begin.size());
  a.part_segment = view(tables.part_segment);
  a.segment_begin = view(tables.segment_begin);
  a.segment_end = view(tables.segment_end);
  a.segment_leaf = view(tables.segment_leaf);
  a.leaf_segment = view(tables.leaf_segment);
  const size_t cells = c.shape == Shape::decode ? size_t(c.rows) * c.heads : 0;
  std::vector<float> part_max(cells * a.parts, nan), part_sum(cells * a.parts, nan), part_out(cells * a.parts * c.dim, nan),
      part_segment_sum(cells * a.segments, nan);
  a.part_max = place(part_max);
  a.part_sum = place(part_sum);
  a.part_out = place(part_out);
  a.part_segment_sum = place(part_segment_sum);

  auto launch = [&](bool planned, bool backwards) {
    layer::LaunchOptions options;
    options.backwards = backwards;
    const auto report = run_attention(c.mode, c.shape, c.dim, planned, a, view(pool32), view(pool16), options);
    if (!report.ok) comparison.say(report.fault);
    return report.traffic;
  };
  outcome.plain = launch(false, false);
  if (!outcome.problem.empty()) return outcome;
  const std::vector<float> plain_out = out;

  std::optional<Kept> forwards;
  for (const bool backwards : {false, true}) {
    do {
      tables.begin_layer(kLayer);
      a.plan = tables.arrays();
      if (c.event_capacity && outcome.event_launches == 1) a.plan.event_capacity = c.event_capacity;
      std::fill(out.begin(), out.end(), nan);
      outcome.planned = launch(true, backwards);
      if (!outcome.problem.empty()) return outcome;
      // With a capacity of the test's own the tables' room is enough: one more launch without it.
    } while (tables.grow_events() || (c.event_capacity && outcome.event_launches++ == 1 && a.plan.event_count.data[0] > c.event_capacity));
    const Kept kept(tables.record(), p.plan);
    if (std::memcmp(out.data(), plain_out.data(), out.size() * 4) != 0) comparison.say("a plan changes the outputs");
    if (!forwards) forwards = kept;
    else if (kept.head_mass != forwards->head_mass || kept.query_leaf != forwards->query_leaf || kept.inside != forwards->inside ||
             kept.spike != forwards->spike || kept.spike_row != forwards->spike_row || kept.events.size() != forwards->events.size())
      comparison.say("the order of threads changes the record");
  }
  const Kept& found = *forwards;
  outcome.events = found.events.size();

  // Exact: errors of scores, and so of outputs, grow with the scores. 16 bits: weights are rounded once, to 2^-12 or 2^-9 of
  // their size, and the largest value is about 4.
  const double tolerance = c.mode == Mode::exact ? 1e-5 * std::max(1.0, double(c.spread) / 2) : c.mode == Mode::f16 ? 1e-3 : 8e-3;
  for (size_t i = 0; i < out.size(); ++i) {
    const double d = std::abs(double(out[i]) - double(expected_out[i]));
    if (!(d <= outcome.out_error)) outcome.out_error = d;
    if (!(d <= tolerance)) {
      comparison.say("output[" + std::to_string(i) + "]: expected " + std::to_string(expected_out[i]) + ", found " + std::to_string(out[i]));
      break;
    }
  }
  comparison.masses("row mass", expected.row_mass, found.row_mass);
  comparison.masses("head mass", expected.head_mass, found.head_mass);
  comparison.masses("inside", expected.inside, found.inside);
  comparison.masses("query leaf", expected.query_leaf, found.query_leaf);
  comparison.masses("learned sink", expected.learned_sink, found.learned_sink);
  comparison.masses("unattributed", expected.unattributed, found.unattributed);
  comparison.masses("spike", expected.spike, found.spike);
  for (size_t i = 0; i < expected.row_lse.size(); ++i)
    if (std::abs(expected.row_lse[i] - found.row_lse[i]) > 1e-4f) comparison.say("log-sum-exp " + std::to_string(i));
  for (size_t s = 0; s < expected.spike.size(); ++s) {
    if (expected.spike_row[s] == found.spike_row[s] && expected.spike_head[s] == found.spike_head[s]) continue;
    // Elsewhere only if the reference finds the same there.
    if (expected.row_mass.empty()) continue;
    const float there = expected.row_mass[(size_t(found.spike_row[s]) * c.heads + found.spike_head[s]) * (p.plan.leaves.size() + 2) + s];
    if (!(there >= expected.spike[s] * 0.9999f) || expected.spike[s] <= 0) comparison.say("the spike of leaf " + std::to_string(s) + " is elsewhere");
  }
  compare_events(p, expected, found, row_first, row_end, comparison);
  return outcome;
}

}  // namespace spanscope::gpu::test
