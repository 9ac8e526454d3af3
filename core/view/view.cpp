// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/view/view.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/view/session_columns.h"

namespace spanscope {
namespace {

constexpr const char* kRows[] = {"prompt", "answer", "all", "consumer"};

// Index of the turn: the one asked for, or the last that has answer rows, or the last.
Result<size_t> find_turn(const SessionData& s, TurnId turn) {
  if (s.turns.empty()) return make_error(ErrorCode::not_found, "SPAN-NO-TURNS", "the session has no closed turn", s.path);
  if (turn != kNone32) {
    for (size_t i = 0; i < s.turns.size(); ++i)
      if (s.turns[i].turn == turn) return i;
    return make_error(ErrorCode::not_found, "SPAN-TURN",
                      fmt::format("turn {} is not in the session, it has turns {} to {}", turn + 1, s.turns.front().turn + 1, s.turns.back().turn + 1), s.path);
  }
  for (size_t i = s.turns.size(); i-- > 0;)
    if (s.turns[i].answer_rows() > 0) return i;
  return s.turns.size() - 1;
}

// Where a span lies at the turn; a parent from its first to its last resident content leaf. Not resident: len 0.
struct Place {
  Slot from = 0;
  uint32_t len = 0;
};
std::vector<Place> places_at(const SessionData& s, const TurnRecord& turn) {
  std::vector<Place> out(s.ledger.spans.size());
  for (const LayoutEntry& e : turn.layout) {
    auto cover = [&](SpanId id) {
      Place& p = out[id];
      if (p.len == 0) p.from = e.slot;
      p.len = e.slot + e.len - p.from;
    };
    cover(e.leaf);
    if (s.ledger[e.leaf].kind == SpanKind::content)
      for (SpanId parent : s.ledger.ancestors(e.leaf)) cover(parent);
  }
  return out;
}

}  // namespace

const char* tier_name(Tier t) { return t == Tier::free ? "free" : t == Tier::kept ? "kept" : "re-attended"; }
const char* verdict_name(Verdict v) {
  constexpr const char* names[] = {"HIT", "FAULT", "RECOMPUTE", "REFUSE", "ABSTAIN"};
  return names[size_t(v)];
}

Result<View> run_view(const SessionData& s, const ViewQuery& query) {
  auto found = find_turn(s, query.turn);
  if (!found) return std::move(found).error();
  const TurnRecord& turn = s.turns[*found];
  View out;
  out.turn = turn.turn;
  out.predicate = query.predicate;
  out.preset = query.preset;

  std::vector<SpanId> rows = spans_at_level(s, query.level);
  if (query.with_sinks)
    for (const Span& span : s.ledger.spans)
      if (span.kind == SpanKind::sink) rows.insert(rows.begin(), span.id);
  SessionColumns columns(s, rows, *found, query.settings, query.with_sinks);
  std::vector<uint8_t> keep(rows.size(), 1);
  int direction = 0;
  Scalar shown;
  shown.column = measure_name(query.settings.measure);
  if (!query.predicate.empty()) {
    auto predicate = Predicate::parse(query.predicate, columns);
    if (!predicate) return std::move(predicate).error();
    keep = predicate->evaluate(columns);
    if (auto first = predicate->first_scalar()) shown = *first;
    direction = predicate->first_direction();
  }

  const auto places = places_at(s, turn);
  const SpanId request = request_of(s, turn);
  const MeasureSettings& m = query.settings;
  out.caption = fmt::format("turn {}: {}{}", turn.turn + 1,
                            m.measure == Measure::reads ? "reads at strength " + fmt::format("{:.2f}", m.reads.theta) + ", answer rows"
                                                        : std::string(measure_name(m.measure)) + " over " + kRows[size_t(m.rows)] + " rows",
                            query.with_sinks ? "" : ", sinks left out");
  std::vector<size_t> order;
  for (size_t i = 0; i < rows.size(); ++i)
    if (keep[i]) order.push_back(i);

  if (query.preset.empty() && direction != 0) {  // strongest (or smallest) first; missing and idle last
    std::vector<Value> value(rows.size());
    for (size_t i : order) value[i] = columns.scalar(i, shown);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      if (value[a].ok() != value[b].ok()) return value[a].ok();
      return value[a].ok() && (direction > 0 ? value[a].number > value[b].number : value[a].number < value[b].number);
    });
  }
  bool drop_absent = false;
  if (query.preset == "hottest") {
    if (query.predicate.empty()) shown.column = measure_name(m.measure);
    drop_absent = true;
    std::vector<double> value(rows.size(), 0);
    for (size_t i : order)
      if (const Value v = columns.scalar(i, shown); v.ok()) value[i] = v.number;
    std::erase_if(order, [&](size_t i) { return !(value[i] > 0); });
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return value[a] > value[b]; });
    if (!query.with_request && request != kNoSpan) {
      std::erase_if(order, [&](size_t i) { return rows[i] == request || s.ledger.message_of(rows[i]) == request; });
      out.caption += ", hottest; the request (message directly before the answer) is left out";
    }
    if (query.limit == 0 && order.size() > 10) order.resize(10);
  } else if (query.preset == "dead-weight" || query.preset == "cold") {
    const bool parents = query.level == Level::message;
    const auto list = query.preset == "cold" ? cold_for(s, columns.history(), turn.turn, 8, parents) : dead_weight(s, columns.history(), turn.turn, parents);
    std::vector<size_t> ranked;
    for (SpanId id : list)
      for (size_t i : order)
        if (rows[i] == id) ranked.push_back(i);
    order = std::move(ranked);
    if (query.predicate.empty()) shown.column = query.preset == "cold" ? "last_read" : "tokens";
    if (query.preset == "cold") {
      out.caption += ", cold: read once, not in the last 8 turns";
    } else {
      out.caption += ", dead weight: born two turns ago or earlier, not read in any turn after its own";
      out.findings.push_back({Grade::info, "SPAN-HYPOTHESIS", "dead weight is a hypothesis until an ablation confirms it", {}, {}});
    }
  } else if (!query.preset.empty()) {
    return make_error(ErrorCode::invalid, "SPAN-USAGE", "expected hottest, dead-weight or cold, found \"" + query.preset + "\"", "--preset");
  }
  if (drop_absent) std::erase_if(order, [&](size_t i) { return places[rows[i]].len == 0; });
  if (query.limit && order.size() > query.limit) {
    out.caption += fmt::format(", {} of {}", query.limit, order.size());
    order.resize(query.limit);
  }

  for (size_t i : order) {
    const SpanId id = rows[i];
    ViewRef ref;
    ref.span = id;
    ref.scalar = shown.name();
    const Value value = columns.scalar(i, shown);
    ref.value = value.number;
    ref.state = value.state;
    ref.from = places[id].from;
    ref.len = places[id].len;
    // What the turn itself holds is free; sums through time were kept.
    static const std::set<std::string> kept = {"total_reads", "first_read", "last_read", "ema", "cumulative"};
    ref.tier = kept.count(shown.column) || shown.kind == Scalar::Kind::mean || shown.kind == Scalar::Kind::slope || !query.preset.empty() ? Tier::kept : Tier::free;
    const Span& span = s.ledger[id];
    ref.verdict = span.taint == Taint::quarantined ? Verdict::refuse : ref.len ? Verdict::hit : Verdict::fault;
    if (ref.len) out.tokens += span.tokens;
    out.reads += columns.history().total_reads[id];
    out.refs.push_back(std::move(ref));
  }
  const auto all = turn_sums(s, turn, RowSet::all);
  for (const ViewRef& ref : out.refs)
    if (all[ref.span].resident && all[ref.span].triples > 0) out.share += all[ref.span].n / all[ref.span].triples;
  for (SpanId id : rows) {
    if (s.ledger[id].kind == SpanKind::sink) continue;
    if (places[id].len) out.tokens_of += s.ledger[id].tokens;
    out.reads_of += columns.history().total_reads[id];
  }
  return out;
}

}  // namespace spanscope
