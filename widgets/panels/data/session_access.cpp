// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/panels/data/session_access.h"

#include <algorithm>
#include <cstdio>

namespace spanscope::panels {

const TurnRecord* find_turn(const SessionData& session, TurnId turn) {
  for (const TurnRecord& t : session.turns)
    if (t.turn == turn) return &t;
  return nullptr;
}

const TurnRecord* last_answered_turn(const SessionData& session) {
  for (size_t i = session.turns.size(); i-- > 0;)
    if (session.turns[i].answer_rows() > 0) return &session.turns[i];
  return nullptr;
}

std::vector<uint8_t> leaf_mask(const SessionData& session, const std::vector<SpanId>& spans) {
  const size_t n = session.ledger.spans.size();
  std::vector<uint8_t> chosen(n, 0), mask(n, 0);
  for (SpanId id : spans)
    if (id < n) chosen[id] = 1;
  for (SpanId id = 0; id < n; ++id) {
    if (session.ledger[id].kind != SpanKind::content) continue;
    mask[id] = chosen[id];
    if (mask[id]) continue;
    for (SpanId parent : session.ledger.ancestors(id))
      if (chosen[parent]) {
        mask[id] = 1;
        break;
      }
  }
  return mask;
}

SpanId message_or_self(const SessionData& session, SpanId leaf) {
  const SpanId message = session.ledger.message_of(leaf);
  return message == kNoSpan ? leaf : message;
}

const LayoutEntry* place_of(const TurnRecord& turn, SpanId leaf) {
  for (const LayoutEntry& e : turn.layout)
    if (e.leaf == leaf) return &e;
  return nullptr;
}

double uniform_of(const SessionData& session, const LayoutEntry& leaf, TokenPos row, uint32_t layer) {
  const uint32_t window = layer < session.header.window.size() ? session.header.window[layer] : 0;
  const uint64_t first = window && row + 1 > window ? row + 1 - window : 0;
  const uint64_t visible = uint64_t(row) + 1 - first;
  const uint64_t begin = std::max<uint64_t>(leaf.position, first);
  const uint64_t end = std::min<uint64_t>(uint64_t(leaf.position) + leaf.len, uint64_t(row) + 1);
  return end > begin && visible ? double(end - begin) / double(visible) : 0.0;
}

ReadTest::ReadTest(const SessionData& session, const TurnRecord& turn, const ReadSettings& settings)
    : session_(session), turn_(turn), settings_(settings) {
  if (settings_.factor > session.header.factor) {
    place_.assign(session.ledger.spans.size(), nullptr);
    for (const LayoutEntry& e : turn.layout)
      if (e.leaf < place_.size()) place_[e.leaf] = &e;
  }
}

bool ReadTest::operator()(size_t i) const {
  const EventColumns& e = turn_.events;
  if (!(e.mass[i] > settings_.theta)) return false;
  if (place_.empty()) return true;
  const LayoutEntry* place = e.leaf[i] < place_.size() ? place_[e.leaf[i]] : nullptr;
  const double u = place ? uniform_of(session_, *place, e.row[i], e.layer[i]) : 0.0;
  const double bound = std::min<double>(session_.header.cap, settings_.factor * std::max<double>(u, e.habit[i]));
  return e.mass[i] > bound;
}

TokenPos position_of(const TurnRecord& turn, Slot slot) {
  for (const LayoutEntry& e : turn.layout)
    if (slot >= e.slot && slot < e.slot + e.len) return e.position + (slot - e.slot);
  return slot;
}

std::string span_number(SpanId id) {
  char text[16];
  std::snprintf(text, sizeof text, "%03u", unsigned(id));
  return text;
}

std::string display_name(const SessionData& session, SpanId id) {
  const Span& s = session.ledger[id];
  return s.name.empty() ? s.role : s.name;
}

}  // namespace spanscope::panels
