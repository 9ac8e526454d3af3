// SPDX-License-Identifier: GPL-3.0-or-later
// Predicted size of a session file and memory of a recording, from the turns' shapes.
#pragma once
#include <cstdint>

#include "core/model/weights.h"
#include "core/span/replay.h"

namespace spanscope {

class RecordSizes {
 public:
  RecordSizes(const Model& model, bool routing, bool text, bool heads)
      : model_(model), routing_(routing), text_(text), heads_(heads) {}
  void add(const TurnPlan& plan, const Ledger& ledger);
  uint64_t file_bytes() const;
  uint64_t memory_bytes() const;

 private:
  const Model& model_;
  bool routing_, text_, heads_;
  double dense_ = 0, events_ = 0, routed_ = 0, text_bytes_ = 0;
  uint64_t turns_ = 0, spans_ = 0, longest_ = 0, most_leaves_ = 0;
};

}  // namespace spanscope
