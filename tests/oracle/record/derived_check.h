// SPDX-License-Identifier: GPL-3.0-or-later
// Compares a session with the reference data derived/<family>: every number that a recording holds, and what follows from
// it. Tolerances are those that the reference data states for an f32 engine.
#pragma once
#include <cmath>
#include <string>
#include <vector>

#include "core/base/files.h"
#include "core/base/json.h"
#include "core/file/safetensors.h"
#include "core/record/profile_shares.h"
#include "core/record/reads.h"
#include "core/record/units.h"
#include "tests/support/oracles.h"

namespace spanscope::test {

struct Derived {
  std::string family, spans_json;
  OrderedJson spans, lists;
  Blob arrays;

  bool has(const std::string& name) const { return arrays.find(name) != nullptr; }
  std::vector<double> f64(const std::string& name) const { return take<double>(name); }
  std::vector<int32_t> i32(const std::string& name) const { return take<int32_t>(name); }
  std::vector<uint8_t> u8(const std::string& name) const { return take<uint8_t>(name); }

 private:
  template <class T>
  std::vector<T> take(const std::string& name) const {
    auto values = arrays.get<T>(name);
    if (!values) FAIL(name << ": " << values.error().line());
    return *values;
  }
};

inline std::optional<Derived> load_derived(const std::string& family) {
  const auto spans = oracle("derived/" + family + "/spans.json"), lists = oracle("derived/" + family + "/derived.json"),
             arrays = oracle("derived/" + family + "/derived.safetensors");
  if (!spans || !lists || !arrays) return std::nullopt;
  Derived d;
  d.family = family;
  d.spans_json = *read_file(*spans);
  d.spans = *parse_json(d.spans_json, *spans);
  d.lists = *parse_json(*read_file(*lists), *lists);
  auto blob = read_safetensors_file(*arrays);
  if (!blob) FAIL(blob.error().line());
  d.arrays = std::move(*blob);
  return d;
}

// |x - ref| <= tolerance * max(|ref|, 1); with `ratio` also relative above 1e-3. NaN = missing must agree.
class Comparison {
 public:
  void value(const std::string& what, double x, double ref, double tolerance = 1e-5, bool ratio = false) {
    ++count;
    if (std::isnan(ref) || std::isnan(x)) {
      if (std::isnan(ref) != std::isnan(x)) fail(what, x, ref);
      return;
    }
    const double difference = std::fabs(x - ref);
    worst = std::max(worst, difference / std::max(std::fabs(ref), 1.0));
    if (!(difference <= tolerance * std::max(std::fabs(ref), 1.0))) fail(what, x, ref);
    if (ratio && std::fabs(ref) > 1e-3 && !(difference <= tolerance * std::fabs(ref))) fail(what, x, ref);
  }
  void relative(const std::string& what, double x, double ref, double tolerance) {
    ++count;
    if (!(std::fabs(x - ref) <= tolerance * std::fabs(ref))) fail(what, x, ref);
  }
  template <class A, class B>
  void equal(const std::string& what, const A& x, const B& ref) {
    ++count;
    if (!(x == ref)) {
      ++failures;
      if (failures < 20) UNSCOPED_INFO(what << ": found " << x << ", expected " << ref);
    }
  }
  void finish(const std::string& what) {
    INFO(what << ": " << failures << " of " << count << " differ");
    CHECK(failures == 0);
    CHECK(count > 0);
  }
  size_t count = 0, failures = 0;
  double worst = 0;

