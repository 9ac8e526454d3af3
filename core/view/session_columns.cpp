// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/view/session_columns.h"

#include <algorithm>

namespace spanscope {
namespace {

struct Field {
  const char *name, *meaning, *unit;
};
constexpr Field kFields[] = {
    {"reads", "moments when a head turned to the span, at the turn", "count"},
    {"total_reads", "reads over all recorded turns", "count"},
    {"read_rate", "reads per answer row of the turn", "per row"},
    {"first_read", "first turn in which it was read, 0 = never", "turn"},
    {"last_read", "last turn in which it was read, 0 = never", "turn"},
    {"readers", "heads that read it at the turn", "count"},
    {"spike", "the hardest that any head looked at it, at the turn", "0..1"},
    {"attended", "the turn's value in the measure's unit (share under reads)", ""},
    {"ema", "decayed sum over turns, in the measure's unit", ""},
    {"cumulative", "sum over turns, in the measure's unit", ""},
    {"mass", "rows' worth of attention, at the turn", "rows"},
    {"share", "fraction of the average row", "0..1"},
    {"density", "share per token", ""},
    {"lift", "times what uniform attention would give, sinks left out", "x"},
    {"tokens", "length", "tokens"},
    {"birth", "turn in which it entered the context", "turn"},
    {"message", "index of its message in the conversation", "0-based"},
    {"id", "span id", ""},
};

// Sums that gc dropped are not known.
Value number(double x) { return x == x ? Value{x, ValueState::value} : Value{}; }

}  // namespace

std::vector<FieldHelp> predicate_fields() {
  std::vector<FieldHelp> out;
  for (const Field& f : kFields) out.push_back({f.name, f.meaning, f.unit});
  out.push_back({"layer[a..b]", "share in these layers, consumer rows", "0..1"});
  out.push_back({"expert[m.e]", "picks of expert e in mixture layer m (needs --routing)", "count"});
  out.push_back({"mean(last k of share)", "mean share over the last k turns", "0..1"});
  out.push_back({"slope(last k of share)", "change of share per turn over the last k turns", ""});
  out.push_back({"role, kind, taint", "= or != a word", ""});
  out.push_back({"text, name", "~ \"part\", upper and lower case alike", ""});
  out.push_back({"missing(x), top k by x", "tests on any of the numbers above", ""});
  return out;
}

SessionColumns::SessionColumns(const SessionData& session, std::vector<SpanId> rows, size_t turn, const MeasureSettings& settings, bool with_sinks)
    : session_(session), rows_(std::move(rows)), turn_(turn), settings_(settings), with_sinks_(with_sinks) {}

bool SessionColumns::eligible(size_t row) const { return with_sinks_ || session_.ledger[rows_[row]].kind != SpanKind::sink; }

const ReadHistory& SessionColumns::history() const {
  if (!have_history_) {
    history_ = read_history(session_, settings_.reads);
    have_history_ = true;
  }
  return history_;
}
const std::vector<Sums>& SessionColumns::sums() const {
  if (!have_sums_) {
    sums_ = turn_sums(session_, session_.turns[turn_], settings_.rows);
    have_sums_ = true;
  }
  return sums_;
}
const Recurrence& SessionColumns::recurrence() const {
  if (!have_recurrence_) {
    recurrence_ = replay_recurrence(session_, settings_.rows, session_.header.lambda, session_.turns[turn_].turn);
    have_recurrence_ = true;
  }
  return recurrence_;
}

bool SessionColumns::has_column(const std::string& name) const {
  return std::any_of(std::begin(kFields), std::end(kFields), [&](const Field& f) { return name == f.name; });
}
bool SessionColumns::has_word(const std::string& name) const { return name == "role" || name == "kind" || name == "taint"; }

int64_t SessionColumns::moe_layers() const {
  return std::count(session_.header.moe_layer.begin(), session_.header.moe_layer.end(), uint8_t(1));
}

std::optional<std::string> SessionColumns::not_captured(const Scalar& s) const {
  if (s.kind == Scalar::Kind::head) return "masses per head were not captured; readers and reads are, or use layer[a..b]";
  if (s.kind == Scalar::Kind::expert && !session_.header.routing) return "routing was not captured; record with --routing";
  return std::nullopt;
}

std::string SessionColumns::word(size_t row, const std::string& column) const {
  const Span& s = session_.ledger[rows_[row]];
  if (column == "role") return s.role;
  if (column == "kind") return span_kind_name(s.kind);
  return taint_name(s.taint);
}
std::optional<std::string> SessionColumns::text(size_t row) const {
  if (!session_.header.has_text) return std::nullopt;
  return session_.text_of(rows_[row]);
}
std::vector<std::string> SessionColumns::column_names() const {
  std::vector<std::string> out;
  for (const Field& f : kFields) out.push_back(f.name);
  for (const char* more : {"role", "kind", "taint", "name", "text", "layer[a..b]", "expert[m.e]", "mean(last k of share)", "slope(last k of share)"}) out.push_back(more);
  return out;
}
std::string SessionColumns::name(size_t row) const { return session_.ledger[rows_[row]].name; }

bool SessionColumns::under(size_t row, const std::string& path) const {
  const std::string& name = session_.ledger[rows_[row]].name;
  return name == path || (name.size() > path.size() && name.compare(0, path.size(), path) == 0 && name[path.size()] == '/');
}

Value SessionColumns::scalar(size_t row, const Scalar& s) const {
  const SpanId id = rows_[row];
  switch (s.kind) {
    case Scalar::Kind::column: return column(id, s.column);
    case Scalar::Kind::layer: return layer(id, s.a, s.b);
    case Scalar::Kind::expert: return expert(id, s.a, s.b);
    case Scalar::Kind::mean:
    case Scalar::Kind::slope: return window(id, s);
    case Scalar::Kind::head: break;  // refused when parsed
  }
  return {};
}

Value SessionColumns::column(SpanId id, const std::string& name) const {
  const Span& span = session_.ledger[id];
  const bool sink = span.kind == SpanKind::sink;
  const TurnReads& reads = history().turns[turn_];
  const bool resident = id < reads.reads.size() && reads.reads[id] >= 0;
  if (name == "tokens") return number(span.tokens);
  if (name == "birth") return number(double(span.birth) + 1);
  if (name == "id") return number(id);
  if (name == "message") return span.message < 0 ? Value{} : number(span.message);
  if (name == "total_reads") return number(double(history().total_reads[id]));
  if (name == "first_read") return number(history().first_read[id]);
  if (name == "last_read") return number(history().last_read[id]);
  const bool answered = resident && reads.answer_rows > 0;
  if (name == "reads") return resident ? number(reads.reads[id]) : Value{};
  if (name == "read_rate") return answered ? number(double(reads.reads[id]) / reads.answer_rows) : Value{};
  if (name == "readers") return answered ? number(double(readers_of(session_, session_.turns[turn_], id, settings_.reads).size())) : Value{};
  if (name == "spike") return answered && reads.spike[id] == reads.spike[id] ? number(reads.spike[id]) : Value{};
  Unit unit = Unit::share;
  if (settings_.measure == Measure::mass) unit = Unit::mass;
  if (settings_.measure == Measure::density) unit = Unit::density;
  if (settings_.measure == Measure::lift) unit = Unit::lift;
  if (name == "ema") return unit_of(recurrence().ema[id], unit, span.tokens, sink);
  if (name == "cumulative") return unit_of(recurrence().cumulative[id], unit, span.tokens, sink);
  if (!resident) return {};
  if (name == "attended") return unit_of(sums()[id], unit, span.tokens, sink);
  if (name == "mass") return unit_of(sums()[id], Unit::mass, span.tokens, sink);
  if (name == "share") return unit_of(sums()[id], Unit::share, span.tokens, sink);
  if (name == "density") return unit_of(sums()[id], Unit::density, span.tokens, sink);
  return unit_of(sums()[id], Unit::lift, span.tokens, sink);
}

// Mass in the layers over rows of those layers: a ratio of sums (D4). Consumer rows, as everywhere in views.
Value SessionColumns::layer(SpanId id, int64_t a, int64_t b) const {
  const TurnRecord& t = session_.turns[turn_];
  const auto at = std::find(t.profile_spans.begin(), t.profile_spans.end(), id);
  if (at == t.profile_spans.end()) return {};
  if (consumer_.empty()) consumer_ = turn_sums(session_, t, RowSet::consumer);
  const double triples = consumer_[id].triples * double(b - a + 1) / double(session_.header.layers);
  if (triples <= 0) return {};
  const size_t p = size_t(at - t.profile_spans.begin()), count = t.profile_spans.size();
  double mass = 0;
  for (int64_t l = a; l <= b; ++l) mass += t.layer_mass[(size_t(l) * 2 + 1) * count + p];
  return number(mass / triples);
}

Value SessionColumns::expert(SpanId id, int64_t layer, int64_t expert) const {
  std::vector<double> picks(size_t(moe_layers()), 0);
  bool any = false;
  for (size_t k = 0; k <= turn_; ++k) {
    const TurnRecord& t = session_.turns[k];
    if (t.routing.empty()) continue;
    const size_t rows = t.phase.size();
    for (const LayoutEntry& e : t.layout) {
      bool mine = e.leaf == id;
      if (!mine && session_.ledger[e.leaf].kind == SpanKind::content)
        for (SpanId parent : session_.ledger.ancestors(e.leaf)) mine = mine || parent == id;
      if (!mine) continue;
      for (uint32_t slot = std::max(e.slot, t.executed_begin); slot < std::min(e.slot + e.len, t.executed_end); ++slot) {
        const size_t row = slot - t.executed_begin;
        if (t.phase[row] > uint8_t(RowPhase::answer)) continue;
        any = true;
        for (size_t l = 0; l < picks.size() && l < t.routing.layers; ++l)
          for (size_t j = 0; j < t.routing.experts_used; ++j)
            picks[l] += t.routing.ids[(l * rows + row) * t.routing.experts_used + j] == expert;
      }
    }
  }
  // Picks of rows that gc dropped, in bounded form: of an expert that it did not track nothing is known.
  const GcRecord::Picks& kept = session_.gc.picks;
  std::vector<uint8_t> tracked(picks.size(), 0), beyond(picks.size(), 0);
  for (size_t i = 0; i < kept.size(); ++i) {
    bool mine = kept.span[i] == id;
    if (!mine && session_.ledger[kept.span[i]].kind == SpanKind::content)
      for (SpanId parent : session_.ledger.ancestors(kept.span[i])) mine = mine || parent == id;
    if (!mine || session_.ledger[kept.span[i]].birth > session_.turns[turn_].turn || kept.layer[i] >= picks.size()) continue;
    any = true;
    if (kept.expert[i] == kNoExpert) beyond[kept.layer[i]] = 1;
    else if (kept.expert[i] == expert) picks[kept.layer[i]] += kept.count[i], tracked[kept.layer[i]] = 1;
  }
  if (!any || picks.empty()) return {};
  for (size_t l = 0; l < picks.size(); ++l)
    if (beyond[l] && !tracked[l]) picks[l] = std::numeric_limits<double>::quiet_NaN();
  for (size_t l = 0; layer < 0 && l < picks.size(); ++l)
    if (picks[l] != picks[l]) return {};
  return number(layer < 0 ? *std::max_element(picks.begin(), picks.end()) : picks[size_t(layer)]);
}

Value SessionColumns::window(SpanId id, const Scalar& s) const {
  const auto ring = ring_of(session_, id, settings_.rows, session_.turns[turn_].turn);
  const size_t n = std::min<size_t>(size_t(s.a), ring.size());
  if (s.kind == Scalar::Kind::mean) {
    Sums total;
    for (size_t i = ring.size() - n; i < ring.size(); ++i) total += ring[i];
    return total.triples > 0 ? number(total.n / total.triples) : Value{};
  }
  double sx = 0, sy = 0, sxx = 0, sxy = 0, points = 0;
  for (size_t i = ring.size() - n; i < ring.size(); ++i) {
    if (ring[i].triples <= 0) continue;
    const double x = double(i), y = ring[i].n / ring[i].triples;
    sx += x, sy += y, sxx += x * x, sxy += x * y, points += 1;
  }
  const double spread = points * sxx - sx * sx;
  return points >= 2 && spread > 0 ? number((points * sxy - sx * sy) / spread) : Value{};
}

}  // namespace spanscope
