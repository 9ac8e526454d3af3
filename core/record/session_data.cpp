// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/record/session_data.h"

#include <algorithm>

namespace spanscope {
namespace {

// Bytes of the tokens in slots [begin, end) of a turn's context. A slot's token stands in the newest turn up to this one
// that ran it anew.
std::string tokens_text(const SessionData& s, size_t turn, Slot begin, Slot end) {
  std::string out;
  Slot at = begin;
  while (at < end) {
    size_t u = turn + 1;
    const TurnRecord* owner = nullptr;
    Slot next_begin = end;  // slots of newer turns hide the rest of older ones
    while (u-- > 0) {
      const TurnRecord& t = s.turns[u];
      if (at >= t.executed_begin && at < t.context) {
        owner = &t;
        break;
      }
      if (t.executed_begin > at) next_begin = std::min(next_begin, Slot(t.executed_begin));
    }
    if (!owner || owner->new_token_end.size() != size_t(owner->context) - owner->executed_begin) return out;
    const Slot stop = std::min({end, next_begin, Slot(owner->context)});
    const size_t first = at - owner->executed_begin, last = stop - owner->executed_begin;
    const uint64_t from = first ? owner->new_token_end[first - 1] : 0, to = owner->new_token_end[last - 1];
    if (to > owner->new_text.size() || from > to) return out;
    out.append(owner->new_text, size_t(from), size_t(to - from));
    at = stop;
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
