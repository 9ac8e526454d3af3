// SPDX-License-Identifier: GPL-3.0-or-later
// A session without the turn-by-turn numbers of its cold spans: what is gone reads as missing, what stays is what it was,
// masses still add up, sums through time are whole.
#include <algorithm>
#include <cmath>

#include "core/file/session_reader.h"
#include "core/record/expert_histogram.h"
#include "core/record/reads.h"
#include "core/record/session_gc.h"
#include "core/record/session_schema.h"
#include "core/record/units.h"
#include "tests/support/catch.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/record/synthetic.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {

constexpr uint32_t kTurns = 10, kLayers = 2, kHeads = 3, kExperts = 100, kUsed = 2;

// Head detail; routing, token statistics, rows and pairs by formula.
SessionData whole_session() {
  const SyntheticTurns turns = synthetic_turns(kTurns);
  const SyntheticAttention attention(kLayers, kHeads, uint32_t(turns.plans.back().ids.size()));
  RecorderOptions options;
  options.heads = true;
  Recorder recorder(attention.recipe(), options);
  SessionData s;
  s.header.layers = kLayers, s.header.query_heads = kHeads, s.header.kv_heads = 1, s.header.window = {0, 0}, s.header.moe_layer = {1, 1};
  s.header.experts = kExperts, s.header.experts_used = kUsed, s.header.routing = true;
  s.header.detail = "token", s.header.rows = RowDetail::layers, s.header.pairs = true;
  s.ledger = turns.ledger;
  for (uint32_t m = 0; m < 2 * kTurns + 1; ++m) s.messages.push_back({m % 2 ? "user" : "assistant", "", ""});
  for (const TurnPlan& plan : turns.plans) {
    feed_turn(recorder, plan, turns.ledger, attention.source(), 64);
    TurnRecord t = *recorder.close_turn(plan, turns.ledger);
    const size_t rows = t.phase.size(), keys = t.executed_end, leaves = t.layout.size();
    t.routing.layers = kLayers, t.routing.experts_used = kUsed;
    for (size_t i = 0; i < kLayers * rows * kUsed; ++i) t.routing.ids.push_back(uint16_t(mixed(t.turn, uint32_t(i), 1, 2) % kExperts)), t.routing.weights.push_back(0.25f + float(i % 3) / 8);
    t.routing.margin.assign(kLayers * rows, 0.5f);
    for (uint32_t l = 0; l < kLayers; ++l) {
      TokenStatLayer x;
      x.layer = l, x.keys = uint32_t(keys), x.rows = uint32_t(rows), x.heads = {0, 1, 2};
      for (auto* v : {&x.column_sum, &x.column_square, &x.column_max, &x.last_row}) v->assign(kHeads * keys, 1.5f);
      x.column_count.assign(kHeads * keys, 7);
      x.row_argmax.assign(kHeads * rows, 1);
      for (auto* v : {&x.row_max, &x.row_lse, &x.row_entropy, &x.output_norm}) v->assign(kHeads * rows, 2.5f);
      x.value_norm.assign(rows, 3.0f), x.residual_cosine.assign(rows, 0.5f);
      t.token_stats.push_back(x);
      t.row_mass.push_back({l, std::vector<float>(t.answer_rows() * leaves, 0.125f)});
      t.pair_mass.push_back({l, std::vector<float>(3 * t.query_leaves.size() * leaves, 0.25f)});
    }
    s.turns.push_back(std::move(t));
  }
  return s;
}

void write(const SessionData& s, const std::string& path, bool closing) {
  auto writer = SessionWriter::create(path, true);
  REQUIRE(writer);
  REQUIRE(write_header(**writer, s.header));
  REQUIRE(write_ledger(**writer, s.ledger, 0, s.messages, 0));
  for (const TurnRecord& t : s.turns) REQUIRE(write_turn(**writer, t, s.header, s.ledger));
  if (closing) REQUIRE(write_closing(**writer, s.closing));
  REQUIRE((*writer)->finish());
}

std::shared_ptr<const SessionData> load(const std::string& path) {
  auto s = load_session(path, true);
  REQUIRE(s);
  for (const Finding& f : (*s)->findings) CHECK(f.grade < Grade::loss);
  return *s;
}

bool near(double a, double b) { return a == b || std::fabs(a - b) <= 1e-9 * std::max(std::fabs(a), std::fabs(b)); }

}  // namespace

