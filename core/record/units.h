// SPDX-License-Identifier: GPL-3.0-or-later
// Definitions D4 and D5 as functions of a recorded session: row sets, numerators and denominators, units, recurrences.
// Numbers are double sums of what the file holds. Missing is a state, not a number. Any thread.
#pragma once
#include <cstdint>
#include <limits>
#include <vector>

#include "core/record/session_data.h"

namespace spanscope {

enum class RowSet : uint8_t { prompt = 0, answer = 1, all = 2, consumer = 3 };
enum class Unit : uint8_t { mass = 0, share = 1, density = 2, lift = 3 };
enum class ValueState : uint8_t { value = 0, idle = 1, missing = 2 };

struct Value {
  double number = std::numeric_limits<double>::quiet_NaN();
  ValueState state = ValueState::missing;
  bool ok() const { return state == ValueState::value; }
};

// The four sums that every ratio is made of. Kept together through time (D5). resident = false: not in the layout.
struct Sums {
  double n = 0, triples = 0, sink = 0, u = 0;
  bool resident = false;
  Sums& operator+=(const Sums& o) {
    n += o.n, triples += o.triples, sink += o.sink, u += o.u;
    return *this;
  }
};

// Sums of one turn for every span (index = span id; leaves and parents).
std::vector<Sums> turn_sums(const SessionData& session, const TurnRecord& turn, RowSet rows);

// The same for one span.
Sums span_sums(const SessionData& session, const TurnRecord& turn, SpanId span, RowSet rows);

// The unit, taken last. Sums that are not known (dropped by gc: NaN) are missing. Of a resident span mass is a value also without rows (0); the ratios are missing then. `tokens` is the span's own token count; `sink_span` has no lift.
Value unit_of(const Sums& sums, Unit unit, uint32_t tokens, bool sink_span, double idle = 0.02);

// resident = it was in the context in some turn so far (the sums go on after it left).
struct Recurrence {  // index = span id
  std::vector<Sums> ema, cumulative;
};
// After turn `last` (inclusive, 0-based), from the turns themselves. e_t = lambda * e_(t-1) + x_t. Of spans of which gc
// dropped turns: from the closing sums, where `last` is the last turn (ema at the session's own lambda, or 1); else NaN.
Recurrence replay_recurrence(const SessionData& session, RowSet rows, double lambda, TurnId last);

// The last 64 turns' sums of one span, oldest first, from its birth turn on; absent turns push zeros.
std::vector<Sums> ring_of(const SessionData& session, SpanId span, RowSet rows, TurnId last, size_t length = 64);

}  // namespace spanscope
