// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/record/session_data.h"

#include <algorithm>

namespace spanscope {

std::vector<uint16_t> SessionHeader::heads_kept(uint32_t layer) const {
  std::vector<uint16_t> out;
  for (uint32_t h = 0; h < query_heads; ++h)
    if (keeps_head(layer, h)) out.push_back(uint16_t(h));
  return out;
}

std::vector<uint32_t> SessionHeader::layers_kept() const {
  std::vector<uint32_t> out;
  for (uint32_t l = 0; l < layers; ++l)
    if (keeps_layer(l)) out.push_back(l);
  return out;
}

std::vector<uint32_t> SessionHeader::pairs_kept() const {
  std::vector<uint32_t> out;
  for (uint32_t l = 0; l < layers; ++l)
    for (uint16_t h : heads_kept(l)) out.push_back(l * query_heads + h);
  return out;
}

bool GcRecord::dropped(SpanId span, TurnId turn) const {
  const auto at = std::lower_bound(spans.begin(), spans.end(), span);
  return at != spans.end() && *at == span && turn < until[size_t(at - spans.begin())];
}

void TurnRecord::drop_details() {
  token_stats = {};
  residual = {};
  row_mass = {};
  pair_mass = {};
  keys = {};
  values = {};
}

namespace {

// The leaf that stands in a slot at a turn, and the slot's place in it.
std::pair<SpanId, Slot> leaf_at(const TurnRecord& turn, Slot slot) {
  for (const LayoutEntry& e : turn.layout)
    if (slot >= e.slot && slot < e.slot + e.len) return {e.leaf, slot - e.slot};
  return {kNoSpan, 0};
}

// Index of the turn that brought in the token which stands in `slot` at turns[at]: cached slots are an unchanged prefix, so
// it is the newest turn up to that one whose new part holds the slot. A turn that is lost may have changed it; across such a
// gap only the same leaf at the same place is believed. -1: not known. `slot` becomes its place in that turn: leaves that left
// make the ones behind them move up.
int64_t owner_of(const SessionData& s, size_t at, Slot& slot) {
  bool gap = false;
  const Slot first = slot;
  for (size_t t = at + 1; t-- > 0;) {
    const TurnRecord& turn = s.turns[t];
    gap = gap || (t < at && turn.turn + 1 != s.turns[t + 1].turn);
    if (slot >= turn.context) return -1;
    if (slot < turn.executed_begin) {
      Slot rest = slot;
      for (const SlotRange& r : turn.kept) {
        if (rest < r.end - r.begin) {
          slot = r.begin + rest;
          break;
        }
        rest -= r.end - r.begin;
      }
      continue;
    }
    return !gap || leaf_at(turn, slot) == leaf_at(s.turns[at], first) ? int64_t(t) : -1;
  }
  return -1;
}

// Bytes of the tokens in slots [begin, end) of a turn's context; empty when one of them is not known.
std::string tokens_text(const SessionData& s, size_t at, Slot begin, Slot end) {
  std::string out;
  for (Slot slot = begin; slot < end;) {
    Slot place = slot;
    const int64_t owner = owner_of(s, at, place);
    if (owner < 0) return {};
    const TurnRecord& turn = s.turns[size_t(owner)];
    if (turn.new_token_end.size() != size_t(turn.context) - turn.executed_begin) return {};
    Slot stop = slot + 1;
    for (; stop < end; ++stop) {
      Slot next = stop;
      if (owner_of(s, at, next) != owner || next != place + (stop - slot)) break;
    }
    const size_t first = place - turn.executed_begin, last = first + (stop - slot);
    const uint64_t from = first ? turn.new_token_end[first - 1] : 0, to = turn.new_token_end[last - 1];
    if (to > turn.new_text.size() || from > to) return {};
    out.append(turn.new_text, size_t(from), size_t(to - from));
    slot = stop;
  }
  return out;
}

std::string leaf_text(const SessionData& s, size_t turn, const LayoutEntry& e) {
  const Span& span = s.ledger[e.leaf];
  std::string text = tokens_text(s, turn, e.slot, e.slot + e.len);
  const size_t skip = std::min<size_t>(span.head_skip, text.size());
  text.erase(0, skip);
  text.resize(text.size() - std::min<size_t>(span.tail_skip, text.size()));
  return text;
}

}  // namespace

void TurnRecord::index_text() {
  new_token_end.resize(new_token_bytes.size());
  uint64_t at = 0;
  for (size_t i = 0; i < new_token_bytes.size(); ++i) new_token_end[i] = at += new_token_bytes[i];
}

std::string SessionData::text_of(SpanId id) const {
  if (id >= ledger.spans.size() || !header.has_text) return {};
  const bool parent = ledger[id].kind == SpanKind::parent;
  for (size_t t = 0; t < turns.size(); ++t) {
    std::string out;
    bool found = false;
    for (const LayoutEntry& e : turns[t].layout) {
      bool mine = e.leaf == id;
      if (parent && e.leaf < ledger.spans.size() && ledger[e.leaf].kind == SpanKind::content)
        for (SpanId a : ledger.ancestors(e.leaf)) mine = mine || a == id;
      if (!mine) continue;
      found = true;
      out += leaf_text(*this, t, e);
    }
    if (found) return out;
  }
  return {};
}

std::string SessionData::token_text(TurnId turn, Slot slot) const {
  for (size_t t = 0; t < turns.size(); ++t)
    if (turns[t].turn == turn) return slot < turns[t].context ? tokens_text(*this, t, slot, slot + 1) : std::string();
  return {};
}

}  // namespace spanscope
