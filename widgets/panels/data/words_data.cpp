// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/panels/data/words_data.h"

#include <algorithm>
#include <map>
#include <set>

#include "widgets/panels/data/session_access.h"

namespace spanscope::panels {
namespace {
constexpr size_t kDotColumns = 7;
}

WordsData words_data(const SessionData& session, const TurnRecord& turn, Slot begin, Slot end, const ReadSettings& settings) {
  WordsData out;
  out.turn = turn.turn;
  end = std::min<Slot>(end, turn.context);
  if (begin >= end) return out;
  out.tokens = end - begin;
  for (Slot s = begin; s < end; ++s) out.text += session.token_text(turn.turn, s);
  for (const LayoutEntry& e : turn.layout)
    if (begin >= e.slot && begin < e.slot + e.len) out.reader = message_or_self(session, e.leaf);

  // Only tokens that an answer row predicts have reads.
  const Slot answer_end = turn.answer_begin + turn.answer_len;
  const Slot first = std::max(begin, turn.answer_begin), last = std::min(end, answer_end);
  if (turn.answer_len == 0 || first >= last) return out;
  out.answer = true;
  std::map<TokenPos, size_t> word_of_row;
  for (Slot s = first; s < last; ++s) {
    const TokenPos row = position_of(turn, s > 0 ? s - 1 : 0);
    word_of_row[row] = out.words.size();
    out.words.push_back({s, session.token_text(turn.turn, s), 0});
  }
  out.first_row = word_of_row.begin()->first;
  out.last_row = word_of_row.rbegin()->first;

  struct PerSpan {
    uint32_t reads = 0;
    std::set<uint32_t> heads;
  };
  struct PerHead {
    uint32_t reads = 0;
    float spike = 0;
    std::map<SpanId, uint32_t> of;
  };
  std::map<SpanId, PerSpan> spans;
  std::map<uint32_t, PerHead> heads;
  std::map<std::pair<size_t, SpanId>, uint32_t> cells;
  const ReadTest is_read(session, turn, settings);
  const EventColumns& e = turn.events;
  for (size_t i = 0; i < e.size(); ++i) {
    const auto word = word_of_row.find(e.row[i]);
    if (word == word_of_row.end() || !is_read(i)) continue;
    const SpanId span = message_or_self(session, e.leaf[i]);
    const uint32_t head = uint32_t(e.layer[i]) << 16 | e.head[i];
    ++out.total;
    ++out.words[word->second].reads;
    PerSpan& s = spans[span];
    ++s.reads;
    s.heads.insert(head);
    PerHead& h = heads[head];
    ++h.reads;
    h.spike = std::max(h.spike, e.mass[i]);
    ++h.of[span];
    ++cells[{word->second, span}];
  }
  out.heads = uint32_t(heads.size());
  for (const auto& [id, s] : spans) out.spans.push_back({id, s.reads, uint32_t(s.heads.size())});
  std::stable_sort(out.spans.begin(), out.spans.end(), [](const WordsSpan& a, const WordsSpan& b) { return a.reads > b.reads; });

  std::set<SpanId> resident;
  for (const LayoutEntry& entry : turn.layout)
    if (session.ledger[entry.leaf].kind == SpanKind::content) resident.insert(message_or_self(session, entry.leaf));
  resident.erase(out.reader);
  for (const WordsSpan& s : out.spans) resident.erase(s.span);
  out.other_spans = uint32_t(resident.size());

  for (size_t i = 0; i < std::min(kDotColumns, out.spans.size()); ++i) out.columns.push_back(out.spans[i].span);
  std::sort(out.columns.begin(), out.columns.end());
  out.dots.assign(out.words.size() * out.columns.size(), 0);
  for (size_t w = 0; w < out.words.size(); ++w)
    for (size_t c = 0; c < out.columns.size(); ++c) {
      const auto cell = cells.find({w, out.columns[c]});
      if (cell != cells.end()) out.dots[w * out.columns.size() + c] = cell->second;
    }

  for (const auto& [key, h] : heads) {
    WordsReader r{uint16_t(key >> 16), uint16_t(key & 0xffff), h.reads, h.spike, {h.of.begin(), h.of.end()}};
    std::stable_sort(r.of.begin(), r.of.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
    out.readers.push_back(std::move(r));
  }
  std::stable_sort(out.readers.begin(), out.readers.end(), [](const WordsReader& a, const WordsReader& b) {
    return a.reads != b.reads ? a.reads > b.reads : a.spike > b.spike;
  });
  return out;
}

}  // namespace spanscope::panels
