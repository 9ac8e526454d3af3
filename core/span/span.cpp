// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/span/span.h"

namespace spanscope {

const char* span_kind_name(SpanKind kind) {
  switch (kind) {
    case SpanKind::sink: return "sink";
    case SpanKind::template_text: return "template";
    case SpanKind::content: return "content";
    case SpanKind::parent: return "parent";
  }
  return "unknown";
}

const char* taint_name(Taint taint) {
  switch (taint) {
    case Taint::trusted: return "trusted";
    case Taint::tainted: return "tainted";
    case Taint::quarantined: return "quarantined";
  }
  return "unknown";
}

std::vector<SpanId> Ledger::ancestors(SpanId id) const {
  std::vector<SpanId> out;
  if (id >= spans.size()) return out;
  for (SpanId at = spans[id].parent; at < spans.size() && out.size() < spans.size(); at = spans[at].parent) {
    for (SpanId seen : out)
      if (seen == at) return out;  // a cycle, from a damaged file
    out.push_back(at);
  }
  return out;
}

SpanId Ledger::message_of(SpanId id) const {
  if (id >= spans.size()) return kNoSpan;
  const Span& span = spans[id];
  if (span.kind == SpanKind::template_text) return span.attached_to < spans.size() ? span.attached_to : kNoSpan;
  const std::vector<SpanId> chain = ancestors(id);
  if (!chain.empty()) return chain.back();
  return span.kind == SpanKind::parent ? id : kNoSpan;
}

}  // namespace spanscope
