// SPDX-License-Identifier: GPL-3.0-or-later
// What a recorded session says about heads, turn by turn. Any thread.
//
//   session_reads  read events (definitions D5) with mass > theta, over all turns, those on the answer's request left out:
//                  every head that looks at the question would lead
//   session_copy   per turn: W = the distinct tokens of the answer that some content leaf behind the row held, the request's left
//                  out: a head that looks at the question while its words are repeated does not look anything up. A head copies
//                  w in W when, in a row that predicts w, its largest weight lies on a slot of such a leaf with that very
//                  token (token detail, all heads kept), or else: when the row's read events of the head name a leaf that
//                  holds w somewhere (span detail: it says which leaf, not which token). Copied / W, the mean over the turns
//                  that have a W. The answers' words are taken as they stand, whether the model would have said them or not.
//   sink           answer-row mass on the sink span (and a learned sink) / answer rows; with head detail of all heads
//   streaming      the same on the sink, on the answer itself and on whole leaves that begin less than `recent` positions
//                  before the first answer row
//   retrieval      answer-row mass on content leaves that end before the first answer row, the request left out; likewise
#pragma once
#include <cstdint>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "core/record/head_map.h"
#include "core/record/session_data.h"

namespace spanscope {

class HeadCounter {
 public:
  // `session`: header and ledger; it has to outlive the counter.
  explicit HeadCounter(const SessionData& session, float theta = kDisplayTheta, uint32_t recent = 64);
  // Turns in order. Token statistics are used where the turn holds them.
  void add(const TurnRecord& turn);
  // Tables that could not be measured stay empty.
  HeadMap finish() const;
  // By head, in the order of the map's tables. retrieval is empty without head detail of all heads.
  const std::vector<double>& reads() const { return reads_; }
  std::vector<double> retrieval() const { return profile_rows_ ? retrieval_ : std::vector<double>(); }

 private:
  void add_reads(const TurnRecord& turn);
  void add_copies(const TurnRecord& turn);
  void add_profile(const TurnRecord& turn);
  void take_tokens(const TurnRecord& turn);

  const SessionData& session_;
  const SessionHeader& header_;
  const float theta_;
  const uint32_t recent_;
  std::vector<double> reads_, copies_, sink_, streaming_, retrieval_;  // [layers][query heads]
  uint64_t turns_ = 0, answer_rows_ = 0, profile_rows_ = 0, copy_turns_ = 0, copy_tokens_ = 0;
  uint64_t turns_with_argmax_ = 0;
  std::vector<TokenId> context_;                       // by slot, of the last turn added
  std::unordered_map<SpanId, std::vector<TokenId>> leaf_tokens_;
  std::unordered_map<SpanId, std::set<TokenId>> leaf_words_;
};

HeadMap count_heads(const SessionData& session, float theta = kDisplayTheta, uint32_t recent = 64);

}  // namespace spanscope
