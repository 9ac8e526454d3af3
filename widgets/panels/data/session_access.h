// SPDX-License-Identifier: GPL-3.0-or-later
// Small questions that several panels ask of a session. No Qt. Any thread.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/record/reads.h"
#include "core/record/session_data.h"

namespace spanscope::panels {

const TurnRecord* find_turn(const SessionData& session, TurnId turn);  // null: not in the session
// The last turn that has answer rows; null if there is none.
const TurnRecord* last_answered_turn(const SessionData& session);
// [spans] 1 for the content leaves that the spans (leaves or parents) stand for.
std::vector<uint8_t> leaf_mask(const SessionData& session, const std::vector<SpanId>& spans);
// The outermost parent of a content leaf; the leaf itself if it has none.
SpanId message_or_self(const SessionData& session, SpanId leaf);
// Whether event i is a read under these settings (definitions D5). A factor above the recorded one raises the habit's
// part of the bound; the uniform part follows from the turn's layout.
class ReadTest {
 public:
  ReadTest(const SessionData& session, const TurnRecord& turn, const ReadSettings& settings);
  bool operator()(size_t event) const;

 private:
  const SessionData& session_;
  const TurnRecord& turn_;
  ReadSettings settings_;
  std::vector<const LayoutEntry*> place_;  // [spans]
};
// u of definitions D5: visible keys of the leaf / visible keys of the row, in that layer (its window).
double uniform_of(const SessionData& session, const LayoutEntry& leaf, TokenPos row, uint32_t layer);
const LayoutEntry* place_of(const TurnRecord& turn, SpanId leaf);
// Absolute position of a slot of the turn's context.
TokenPos position_of(const TurnRecord& turn, Slot slot);
std::string span_number(SpanId id);     // "088"
std::string display_name(const SessionData& session, SpanId id);  // its name, or its role when it has none

}  // namespace spanscope::panels
