// SPDX-License-Identifier: GPL-3.0-or-later
#include <algorithm>

#include "core/report/figure/head_grid_figure.h"

namespace spanscope {
namespace {

std::vector<uint8_t> leaves_of(const SessionData& session, const std::vector<SpanId>& spans) {
  const size_t n = session.ledger.spans.size();
  std::vector<uint8_t> chosen(n, 0), leaves(n, 0);
  for (SpanId id : spans)
    if (id < n) chosen[id] = 1;
  for (SpanId id = 0; id < n; ++id) {
    if (!session.ledger[id].leaf()) continue;
    leaves[id] = chosen[id];
    for (SpanId parent : session.ledger.ancestors(id)) leaves[id] = leaves[id] || (parent < n && chosen[parent]);
  }
  return leaves;
}

const LayoutEntry* place_of(const TurnRecord& turn, SpanId leaf) {
  for (const LayoutEntry& e : turn.layout)
    if (e.leaf == leaf) return &e;
  return nullptr;
}

double uniform(const SessionData& session, const LayoutEntry& leaf, uint32_t row, uint32_t layer) {
  const uint32_t window = layer < session.header.window.size() ? session.header.window[layer] : 0;
  const uint64_t first = window && uint64_t(row) + 1 > window ? uint64_t(row) + 1 - window : 0;
  const uint64_t visible = uint64_t(row) + 1 - first;
  const uint64_t begin = std::max<uint64_t>(leaf.position, first);
  const uint64_t end = std::min<uint64_t>(uint64_t(leaf.position) + leaf.len, uint64_t(row) + 1);
  return end > begin ? double(end - begin) / double(visible) : 0.0;
}

}  // namespace

HeadGrid head_grid(const SessionData& session, const TurnRecord& turn, const HeadGridRequest& request) {
  HeadGrid g;
  g.layers = session.header.layers;
  g.heads = session.header.query_heads;
  g.kv_heads = std::max(1u, session.header.kv_heads);
  g.kv_sum = request.kv_sum;
  g.columns = g.kv_sum ? g.kv_heads : g.heads;
  g.cells.resize(size_t(g.layers) * g.columns);
  g.layer_reads.assign(g.layers, 0);
  g.column_reads.assign(g.columns, 0);
  g.window = session.header.window;
  g.window.resize(g.layers, 0);
  g.theta = request.settings.theta;
  g.rows_first = request.first_row;
  g.rows_last = request.last_row;
  const uint32_t per_kv = std::max(1u, g.heads / g.kv_heads);
  const bool raised = request.settings.factor > session.header.factor;

  const std::vector<uint8_t> leaves = leaves_of(session, request.spans);
  const EventColumns& e = turn.events;
  for (size_t i = 0; i < e.size(); ++i) {
    if (e.leaf[i] >= leaves.size() || !leaves[e.leaf[i]]) continue;
    if ((request.first_row || request.last_row) && (e.row[i] < request.first_row || e.row[i] > request.last_row)) continue;
    if (e.layer[i] >= g.layers || e.head[i] >= g.heads) continue;
    const uint32_t column = g.kv_sum ? std::min(e.head[i] / per_kv, g.columns - 1) : e.head[i];
    HeadCell& cell = g.cells[size_t(e.layer[i]) * g.columns + column];
    cell.habit = std::max(cell.habit, e.habit[i]);
    cell.has_habit = true;
    if (!(e.mass[i] > request.settings.theta)) continue;
    if (raised) {
      const LayoutEntry* place = place_of(turn, e.leaf[i]);
      const double u = place ? uniform(session, *place, e.row[i], e.layer[i]) : 0.0;
      const double bound = std::min<double>(session.header.cap, request.settings.factor * std::max<double>(u, e.habit[i]));
      if (!(e.mass[i] > bound)) continue;
    }
    ++cell.reads;
    if (cell.reads == 1 || e.mass[i] > cell.spike) {
      cell.spike = e.mass[i];
      cell.spike_row = e.row[i];
      cell.spike_leaf = e.leaf[i];
    }
  }
  for (uint32_t l = 0; l < g.layers; ++l)
    for (uint32_t c = 0; c < g.columns; ++c) {
      const uint32_t n = g.at(l, c).reads;
      g.layer_reads[l] += n;
      g.column_reads[c] += n;
      g.total += n;
      g.readers += n > 0;
    }
  return g;
}

BoundParts bound_parts(const SessionData& session, const TurnRecord& turn, const HeadGrid& grid, uint32_t layer, uint32_t head) {
  BoundParts b;
  const HeadCell& cell = grid.at(layer, head);
  const double factor = session.header.factor;
  b.strength = grid.theta;
  b.three_habit = factor * cell.habit;
  const LayoutEntry* place = place_of(turn, cell.spike_leaf);
  if (place) {
    b.three_uniform = factor * uniform(session, *place, cell.spike_row, layer);
    const uint64_t end = uint64_t(place->position) + place->len;
    // Rows of earlier turns (prompt and answer) and this turn's prompt rows that lie behind the leaf.
    for (const TurnRecord& t : session.turns) {
      if (t.turn > turn.turn) break;
      for (size_t i = 0; i < t.phase.size(); ++i) {
        const RowPhase phase = RowPhase(t.phase[i]);
        const bool counts = phase == RowPhase::prompt || (phase == RowPhase::answer && t.turn < turn.turn);
        if (counts && t.turn >= session.ledger[cell.spike_leaf].birth && t.executed_begin + i >= end) ++b.habit_rows;
      }
    }
  }
  b.bound = std::min<double>(session.header.cap, std::max({b.strength, b.three_habit, b.three_uniform}));
  if (b.bound < std::max({b.strength, b.three_habit, b.three_uniform})) b.set_by = "the cap";
  else if (b.three_habit > b.strength && b.three_habit >= b.three_uniform) b.set_by = "the habit";
  else if (b.three_uniform > b.strength) b.set_by = "the length of the span";
  return b;
}

}  // namespace spanscope
