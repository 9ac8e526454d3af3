// SPDX-License-Identifier: GPL-3.0-or-later
// The recorder pass by pass. What a pass costs here is a few additions per (layer, head, leaf); everything that can wait is
// done once a turn (turn_close.cpp).
#include "core/record/recorder.h"

#include <algorithm>
#include <tuple>

#include "core/record/recorder_state.h"

namespace spanscope {
namespace {

// Four sums side by side: one alone would wait for every addition.
double sum_of(const double* values, size_t n) {
  double sum[4] = {};
  size_t k = 0;
  for (; k + 4 <= n; k += 4)
    for (size_t i = 0; i < 4; ++i) sum[i] += values[k + i];
  for (; k < n; ++k) sum[0] += values[k];
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

// The same, and out[k] += values[k].
double add_and_sum(const double* values, size_t n, double* out) {
  double sum[4] = {};
  size_t k = 0;
  for (; k + 4 <= n; k += 4)
    for (size_t i = 0; i < 4; ++i) {
      sum[i] += values[k + i];
      out[k + i] += values[k + i];
    }
  for (; k < n; ++k) {
    sum[0] += values[k];
    out[k] += values[k];
  }
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

}  // namespace

Recorder::Recorder(const Recipe& recipe, RecorderOptions options) : state_(std::make_unique<State>(recipe, options)) {
  State& s = *state_;
  s.layers = recipe.layers;
  s.heads = recipe.query_heads;
  s.window = recipe.window;
  s.window.resize(s.layers, 0);
  s.moe_layer = recipe.moe_layer;
  s.moe_layer.resize(s.layers, 0);
  s.learned_sink = recipe.learned_sink;
  s.routing = options.routing && recipe.moe_layers() > 0;
  s.habit.pairs = size_t(s.layers) * s.heads;
}
Recorder::~Recorder() = default;

void Recorder::begin_turn(const TurnPlan& plan, const Ledger& ledger) {
  State& s = *state_;
  s.shape.build(plan.layout, ledger);
  s.habit.grow(ledger.spans.size());
  const size_t columns = s.columns(), layers = s.layers;
  s.first_query = s.shape.column_of(plan.cached);
  s.queries = columns ? uint32_t(columns) - s.first_query : 0;
  s.prompt.assign(layers * columns, 0);
  s.answer.assign(layers * columns, 0);
  s.inside.assign(layers * s.shape.levels * columns, 0);
  s.consumer.assign(layers * s.heads * columns, 0);
  s.consumer_rows.assign(columns, 0);
  if (s.options.heads) {
    const size_t pairs = s.details.pair_count();
    s.head_prompt.assign(pairs * columns, 0);
    s.head_answer.assign(pairs * columns, 0);
    s.head_inside.assign(pairs * s.shape.levels * columns, 0);
  }
  s.details.begin_turn(plan, columns, s.queries);
  s.query_mass.assign(size_t(kPhases) * s.queries, {});
  s.query_rows.assign(size_t(kPhases) * s.queries, 0);
  s.query_learned.assign(size_t(kPhases) * s.queries, 0);
  s.learned.assign(kPhases * layers, 0);
  s.unattributed.assign(kPhases * layers, 0);
  s.conserved.assign(layers * s.heads * kPhases, 0);
  std::fill(std::begin(s.phase_rows), std::end(s.phase_rows), 0);
  s.spikes.assign(columns, {});
  s.events.clear();
  s.dropped = {};
  s.answer_begun = false;
  s.habit_columns = 0;
  s.route_ids.resize(layers), s.route_weights.resize(layers), s.route_margin.resize(layers);
  for (size_t l = 0; l < layers; ++l) s.route_ids[l].clear(), s.route_weights[l].clear(), s.route_margin[l].clear();
  s.plan.leaves.clear();
  s.plan.levels = s.shape.levels;
  s.plan.theta_rec = s.options.theta_rec;
  s.plan.factor = s.options.factor;
  s.plan.cap = s.options.cap;
  s.plan.want_routing = s.routing;
  s.plan.habit.clear();
}

const RecordPlan& Recorder::plan_pass(Slot begin, Slot end, const std::vector<RowPhase>& phases) {
  State& s = *state_;
  s.plan_leaves(end);
  s.plan_rows(begin, end, phases);
  s.details.plan_pass(begin, phases, s.plan);
  const bool answers = s.pass_has[size_t(RowPhase::answer)];
  if (answers && !s.answer_begun) s.freeze_habit();  // before this pass's own rows are counted
  s.count_consumers();
  if (answers) {
    const size_t n = s.plan.leaves.size(), columns = s.columns();
    if (s.habit_columns != n) {
      s.plan.habit.resize(s.habit.pairs * n);
      for (size_t pair = 0; pair < s.habit.pairs; ++pair)
        std::copy_n(&s.frozen[pair * columns], n, &s.plan.habit[pair * n]);
      s.habit_columns = n;
    }
  } else {
    s.plan.habit.clear();
    s.habit_columns = 0;
  }
  return s.plan;
}

// Leaves as far as the pass reaches: those behind it have no keys yet, and one that is still growing ends with the pass.
void Recorder::State::plan_leaves(Slot end) {
  size_t n = 0;
  while (n < columns() && shape.leaves[n].slot < end) ++n;
  if (plan.leaves.size() != n) {
    plan.leaves.resize(n);
    for (size_t k = 0; k < n; ++k) {
      const LayoutEntry& e = shape.leaves[k];
      plan.leaves[k] = {e.slot, e.len, e.position + e.len, shape.readable[k] != 0};
    }
    plan.group_of_leaf.assign(size_t(shape.levels) * n, -1);
    for (size_t k = 0; k < n; ++k) plan.group_of_leaf[k] = int32_t(k);
    for (size_t p = 0; p < shape.parents.size(); ++p)
      for (uint32_t k : shape.parents[p].columns)
        if (k < n) plan.group_of_leaf[shape.parents[p].level * n + k] = int32_t(p);
  }
  for (size_t k = n; k-- > 0;) {
    const LayoutEntry& e = shape.leaves[k];
    plan.leaves[k].len = std::min(e.len, end - e.slot);
    if (plan.leaves[k].len == e.len && e.slot + e.len < end) break;  // the ones before are whole already
  }
}

void Recorder::State::plan_rows(Slot begin, Slot end, const std::vector<RowPhase>& phases) {
  const uint32_t rows = end - begin;
  plan.row_phase.assign(phases.begin(), phases.end());
  plan.row_query.resize(rows);
  plan.group_of_row.assign(size_t(shape.levels) * rows, -1);
  row_position.resize(rows);
  pass_query.clear();
  inside_columns.resize(shape.levels);
  for (auto& list : inside_columns) list.clear();

  uint32_t column = shape.column_of(begin);
  for (uint32_t r = 0; r < rows; ++r) {
    const Slot slot = begin + r;
    while (column + 1 < columns() && slot >= shape.leaves[column + 1].slot) ++column;
    row_position[r] = shape.position_of(slot, column);
    if (pass_query.empty() || pass_query.back() != column) {
      pass_query.push_back(column);
      inside_columns[0].push_back(column);
    }
    plan.row_query[r] = uint32_t(pass_query.size() - 1);
    plan.group_of_row[r] = int32_t(column);
  }
  for (uint32_t level = 1; level < shape.levels; ++level) {
    int32_t* group = &plan.group_of_row[size_t(level) * rows];
    uint32_t r = 0;
    for (uint32_t p : shape.level_parents[level]) {
      const ParentExtent& parent = shape.parents[p];
      while (r < rows && row_position[r] < parent.begin) ++r;
      const uint32_t first = r;
      while (r < rows && row_position[r] < parent.end) group[r++] = int32_t(p);
      if (r == first) continue;
      for (uint32_t k : parent.columns)
        if (k < plan.leaves.size()) inside_columns[level].push_back(k);
    }
  }
  plan.query_leaves = uint32_t(pass_query.size());
  std::fill(std::begin(pass_has), std::end(pass_has), false);
  pass_query_rows.assign(size_t(kPhases) * pass_query.size(), 0);
  for (uint32_t r = 0; r < rows; ++r) {
    const size_t p = size_t(phases[r]);
    if (p >= kPhases) continue;
    pass_has[p] = true;
    ++phase_rows[p];
    ++pass_query_rows[p * pass_query.size() + plan.row_query[r]];
    ++query_rows[p * queries + pass_query[plan.row_query[r]] - first_query];
  }
}

// Rows of this pass that consume each leaf. Positions ascend, so they are the last ones.
void Recorder::State::count_consumers() {
  const size_t rows = row_position.size();
  const auto counts = [&](size_t r) { return plan.row_phase[r] == RowPhase::prompt || plan.row_phase[r] == RowPhase::answer; };
  uint64_t n = 0;
  size_t r = rows;
  // Leaves from the last to the first: their ends fall, the rows behind them grow.
  for (size_t k = plan.leaves.size(); k-- > 0;) {
    while (r > 0 && row_position[r - 1] >= plan.leaves[k].end_position) n += counts(--r);
    consumer_rows[k] += n;
  }
}

void Recorder::State::take_habit() {
  const size_t n = columns();
  for (size_t k = 0; k < n; ++k) {
    const SpanId span = shape.leaves[k].leaf;
    habit.rows[span] += consumer_rows[k];
    double* out = &habit.sum[size_t(span) * habit.pairs];
    for (size_t pair = 0; pair < habit.pairs; ++pair) out[pair] += consumer[pair * n + k];
  }
  std::fill(consumer.begin(), consumer.end(), 0.0);
  std::fill(consumer_rows.begin(), consumer_rows.end(), 0);
}

// The habit of a turn is what every head did before the turn's first answer row; what the answer does joins it afterwards.
void Recorder::State::freeze_habit() {
  answer_begun = true;
  take_habit();
  frozen.resize(habit.pairs * columns());
  for (size_t k = 0; k < columns(); ++k)
    for (size_t pair = 0; pair < habit.pairs; ++pair)
      frozen[pair * columns() + k] = habit.value(shape.leaves[k].leaf, pair, options.habit_min_rows);
}

void Recorder::on_layer(const LayerRecord& r) {
  State& s = *state_;
  s.take_masses(r);
  s.take_queries(r);
  s.take_events(r);
  if (s.routing && r.expert_ids) s.take_routing(r);
  s.details.take_rows(r, s.plan.row_phase);
  if (s.options.pairs) {
    std::vector<uint32_t> query_of;
    for (uint32_t column : s.pass_query) query_of.push_back(column - s.first_query);
    s.details.take_pairs(r, query_of);
  }
}

const TokenStatsPlan* Recorder::token_plan() const { return state_->details.token_plan(); }
TokenStatsSink* Recorder::token_sink() { return &state_->details; }
Status Recorder::take_cache(const Cache& cache, const TurnPlan& plan) { return state_->details.take_cache(cache, plan); }

void Recorder::State::take_masses(const LayerRecord& r) {
  const size_t n = r.leaves, all = columns(), l = r.layer;
  constexpr size_t prompt = size_t(RowPhase::prompt), answered = size_t(RowPhase::answer), again = size_t(RowPhase::recompute);
  for (uint32_t h = 0; h < r.query_heads; ++h) {
    const double* mass = r.head_mass + size_t(h) * kPhases * n;
    double* consumer_h = &consumer[(l * heads + h) * all];
    for (size_t p = 0; p < kPhases; ++p) {
      if (!pass_has[p]) continue;
      const double beside = r.learned_sink[h * kPhases + p] + r.unattributed[h * kPhases + p];
      learned[p * layers + l] += r.learned_sink[h * kPhases + p];
      unattributed[p * layers + l] += r.unattributed[h * kPhases + p];
      conserved[(l * heads + h) * kPhases + p] += beside + (p == again ? sum_of(mass + p * n, n) : add_and_sum(mass + p * n, n, consumer_h));
    }
    const uint32_t pair = options.heads ? details.pair_index(uint32_t(l), h) : kNone32;  // among the heads kept
    if (pair != kNone32)
      for (const size_t p : {prompt, answered}) {
        if (!pass_has[p]) continue;
        double* out = &(p == prompt ? head_prompt : head_answer)[size_t(pair) * all];
        for (size_t k = 0; k < n; ++k) out[k] += mass[p * n + k];
      }
    if (!pass_has[prompt] && !pass_has[answered]) continue;
    const double* in = r.inside + size_t(h) * shape.levels * n;
    for (uint32_t k : inside_columns[0]) consumer_h[k] -= in[k];
    for (uint32_t level = 0; level < shape.levels; ++level) {
      double* out = &inside[(l * shape.levels + level) * all];
      for (uint32_t k : inside_columns[level]) out[k] += in[level * n + k];
      if (pair == kNone32) continue;
      double* of_head = &head_inside[(size_t(pair) * shape.levels + level) * all];
      for (uint32_t k : inside_columns[level]) of_head[k] += in[level * n + k];
    }
  }
}

void Recorder::State::take_queries(const LayerRecord& r) {
  const size_t n = r.leaves, all = columns(), count = pass_query.size();
  for (size_t p = 0; p < kPhases; ++p) {
    if (!pass_has[p]) continue;
    double of_learned = 0, of_nothing = 0;
    if (learned_sink)
      for (uint32_t h = 0; h < r.query_heads; ++h)
        of_learned += r.learned_sink[h * kPhases + p], of_nothing += r.unattributed[h * kPhases + p];
    for (size_t q = 0; q < count; ++q) {
      const uint32_t rows = pass_query_rows[p * count + q];
      if (rows == 0) continue;
      const double* in = r.query_leaf + (p * count + q) * n;
      const size_t column = p * queries + pass_query[q] - first_query;
      if (query_mass[column].empty()) query_mass[column].assign(all, 0.0);
      double* out = query_mass[column].data();
      for (size_t k = 0; k < n; ++k) out[k] += in[k];
      // query_leaf is summed over heads already: so are the layer's sums.
      double* layer = p == size_t(RowPhase::prompt) ? &prompt[r.layer * all] : p == size_t(RowPhase::answer) ? &answer[r.layer * all] : nullptr;
      if (layer)
        for (size_t k = 0; k < n; ++k) layer[k] += in[k];
      if (of_learned <= 0) continue;
      // What the rows of a query leaf did not give to leaves went to the learned sink (and to keys outside of all leaves,
      // of which there are none: D1. If there are, the phase's own proportion is taken).
      double rest = double(rows) * r.query_heads;
      for (size_t k = 0; k < n; ++k) rest -= in[k];
      query_learned[column] += std::max(rest, 0.0) * of_learned / (of_learned + of_nothing);
    }
  }
}

void Recorder::State::take_events(const LayerRecord& r) {
  if (!pass_has[size_t(RowPhase::answer)]) return;
  for (size_t k = 0; k < r.leaves; ++k) {
    if (r.spike[k] < 0) continue;
    const uint32_t row = row_position[r.spike_row[k]];
    if (spikes[k].yields_to(r.spike[k], uint16_t(r.layer), r.spike_head[k], row))
      spikes[k] = {r.spike[k], uint16_t(r.layer), r.spike_head[k], row};
  }
  for (uint64_t i = 0; i < r.event_count; ++i) {
    const ReadEvent& e = r.events[i];
    events.push_back({row_position[e.row], e.leaf, e.layer, e.head, e.mass, e.habit});
  }
  if (events.size() >= 2 * options.max_events) drop_weakest();
}

// Keeps the strongest events; of the others the counts stay.
void Recorder::State::drop_weakest() {
  const size_t keep = size_t(options.max_events);
  if (events.size() <= keep) return;
  const auto stronger = [](const EventRow& a, const EventRow& b) {
    if (a.mass != b.mass) return a.mass > b.mass;
    return std::tie(a.row, a.column, a.layer, a.head) < std::tie(b.row, b.column, b.layer, b.head);
  };
  std::nth_element(events.begin(), events.begin() + ptrdiff_t(keep), events.end(), stronger);
  if (dropped.count.empty()) {
    dropped.count.assign(columns() * habit.pairs, 0);
    dropped.above_display.assign(columns() * habit.pairs, 0);
  }
  for (size_t i = keep; i < events.size(); ++i) {
    const EventRow& e = events[i];
    const size_t at = (size_t(e.column) * layers + e.layer) * heads + e.head;
    ++dropped.count[at];
    dropped.above_display[at] += e.mass > kDisplayTheta;
    dropped.most = std::max(dropped.most, e.mass);
  }
  dropped.total += events.size() - keep;
  events.resize(keep);
}

void Recorder::State::take_routing(const LayerRecord& r) {
  const size_t l = r.layer;
  experts_used = r.experts_used;
  for (size_t i = 0; i < size_t(r.rows) * r.experts_used; ++i) route_ids[l].push_back(uint16_t(r.expert_ids[i]));
  route_weights[l].insert(route_weights[l].end(), r.expert_weights, r.expert_weights + size_t(r.rows) * r.experts_used);
  route_margin[l].insert(route_margin[l].end(), r.expert_margin, r.expert_margin + r.rows);
}

std::vector<float> Recorder::habit(size_t spans) const {
  const State& s = *state_;
  HabitStore store = s.habit;  // with the rows of the turn that is being recorded
  for (size_t k = 0; k < s.columns(); ++k) {
    const SpanId span = s.shape.leaves[k].leaf;
    store.rows[span] += s.consumer_rows[k];
    for (size_t pair = 0; pair < store.pairs; ++pair) store.sum[size_t(span) * store.pairs + pair] += s.consumer[pair * s.columns() + k];
  }
  std::vector<float> out(store.pairs * spans, 0);
  for (size_t pair = 0; pair < store.pairs; ++pair)
    for (SpanId span = 0; span < spans; ++span) out[pair * spans + span] = store.value(span, pair, s.options.habit_min_rows);
  return out;
}

}  // namespace spanscope
