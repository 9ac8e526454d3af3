// SPDX-License-Identifier: GPL-3.0-or-later
#include "gpu/device_plan.h"

#include <algorithm>

namespace spanscope::gpu {
namespace {

template <class T>
Status put(Array<T>& to, const Global<const T>& from) {
  SPANSCOPE_TRY(to.resize(from.size));
  return from.size ? to.upload(from.data, from.size) : Status{};
}
template <class T>
Status put(Array<T>& to, const std::vector<T>& from) {
  return put(to, Global<const T>{from.data(), from.size()});
}
template <class T>
Status put(Array<T>& to, const Global<T>& from) {
  return put(to, Global<const T>{from.data, from.size});
}
template <class T>
Status get(const Array<T>& from, const Global<T>& to) {
  return to.size ? from.download(to.data, to.size) : Status{};
}

}  // namespace

Status DevicePlan::begin_pass(PlanTables& tables) {
  const PlanArrays host = tables.arrays();
  SPANSCOPE_TRY(put(leaf_begin_, host.leaf_begin));
  SPANSCOPE_TRY(put(leaf_end_, host.leaf_end));
  SPANSCOPE_TRY(put(leaf_position_, host.leaf_position));
  SPANSCOPE_TRY(put(readable_, host.readable));
  SPANSCOPE_TRY(put(group_of_leaf_, host.group_of_leaf));
  SPANSCOPE_TRY(put(group_of_row_, host.group_of_row));
  SPANSCOPE_TRY(put(row_phase_, host.row_phase));
  SPANSCOPE_TRY(put(row_query_, host.row_query));
  SPANSCOPE_TRY(put(row_position_, host.row_position));
  SPANSCOPE_TRY(put(part_segment_, tables.part_segment));
  SPANSCOPE_TRY(put(segment_begin_, tables.segment_begin));
  SPANSCOPE_TRY(put(segment_end_, tables.segment_end));
  SPANSCOPE_TRY(put(segment_leaf_, tables.segment_leaf));
  return put(leaf_segment_, tables.leaf_segment);
}

Result<PlanArrays> DevicePlan::begin_layer(PlanTables& tables) {
  const PlanArrays host = tables.arrays();
  if (host.habit) SPANSCOPE_TRY(put(habit_, host.habit));
  SPANSCOPE_TRY(put(head_mass_, host.head_mass));
  SPANSCOPE_TRY(put(inside_, host.inside));
  SPANSCOPE_TRY(put(query_leaf_, host.query_leaf));
  SPANSCOPE_TRY(put(learned_sink_, host.learned_sink));
  SPANSCOPE_TRY(put(unattributed_, host.unattributed));
  SPANSCOPE_TRY(put(spike_, host.spike));
  SPANSCOPE_TRY(put(event_count_, host.event_count));
  if (events_.size() < host.events.size) SPANSCOPE_TRY(events_.resize(host.events.size));
  if (host.row_mass) SPANSCOPE_TRY(put(row_mass_, host.row_mass));
  if (host.row_lse) SPANSCOPE_TRY(put(row_lse_, host.row_lse));
  PlanArrays a = host;
  a.leaf_begin = std::as_const(leaf_begin_).view();
  a.leaf_end = std::as_const(leaf_end_).view();
  a.leaf_position = std::as_const(leaf_position_).view();
  a.readable = std::as_const(readable_).view();
  a.group_of_leaf = std::as_const(group_of_leaf_).view();
  a.group_of_row = std::as_const(group_of_row_).view();
  a.row_phase = std::as_const(row_phase_).view();
  a.row_query = std::as_const(row_query_).view();
  a.row_position = std::as_const(row_position_).view();
  if (host.habit) a.habit = std::as_const(habit_).view();
  a.head_mass = head_mass_.view();
  a.inside = inside_.view();
  a.query_leaf = query_leaf_.view();
  a.learned_sink = learned_sink_.view();
  a.unattributed = unattributed_.view();
  a.spike = spike_.view();
  a.event_count = event_count_.view();
  a.events = events_.view();
  if (host.row_mass) a.row_mass = row_mass_.view();
  if (host.row_lse) a.row_lse = row_lse_.view();
  return a;
}

Status DevicePlan::end_layer(PlanTables& tables) {
  const PlanArrays host = tables.arrays();
  SPANSCOPE_TRY(get(head_mass_, host.head_mass));
  SPANSCOPE_TRY(get(inside_, host.inside));
  SPANSCOPE_TRY(get(query_leaf_, host.query_leaf));
  SPANSCOPE_TRY(get(learned_sink_, host.learned_sink));
  SPANSCOPE_TRY(get(unattributed_, host.unattributed));
  SPANSCOPE_TRY(get(spike_, host.spike));
  SPANSCOPE_TRY(get(event_count_, host.event_count));
  // Only the events that there are, never the whole room.
  const size_t events = std::min<size_t>(host.event_count.data[0], host.events.size);
  if (events) SPANSCOPE_TRY(events_.download(host.events.data, events));
  if (host.row_mass) SPANSCOPE_TRY(get(row_mass_, host.row_mass));
  if (host.row_lse) SPANSCOPE_TRY(get(row_lse_, host.row_lse));
  return {};
}

}  // namespace spanscope::gpu
