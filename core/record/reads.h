// SPDX-License-Identifier: GPL-3.0-or-later
// Reads (definitions D5) at any strength from recorded events, and what follows from them: was_read, first and last read,
// readers, dead weight, cold. Any thread.
#pragma once
#include <cstdint>
#include <vector>

#include "core/record/session_data.h"

namespace spanscope {

struct ReadSettings {
  float theta = 0.30f;
  float factor = 0;        // 0: the session's own; only a larger one than recorded has an effect
  uint32_t read_min = 0;   // 0: header.read_min()
};

// One turn, every span (index = span id). -1 in reads: not in the layout.
struct TurnReads {
  std::vector<int32_t> reads;
  std::vector<uint8_t> was_read;
  std::vector<float> spike;              // NaN: missing
  std::vector<uint16_t> spike_layer, spike_head;
  std::vector<uint32_t> spike_row;
  uint32_t answer_rows = 0;
  int64_t total = 0;                     // over leaves
};
TurnReads reads_of_turn(const SessionData& session, const TurnRecord& turn, const ReadSettings& settings);

struct Reader {
  uint16_t layer = 0, head = 0;
  uint32_t reads = 0;
};
// (layer, head) by number of reads, falling; ties: lower (layer, head).
std::vector<Reader> readers_of(const SessionData& session, const TurnRecord& turn, SpanId span, const ReadSettings& settings);

// All turns together.
struct ReadHistory {
  std::vector<TurnReads> turns;                    // [turns]
  std::vector<int64_t> total_reads;                // [spans]
  std::vector<uint32_t> first_read, last_read;     // [spans] 1-based, 0 = never
};
ReadHistory read_history(const SessionData& session, const ReadSettings& settings);

// Resident content leaves (or parents) at turn T (0-based) born at turn <= T-2 that no turn after their birth turn read.
// Order: tokens falling, cumulative answer share rising, id.
std::vector<SpanId> dead_weight(const SessionData& session, const ReadHistory& history, TurnId turn, bool parents);
// Resident, read at least once, not read in the last k turns.
std::vector<SpanId> cold_for(const SessionData& session, const ReadHistory& history, TurnId turn, uint32_t k, bool parents);
// The message directly before the turn's answer (its request); kNoSpan if none.
SpanId request_of(const SessionData& session, const TurnRecord& turn);

}  // namespace spanscope
