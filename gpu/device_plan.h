// SPDX-License-Identifier: GPL-3.0-or-later
// A plan's tables on the device: inputs once a pass, sums to and fro once a layer. Engine thread.
#pragma once
#include "gpu/plan_arrays.h"
#include "gpu/runtime.h"

namespace spanscope::gpu {

class DevicePlan {
 public:
  // Uploads what does not change between layers.
  Status begin_pass(PlanTables& tables);
  // Zeroed sums and this layer's habit. The arrays that the kernels get.
  Result<PlanArrays> begin_layer(PlanTables& tables);
  // The layer's sums back into the tables.
  Status end_layer(PlanTables& tables);
  // Segments for decode, uploaded with begin_pass().
  template <class E>
  void set_segments(AttentionParams<E>& p) const {
    p.segments = uint32_t(segment_begin_.size());
    p.part_segment = part_segment_.view();
    p.segment_begin = segment_begin_.view();
    p.segment_end = segment_end_.view();
    p.segment_leaf = segment_leaf_.view();
    p.leaf_segment = leaf_segment_.view();
  }

 private:
  Array<uint32_t> leaf_begin_, leaf_end_, leaf_position_, row_query_, row_position_;
  Array<uint32_t> part_segment_, segment_begin_, segment_end_, segment_leaf_, leaf_segment_;
  Array<int32_t> group_of_leaf_, group_of_row_;
  Array<uint8_t> readable_, row_phase_;
  Array<float> habit_, row_mass_, row_lse_;
  Array<uint64_t> head_mass_, inside_, query_leaf_, learned_sink_, unattributed_, spike_;
  Array<uint32_t> event_count_;
  Array<DeviceEvent> events_;
};

}  // namespace spanscope::gpu
