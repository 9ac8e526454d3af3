// SPDX-License-Identifier: GPL-3.0-or-later
// What the attention kernels are given: queries, the paged cache, and the recorder's plan flattened into arrays. Kernels
// read these structs by value; whoever launches fills them (gpu/plan_arrays.h).
#pragma once
#include "gpu/device.h"

namespace spanscope::gpu {

inline constexpr uint32_t kMaxExperts = 1024, kMaxUsed = 32;  // of the router

inline constexpr uint32_t kPage = 16;        // slots of a cache page
inline constexpr uint32_t kTileRows = 64;    // query rows of a prefill block
inline constexpr uint32_t kTileKeys = 64;
inline constexpr uint32_t kPartKeys = 512;   // keys of a decode partition
inline constexpr uint32_t kMaxLevels = 8;    // nesting levels of a plan
inline constexpr uint32_t kLeafChunk = 256;  // leaf borders that a block holds at a time

// Masses are added as whole multiples of 2^-40: integer additions are exact, so sums do not depend on the order in which
// blocks come. A pass has at most 1,024 rows and 2^13 heads: the largest sum is below 2^63.
inline constexpr float kMassUnit = 1099511627776.0f;  // 2^40

struct DeviceEvent {
  uint32_t row, leaf, head;
  float mass, habit;
  uint32_t unused[3];  // 32 bytes
};

struct PlanArrays {
  uint32_t leaves = 0, levels = 0, query_leaves = 0, event_capacity = 0;
  float theta = 0, factor = 0, cap = 0;
  Global<const uint32_t> leaf_begin, leaf_end;  // [leaves] slots
  Global<const uint32_t> leaf_position;         // [leaves] absolute position behind the last key
  Global<const uint8_t> readable;               // [leaves]
  Global<const int32_t> group_of_leaf;          // [levels][leaves]
  Global<const int32_t> group_of_row;           // [levels][rows]
  Global<const uint8_t> row_phase;              // [rows] RowPhase
  Global<const uint32_t> row_query;             // [rows]
  Global<const uint32_t> row_position;          // [rows]
  Global<const float> habit;                    // [heads][leaves] of this layer, or none
  // Sums, multiples of 1 / kMassUnit, zero before the layer:
  Global<uint64_t> head_mass;     // [heads][3][leaves]
  Global<uint64_t> inside;        // [heads][levels][leaves]
  Global<uint64_t> query_leaf;    // [3][query leaves][leaves]
  Global<uint64_t> learned_sink;  // [heads][3]
  Global<uint64_t> unattributed;  // [heads][3]
  Global<uint64_t> spike;         // [leaves] spike_key(), before the layer what a leaf begins with
  Global<uint32_t> event_count;   // [1] may exceed the capacity: the launch is then repeated with more room
  Global<DeviceEvent> events;     // [event_capacity]
  Global<float> row_mass;         // [rows][heads][leaves + 2] or none
  Global<float> row_lse;          // [rows][heads] or none
};

template <class E>
struct AttentionParams {
  Global<const float> q;  // [rows][heads][dim], rotated
  Global<float> out;      // [rows][heads][dim]
  // [pages][kv heads][key, value][16][dim] of this layer; page_of[slot / 16] names the page
  Global<const E> pool;
  Global<const uint32_t> page_of;
  Global<const uint32_t> row_first, row_end;  // [rows] the slots that a row sees
  Global<const uint32_t> tile;                // [row tiles][4] first key, end of keys, first leaf, end of leaves that it sees
  Global<const float> sinks;                  // [heads] learned scores, or none
  uint32_t rows = 0, heads = 0, kv_heads = 0;
  float scale = 1, score_cap = 0;
  PlanArrays plan;
  // Prefill: where leaf sums go that do not fit in shared memory.  // [blocks][leaves of a tile][64]
  Global<float> spill;
  uint32_t shared_leaves = 0;  // leaves of a tile that fit in the launch's shared memory
  uint32_t spill_leaves = 0;   // stride of spill
  // Decode:
  uint32_t parts = 0, segments = 0;
  Global<const uint32_t> part_segment;                          // [parts + 1] first segment of each partition
  Global<const uint32_t> segment_begin, segment_end;            // [segments] slots, cut at leaf borders and partitions
  Global<const uint32_t> segment_leaf;                          // [segments] plan.leaves for a gap
  Global<const uint32_t> leaf_segment;                          // [leaves + 1] first segment at or behind a leaf's begin
  Global<float> part_max, part_sum;                             // [rows][heads][parts]
  Global<float> part_out;                                       // [rows][heads][parts][dim]
  Global<float> part_segment_sum;                               // [rows][heads][segments]
};

// Largest mass first; of equals the lowest (head, row). 0: none.
SPANSCOPE_DEVICE uint64_t spike_key(float mass, uint32_t head, uint32_t row) {
  return (uint64_t(bits_of(mass)) + 1) << 32 | uint64_t(~(head << 16 | row));
}

}  // namespace spanscope::gpu
