// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/record/units.h"

#include <algorithm>

namespace spanscope {
namespace {

// One resident span at a turn: its columns in the layout (content leaves of a parent) and where it ends.
struct Resident {
  SpanId id;
  std::vector<size_t> columns;
  TokenPos end = 0;
};

std::vector<Resident> residents(const SessionData& session, const TurnRecord& turn) {
  std::vector<Resident> out;
  std::vector<int64_t> at(session.ledger.spans.size(), -1);
  auto add = [&](SpanId id, size_t column, TokenPos end) {
    if (at[id] < 0) {
      at[id] = int64_t(out.size());
      out.push_back({id, {}, 0});
    }
    Resident& r = out[size_t(at[id])];
    r.columns.push_back(column);
    r.end = std::max(r.end, end);
  };
  for (size_t c = 0; c < turn.layout.size(); ++c) {
    const LayoutEntry& e = turn.layout[c];
    if (e.leaf >= at.size()) continue;
    add(e.leaf, c, e.position + e.len);
    if (session.ledger[e.leaf].kind == SpanKind::content)
      for (SpanId parent : session.ledger.ancestors(e.leaf)) add(parent, c, e.position + e.len);
  }
  return out;
}

bool in_set(size_t phase, RowSet rows) {
  switch (rows) {
    case RowSet::prompt: return phase == 0;
    case RowSet::answer: return phase == 1;
    case RowSet::all:
    case RowSet::consumer: return phase <= 1;
  }
  return false;
}

}  // namespace

std::vector<Sums> turn_sums(const SessionData& session, const TurnRecord& turn, RowSet rows) {
  std::vector<Sums> out(session.ledger.spans.size());
  const size_t q_count = turn.query_leaves.size(), columns = turn.layout.size();
  const double per_row = double(session.header.layers) * session.header.query_heads;
  // First position of each query leaf: a leaf's rows lie either all before or all behind another span's end.
  std::vector<TokenPos> q_position(q_count, 0);
  std::vector<size_t> sinks;
  for (size_t c = 0; c < columns; ++c) {
    const LayoutEntry& e = turn.layout[c];
    for (size_t q = 0; q < q_count; ++q)
      if (turn.query_leaves[q] == e.leaf) q_position[q] = e.position;
    if (e.leaf < out.size() && session.ledger[e.leaf].kind == SpanKind::sink) sinks.push_back(c);
  }
  double learned = 0;  // stored per phase; only row sets that take whole phases can use it
  for (size_t p = 0; p < 3; ++p)
    if (in_set(p, rows))
      for (uint32_t l = 0; l < session.header.layers && p * session.header.layers + l < turn.learned_sink.size(); ++l)
        learned += turn.learned_sink[p * session.header.layers + l];
  for (const Resident& r : residents(session, turn)) {
    Sums& s = out[r.id];
    s.resident = true;
    double row_count = 0;
    for (size_t p = 0; p < 3; ++p) {
      if (!in_set(p, rows)) continue;
      for (size_t q = 0; q < q_count; ++q) {
        if (rows == RowSet::consumer && q_position[q] < r.end) continue;
        const size_t base = (p * q_count + q) * columns;
        row_count += turn.rows_q[p * q_count + q];
        for (size_t c : r.columns) {
          s.n += turn.mass_qk[base + c];
          s.u += turn.uniform_qk[base + c];
        }
        for (size_t c : sinks) s.sink += turn.mass_qk[base + c];
      }
    }
    s.triples = row_count * per_row;
    if (rows != RowSet::consumer) s.sink += learned;
  }
  return out;
}

Value unit_of(const Sums& s, Unit unit, uint32_t tokens, bool sink_span, double idle) {
  if (s.triples <= 0) return {};
  switch (unit) {
    case Unit::mass: return {s.n, ValueState::value};
    case Unit::share: return {s.n / s.triples, ValueState::value};
    case Unit::density:
      if (tokens == 0) return {};
      return {s.n / s.triples / tokens, ValueState::value};
    case Unit::lift: {
      if (sink_span || s.u <= 0) return {};
      const double rest = s.triples - s.sink;
      if (rest < idle * s.triples) return {std::numeric_limits<double>::quiet_NaN(), ValueState::idle};
      return {(s.n / rest) / (s.u / s.triples), ValueState::value};
    }
  }
  return {};
}

Recurrence replay_recurrence(const SessionData& session, RowSet rows, double lambda, TurnId last) {
  Recurrence out;
  const size_t spans = session.ledger.spans.size();
  out.ema.resize(spans);
  out.cumulative.resize(spans);
  for (const TurnRecord& turn : session.turns) {
    if (turn.turn > last) break;
    const auto sums = turn_sums(session, turn, rows);
    for (size_t i = 0; i < spans; ++i) {
      Sums& e = out.ema[i];
      e.n *= lambda, e.triples *= lambda, e.sink *= lambda, e.u *= lambda;
      if (!sums[i].resident) continue;
      e += sums[i];
      out.cumulative[i] += sums[i];
      e.resident = out.cumulative[i].resident = true;
    }
  }
  return out;
}

std::vector<Sums> ring_of(const SessionData& session, SpanId span, RowSet rows, TurnId last, size_t length) {
  std::vector<Sums> out;
  if (span >= session.ledger.spans.size()) return out;
  const TurnId birth = session.ledger[span].birth;
  for (const TurnRecord& turn : session.turns) {
    if (turn.turn > last) break;
    if (turn.turn < birth) continue;
    const Sums sums = turn_sums(session, turn, rows)[span];
    out.push_back(sums.resident ? sums : Sums{});
  }
  if (out.size() > length) out.erase(out.begin(), out.end() - ptrdiff_t(length));
  return out;
}

}  // namespace spanscope
