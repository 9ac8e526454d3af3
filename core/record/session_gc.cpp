// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/record/session_gc.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "core/record/reads.h"
#include "core/record/session_lazy.h"
#include "core/record/session_schema.h"
#include "core/record/units.h"

namespace spanscope {
namespace {

// Sums through time of a session that was not finished, or that never wrote them.
class Closing {
 public:
  explicit Closing(const SessionData& session) : session_(session) {
    const size_t n = 3 * session.ledger.spans.size();
    for (auto* v : {&out_.ema_n, &out_.ema_triples, &out_.ema_sink, &out_.ema_u, &out_.sum_n, &out_.sum_triples, &out_.sum_sink, &out_.sum_u}) v->assign(n, 0);
  }
  void add(const TurnRecord& turn) {
    const double lambda = session_.header.lambda;
    for (auto* v : {&out_.ema_n, &out_.ema_triples, &out_.ema_sink, &out_.ema_u})
      for (double& x : *v) x *= lambda;
    size_t at = 0;
    for (const RowSet rows : {RowSet::answer, RowSet::all, RowSet::consumer})
      for (const Sums& s : turn_sums(session_, turn, rows)) {
        if (s.resident) {
          out_.ema_n[at] += s.n, out_.ema_triples[at] += s.triples, out_.ema_sink[at] += s.sink, out_.ema_u[at] += s.u;
          out_.sum_n[at] += s.n, out_.sum_triples[at] += s.triples, out_.sum_sink[at] += s.sink, out_.sum_u[at] += s.u;
        }
        ++at;
      }
  }
  const ClosingScalars& sums() const { return out_; }

