// SPDX-License-Identifier: GPL-3.0-or-later
// Spans, leaves and layouts (definitions D1). Plain data.
//
// A leaf is a contiguous run of token positions; at every turn the leaves partition the context. Kinds of leaves: sink
// (the leading tokens before the first content, at most 4), template (text the chat template put in) and content. A
// parent groups leaves: a message, or a document, section ... inside it; its numbers sum its content leaves, template
// leaves stay outside and are attached to the message they wrap. A parent ends with its last resident content leaf.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/ids.h"

namespace spanscope {

enum class SpanKind : uint8_t { sink = 0, template_text = 1, content = 2, parent = 3 };
enum class Taint : uint8_t { trusted = 0, tainted = 1, quarantined = 2 };
const char* span_kind_name(SpanKind kind);
const char* taint_name(Taint taint);

struct Span {
  SpanId id = kNoSpan;
  SpanKind kind = SpanKind::content;
  std::string role;      // system, user, assistant, tool, document, template, sink
  std::string name;      // shown to people
  std::string producer;  // tool or author name, may be empty
  Taint taint = Taint::trusted;
  std::string digest;    // SHA-256 (hex) of its bytes; empty for template and sink
  SpanId parent = kNoSpan;       // content leaves and nested parents
  SpanId attached_to = kNoSpan;  // template leaves: the message they wrap
  int32_t message = -1;          // index in the recorded conversation, 0-based; -1: none
  std::string field;             // "content", "tool_calls[0].function.arguments"; empty for parents and templates
  ByteRange source;              // bytes of the field's text this leaf covers
  uint32_t head_skip = 0, tail_skip = 0;  // bytes of the first / last token that are not the leaf's own
  TurnId birth = 0;              // 0-based turn in which it entered
  uint32_t tokens = 0;           // own token count (parents: sum of content leaves)
  bool pinned = false;
  SpanId replaces = kNoSpan;
  bool leaf() const { return kind != SpanKind::parent; }
};

// One leaf's place in a turn.
struct LayoutEntry {
  SpanId leaf = kNoSpan;
  Slot slot = 0;
  uint32_t len = 0;
  TokenPos position = 0;  // absolute position of the first token
};

// All spans of a session, index = id. Parents come before their leaves or after; look up by id only.
struct Ledger {
  std::vector<Span> spans;
  const Span& operator[](SpanId id) const { return spans[id]; }
  // Ancestors of a leaf, nearest first (parent, grandparent ...). Bounded: a cycle or a bad id ends the walk.
  std::vector<SpanId> ancestors(SpanId id) const;
  // The outermost parent (the message) of a leaf or nested parent; of a template leaf the message it is attached to.
  SpanId message_of(SpanId id) const;
};

}  // namespace spanscope
