// SPDX-License-Identifier: GPL-3.0-or-later
// A backend made of given attention rows: turns them into the LayerRecords of the contract in core/model/record_plan.h, by
// plain loops, and feeds a recorder. Lets the recorder be tested against attention that somebody else computed.
#pragma once
#include <functional>
#include <vector>

#include "core/record/recorder.h"

namespace spanscope::test {

struct Attention {
  uint32_t layers = 0, heads = 0;
  std::vector<uint32_t> window;  // [layers]
  // Weight of the row in slot `row` on the key in slot `key` <= row, and on the learned sink.
  std::function<float(uint32_t layer, uint32_t head, Slot row, Slot key)> weight;
  std::function<float(uint32_t layer, uint32_t head, Slot row)> learned;
};

// Position of every slot of a context; slots in no leaf go on from the leaf before them.
std::vector<TokenPos> positions_of(const std::vector<LayoutEntry>& layout, uint32_t slots);

// One pass over slots [begin, begin + phases.size()).
void feed_pass(Recorder& recorder, const RecordPlan& plan, Slot begin, const std::vector<TokenPos>& positions, const Attention& attention);

// All passes of a turn, at most pass_rows rows each and never across the first answer row. after_plan sees every plan.
void feed_turn(Recorder& recorder, const TurnPlan& turn, const Ledger& ledger, const Attention& attention, uint32_t pass_rows,
               const std::function<void(const RecordPlan&, Slot)>& after_plan = {});

}  // namespace spanscope::test
