// SPDX-License-Identifier: GPL-3.0-or-later
// Predicted size of a session file and memory of a recording, from the turns' shapes and what is to be kept.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "core/model/weights.h"
#include "core/record/recorder.h"
#include "core/span/replay.h"

namespace spanscope {

class RecordSizes {
 public:
  RecordSizes(const Model& model, const RecorderOptions& options);
  void add(const TurnPlan& plan, const Ledger& ledger);
  uint64_t file_bytes() const;
  std::map<std::string, uint64_t> by_kind() const;  // frames' kinds, compressed
  uint64_t memory_bytes() const;

 private:
  void grow(const char* kind, double content, double kept);

  const Model& model_;
  const RecorderOptions options_;
  uint32_t pairs_ = 0, layers_ = 0;  // kept
  std::map<std::string, double> bytes_;
  double frames_ = 2;
  uint64_t longest_ = 0, most_leaves_ = 0, most_rows_ = 0, spans_ = 0;
};

}  // namespace spanscope
