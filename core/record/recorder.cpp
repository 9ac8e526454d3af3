// SPDX-License-Identifier: GPL-3.0-or-later
// Turn accumulators, in double. Sizes: [layers][3][leaves] + [layers][levels][leaves] + [3][query leaves][leaves] per turn,
// and one habit sum per (span, layer, head) for the whole session.
#include "core/record/recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

namespace spanscope {
namespace {

constexpr size_t kMaxEvents = size_t(1) << 20;  // of a turn that are kept (D5)
constexpr double kConservation = 1e-5;          // relative, f32 score kernels (D3)
constexpr const char* kPhaseNames[] = {"prompt", "answer", "recompute"};

struct Spike {
  float mass = -1;
  uint16_t layer = 0, head = 0;
  uint32_t row = 0;
  // Ties go to the lowest (layer, head, row).
  bool below(float m, uint16_t l, uint16_t h, uint32_t r) const {
    if (m != mass) return m > mass;
    return std::tie(l, h, r) < std::tie(layer, head, row);
  }
};

struct Event {
  uint32_t row, column;
  uint16_t layer, head;
  float mass, habit;
};

}  // namespace

struct Recorder::State {
  uint32_t layers, heads;
  std::vector<uint32_t> window;
  bool moe = false;
  std::vector<uint8_t> moe_layer;
  RecorderOptions options;

  // --- kept across turns: how much each head rests on each span (D5), index (span * layers + layer) * heads + head
  std::vector<double> habit_sum;
  std::vector<uint64_t> habit_rows;  // [spans]

  // --- this turn
  TurnPlan turn;
  std::vector<SpanId> leaves;        // [S] layout order
  std::vector<uint8_t> readable;     // [S]
  uint32_t levels = 1;
  std::vector<std::vector<SpanId>> ancestor;  // [S] from the root: level 1, 2, ...
  struct Extent {
    SpanId span;
    TokenPos begin, end;
    uint32_t level;
  };
  std::vector<Extent> extents;       // resident parents
  std::vector<double> layer_phase;   // [layers][3][S]
  std::vector<double> layer_inside;  // [layers][levels][S]
  std::vector<double> qk;            // [3][S as query leaves][S]
  std::vector<double> learned, unattributed;  // [3][layers]
  std::vector<double> total;         // [layers][heads][3] conservation
  uint64_t phase_rows[4] = {0, 0, 0, 0};
  std::vector<Spike> spikes;         // [S]
  std::vector<Event> events;
  std::vector<float> frozen;         // [layers][heads][S] habit as used in this turn
  bool answer_begun = false;
  RoutingColumns routing;
  std::vector<std::vector<uint16_t>> route_ids;  // [moe layers] rows x K, in pass order
  std::vector<std::vector<float>> route_weights, route_margin;

  // --- this pass
  RecordPlan plan;
  Slot begin = 0;
  std::vector<TokenPos> row_position;
  std::vector<uint32_t> query_column;  // plan's query leaf -> column

  size_t columns() const { return leaves.size(); }
  TokenPos position_of(Slot slot) const {
    for (const LayoutEntry& e : turn.layout)
      if (slot >= e.slot && slot < e.slot + e.len) return e.position + (slot - e.slot);
    return slot;
  }
};

Recorder::Recorder(const Recipe& recipe, RecorderOptions options) : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.layers = recipe.layers;
  s.heads = recipe.query_heads;
  s.window = recipe.window;
  s.window.resize(s.layers, 0);
  s.moe_layer = recipe.moe_layer;
  s.moe_layer.resize(s.layers, 0);
  s.options = options;
  s.moe = options.routing && recipe.moe_layers() > 0;
}
Recorder::~Recorder() = default;