 private:
  void fail(const std::string& what, double x, double ref) {
    ++failures;
    if (failures < 20) UNSCOPED_INFO(what << ": found " << x << ", expected " << ref);
  }
};

inline SessionData first_turns(const SessionData& session, size_t turns) {
  SessionData out = session;
  out.turns.resize(turns);
  return out;
}

inline std::string at(const char* name, size_t a, size_t b = 0, size_t c = 0) {
  return std::string(name) + "[" + std::to_string(a) + "," + std::to_string(b) + "," + std::to_string(c) + "]";
}

inline const RowSet kRowSets[] = {RowSet::prompt, RowSet::answer, RowSet::all, RowSet::consumer};
inline const Unit kUnits[] = {Unit::mass, Unit::share, Unit::density, Unit::lift};

// D3: what the frames of a turn hold.
// A profile's number: from the file a share within 1e-3 relative or 1e-6 absolute, from memory a mass like any other.
inline void check_profile(Comparison& c, const std::string& what, double mass, double ref, double triples, bool from_file) {
  if (!from_file || std::isnan(ref) || std::isnan(mass) || triples == 0) return c.value(what, mass, ref);
  if (std::fabs(mass - ref) / triples <= 1e-6) return c.value(what, ref, ref);
  c.relative(what, mass, ref, 1e-3);
}

inline void check_recorded(Comparison& c, const SessionData& session, const TurnRecord& turn, const Derived& d, const std::string& t,
                           bool from_file) {
  const size_t spans = session.ledger.spans.size(), layers = session.header.layers, leaves = turn.layout.size();
  const auto query = d.i32(t + "q_leaves");
  c.equal("query leaves", turn.query_leaves.size(), query.size());
  if (turn.query_leaves.size() != query.size()) return;
  const size_t q_count = query.size();
  for (size_t q = 0; q < q_count; ++q) c.equal("query leaf", turn.query_leaves[q], SpanId(query[q]));
  const auto mass = d.f64(t + "mass_qk"), uniform = d.f64(t + "uniform_qk");
  const auto rows = d.i32(t + "rows_q");
  for (size_t p = 0; p < 3; ++p)
    for (size_t q = 0; q < q_count; ++q) {
      c.equal(at("rows_q", p, q), int32_t(turn.rows_q[p * q_count + q]), rows[p * q_count + q]);
      std::vector<double> ours(spans, 0), ours_uniform(spans, 0);
      for (size_t k = 0; k < leaves; ++k) {
        ours[turn.layout[k].leaf] = turn.mass_qk[(p * q_count + q) * leaves + k];
        ours_uniform[turn.layout[k].leaf] = turn.uniform_qk[(p * q_count + q) * leaves + k];
      }
      for (size_t s = 0; s < spans; ++s) {
        c.value(at("mass_qk", p, q, s), ours[s], mass[(p * q_count + q) * spans + s]);
        c.relative(at("uniform_qk", p, q, s), ours_uniform[s], uniform[(p * q_count + q) * spans + s], 1e-6);
      }
    }
  const auto learned = d.f64(t + "learned_sink"), unattributed = d.f64(t + "unattributed"), layer = d.f64(t + "layer");
  for (size_t i = 0; i < 3 * layers; ++i) {
    c.value(at("learned_sink", i), turn.learned_sink[i], learned[i]);
    c.value(at("unattributed", i), turn.unattributed[i], unattributed[i]);
  }
  const size_t profiles = turn.profile_spans.size();
  const ProfileRows profile = profile_rows(turn, session.ledger);
  std::vector<double> rows_of[2] = {std::vector<double>(spans, 0), std::vector<double>(spans, 0)};
  for (size_t i = 0; i < profiles; ++i)
    for (size_t r = 0; r < 2; ++r) rows_of[r][turn.profile_spans[i]] = profile.of(r, i);
  for (size_t l = 0; l < layers; ++l)
    for (size_t r = 0; r < 2; ++r) {
      std::vector<double> ours(spans, std::nan(""));
      for (size_t i = 0; i < profiles; ++i) ours[turn.profile_spans[i]] = turn.layer_mass[(l * 2 + r) * profiles + i];
      for (size_t s = 0; s < spans; ++s) check_profile(c, at("layer", l, r, s), ours[s], layer[(l * 2 + r) * spans + s], rows_of[r][s] * session.header.query_heads, from_file);
    }
  if (turn.head_mass.empty()) return;
  const auto head = d.f64(t + "head");
  const size_t heads = head.size() / layers / 2 / spans;
  for (size_t pair = 0; pair < layers * heads; ++pair)
    for (size_t r = 0; r < 2; ++r) {
      std::vector<double> ours(spans, std::nan(""));
      for (size_t i = 0; i < profiles; ++i) ours[turn.profile_spans[i]] = turn.head_mass[(pair * 2 + r) * profiles + i];
      for (size_t s = 0; s < spans; ++s) check_profile(c, at("head", pair, r, s), ours[s], head[(pair * 2 + r) * spans + s], rows_of[r][s], from_file);
    }
}

// D4: sums and units of the turn.
inline void check_units(Comparison& c, const SessionData& session, const TurnRecord& turn, const Derived& d, const std::string& t) {
  const size_t spans = session.ledger.spans.size();
  const auto n = d.f64(t + "N"), triples = d.f64(t + "triples"), sink = d.f64(t + "sink_mass"), u = d.f64(t + "U"), unit = d.f64(t + "unit");
  const auto state = d.u8(t + "lift_state");
  const double nan = std::nan("");
  for (size_t r = 0; r < 4; ++r) {
    const auto sums = turn_sums(session, turn, kRowSets[r]);
    for (size_t s = 0; s < spans; ++s) {
      const size_t i = r * spans + s;
      const bool here = sums[s].resident;
      c.value(at("N", r, s), here ? sums[s].n : nan, n[i]);
      c.value(at("triples", r, s), here ? sums[s].triples : nan, triples[i], 0);
      c.value(at("sink_mass", r, s), here ? sums[s].sink : nan, sink[i]);
      c.value(at("U", r, s), here ? sums[s].u : nan, u[i], 1e-6);
      const Sums one = span_sums(session, turn, SpanId(s), kRowSets[r]);
      c.equal(at("span_sums", r, s), one.resident, here);
      c.value(at("span_sums", r, s), one.n, sums[s].n, 1e-12);
      c.value(at("span_sums", r, s), one.sink, sums[s].sink, 1e-12);
      c.value(at("span_sums", r, s), one.u, sums[s].u, 1e-12);
      c.value(at("span_sums", r, s), one.triples, sums[s].triples, 0);
      for (size_t k = 0; k < 4; ++k) {
        const Value v = unit_of(sums[s], kUnits[k], session.ledger[SpanId(s)].tokens, session.ledger[SpanId(s)].kind == SpanKind::sink);
        c.value(at("unit", k, r, s), v.number, unit[(k * 4 + r) * spans + s], 1e-5, k > 0);
        if (kUnits[k] == Unit::lift) c.equal(at("lift_state", r, s), int(v.state), int(state[i]));
      }
    }
  }
}

// D5: spike, events, reads.
inline void check_reads(Comparison& c, const SessionData& session, size_t index, const Derived& d, const std::string& t) {
  const TurnRecord& turn = session.turns[index];
  const size_t spans = session.ledger.spans.size(), pairs = size_t(session.header.layers) * session.header.query_heads;
  const auto spike = d.f64(t + "spike"), spike_margin = d.f64(t + "spike_margin"), rate = d.f64(t + "read_rate");
  const auto spike_at = d.i32(t + "spike_at"), reads = d.i32(t + "reads"), theta_reads = d.i32(t + "reads_theta"), lh = d.i32(t + "reads_lh"),
             first = d.i32(t + "first_read"), last = d.i32(t + "last_read");
  const auto was = d.u8(t + "was_read");
  const TurnReads ours = reads_of_turn(session, turn, {});
  const float thetas[] = {0.20f, 0.30f, 0.50f};
  std::vector<TurnReads> at_theta;
  for (float theta : thetas) at_theta.push_back(reads_of_turn(session, turn, {theta, 0, 0}));
  const ReadHistory history = read_history(first_turns(session, index + 1), {});
  int64_t total = 0;
  for (size_t s = 0; s < spans; ++s) {
    c.value(at("spike", s), ours.spike[s], spike[s]);
    if (!std::isnan(spike[s]) && spike_margin[s] >= 1e-5) {
      c.equal(at("spike layer", s), int(ours.spike_layer[s]), spike_at[s * 3]);
      c.equal(at("spike head", s), int(ours.spike_head[s]), spike_at[s * 3 + 1]);
      c.equal(at("spike row", s), int(ours.spike_row[s]), spike_at[s * 3 + 2]);
    }
    c.equal(at("reads", s), ours.reads[s], reads[s]);
    for (size_t k = 0; k < 3; ++k) c.equal(at("reads_theta", k, s), at_theta[k].reads[s], theta_reads[k * spans + s]);
    c.equal(at("was_read", s), int(ours.was_read[s]), int(was[s]));
    c.value(at("read_rate", s), ours.reads[s] < 0 || ours.answer_rows == 0 ? std::nan("") : double(ours.reads[s]) / ours.answer_rows, rate[s]);
    // -1 in the reference: not yet born
    c.equal(at("first_read", s), int(history.first_read[s]), std::max(first[s], 0));
    c.equal(at("last_read", s), int(history.last_read[s]), std::max(last[s], 0));
    std::vector<int> by_head(pairs, 0);
    for (const Reader& reader : readers_of(session, turn, SpanId(s), {})) by_head[size_t(reader.layer) * session.header.query_heads + reader.head] = int(reader.reads);
    for (size_t pair = 0; pair < pairs; ++pair) c.equal(at("reads_lh", pair, s), by_head[pair], lh[pair * spans + s]);
    if (session.ledger[SpanId(s)].leaf() && reads[s] > 0) total += reads[s];
  }
  c.equal("total reads", ours.total, total);
  const auto row = d.i32(t + "event_row"), leaf = d.i32(t + "event_leaf"), layer = d.i32(t + "event_layer"), head = d.i32(t + "event_head");
  const auto mass = d.f64(t + "event_mass"), habit = d.f64(t + "event_habit");
  const EventColumns& e = turn.events;
  c.equal("events", e.size(), row.size());
  for (size_t i = 0; i < std::min(e.size(), row.size()); ++i) {
    c.equal(at("event row", i), int(e.row[i]), row[i]);
    c.equal(at("event leaf", i), int(e.leaf[i]), leaf[i]);
    c.equal(at("event layer", i), int(e.layer[i]), layer[i]);
    c.equal(at("event head", i), int(e.head[i]), head[i]);
    c.value(at("event mass", i), e.mass[i], mass[i]);
    c.value(at("event habit", i), e.habit[i], habit[i]);
  }
}

// D5: decayed and plain sums, the unit taken last.
inline void check_time(Comparison& c, const SessionData& session, size_t index, const Derived& d, const std::string& t) {
  const size_t spans = session.ledger.spans.size();
  const double lambdas[] = {0.0, 0.5, 0.9, 1.0};
  const bool decayed = d.has(t + "ema");  // a long session's reference has it in some turns
  const auto ema = decayed ? d.f64(t + "ema") : std::vector<double>(), cumulative = d.f64(t + "cumulative");
  const auto ema_state = decayed ? d.u8(t + "ema_lift_state") : std::vector<uint8_t>(), cumulative_state = d.u8(t + "cumulative_lift_state");
  for (size_t li = 0; li < 4; ++li)
    for (size_t r = 0; r < 3; ++r) {
      const Recurrence ours = replay_recurrence(session, kRowSets[r + 1], lambdas[li], TurnId(index));
      for (size_t s = 0; s < spans; ++s)
        for (size_t k = 0; k < 4; ++k) {
          const Span& span = session.ledger[SpanId(s)];
          const Value e = unit_of(ours.ema[s], kUnits[k], span.tokens, span.kind == SpanKind::sink);
          if (decayed) c.value(at("ema", li * 4 + k, r, s), e.number, ema[((li * 4 + k) * 3 + r) * spans + s], 1e-5, k > 0);
          const Value sum = unit_of(ours.cumulative[s], kUnits[k], span.tokens, span.kind == SpanKind::sink);
          c.value(at("cumulative", k, r, s), sum.number, cumulative[(k * 3 + r) * spans + s], 1e-5, k > 0);
          if (kUnits[k] != Unit::lift) continue;
          if (decayed) c.equal(at("ema_lift_state", li, r, s), int(e.state), int(ema_state[(li * 3 + r) * spans + s]));
          c.equal(at("cumulative_lift_state", r, s), int(sum.state), int(cumulative_state[r * spans + s]));
        }
    }
}

inline void check_lists(Comparison& c, const SessionData& session, size_t index, const OrderedJson& list) {
  const TurnId turn = TurnId(index);
  const ReadHistory history = read_history(session, {});
  const auto ids = [](const OrderedJson& json) { return json.get<std::vector<SpanId>>(); };
  const auto same = [&](const std::string& what, const std::vector<SpanId>& found, const OrderedJson& expected) {
    c.equal(what + " " + expected.dump(), found == ids(expected), true);
  };
  same("dead weight", dead_weight(session, history, turn, false), list["dead_weight"]);
  same("dead weight of parents", dead_weight(session, history, turn, true), list["dead_weight_parents"]);
  for (const auto& [k, cold] : list["cold"].items()) {
    same("cold " + k, cold_for(session, history, turn, uint32_t(std::stoul(k)), false), cold["content"]);
    same("cold parents " + k, cold_for(session, history, turn, uint32_t(std::stoul(k)), true), cold["parents"]);
  }
  std::vector<SpanId> resident, read;
  for (SpanId s = 0; s < session.ledger.spans.size(); ++s) {
    if (history.turns[index].reads[s] >= 0) resident.push_back(s);
    if (history.turns[index].was_read[s]) read.push_back(s);
    OrderedJson readers = OrderedJson::array();
    for (const Reader& r : readers_of(session, session.turns[index], s, {})) readers.push_back({r.layer, r.head, r.reads});
    const auto expected = list["readers"].find(std::to_string(s));
    c.equal("readers of " + std::to_string(s), readers.dump(), expected == list["readers"].end() ? "[]" : expected->dump());
  }
  same("resident", resident, list["resident"]);
  same("read", read, list["read"]);
}

inline void check_ring(Comparison& c, const SessionData& session, const Derived& d) {
  const size_t spans = session.ledger.spans.size(), turns = session.turns.size();
  const auto n = d.f64("ring_N"), triples = d.f64("ring_triples"), sink = d.f64("ring_sink_mass"), u = d.f64("ring_U");
  const auto length = d.i32("ring_len");
  for (size_t r = 0; r < 3; ++r)
    for (size_t s = 0; s < spans; ++s) {
      const auto ring = ring_of(session, SpanId(s), kRowSets[r + 1], TurnId(turns - 1));
      c.equal(at("ring_len", s), int(ring.size()), length[s]);
      for (size_t i = 0; i < ring.size(); ++i) {
        const size_t k = (r * spans + s) * turns + i;
        c.value(at("ring_N", r, s, i), ring[i].n, n[k]);
        c.value(at("ring_triples", r, s, i), ring[i].triples, triples[k], 0);
        c.value(at("ring_sink_mass", r, s, i), ring[i].sink, sink[k]);
        c.value(at("ring_U", r, s, i), ring[i].u, u[k], 1e-6);
      }
    }
}

// D6: picks per position, and histograms per span that follow from them.
inline void check_routing(Comparison& c, const SessionData& session, const Derived& d) {
  const auto ids = d.i32("route_ids"), counts = d.i32("route_counts");
  const auto weights = d.f64("route_weights"), margin = d.f64("route_margin");
  const auto phase = d.u8("route_phase");
  const size_t layers = session.header.layers, k = session.header.experts_used, experts = session.header.experts;
  const size_t spans = session.ledger.spans.size(), n = phase.size();
  std::vector<int32_t> ours(layers * 2 * spans * experts, 0);
  for (const TurnRecord& turn : session.turns) {
    const size_t rows = turn.phase.size();
    c.equal("MoE layers", turn.routing.layers, layers);
    for (size_t l = 0; l < layers; ++l)
      for (size_t r = 0; r < rows; ++r) {
        const size_t position = turn.executed_begin + r;
        c.equal(at("route_phase", position), int(turn.phase[r]), int(phase[position]));
        c.value(at("route_margin", l, position), turn.routing.margin[l * rows + r], margin[l * n + position]);
        for (size_t i = 0; i < k; ++i) {
          const size_t from = (l * rows + r) * k + i, to = (l * n + position) * k + i;
          c.equal(at("route_ids", l, position, i), int(turn.routing.ids[from]), ids[to]);
          c.value(at("route_weights", l, position, i), turn.routing.weights[from], weights[to]);
          for (const LayoutEntry& e : turn.layout) {
            if (position < e.slot || position >= e.slot + e.len) continue;
            std::vector<SpanId> own{e.leaf};
            if (session.ledger[e.leaf].kind == SpanKind::content)
              for (SpanId a : session.ledger.ancestors(e.leaf)) own.push_back(a);
            for (SpanId s : own) ++ours[((l * 2 + turn.phase[r]) * spans + s) * experts + turn.routing.ids[from]];
          }
        }
      }
  }
  for (size_t i = 0; i < ours.size(); ++i) c.equal(at("route_counts", i), ours[i], counts[i]);
}

inline void check_session(const SessionData& session, const Derived& d, bool from_file) {
  REQUIRE(session.turns.size() == d.lists["lists"].size());
  REQUIRE(session.ledger.spans.size() == d.spans["spans"].size());
  Comparison recorded, units, reads, time, lists, ring;
  for (size_t t = 0; t < session.turns.size(); ++t) {
    const std::string prefix = "t0" + std::to_string(t + 1) + ".";
    check_recorded(recorded, session, session.turns[t], d, prefix, from_file);
    check_units(units, session, session.turns[t], d, prefix);
    check_reads(reads, session, t, d, prefix);
    check_time(time, session, t, d, prefix);
    check_lists(lists, session, t, d.lists["lists"][t]);
  }
  check_ring(ring, session, d);
  recorded.finish(d.family + " recorded");
  units.finish(d.family + " units");
  reads.finish(d.family + " reads");
  time.finish(d.family + " through time");
  lists.finish(d.family + " lists");
  ring.finish(d.family + " ring");
  if (session.header.routing) {
    Comparison routing;
    check_routing(routing, session, d);
    routing.finish(d.family + " routing");
  }
}

}  // namespace spanscope::test
