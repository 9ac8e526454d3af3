// SPDX-License-Identifier: GPL-3.0-or-later
// What some tokens of an answer read: the events of the rows that predict them (row i predicts token i+1). Works at every
// detail level. No Qt. Any thread.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "core/record/reads.h"
#include "core/record/session_data.h"

namespace spanscope::panels {

struct WordsSpan {
  SpanId span = kNoSpan;  // a message
  uint32_t reads = 0, heads = 0;
};
struct WordsToken {
  Slot slot = 0;
  std::string bytes;
  uint32_t reads = 0;
};
struct WordsReader {
  uint16_t layer = 0, head = 0;
  uint32_t reads = 0;
  float spike = 0;  // largest mass of its events
  std::vector<std::pair<SpanId, uint32_t>> of;  // spans by reads, falling
};

struct WordsData {
  TurnId turn = 0;
  SpanId reader = kNoSpan;           // the message the words belong to
  std::string text;                  // bytes of the tokens
  uint32_t tokens = 0;               // selected
  bool answer = false;               // at least one of them was predicted by an answer row
  TokenPos first_row = 0, last_row = 0;  // rows that were looked at, absolute positions
  uint32_t total = 0, heads = 0;
  std::vector<WordsSpan> spans;      // by reads falling, then id
  uint32_t other_spans = 0;          // resident messages with no read by these words
  std::vector<WordsToken> words;     // tokens with an answer row
  std::vector<SpanId> columns;       // the first 7 spans, in order of id
  std::vector<uint32_t> dots;        // [words][columns]
  std::vector<WordsReader> readers;  // by reads falling, then spike falling
};

// Tokens in slots [begin, end) of the turn's context.
WordsData words_data(const SessionData& session, const TurnRecord& turn, Slot begin, Slot end, const ReadSettings& settings);

}  // namespace spanscope::panels
