// SPDX-License-Identifier: GPL-3.0-or-later
// A replay whose context has a limit: when a turn does not fit, leaves leave the context, at the turn's begin, for good.
// Around a replay that knows no limit. Thread: one owner.
//
// Which go: unpinned content leaves that were run as a whole in the turns before (so not the answer just given, whose last
// token runs with the next turn); never the sink, never what the turn brings. slide:
// the oldest first. evict_coldest: the least attended first, by decayed consumer mass, then by all of it, then by place
// (context-views A4); leaves of the last two turns only when nothing else is left, because nobody had a chance to look at
// them. A message whose last content leaf goes takes its template leaves along.
// Where the rest stands: compact moves it together (position = slot, keys rotated once from their originals); otherwise
// positions stay and leave a gap, and new tokens go on behind the last one.
#pragma once
#include <memory>

#include "core/span/replay.h"

namespace spanscope {

enum class OverflowPolicy : uint8_t { evict_coldest, slide };

struct OverflowOptions {
  OverflowPolicy policy = OverflowPolicy::slide;
  bool compact = true;
  uint32_t limit = 0;          // most tokens in a context, the answer included
  uint32_t model_context = 0;  // positions that the model was made for; 0: any
};

// Errors of next() and begin_answer() beside the inner replay's: SPAN-CONTEXT, a turn that does not fit whatever goes; a kept
// position that the model does not have.
std::unique_ptr<Replay> make_evicting_replay(std::unique_ptr<Replay> inner, OverflowOptions options);

}  // namespace spanscope
