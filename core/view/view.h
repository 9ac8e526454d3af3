// SPDX-License-Identifier: GPL-3.0-or-later
// A view: a predicate over per-span scalars that yields references, never copies. Any thread.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/view/columns.h"

namespace spanscope {

enum class Tier : uint8_t { free, kept, re_attended };
enum class Verdict : uint8_t { hit, fault, recompute, refuse, abstain };
const char* tier_name(Tier t);
const char* verdict_name(Verdict v);

struct ViewRef {
  SpanId span = kNoSpan;
  Slot from = 0;
  uint32_t len = 0;
  std::string scalar;  // name of the scalar that chose it: "reads"
  double value = 0;
  ValueState state = ValueState::value;
  Tier tier = Tier::free;
  Verdict verdict = Verdict::hit;
};

struct ViewQuery {
  std::string predicate;           // empty: everything
  std::string preset;              // "", "hottest", "dead-weight", "cold" (then predicate narrows it)
  TurnId turn = kNone32;           // 0-based; none: the last turn that has answer rows
  MeasureSettings settings;
  Level level = Level::message;
  bool with_sinks = false, with_request = false;
  size_t limit = 0;                // 0: all
};

struct View {
  std::vector<ViewRef> refs;  // strongest first (smallest for < and <=), missing and idle last; else in context order
  TurnId turn = 0;
  std::string predicate, preset, caption;  // caption: measure, strength, rows, what was left out
  uint64_t tokens = 0, tokens_of = 0;      // in the view, of all resident content
  int64_t reads = 0, reads_of = 0;         // total reads over the session
  double share = 0;                        // of the turn's mass
  std::vector<Finding> findings;           // "hypothesis until confirmed" ...
};

// A predicate that does not parse is an error with its byte offset and what was expected.
Result<View> run_view(const SessionData& session, const ViewQuery& query);
// Fields of the language with meaning and unit, for completion and help.
struct FieldHelp {
  std::string name, meaning, unit;
};
std::vector<FieldHelp> predicate_fields();

}  // namespace spanscope
