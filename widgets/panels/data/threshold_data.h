// SPDX-License-Identifier: GPL-3.0-or-later
// Spans sorted by a scalar, with what a threshold on it keeps: sorted once, then a binary search and a prefix sum per
// position of the line. No Qt. Any thread.
#pragma once
#include <cstdint>
#include <vector>

#include "core/record/reads.h"
#include "core/record/session_data.h"

namespace spanscope::panels {

struct ThresholdData {
  std::vector<SpanId> spans;        // most reads first; ties by id
  std::vector<int64_t> reads;       // [spans] total over the session
  std::vector<uint32_t> tokens;     // [spans]
  std::vector<int64_t> reads_sum;   // [spans + 1] prefix sums
  std::vector<uint64_t> tokens_sum; // [spans + 1]
  size_t never = 0;                 // spans with 0 reads
  int64_t most() const { return reads.empty() ? 0 : reads.front(); }
};
// rows: the spans that stand as bars (messages or leaves).
ThresholdData threshold_data(const SessionData& session, const ReadHistory& history, const std::vector<SpanId>& rows);

struct Kept {
  size_t spans = 0;
  int64_t reads = 0;
  uint64_t tokens = 0;
  double reads_part = 0, tokens_part = 0;  // of all rows; 0 where there is nothing to divide by
};
// Spans with at least `threshold` reads: a prefix of the order.
Kept kept_at(const ThresholdData& data, int64_t threshold);
// The largest threshold that keeps at least `spans` spans, or at least `part` of the reads.
int64_t threshold_for_spans(const ThresholdData& data, size_t spans);
int64_t threshold_for_part(const ThresholdData& data, double part);

}  // namespace spanscope::panels