void Recorder::begin_turn(const TurnPlan& plan, const Ledger& ledger) {
  State& s = *state_;
  s.turn = plan;
  s.leaves.clear();
  s.readable.clear();
  s.ancestor.clear();
  s.extents.clear();
  s.levels = 1;
  std::vector<int64_t> extent_of(ledger.spans.size(), -1);
  for (const LayoutEntry& e : plan.layout) {
    s.leaves.push_back(e.leaf);
    const bool content = ledger[e.leaf].kind == SpanKind::content;
    s.readable.push_back(content);
    std::vector<SpanId> chain = content ? ledger.ancestors(e.leaf) : std::vector<SpanId>{};
    std::reverse(chain.begin(), chain.end());
    for (size_t k = 0; k < chain.size(); ++k) {
      if (extent_of[chain[k]] < 0) {
        extent_of[chain[k]] = int64_t(s.extents.size());
        s.extents.push_back({chain[k], e.position, 0, uint32_t(k + 1)});
      }
      State::Extent& x = s.extents[size_t(extent_of[chain[k]])];
      x.end = std::max(x.end, e.position + e.len);
    }
    s.levels = std::max(s.levels, uint32_t(chain.size() + 1));
    s.ancestor.push_back(std::move(chain));
  }
  const size_t columns = s.columns();
  s.layer_phase.assign(size_t(s.layers) * 3 * columns, 0);
  s.layer_inside.assign(size_t(s.layers) * s.levels * columns, 0);
  s.qk.assign(3 * columns * columns, 0);
  s.learned.assign(3 * s.layers, 0);
  s.unattributed.assign(3 * s.layers, 0);
  s.total.assign(size_t(s.layers) * s.heads * 3, 0);
  std::fill(std::begin(s.phase_rows), std::end(s.phase_rows), 0);
  s.spikes.assign(columns, {});
  s.events.clear();
  s.frozen.assign(size_t(s.layers) * s.heads * columns, 0);
  s.answer_begun = false;
  s.route_ids.assign(s.layers, {});
  s.route_weights.assign(s.layers, {});
  s.route_margin.assign(s.layers, {});
  const size_t spans = ledger.spans.size();
  if (s.habit_rows.size() < spans) {
    s.habit_rows.resize(spans, 0);
    s.habit_sum.resize(spans * s.layers * s.heads, 0);
  }
}

