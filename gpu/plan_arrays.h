// SPDX-License-Identifier: GPL-3.0-or-later
// A RecordPlan flattened for the kernels, and what the kernels added up turned back into a LayerRecord. The vectors are
// host memory; a device backend uploads them under the same names. Engine thread.
#pragma once
#include <span>
#include <vector>

#include "core/base/result.h"
#include "core/model/record_plan.h"
#include "gpu/kernels/params.h"

namespace spanscope::gpu {

class PlanTables {
 public:
  // positions [rows]. Errors: SPAN-GPU-PLAN for what the kernels cannot do (more than kMaxLevels levels, a leaf without
  // keys, more than 65,535 rows or heads).
  static Result<PlanTables> make(const RecordPlan& plan, uint32_t heads, std::span<const TokenPos> positions, uint32_t slots);

  // Zeroes the sums. A leaf that no row sees still has a spike of 0 when an answer row lies behind it.
  void begin_layer(uint32_t layer);
  // Arrays in this object's memory: what the host layer runs on.
  PlanArrays arrays();
  // More events were found than there was room for: makes room; the layer's launch is then to be repeated after
  // begin_layer(). False: there was room enough.
  bool grow_events();
  LayerRecord record();  // valid until the next begin_layer()

  // Leaves that a key range touches.  // [first, end)
  std::pair<uint32_t, uint32_t> leaves_in(uint32_t key_first, uint32_t key_end) const;

  // Decode: segments cut at leaf borders and at multiples of kPartKeys.
  std::vector<uint32_t> part_segment, segment_begin, segment_end, segment_leaf, leaf_segment;

 private:
  const RecordPlan* plan_ = nullptr;
  uint32_t heads_ = 0, rows_ = 0, leaves_ = 0, layer_ = 0, slots_ = 0;
  std::vector<uint32_t> leaf_begin_, leaf_end_, leaf_position_, row_position_;
  std::vector<uint8_t> readable_, row_phase_;
  std::vector<uint64_t> first_spike_;  // [leaves]
  std::vector<uint64_t> head_mass_, inside_, query_leaf_, learned_sink_, unattributed_, spike_;
  std::vector<uint32_t> event_count_;
  std::vector<DeviceEvent> device_events_;
  std::vector<float> row_mass_, row_lse_;
  // The record.
  std::vector<double> d_head_mass_, d_inside_, d_query_leaf_, d_learned_sink_, d_unattributed_;
  std::vector<float> spike_mass_;
  std::vector<uint16_t> spike_head_;
  std::vector<uint32_t> spike_row_;
  std::vector<ReadEvent> events_;
};

}  // namespace spanscope::gpu