TEST_CASE("bounded expert histogram: the worked example, and what is beyond the bound") {
  ExpertHistogram h;
  for (const auto& [e, w] : {std::pair<uint16_t, double>{2, .2}, {2, .4}, {2, .5}, {9, .5}, {9, .9}}) h.add(e, w);
  REQUIRE(h.entries().size() == 2);
  CHECK(h.entries()[0].count == 3);
  CHECK(h.entries()[1].count == 2);
  CHECK(h.mean_weight() == Approx(0.5));
  CHECK(h.overflow() == 0);
  ExpertHistogram many;
  for (uint16_t e = 0; e < 104; ++e) many.add(e, 1);
  CHECK(many.entries().size() == 64);
  CHECK(many.overflow() == 40);
  many.add(3, 1);  // tracked: counts, however full
  CHECK(many.entries()[3].count == 2);
  CHECK(many.overflow() == 40);
}

TEST_CASE("gc: cold spans lose their turns, everything else is what it was") {
  TempDir dir;
  const SessionData made = whole_session();
  const std::string from = dir / "whole.span", to = dir / "gc.span";
  write(made, from, false);
  const auto before = load(from);
  const GcPolicy policy{GcMeasure::reads, 0, 3};
  auto done = gc_session(from, to, policy, false);
  REQUIRE(done);
  const auto after = load(to);
  const GcRecord& gc = after->gc;
  CHECK(after->finished);
  // The details of this session are constants, which take no room to begin with.
  for (const char* kind : {"mass", "profile"}) CHECK(done->after[kind] < done->before[kind]);
  CHECK(gc.measure == "reads");
  CHECK(gc.turns == 3);

  // By the definition, message by message.
  const ReadHistory history = read_history(*before, {});
  size_t cold = 0, warm = 0;
  for (const Span& span : before->ledger.spans) {
    const SpanId message = span.kind == SpanKind::parent ? span.id : before->ledger.message_of(span.id);
    bool calm = message != kNoSpan && before->ledger[message].birth + 3 < kTurns;
    for (size_t t = kTurns - 3; calm && t < kTurns; ++t) calm = history.turns[t].reads[message] <= 0;
    if (span.kind == SpanKind::sink) calm = false;
    INFO("span " << span.id);
    CHECK(gc.dropped(span.id, kTurns - 4) == calm);
    CHECK(!gc.dropped(span.id, kTurns - 3));
    if (span.kind == SpanKind::parent) (calm ? cold : warm) += 1;
  }
  REQUIRE(cold > 0);
  REQUIRE(warm > 6);  // more than the youngest
  CHECK(done->cold == cold);
  CHECK(done->messages == cold + warm);

  std::map<std::tuple<SpanId, int, int>, uint64_t> gone_picks;
  for (size_t t = 0; t < kTurns; ++t) {
    const TurnRecord &a = before->turns[t], &b = after->turns[t];
    const size_t S = a.layout.size(), Q = a.query_leaves.size(), P = a.profile_spans.size(), rows = a.phase.size();
    REQUIRE(b.layout.size() == S);
    CHECK(a.events.mass == b.events.mass);
    CHECK(a.new_text == b.new_text);
    for (size_t c = 0; c < S; ++c) CHECK((a.spike[c] == b.spike[c] || (std::isnan(a.spike[c]) && std::isnan(b.spike[c]))));
    size_t wrong = 0;
    const auto compare = [&](float x, float y, bool gone) { wrong += gone ? !std::isnan(y) : x != y; };
    for (size_t line = 0; line < 3 * Q; ++line) {
      double all = 0, kept = b.gc_mass_qk.empty() ? 0 : b.gc_mass_qk[line];
      for (size_t c = 0; c < S; ++c) {
        const bool gone = gc.dropped(a.layout[c].leaf, a.turn);
        compare(a.mass_qk[line * S + c], b.mass_qk[line * S + c], gone);
        compare(a.uniform_qk[line * S + c], b.uniform_qk[line * S + c], gone);
        all += a.mass_qk[line * S + c];
        if (!gone) kept += b.mass_qk[line * S + c];
      }
      CHECK(kept == Approx(all).epsilon(1e-6));                        // conservation
      CHECK(all == Approx(double(a.rows_q[line]) * kLayers * kHeads).epsilon(1e-5));
    }
    // Shares are f16 in both files, of the same masses: as they came from the first file they need not round alike again.
    for (size_t i = 0; i < a.layer_mass.size(); ++i) {
      const bool gone = gc.dropped(a.profile_spans[i % P], a.turn);
      wrong += gone ? !std::isnan(b.layer_mass[i]) : !(std::fabs(a.layer_mass[i] - b.layer_mass[i]) <= 1e-3 * std::fabs(a.layer_mass[i]) + 1e-6);
    }
    REQUIRE(b.head_mass.size() == a.head_mass.size());
    for (size_t i = 0; i < a.head_mass.size(); ++i) {
      const bool gone = gc.dropped(a.profile_spans[i % P], a.turn);
      wrong += gone ? !std::isnan(b.head_mass[i]) : !(std::fabs(a.head_mass[i] - b.head_mass[i]) <= 1e-3 * std::fabs(a.head_mass[i]) + 1e-6);
    }
    for (size_t l = 0; l < kLayers; ++l) {
      for (size_t i = 0; i < a.row_mass[l].mass.size(); ++i) compare(a.row_mass[l].mass[i], b.row_mass[l].mass[i], gc.dropped(a.layout[i % S].leaf, a.turn));
      for (size_t i = 0; i < a.pair_mass[l].mass.size(); ++i) compare(a.pair_mass[l].mass[i], b.pair_mass[l].mass[i], gc.dropped(a.layout[i % S].leaf, a.turn));
      const TokenStatLayer &x = a.token_stats[l], &y = b.token_stats[l];
      for (size_t c = 0; c < S; ++c)
        for (Slot slot = a.layout[c].slot; slot < a.layout[c].slot + a.layout[c].len && slot < a.executed_end; ++slot) {
          const bool gone = gc.dropped(a.layout[c].leaf, a.turn);
          for (size_t h = 0; h < kHeads; ++h) {
            compare(x.column_sum[h * x.keys + slot], y.column_sum[h * x.keys + slot], gone);
            wrong += y.column_count[h * x.keys + slot] != (gone ? kNone32 : 7u);
            if (slot < a.executed_begin) continue;
            compare(x.row_max[h * rows + slot - a.executed_begin], y.row_max[h * rows + slot - a.executed_begin], gone);
          }
          if (slot < a.executed_begin) continue;
          const size_t row = slot - a.executed_begin;
          for (size_t k = 0; k < kUsed; ++k) {
            const size_t at = (l * rows + row) * kUsed + k;
            wrong += b.routing.ids[at] != (gone ? kNoExpert : a.routing.ids[at]);
            compare(a.routing.weights[at], b.routing.weights[at], gone);
            if (gone) ++gone_picks[{a.layout[c].leaf, int(l), int(a.phase[row])}];
          }
        }
    }
    CHECK(wrong == 0);

    // Units: missing where dropped, else the same.
    for (const RowSet set : {RowSet::answer, RowSet::all, RowSet::consumer, RowSet::prompt}) {
      const auto x = turn_sums(*before, a, set), y = turn_sums(*after, b, set);
      for (const Span& span : before->ledger.spans)
        for (const Unit unit : {Unit::mass, Unit::share, Unit::density, Unit::lift}) {
          const Value v = unit_of(x[span.id], unit, span.tokens, span.kind == SpanKind::sink), w = unit_of(y[span.id], unit, span.tokens, span.kind == SpanKind::sink);
          if (gc.dropped(span.id, a.turn)) wrong += w.state != ValueState::missing;
          else wrong += v.state != w.state || (v.ok() && v.number != w.number);
        }
    }
    const TurnReads p = reads_of_turn(*before, a, {}), q = reads_of_turn(*after, b, {});
    CHECK(p.reads == q.reads);
    CHECK(p.was_read == q.was_read);
    CHECK(wrong == 0);
  }

  // Picks: none is lost, and none of a tracked expert is in two places.
  std::map<std::tuple<SpanId, int, int>, uint64_t> kept_picks;
  for (size_t i = 0; i < gc.picks.size(); ++i) kept_picks[{gc.picks.span[i], gc.picks.layer[i], gc.picks.phase[i]}] += gc.picks.count[i];
  CHECK(!gone_picks.empty());
  CHECK(kept_picks == gone_picks);

  // Sums through time at the end, though the turns are gone; before the end they are not known.
  for (const RowSet set : {RowSet::answer, RowSet::all, RowSet::consumer, RowSet::prompt}) {
    for (const double lambda : {0.9, 1.0}) {
      const Recurrence x = replay_recurrence(*before, set, lambda, kTurns - 1), y = replay_recurrence(*after, set, lambda, kTurns - 1);
      for (const Span& span : before->ledger.spans) {
        INFO("span " << span.id << " set " << int(set) << " lambda " << lambda);
        CHECK(near(x.cumulative[span.id].n, y.cumulative[span.id].n));
        CHECK(near(x.cumulative[span.id].triples, y.cumulative[span.id].triples));
        CHECK(near(x.ema[span.id].n, y.ema[span.id].n));
        CHECK(near(x.ema[span.id].u, y.ema[span.id].u));
        CHECK(x.ema[span.id].resident == y.ema[span.id].resident);
      }
    }
    const Recurrence other = replay_recurrence(*after, set, 0.5, kTurns - 1), early = replay_recurrence(*after, set, 0.9, kTurns - 2);
    for (SpanId id : gc.spans) {
      CHECK(unit_of(other.ema[id], Unit::mass, 1, false).state == ValueState::missing);
      CHECK(unit_of(early.cumulative[id], Unit::share, 1, false).state == ValueState::missing);
      for (const Sums& sums : ring_of(*after, id, set, kTurns - 4)) CHECK((!sums.resident || std::isnan(sums.n)));
    }
  }
  // Continued since: the kept sums do not reach to the end, so they are not taken for it.
  SessionData longer = *after;
  longer.turns.push_back(longer.turns.back());
  longer.turns.back().turn = kTurns;
  const Recurrence on = replay_recurrence(longer, RowSet::answer, 0.9, kTurns);
  for (SpanId id : gc.spans) CHECK(unit_of(on.cumulative[id], Unit::share, 1, false).state == ValueState::missing);
  CHECK(dead_weight(*before, history, kTurns - 1, true) == dead_weight(*after, read_history(*after, {}), kTurns - 1, true));

  // Again, with the same policy: nothing more goes.
  auto twice = gc_session(to, dir / "twice.span", policy, false);
  REQUIRE(twice);
  const auto again = load(dir / "twice.span");
  CHECK(again->gc.spans == gc.spans);
  CHECK(again->gc.until == gc.until);
  CHECK(again->gc.picks.count == gc.picks.count);
  CHECK(again->closing.sum_n == after->closing.sum_n);
  for (size_t t = 0; t < kTurns; ++t)
    for (size_t i = 0; i < again->turns[t].gc_mass_qk.size(); ++i) CHECK(again->turns[t].gc_mass_qk[i] == after->turns[t].gc_mass_qk[i]);
}