const RecordPlan& Recorder::plan_pass(Slot begin, Slot end, const std::vector<RowPhase>& phases) {
  State& s = *state_;
  RecordPlan& p = s.plan;
  const uint32_t rows = end - begin;
  s.begin = begin;
  // Leaves as far as the pass reaches: later ones have no keys yet, a growing one is cut.
  p.leaves.clear();
  for (size_t c = 0; c < s.columns(); ++c) {
    const LayoutEntry& e = s.turn.layout[c];
    if (e.slot >= end) break;
    p.leaves.push_back({e.slot, std::min(e.len, end - e.slot), e.position + e.len, s.readable[c] != 0});
  }
  const size_t columns = p.leaves.size();
  p.levels = s.levels;
  p.group_of_leaf.assign(s.levels * columns, -1);
  for (size_t c = 0; c < columns; ++c) {
    p.group_of_leaf[c] = int32_t(c);
    for (size_t k = 0; k < s.ancestor[c].size(); ++k) p.group_of_leaf[(k + 1) * columns + c] = int32_t(s.ancestor[c][k]);
  }
  p.group_of_row.assign(size_t(s.levels) * rows, -1);
  p.row_phase = phases;
  p.row_query.assign(rows, 0);
  s.row_position.resize(rows);
  s.query_column.clear();
  size_t c = 0;
  for (uint32_t r = 0; r < rows; ++r) {
    const Slot slot = begin + r;
    while (c + 1 < columns && slot >= s.turn.layout[c].slot + s.turn.layout[c].len) ++c;
    const LayoutEntry& e = s.turn.layout[c];
    s.row_position[r] = e.position + (slot - e.slot);
    if (s.query_column.empty() || s.query_column.back() != c) s.query_column.push_back(uint32_t(c));
    p.row_query[r] = uint32_t(s.query_column.size() - 1);
    p.group_of_row[r] = int32_t(c);
    for (const State::Extent& x : s.extents)
      if (s.row_position[r] >= x.begin && s.row_position[r] < x.end) p.group_of_row[size_t(x.level) * rows + r] = int32_t(x.span);
  }
  p.query_leaves = uint32_t(s.query_column.size());
  p.theta_rec = s.options.theta_rec;
  p.factor = s.options.factor;
  p.cap = s.options.cap;
  p.want_routing = s.moe;
  p.want_row_masses = false;

  const bool answers = std::any_of(phases.begin(), phases.end(), [](RowPhase x) { return x == RowPhase::answer; });
  if (answers && !s.answer_begun) {
    // The habit of this turn: everything executed so far, frozen at the first answer row.
    s.answer_begun = true;
    for (size_t k = 0; k < s.columns(); ++k) {
      const SpanId span = s.leaves[k];
      if (s.habit_rows[span] < s.options.habit_min_rows) continue;
      for (size_t lh = 0; lh < size_t(s.layers) * s.heads; ++lh)
        s.frozen[lh * s.columns() + k] = float(s.habit_sum[size_t(span) * s.layers * s.heads + lh] / double(s.habit_rows[span]));
    }
  }
  if (answers) {
    p.habit.resize(size_t(s.layers) * s.heads * columns);
    for (size_t lh = 0; lh < size_t(s.layers) * s.heads; ++lh)
      std::copy_n(s.frozen.begin() + ptrdiff_t(lh * s.columns()), columns, p.habit.begin() + ptrdiff_t(lh * columns));
  } else {
    p.habit.clear();
  }

  // Rows of this pass that consume each leaf: for the habit's mean. Positions ascend, so the last ones do.
  for (uint32_t r = 0; r < rows; ++r) ++s.phase_rows[size_t(phases[r])];
  for (size_t k = 0; k < columns; ++k) {
    uint64_t n = 0;
    for (uint32_t r = rows; r-- > 0 && s.row_position[r] >= p.leaves[k].end_position;)
      n += phases[r] == RowPhase::prompt || phases[r] == RowPhase::answer;
    s.habit_rows[s.leaves[k]] += n;
  }
  return p;
}

void Recorder::on_layer(const LayerRecord& r) {
  State& s = *state_;
  const size_t n = r.leaves, columns = s.columns(), levels = s.levels;
  const size_t l = r.layer;
  for (uint32_t h = 0; h < r.query_heads; ++h) {
    const double* mass = r.head_mass + size_t(h) * 3 * n;
    const double* inside = r.inside + size_t(h) * levels * n;
    for (size_t p = 0; p < 3; ++p) {
      double sum = r.learned_sink[h * 3 + p] + r.unattributed[h * 3 + p];
      s.learned[p * s.layers + l] += r.learned_sink[h * 3 + p];
      s.unattributed[p * s.layers + l] += r.unattributed[h * 3 + p];
      double* out = s.layer_phase.data() + (l * 3 + p) * columns;
      for (size_t k = 0; k < n; ++k) {
        out[k] += mass[p * n + k];
        sum += mass[p * n + k];
      }
      s.total[(l * s.heads + h) * 3 + p] += sum;
    }
    for (size_t level = 0; level < levels; ++level) {
      double* out = s.layer_inside.data() + (l * levels + level) * columns;
      for (size_t k = 0; k < n; ++k) out[k] += inside[level * n + k];
    }
    for (size_t k = 0; k < n; ++k)
      s.habit_sum[(size_t(s.leaves[k]) * s.layers + l) * s.heads + h] += mass[k] + mass[n + k] - inside[k];
  }
  const size_t q_count = s.query_column.size();
  for (size_t p = 0; p < 3; ++p)
    for (size_t q = 0; q < q_count; ++q) {
      const double* in = r.query_leaf + (p * q_count + q) * n;
      double* out = s.qk.data() + (p * columns + s.query_column[q]) * columns;
      for (size_t k = 0; k < n; ++k) out[k] += in[k];
    }
  for (size_t k = 0; k < n; ++k)
    if (r.spike[k] >= 0) {
      const uint32_t row = s.row_position[r.spike_row[k]];
      if (s.spikes[k].mass < 0 || s.spikes[k].below(r.spike[k], uint16_t(l), r.spike_head[k], row))
        s.spikes[k] = {r.spike[k], uint16_t(l), r.spike_head[k], row};
    }
  for (uint64_t i = 0; i < r.event_count; ++i) {
    const ReadEvent& e = r.events[i];
    s.events.push_back({s.row_position[e.row], e.leaf, e.layer, e.head, e.mass, e.habit});
  }
  if (s.moe && r.expert_ids) {
    for (size_t i = 0; i < size_t(r.rows) * r.experts_used; ++i) {
      s.route_ids[l].push_back(uint16_t(r.expert_ids[i]));
      s.route_weights[l].push_back(r.expert_weights[i]);
    }
    s.route_margin[l].insert(s.route_margin[l].end(), r.expert_margin, r.expert_margin + r.rows);
    s.routing.experts_used = r.experts_used;
  }
}

