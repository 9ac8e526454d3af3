// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/panels/data/transcript_data.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "widgets/panels/data/session_access.h"

namespace spanscope::panels {
namespace {

// One character at s[at]: its length in bytes, and the code point; invalid bytes give length 1 and U+FFFD.
struct Decoded {
  uint32_t length = 1;
  char32_t code = 0xFFFD;
  bool valid = false;
};
Decoded decode(const std::string& s, size_t at) {
  const auto byte = [&](size_t i) { return uint8_t(s[i]); };
  const uint8_t b = byte(at);
  if (b < 0x80) return {1, b, true};
  uint32_t n = 0;
  char32_t code = 0;
  if (b >= 0xC2 && b < 0xE0) n = 2, code = b & 0x1F;
  else if (b >= 0xE0 && b < 0xF0) n = 3, code = b & 0x0F;
  else if (b >= 0xF0 && b < 0xF5) n = 4, code = b & 0x07;
  else return {};
  if (at + n > s.size()) return {};
  for (uint32_t i = 1; i < n; ++i) {
    if ((byte(at + i) & 0xC0) != 0x80) return {};
    code = code << 6 | (byte(at + i) & 0x3F);
  }
  const bool bad = (n == 3 && (code < 0x800 || (code >= 0xD800 && code < 0xE000))) || (n == 4 && (code < 0x10000 || code > 0x10FFFF));
  if (bad) return {};
  return {n, code, true};
}

void append(std::u16string& out, char32_t code) {
  if (code < 0x10000) {
    out.push_back(char16_t(code));
  } else {
    code -= 0x10000;
    out.push_back(char16_t(0xD800 + (code >> 10)));
    out.push_back(char16_t(0xDC00 + (code & 0x3FF)));
  }
}

// A character as it is shown. Line ends stay (they end paragraphs) but get a mark in front.
void append_shown(std::u16string& out, char32_t code, bool marks) {
  if (code == '\t' && marks) {
    out += u"→\t";
    return;
  }
  if (code == ' ' && marks) {
    out.push_back(u'·');
    return;
  }
  if (code == '\n' && marks) out.push_back(u'¶');
  if (code == '\r') code = 0x240D;
  if (code < 0x20 && code != '\n' && code != '\t') code = 0x2400 + code;  // control pictures
  append(out, code);
}

}  // namespace

std::vector<TranscriptBlock> transcript_blocks(const SessionData& session) {
  std::vector<TranscriptBlock> out;
  // Where a message's content stands last: the pieces of an answer replace the leaf it was written as.
  struct Home {
    const TurnRecord* turn = nullptr;
    std::vector<LayoutEntry> leaves;
  };
  std::map<SpanId, Home> homes;
  std::map<SpanId, const TurnRecord*> writers;
  for (const TurnRecord& t : session.turns) {
    std::map<SpanId, std::vector<LayoutEntry>> here;
    for (const LayoutEntry& e : t.layout)
      if (e.leaf < session.ledger.spans.size() && session.ledger[e.leaf].kind == SpanKind::content)
        here[message_or_self(session, e.leaf)].push_back(e);
    for (auto& [id, leaves] : here) {
      // An answer's own turn is where its rows are; later layouts only tell its pieces.
      homes[id] = {&t, std::move(leaves)};
      if (t.answer_len > 0 && session.ledger[id].message == t.message && t.message >= 0) writers[id] = &t;
    }
  }
  const TurnId last = session.turns.empty() ? 0 : session.turns.back().turn;
  for (auto& [id, home] : homes) {
    const Span& span = session.ledger[id];
    TranscriptBlock b;
    b.span = id;
    b.birth = span.birth;
    b.last_seen = home.turn->turn;
    b.gone = home.turn->turn != last;
    const auto writer = writers.find(id);
    Slot written = kNone32;
    if (writer != writers.end())
      for (const LayoutEntry& e : writer->second->layout)
        if (session.ledger[e.leaf].kind == SpanKind::content && message_or_self(session, e.leaf) == id && written == kNone32)
          written = e.slot;
    if (written != kNone32) {
      b.answer_turn = writer->second->turn;
      b.first_slot = written;
    }
    for (const LayoutEntry& e : home.leaves) {
      const Span& leaf = session.ledger[e.leaf];
      TranscriptLeaf l;
      l.leaf = e.leaf;
      l.first_token = b.tokens;
      l.tokens = e.len;
      l.byte_begin = uint32_t(b.text.size());
      for (uint32_t k = 0; k < e.len; ++k) {
        std::string bytes = session.header.has_text ? session.token_text(home.turn->turn, e.slot + k) : std::string();
        if (k + 1 == e.len && leaf.tail_skip) bytes.resize(bytes.size() - std::min<size_t>(bytes.size(), leaf.tail_skip));
        if (k == 0 && leaf.head_skip) bytes.erase(0, std::min<size_t>(bytes.size(), leaf.head_skip));
        b.text += bytes;
        b.token_end.push_back(uint32_t(b.text.size()));
      }
      l.byte_end = uint32_t(b.text.size());
      b.tokens += e.len;
      b.leaves.push_back(l);
    }
    out.push_back(std::move(b));
  }
  std::stable_sort(out.begin(), out.end(), [&](const TranscriptBlock& a, const TranscriptBlock& b) {
    const int32_t x = session.ledger[a.span].message, y = session.ledger[b.span].message;
    return x != y ? x < y : a.span < b.span;
  });
  return out;
}

CharMap char_map(const TranscriptBlock& block, TextMode mode) {
  CharMap map;
  const std::string& s = block.text;
  const bool marks = mode == TextMode::whitespace;
  const size_t tokens = block.token_end.size();
  map.token_begin.assign(tokens, 0);
  map.token_end.assign(tokens, 0);
  map.broken.assign(tokens, 0);
  if (mode == TextMode::tokens) {
    for (size_t k = 0; k < tokens; ++k) {
      const size_t begin = k ? block.token_end[k - 1] : 0, end = block.token_end[k];
      map.token_begin[k] = uint32_t(map.text.size());
      bool whole = true;
      for (size_t at = begin; at < end;) {
        const Decoded d = decode(s, at);
        if (!d.valid || at + d.length > end) whole = false;
        at += d.length;
      }
      if (whole) {
        for (size_t at = begin; at < end;) {
          const Decoded d = decode(s, at);
          append_shown(map.text, d.code, false);
          at += d.length;
        }
      } else {
        map.broken[k] = 1;
        map.text += u"⟨";
        for (size_t at = begin; at < end; ++at) {
          char hex[4];
          std::snprintf(hex, sizeof hex, at > begin ? " %02X" : "%02X", unsigned(uint8_t(s[at])));
          for (const char* c = hex; *c; ++c) map.text.push_back(char16_t(*c));
        }
        map.text += u"⟩";
      }
      map.token_end[k] = uint32_t(map.text.size());
    }
    return map;
  }
  // Characters first, then each token takes every character it has a byte of.
  std::vector<uint32_t> char_at(s.size() + 1, 0), char_after(s.size() + 1, 0);
  for (size_t at = 0; at < s.size();) {
    const Decoded d = decode(s, at);
    const uint32_t begin = uint32_t(map.text.size());
    append_shown(map.text, d.code, marks);
    const uint32_t end = uint32_t(map.text.size());
    for (uint32_t i = 0; i < d.length; ++i) char_at[at + i] = begin, char_after[at + i] = end;
    at += d.length;
  }
  for (size_t k = 0; k < tokens; ++k) {
    const size_t begin = k ? block.token_end[k - 1] : 0, end = block.token_end[k];
    if (end > begin) {
      map.token_begin[k] = char_at[begin];
      map.token_end[k] = char_after[end - 1];
    } else {
      map.token_begin[k] = map.token_end[k] = k ? map.token_end[k - 1] : 0;
    }
  }
  return map;
}

std::pair<uint32_t, uint32_t> CharMap::tokens_of(uint32_t begin, uint32_t end) const {
  uint32_t first = kNone32, last = kNone32;
  for (uint32_t k = 0; k < token_begin.size(); ++k) {
    if (token_end[k] <= begin || token_begin[k] >= end || token_end[k] == token_begin[k]) continue;
    if (first == kNone32) first = k;
    last = k + 1;
  }
  return {first, last};
}

}  // namespace spanscope::panels