 private:
  const SessionData& session_;
  ClosingScalars out_;
};

std::map<std::string, uint64_t> bytes_by_kind(const SessionReader& reader) {
  std::map<std::string, uint64_t> out;
  for (const FrameInfo& f : reader.frames()) out[f.kind] += f.compressed_bytes;
  return out;
}

// What an earlier gc dropped stays dropped.
void join(GcRecord& gc, const GcRecord& before) {
  std::map<SpanId, TurnId> until;
  for (size_t i = 0; i < before.spans.size(); ++i) until[before.spans[i]] = before.until[i];
  for (size_t i = 0; i < gc.spans.size(); ++i) until[gc.spans[i]] = std::max(until[gc.spans[i]], gc.until[i]);
  gc.spans.clear(), gc.until.clear();
  for (const auto& [span, turn] : until) gc.spans.push_back(span), gc.until.push_back(turn);
  gc.picks = before.picks;
}

}  // namespace

const char* gc_measure_name(GcMeasure measure) {
  return measure == GcMeasure::reads ? "reads" : measure == GcMeasure::share ? "share" : "ema";
}

GcWatch::GcWatch(const SessionData& session, const GcPolicy& policy) : session_(session), policy_(policy) {
  const size_t n = session.ledger.spans.size();
  calm_.assign(n, 0), ema_n_.assign(n, 0), ema_triples_.assign(n, 0);
}

void GcWatch::add(const TurnRecord& turn) {
  turns_.push_back(turn.turn);
  const size_t spans = calm_.size();
  std::vector<double> value(spans, 0);
  if (policy_.measure == GcMeasure::reads) {
    const TurnReads reads = reads_of_turn(session_, turn, {});
    for (size_t i = 0; i < spans; ++i) value[i] = reads.reads[i];
  } else {
    const auto sums = turn_sums(session_, turn, RowSet::answer);
    const bool ema = policy_.measure == GcMeasure::ema;
    for (size_t i = 0; i < spans; ++i) {
      ema_n_[i] *= session_.header.lambda, ema_triples_[i] *= session_.header.lambda;
      // What an earlier gc dropped had been calm then.
      const bool known = sums[i].resident && !std::isnan(sums[i].n);
      if (known) ema_n_[i] += sums[i].n, ema_triples_[i] += sums[i].triples;
      const double n = ema ? ema_n_[i] : known ? sums[i].n : 0, triples = ema ? ema_triples_[i] : known ? sums[i].triples : 0;
      value[i] = triples > 0 ? n / triples : -1;
    }
  }
  for (size_t i = 0; i < spans; ++i) calm_[i] = value[i] > policy_.theta ? 0 : calm_[i] + 1;
}

bool GcWatch::is_cold(SpanId id) const {
  const Span& span = session_.ledger[id];
  if (span.kind != SpanKind::parent || span.parent != kNoSpan || turns_.size() < policy_.turns || policy_.turns == 0) return false;
  return span.birth < turns_[turns_.size() - policy_.turns] && calm_[id] >= policy_.turns;
}

uint64_t GcWatch::messages() const {
  return uint64_t(std::count_if(session_.ledger.spans.begin(), session_.ledger.spans.end(), [](const Span& s) { return s.kind == SpanKind::parent && s.parent == kNoSpan; }));
}
uint64_t GcWatch::cold() const {
  return uint64_t(std::count_if(session_.ledger.spans.begin(), session_.ledger.spans.end(), [this](const Span& s) { return is_cold(s.id); }));
}

GcRecord GcWatch::finish() const {
  GcRecord out;
  out.theta = policy_.theta, out.turns = policy_.turns, out.measure = gc_measure_name(policy_.measure);
  if (turns_.size() < policy_.turns || policy_.turns == 0) return out;
  const TurnId until = turns_[turns_.size() - policy_.turns];
  out.last = turns_.back();
  for (const Span& span : session_.ledger.spans) {
    if (span.kind == SpanKind::sink) continue;
    const SpanId message = span.kind == SpanKind::parent && span.parent == kNoSpan ? span.id : session_.ledger.message_of(span.id);
    if (message == kNoSpan || !is_cold(message)) continue;
    out.spans.push_back(span.id);
    out.until.push_back(until);
  }
  return out;
}

Result<GcReport> gc_session(const std::string& from, const std::string& to, const GcPolicy& policy, bool force) {
  struct stat a {}, b {};
  if (::stat(from.c_str(), &a) == 0 && ::stat(to.c_str(), &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino)
    return make_error(ErrorCode::invalid, "SPAN-SAME-FILE", "gc writes a new file and never touches the old one; name another", to);
  auto opened = LazySession::open(from, 0);
  if (!opened) return std::move(opened).error();
  const LazySession& lazy = **opened;
  const SessionData& base = lazy.base();
  if (policy.turns == 0 || lazy.turns() <= policy.turns)
    return make_error(ErrorCode::invalid, "SPAN-GC-TURNS", "the policy looks at the last " + std::to_string(policy.turns) + " turns, the session has " + std::to_string(lazy.turns()), from);
  GcReport report;
  report.was_finished = base.finished;
  report.findings = lazy.reader().findings();
  report.input_bytes = base.file_bytes;
  report.before = bytes_by_kind(lazy.reader());

  // What is cold, and what the turns add up to while they are whole.
  GcWatch watch(base, policy);
  Closing sums(base);
  std::vector<uint8_t> readable(lazy.turns(), 0);
  uint64_t lost = 0;
  for (size_t i = 0; i < lazy.turns(); ++i) {
    auto turn = lazy.turn(i);
    if (!turn) {
      const Error& e = turn.error();
      report.findings.push_back({Grade::loss, e.tag, e.message, e.where, e.offset});
      ++lost;
      continue;
    }
    readable[i] = 1;
    watch.add(**turn);
    sums.add(**turn);
  }
  auto closing = lazy.closing();
  if (!closing) return std::move(closing).error();
  if (closing->sum_n.empty() || (!base.gc.spans.empty() && base.gc.last != lazy.turn_id(lazy.turns() - 1))) {
    if (!base.gc.spans.empty()) return make_error(ErrorCode::corrupt, "SPAN-GC-SUMS", "an earlier gc dropped turns, and the sums that it kept are not there", from);
    *closing = sums.sums();
  }
  GcRecord gc = watch.finish();
  report.messages = watch.messages(), report.cold = watch.cold();
  join(gc, base.gc);
  report.spans = gc.spans.size();

  auto created = SessionWriter::create(to, force);
  if (!created) return std::move(created).error();
  SessionWriter& writer = **created;
  const auto fail = [&](Error error) {
    ::unlink(to.c_str());
    return error;
  };
  if (auto s = write_header(writer, base.header); !s) return fail(std::move(s).error());
  if (auto s = write_ledger(writer, base.ledger, 0, base.messages, 0); !s) return fail(std::move(s).error());
  GcThin thin(base, gc);
  for (size_t i = 0; i < lazy.turns(); ++i) {
    if (!readable[i]) continue;
    auto turn = lazy.turn_with_details(i);
    if (!turn) {
      // The views' part was readable: only details are lost.
      const Error& e = turn.error();
      report.findings.push_back({Grade::loss, e.tag, e.message, e.where, e.offset});
      ++lost;
      turn = lazy.turn(i);
      if (!turn) return fail(std::move(turn).error());
    }
    TurnRecord thinned = **turn;
    thin(thinned);
    if (auto s = write_turn(writer, thinned, base.header, base.ledger); !s) return fail(std::move(s).error());
  }
  gc.picks = thin.picks();
  if (auto s = write_gc(writer, gc); !s) return fail(std::move(s).error());
  // The recorder's notes; what is wrong with the file itself is said by the loss frame.
  std::vector<Finding> notes;
  for (const Finding& f : base.findings)
    if (std::none_of(report.findings.begin(), report.findings.end(), [&](const Finding& g) { return g.tag == f.tag && g.message == f.message; }) && f.tag != "SPAN-TURN-LOST") notes.push_back(f);
  if (!notes.empty())
    if (auto s = write_findings(writer, notes); !s) return fail(std::move(s).error());
  if (auto s = write_closing(writer, *closing); !s) return fail(std::move(s).error());
  for (const Finding& f : base.findings) report.lossy = report.lossy || f.grade >= Grade::loss;
  report.lossy = report.lossy || lost;
  if (report.lossy || !report.was_finished) {
    Blob blob;
    blob.metadata["reason"] = std::string("the session this was made from ") + (report.was_finished ? "" : "was not finished") + (report.lossy && !report.was_finished ? " and " : "") + (report.lossy ? "had losses" : "");
    blob.metadata["grade"] = report.lossy ? "loss" : "warning";
    blob.metadata["by"] = "gc";
    if (auto s = writer.append({"loss"}, std::move(blob)); !s) return fail(std::move(s).error());
  }
  if (auto s = writer.finish(); !s) return fail(std::move(s).error());
  report.output_bytes = writer.bytes_written();
  report.after = writer.bytes_by_kind();
  return report;
}

}  // namespace spanscope