TEST_CASE("gc: by share and by ema, and what is refused") {
  TempDir dir;
  SessionData made = whole_session();
  const std::string from = dir / "whole.span";
  write(made, from, false);
  const auto before = load(from);
  for (const GcMeasure measure : {GcMeasure::share, GcMeasure::ema}) {
    const GcPolicy policy{measure, 0.05, 2};
    REQUIRE(gc_session(from, dir / "x.span", policy, true));
    const auto after = load(dir / "x.span");
    size_t cold = 0, warm = 0;
    for (const Span& span : before->ledger.spans) {
      if (span.kind != SpanKind::parent) continue;
      bool calm = span.birth + 2 < kTurns;
      for (TurnId t = kTurns - 2; calm && t < kTurns; ++t) {
        const Sums sums = measure == GcMeasure::share ? turn_sums(*before, before->turns[t], RowSet::answer)[span.id] : replay_recurrence(*before, RowSet::answer, before->header.lambda, t).ema[span.id];
        calm = !(sums.n / sums.triples > 0.05);
      }
      CHECK(after->gc.dropped(span.id, 0) == calm);
      (calm ? cold : warm) += 1;
    }
    CHECK(cold > 0);
    CHECK(warm > 4);
  }
  CHECK(gc_session(from, from, {}, true).error().tag == "SPAN-SAME-FILE");
  CHECK(gc_session(from, dir / "x.span", {GcMeasure::reads, 0, 2}, false).error().tag == "SPAN-EXISTS");
  CHECK(gc_session(from, dir / "y.span", {GcMeasure::reads, 0, kTurns}, false).error().tag == "SPAN-GC-TURNS");
  CHECK(!load_session(dir / "y.span"));
  // The sums of a finished session are taken as they are.
  made.closing.sum_n.assign(3 * made.ledger.spans.size(), 4.25);
  for (auto* v : {&made.closing.ema_n, &made.closing.ema_triples, &made.closing.ema_sink, &made.closing.ema_u, &made.closing.sum_triples, &made.closing.sum_sink, &made.closing.sum_u})
    v->assign(3 * made.ledger.spans.size(), 1);
  write(made, from, true);
  REQUIRE(gc_session(from, dir / "z.span", {GcMeasure::reads, 0, 3}, false));
  CHECK(load(dir / "z.span")->closing.sum_n == made.closing.sum_n);
}