namespace {

// Keys of [begin, end) that a row at `row` sees through a window (0: none).
uint32_t visible(TokenPos begin, TokenPos end, TokenPos row, uint32_t window) {
  const TokenPos first = window && row + 1 > window ? row + 1 - window : 0;
  const TokenPos from = std::max(begin, first), to = std::min<TokenPos>(end, row + 1);
  return to > from ? to - from : 0;
}

}  // namespace

Result<TurnRecord> Recorder::close_turn(const TurnPlan& plan, const Ledger& ledger) {
  State& s = *state_;
  const size_t columns = s.columns();
  // Conservation: what every head's rows handed out is as many as there were rows (D3).
  for (uint32_t l = 0; l < s.layers; ++l)
    for (uint32_t h = 0; h < s.heads; ++h)
      for (size_t p = 0; p < 3; ++p) {
        const double rows = double(s.phase_rows[p]), sum = s.total[(size_t(l) * s.heads + h) * 3 + p];
        if (!(std::fabs(sum - rows) <= kConservation * std::max(rows, 1.0)))
          return make_error(ErrorCode::conservation, "SPAN-CONSERVATION",
                            fmt::format("turn {}, layer {}, head {}: the attention of {} {} rows adds up to {:.6f}", plan.turn + 1, l, h,
                                        s.phase_rows[p], kPhaseNames[p], sum));
      }

  TurnRecord t;
  t.turn = plan.turn;
  t.message = plan.message;
  t.open = plan.open;
  t.cut = plan.cut;
  t.generated = plan.generated;
  t.context = uint32_t(plan.ids.size());
  t.executed_begin = plan.cached;
  t.executed_end = plan.executed_end;
  t.answer_begin = plan.answer_begin;
  t.answer_len = plan.answer_len;
  for (RowPhase p : plan.phase) t.phase.push_back(uint8_t(p));
  t.layout = plan.layout;
  if (s.options.text) {
    t.new_ids.assign(plan.ids.begin() + plan.cached, plan.ids.end());
    if (plan.token_bytes.size() == plan.ids.size()) {
      t.new_token_bytes.assign(plan.token_bytes.begin() + plan.cached, plan.token_bytes.end());
      uint64_t before = 0;
      for (uint32_t i = 0; i < plan.cached; ++i) before += plan.token_bytes[i];
      t.new_text = plan.text.substr(size_t(std::min<uint64_t>(before, plan.text.size())));
    } else {
      t.new_token_bytes.assign(t.new_ids.size(), 0);  // ids without a text
    }
    t.index_text();
  }

  // The final layout may end otherwise than the provisional one of a generated answer; leaves keep their columns by id.
  const size_t final_columns = t.layout.size();
  std::vector<int64_t> column(final_columns, -1);
  for (size_t c = 0; c < final_columns; ++c)
    for (size_t k = 0; k < columns; ++k)
      if (s.leaves[k] == t.layout[c].leaf) column[c] = int64_t(k);

  std::vector<size_t> q_columns;
  for (size_t c = 0; c < final_columns; ++c) {
    const LayoutEntry& e = t.layout[c];
    if (e.slot + e.len > t.executed_begin && e.slot < t.executed_end) {
      q_columns.push_back(c);
      t.query_leaves.push_back(e.leaf);
    }
  }
  const size_t q_count = q_columns.size();
  t.rows_q.assign(3 * q_count, 0);
  t.mass_qk.assign(3 * q_count * final_columns, 0);
  for (size_t p = 0; p < 3; ++p)
    for (size_t q = 0; q < q_count; ++q) {
      if (column[q_columns[q]] < 0) continue;
      for (size_t c = 0; c < final_columns; ++c)
        if (column[c] >= 0)
          t.mass_qk[(p * q_count + q) * final_columns + c] = float(s.qk[(p * columns + size_t(column[q_columns[q]])) * columns + size_t(column[c])]);
    }

  // Uniform expectation (D4): each row spreads evenly over its visible non-sink keys, layer by layer's window.
  std::vector<double> uniform(3 * q_count * final_columns, 0);
  std::vector<std::pair<uint32_t, uint32_t>> windows;  // window, layers that have it
  for (uint32_t w : s.window) {
    auto it = std::find_if(windows.begin(), windows.end(), [&](const auto& x) { return x.first == w; });
    if (it == windows.end()) windows.push_back({w, 1});
    else ++it->second;
  }
  std::vector<uint32_t> seen(final_columns);
  for (size_t q = 0; q < q_count; ++q) {
    const LayoutEntry& e = t.layout[q_columns[q]];
    for (Slot slot = std::max(e.slot, t.executed_begin); slot < std::min(e.slot + e.len, t.executed_end); ++slot) {
      const size_t p = t.phase[slot - t.executed_begin];
      if (p > 2) continue;
      ++t.rows_q[p * q_count + q];
      const TokenPos row = e.position + (slot - e.slot);
      for (const auto& [window, layer_count] : windows) {
        uint64_t all = 0;
        for (size_t c = 0; c < final_columns; ++c) {
          const LayoutEntry& k = t.layout[c];
          const bool sink = ledger[k.leaf].kind == SpanKind::sink;
          seen[c] = sink || k.slot > slot ? 0 : visible(k.position, k.position + k.len, row, window);
          all += seen[c];
        }
        if (!all) continue;
        const double unit = double(layer_count) * s.heads / double(all);
        double* out = uniform.data() + (p * q_count + q) * final_columns;
        for (size_t c = 0; c < final_columns; ++c)
          if (seen[c]) out[c] += seen[c] * unit;
      }
    }
  }
  t.uniform_qk.assign(uniform.begin(), uniform.end());
  t.learned_sink.assign(s.learned.begin(), s.learned.end());
  t.unattributed.assign(s.unattributed.begin(), s.unattributed.end());

  // Layer profiles: consumer = prompt + answer rows minus those before the span's end (which lie inside it).
  std::vector<int64_t> parent_at(ledger.spans.size(), -1);
  for (const LayoutEntry& e : t.layout) t.profile_spans.push_back(e.leaf);
  for (const State::Extent& x : s.extents) {
    parent_at[x.span] = int64_t(t.profile_spans.size());
    t.profile_spans.push_back(x.span);
  }
  const size_t profiles = t.profile_spans.size();
  std::vector<double> layer(size_t(s.layers) * 2 * profiles, 0);
  for (uint32_t l = 0; l < s.layers; ++l)
    for (size_t c = 0; c < final_columns; ++c) {
      if (column[c] < 0) continue;
      const size_t k = size_t(column[c]);
      const double prompt = s.layer_phase[(size_t(l) * 3 + 0) * columns + k], answer = s.layer_phase[(size_t(l) * 3 + 1) * columns + k];
      auto inside = [&](size_t level) { return s.layer_inside[(size_t(l) * s.levels + level) * columns + k]; };
      layer[(size_t(l) * 2) * profiles + c] = answer;
      layer[(size_t(l) * 2 + 1) * profiles + c] = prompt + answer - inside(0);
      for (size_t a = 0; a < s.ancestor[k].size(); ++a) {
        const int64_t at = parent_at[s.ancestor[k][a]];
        if (at < 0) continue;
        layer[(size_t(l) * 2) * profiles + size_t(at)] += answer;
        layer[(size_t(l) * 2 + 1) * profiles + size_t(at)] += prompt + answer - inside(a + 1);
      }
    }
  t.layer_mass.assign(layer.begin(), layer.end());

  t.spike.assign(final_columns, std::numeric_limits<float>::quiet_NaN());
  t.spike_layer.assign(final_columns, 0);
  t.spike_head.assign(final_columns, 0);
  t.spike_row.assign(final_columns, 0);
  for (size_t c = 0; c < final_columns; ++c) {
    if (column[c] < 0 || s.spikes[size_t(column[c])].mass < 0) continue;
    const Spike& spike = s.spikes[size_t(column[c])];
    t.spike[c] = spike.mass;
    t.spike_layer[c] = spike.layer;
    t.spike_head[c] = spike.head;
    t.spike_row[c] = spike.row;
  }

  if (s.events.size() > kMaxEvents) {
    t.events_dropped = s.events.size() - kMaxEvents;
    std::nth_element(s.events.begin(), s.events.begin() + ptrdiff_t(kMaxEvents), s.events.end(), [](const Event& a, const Event& b) { return a.mass > b.mass; });
    s.events.resize(kMaxEvents);
  }
  std::sort(s.events.begin(), s.events.end(), [&](const Event& a, const Event& b) {
    return std::tuple(a.row, s.leaves[a.column], a.layer, a.head) < std::tuple(b.row, s.leaves[b.column], b.layer, b.head);
  });
  for (const Event& e : s.events) {
    t.events.row.push_back(e.row);
    t.events.leaf.push_back(s.leaves[e.column]);
    t.events.layer.push_back(e.layer);
    t.events.head.push_back(e.head);
    t.events.mass.push_back(e.mass);
    t.events.habit.push_back(e.habit);
  }

  if (s.moe) {
    t.routing.experts_used = s.routing.experts_used;
    for (uint32_t l = 0; l < s.layers; ++l) {
      if (!s.moe_layer[l]) continue;
      ++t.routing.layers;
      t.routing.ids.insert(t.routing.ids.end(), s.route_ids[l].begin(), s.route_ids[l].end());
      t.routing.weights.insert(t.routing.weights.end(), s.route_weights[l].begin(), s.route_weights[l].end());
      t.routing.margin.insert(t.routing.margin.end(), s.route_margin[l].begin(), s.route_margin[l].end());
    }
  }
  return t;
}

std::vector<float> Recorder::habit(size_t spans) const {
  const State& s = *state_;
  std::vector<float> out(size_t(s.layers) * s.heads * spans, 0);
  for (size_t span = 0; span < std::min(spans, s.habit_rows.size()); ++span) {
    if (s.habit_rows[span] < s.options.habit_min_rows) continue;
    for (size_t lh = 0; lh < size_t(s.layers) * s.heads; ++lh)
      out[lh * spans + span] = float(s.habit_sum[span * s.layers * s.heads + lh] / double(s.habit_rows[span]));
  }
  return out;
}

}  // namespace spanscope
