// SPDX-License-Identifier: GPL-3.0-or-later
// How a row set is found in [phase][query leaf][leaf]: leaves partition the context and stand in layout order, so the
// consumer rows of a span are those of the query leaves that begin at or behind its end (D2). Summing the query leaves from
// the last to the first, every span takes the running sum at its own border.
#include "core/record/units.h"

#include <algorithm>
#include <cmath>

namespace spanscope {
namespace {

struct TurnShape {
  std::vector<uint32_t> leaf_index;    // [spans] index in the layout, kNone32: not there
  std::vector<uint32_t> query_index;   // [Q] layout index of the query leaf
  std::vector<std::vector<uint32_t>> parent_leaves;  // [spans] layout indices of a parent's resident content leaves
};

constexpr double kNotKnown = std::numeric_limits<double>::quiet_NaN();

bool has_sums(const TurnRecord& turn) {
  const size_t s = turn.layout.size(), q = turn.query_leaves.size();
  return s > 0 && turn.mass_qk.size() == 3 * q * s && turn.uniform_qk.size() == 3 * q * s && turn.rows_q.size() == 3 * q;
}

TurnShape shape_of(const SessionData& session, const TurnRecord& turn) {
  TurnShape shape;
  const size_t spans = session.ledger.spans.size();
  shape.leaf_index.assign(spans, kNone32);
  shape.parent_leaves.resize(spans);
  for (uint32_t i = 0; i < turn.layout.size(); ++i) {
    const SpanId leaf = turn.layout[i].leaf;
    if (leaf >= spans) continue;
    shape.leaf_index[leaf] = i;
    if (session.ledger[leaf].kind == SpanKind::content)
      for (SpanId p : session.ledger.ancestors(leaf)) shape.parent_leaves[p].push_back(i);
  }
  for (SpanId q : turn.query_leaves) shape.query_index.push_back(q < spans ? shape.leaf_index[q] : kNone32);
  return shape;
}

bool uses_phase(RowSet rows, uint32_t phase) {
  if (rows == RowSet::prompt) return phase == uint32_t(RowPhase::prompt);
  if (rows == RowSet::answer) return phase == uint32_t(RowPhase::answer);
  return phase != uint32_t(RowPhase::recompute);  // all, consumer
}

// Learned sink of query leaf q in a phase. Without the column (no learned sink) it is 0.
double learned(const TurnRecord& turn, uint32_t phase, size_t q) {
  const size_t count = turn.query_leaves.size();
  return turn.learned_sink_q.size() == 3 * count ? turn.learned_sink_q[phase * count + q] : 0.0;
}

uint32_t sink_index(const SessionData& session, const TurnRecord& turn) {
  for (uint32_t i = 0; i < turn.layout.size(); ++i)
    if (turn.layout[i].leaf < session.ledger.spans.size() && session.ledger[turn.layout[i].leaf].kind == SpanKind::sink)
      return i;
  return kNone32;
}

// Running sums over query leaves, from the last to the first.
struct Running {
  std::vector<double> n, u;  // [leaves]
  double triples = 0, sink = 0;
  void add(const SessionData& session, const TurnRecord& turn, RowSet rows, size_t q, uint32_t sink_leaf) {
    const size_t leaves = turn.layout.size(), count = turn.query_leaves.size();
    const double pairs = double(session.header.layers) * session.header.query_heads;
    for (uint32_t phase = 0; phase < kPhases; ++phase) {
      if (!uses_phase(rows, phase)) continue;
      const size_t at = phase * count + q;
      if (turn.rows_q[at] == 0) continue;
      const float* mass = &turn.mass_qk[at * leaves];
      const float* uniform = &turn.uniform_qk[at * leaves];
      for (size_t s = 0; s < leaves; ++s) n[s] += mass[s], u[s] += uniform[s];
      triples += pairs * turn.rows_q[at];
      sink += learned(turn, phase, q) + (sink_leaf != kNone32 ? double(mass[sink_leaf]) : 0.0);
    }
  }
};

}  // namespace

std::vector<Sums> turn_sums(const SessionData& session, const TurnRecord& turn, RowSet rows) {
  const size_t spans = session.ledger.spans.size();
  std::vector<Sums> out(spans);
  if (!has_sums(turn)) return out;
  const TurnShape shape = shape_of(session, turn);
  const size_t queries = turn.query_leaves.size(), leaves = turn.layout.size();
  const uint32_t sink_leaf = sink_index(session, turn);

  // first query leaf whose rows belong to the span's set
  std::vector<std::vector<SpanId>> border(queries + 1);
  for (SpanId s = 0; s < spans; ++s) {
    uint32_t last = shape.leaf_index[s];
    if (!shape.parent_leaves[s].empty()) last = shape.parent_leaves[s].back();
    if (last == kNone32) continue;
    out[s].resident = true;
    size_t first = 0;
    if (rows == RowSet::consumer)
      while (first < queries && (shape.query_index[first] == kNone32 || shape.query_index[first] <= last)) ++first;
    border[first].push_back(s);
  }
  Running running;
  running.n.assign(leaves, 0.0), running.u.assign(leaves, 0.0);
  for (size_t q = queries + 1; q-- > 0;) {
    if (q < queries) running.add(session, turn, rows, q, sink_leaf);
    for (SpanId s : border[q]) {
      Sums& sums = out[s];
      sums.triples = running.triples, sums.sink = running.sink;
      if (shape.leaf_index[s] != kNone32) {
        sums.n = running.n[shape.leaf_index[s]], sums.u = running.u[shape.leaf_index[s]];
      } else {
        for (uint32_t leaf : shape.parent_leaves[s]) sums.n += running.n[leaf], sums.u += running.u[leaf];
      }
      // Without rows nothing was added; what gc dropped is not known to be 0 all the same.
      if (session.gc.dropped(s, turn.turn)) sums.n = sums.u = kNotKnown;
    }
  }
  return out;
}

Sums span_sums(const SessionData& session, const TurnRecord& turn, SpanId span, RowSet rows) {
  Sums out;
  const size_t spans = session.ledger.spans.size(), leaves = turn.layout.size(), queries = turn.query_leaves.size();
  if (!has_sums(turn) || span >= spans) return out;
  std::vector<uint32_t> own;  // layout indices
  uint32_t sink_leaf = sink_index(session, turn), q_at = 0;
  std::vector<uint32_t> query_index(queries, kNone32);
  for (uint32_t i = 0; i < leaves; ++i) {
    const SpanId leaf = turn.layout[i].leaf;
    // query leaves stand in layout order
    if (q_at < queries && turn.query_leaves[q_at] == leaf) query_index[q_at++] = i;
    if (leaf >= spans) continue;
    bool mine = leaf == span;
    if (!mine && session.ledger[leaf].kind == SpanKind::content)
      for (SpanId p : session.ledger.ancestors(leaf)) mine |= p == span;
    if (mine) own.push_back(i);
  }
  if (own.empty()) return out;
  out.resident = true;
  if (session.gc.dropped(span, turn.turn)) out.n = out.u = kNotKnown;
  const double pairs = double(session.header.layers) * session.header.query_heads;
  for (size_t q = queries; q-- > 0;) {  // the same order of additions as turn_sums
    if (rows == RowSet::consumer && (query_index[q] == kNone32 || query_index[q] <= own.back())) break;
    for (uint32_t phase = 0; phase < kPhases; ++phase) {
      const size_t at = phase * queries + q;
      if (!uses_phase(rows, phase) || turn.rows_q[at] == 0) continue;
      for (uint32_t leaf : own) out.n += turn.mass_qk[at * leaves + leaf], out.u += turn.uniform_qk[at * leaves + leaf];
      out.triples += pairs * turn.rows_q[at];
      out.sink += learned(turn, phase, q) + (sink_leaf != kNone32 ? double(turn.mass_qk[at * leaves + sink_leaf]) : 0.0);
    }
  }
  return out;
}

Value unit_of(const Sums& sums, Unit unit, uint32_t tokens, bool sink_span, double idle) {
  Value value;
  if (!sums.resident || std::isnan(sums.n) || std::isnan(sums.triples)) return value;
  const auto set = [&](double number) { value.number = number, value.state = ValueState::value; };
  switch (unit) {
    case Unit::mass:
      set(sums.n);
      break;
    case Unit::share:
      if (sums.triples > 0) set(sums.n / sums.triples);
      break;
    case Unit::density:
      if (sums.triples > 0 && tokens > 0) set(sums.n / (sums.triples * tokens));
      break;
    case Unit::lift: {
      if (sink_span || !(sums.triples > 0) || !(sums.u > 0)) break;  // not u > 0: NaN, too
      const double rest = sums.triples - sums.sink;  // what was not spent on sinks
      if (rest < idle * sums.triples) value.state = ValueState::idle;
      else set((sums.n / rest) / (sums.u / sums.triples));
      break;
    }
  }
  return value;
}

namespace {

// The closing sums of a span; prompt rows are all rows but the answer's. False: they are not there.
bool closing_sums(const SessionData& session, SpanId span, RowSet rows, bool ema, Sums& out) {
  const ClosingScalars& c = session.closing;
  const size_t spans = session.ledger.spans.size();
  const auto& n = ema ? c.ema_n : c.sum_n;
  const auto& triples = ema ? c.ema_triples : c.sum_triples;
  const auto& sink = ema ? c.ema_sink : c.sum_sink;
  const auto& u = ema ? c.ema_u : c.sum_u;
  for (const auto* v : {&n, &triples, &sink, &u})
    if (v->size() != 3 * spans) return false;
  const auto take = [&](size_t set, double sign) {
    const size_t at = set * spans + span;
    out.n += sign * n[at], out.triples += sign * triples[at], out.sink += sign * sink[at], out.u += sign * u[at];
  };
  switch (rows) {
    case RowSet::answer: take(0, 1); break;
    case RowSet::all: take(1, 1); break;
    case RowSet::consumer: take(2, 1); break;
    case RowSet::prompt: take(1, 1), take(0, -1); break;
  }
  return true;
}

// What the turns cannot say any more.
void take_closing(const SessionData& session, RowSet rows, double lambda, TurnId last, Recurrence& out) {
  const GcRecord& gc = session.gc;
  if (session.turns.empty() || session.turns.front().turn > last) return;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  // Of a session that was continued since, the sums reach further than what was kept.
  const bool at_end = last >= gc.last && session.turns.back().turn == gc.last;
  for (size_t i = 0; i < gc.spans.size(); ++i) {
    if (gc.until[i] <= session.turns.front().turn) continue;
    for (const bool ema : {true, false}) {
      Sums& target = (ema ? out.ema : out.cumulative)[gc.spans[i]];
      Sums sums;
      sums.resident = target.resident;
      const bool known = !ema || lambda == session.header.lambda || lambda == 1;
      if (!at_end || !known || !closing_sums(session, gc.spans[i], rows, ema && lambda != 1, sums)) sums.n = sums.triples = sums.sink = sums.u = nan;
      target = sums;
    }
  }
}

}  // namespace

Recurrence replay_recurrence(const SessionData& session, RowSet rows, double lambda, TurnId last) {
  Recurrence out;
  const size_t spans = session.ledger.spans.size();
  out.ema.resize(spans), out.cumulative.resize(spans);
  for (const TurnRecord& turn : session.turns) {
    if (turn.turn > last) break;
    const std::vector<Sums> now = turn_sums(session, turn, rows);
    for (SpanId s = 0; s < spans; ++s) {
      Sums& ema = out.ema[s];
      ema.n *= lambda, ema.triples *= lambda, ema.sink *= lambda, ema.u *= lambda;
      if (!now[s].resident) continue;
      ema += now[s];
      out.cumulative[s] += now[s];
      ema.resident = out.cumulative[s].resident = true;
    }
  }
  take_closing(session, rows, lambda, last, out);
  return out;
}

std::vector<Sums> ring_of(const SessionData& session, SpanId span, RowSet rows, TurnId last, size_t length) {
  std::vector<Sums> out;
  if (span >= session.ledger.spans.size()) return out;
  size_t from = 0, to = 0;
  for (const TurnRecord& turn : session.turns) {
    if (turn.turn > last) break;
    from += turn.turn < session.ledger[span].birth;
    ++to;
  }
  if (to - from > length) from = to - length;
  for (size_t t = from; t < to; ++t) out.push_back(span_sums(session, session.turns[t], span, rows));
  return out;
}

}  // namespace spanscope
