// SPDX-License-Identifier: GPL-3.0-or-later
// Threshold as storage policy: a new session without the turn-by-turn numbers of what was not read for a while.
//
// A message (an outermost parent: its leaves go together, so that parents stay sums of leaves) is cold when it entered
// before the last `turns` turns and its measure was never above theta in any of them:
//   reads   its reads of the turn (definitions D5 at 0.30); not in the context: 0
//   share   its mean share over the turn's answer rows (D4); not in the context or no answer rows: below any theta
//   ema     its decayed share over answer rows after the turn (D5, the session's lambda)
// Dropped, of its content leaves, its parents and the template leaves attached to it, in every turn before the last `turns`:
//   mass and uniform expectation per query leaf (the ring), layer and head profiles, answer rows' masses, span-to-span masses
//   per layer, token statistics of its keys and rows, expert picks of its rows.
// Kept: every turn's sum over the dropped leaves (conservation: gc_mass_qk), sums through time (closing), spikes, read
// events and counts, rows, layout, text, keys, values; expert picks as a bounded histogram per span, mixture layer and phase.
// What is dropped is NaN in memory (counts: kNone32, experts: kNoExpert, a row's argmax: 0 beside a NaN row_max) and reads
// as missing. The old file is never touched. Any thread.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/record/session_data.h"

namespace spanscope {

enum class GcMeasure : uint8_t { reads, share, ema };
const char* gc_measure_name(GcMeasure measure);

struct GcPolicy {
  GcMeasure measure = GcMeasure::reads;
  double theta = 0;
  uint32_t turns = 8;
};

struct GcReport {
  uint64_t messages = 0, cold = 0;  // outermost parents; those that are cold
  uint64_t spans = 0;               // spans of which numbers were dropped, leaves and parents
  uint64_t input_bytes = 0, output_bytes = 0;
  std::map<std::string, uint64_t> before, after;  // bytes by kind of frame
  bool was_finished = false, lossy = false;
  std::vector<Finding> findings;    // of the input
};

// Errors: those of reading and writing sessions; SPAN-SAME-FILE; SPAN-GC-TURNS: fewer turns than the policy looks at.
Result<GcReport> gc_session(const std::string& from, const std::string& to, const GcPolicy& policy, bool force);

// Which spans a session's turns make cold, with the turn before which their numbers go.
class GcWatch {
 public:
  GcWatch(const SessionData& session, const GcPolicy& policy);  // header and ledger; has to outlive this
  void add(const TurnRecord& turn);  // in order
  GcRecord finish() const;           // spans and until; no picks yet
  uint64_t messages() const;
  uint64_t cold() const;

 private:
  bool is_cold(SpanId message) const;

  const SessionData& session_;
  const GcPolicy policy_;
  std::vector<TurnId> turns_;
  std::vector<uint32_t> calm_;      // [spans] turns in a row, up to the last, in which the measure was not above theta
  std::vector<double> ema_n_, ema_triples_;
};

// Takes out of one turn what `gc` names, and adds its expert picks to gc.picks' histograms (kept by `picks`).
class GcThin {
 public:
  GcThin(const SessionData& session, const GcRecord& gc);
  void operator()(TurnRecord& turn);
  GcRecord::Picks picks() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace spanscope
