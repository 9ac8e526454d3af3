// SPDX-License-Identifier: GPL-3.0-or-later
// What gc takes out of one turn.
#include <limits>
#include <map>
#include <tuple>

#include "core/record/expert_histogram.h"
#include "core/record/session_gc.h"

namespace spanscope {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// values [lines][columns.size()]: NaN (or `dropped`) where the column goes.
template <class T>
void clear_columns(std::vector<T>& values, const std::vector<uint8_t>& columns, T dropped) {
  const size_t n = columns.size();
  for (size_t i = 0; n && i < values.size(); ++i)
    if (columns[i % n]) values[i] = dropped;
}

}  // namespace

struct GcThin::Impl {
  const SessionData& session;
  const GcRecord& gc;
  std::map<std::tuple<SpanId, uint16_t, uint8_t>, ExpertHistogram> histograms;

  void thin_masses(TurnRecord& t, const std::vector<uint8_t>& leaves) const {
    const size_t s = t.layout.size(), q = t.query_leaves.size();
    // The sum of what goes: a turn's mass stays accounted for.
    std::vector<double> folded(3 * q, 0);
    for (size_t i = 0; i < t.gc_mass_qk.size() && i < folded.size(); ++i) folded[i] = t.gc_mass_qk[i];
    for (size_t line = 0; line < 3 * q; ++line)
      for (size_t c = 0; c < s; ++c)
        if (leaves[c] && t.mass_qk[line * s + c] == t.mass_qk[line * s + c]) folded[line] += t.mass_qk[line * s + c];
    t.gc_mass_qk.assign(folded.begin(), folded.end());
    clear_columns(t.mass_qk, leaves, kNan);
    clear_columns(t.uniform_qk, leaves, kNan);
    std::vector<uint8_t> profiles;
    for (SpanId id : t.profile_spans) profiles.push_back(gc.dropped(id, t.turn));
    clear_columns(t.layer_mass, profiles, kNan);
    clear_columns(t.head_mass, profiles, kNan);
    for (RowMassLayer& l : t.row_mass) clear_columns(l.mass, leaves, kNan);
    for (PairLayer& l : t.pair_mass) clear_columns(l.mass, leaves, kNan);
  }

  static void thin_tokens(TurnRecord& t, const std::vector<uint8_t>& slots) {
    const std::vector<uint8_t> rows(slots.begin() + t.executed_begin, slots.begin() + t.executed_end);
    for (TokenStatLayer& l : t.token_stats) {
      const std::vector<uint8_t> keys(slots.begin(), slots.begin() + l.keys);
      for (auto* v : {&l.column_sum, &l.column_square, &l.column_max, &l.window_sum, &l.last_row}) clear_columns(*v, keys, kNan);
      for (auto* v : {&l.column_count, &l.window_count}) clear_columns(*v, keys, kNone32);
      for (auto* v : {&l.row_max, &l.row_lse, &l.row_entropy, &l.output_norm, &l.value_norm, &l.residual_cosine}) clear_columns(*v, rows, kNan);
      clear_columns(l.row_argmax, rows, 0u);
    }
  }

  void thin_routing(TurnRecord& t) {
    RoutingColumns& r = t.routing;
    const size_t rows = t.phase.size(), k = r.experts_used;
    for (const LayoutEntry& e : t.layout) {
      if (!gc.dropped(e.leaf, t.turn)) continue;
      for (Slot slot = std::max(e.slot, t.executed_begin); slot < std::min(e.slot + e.len, t.executed_end); ++slot) {
        const size_t row = slot - t.executed_begin;
        const uint8_t phase = t.phase[row];
        for (size_t l = 0; l < r.layers; ++l) {
          ExpertHistogram* histogram = phase <= uint8_t(RowPhase::answer) ? &histograms[{e.leaf, uint16_t(l), phase}] : nullptr;
          for (size_t j = 0; j < k; ++j) {
            const size_t at = (l * rows + row) * k + j;
            if (r.ids[at] == kNoExpert) continue;
            if (histogram) histogram->add(r.ids[at], r.weights[at]);
            r.ids[at] = kNoExpert, r.weights[at] = kNan;
          }
          r.margin[l * rows + row] = kNan;
        }
      }
    }
  }
};

GcThin::GcThin(const SessionData& session, const GcRecord& gc) : impl_(std::make_shared<Impl>(Impl{session, gc, {}})) {
  const GcRecord::Picks& p = gc.picks;
  for (size_t i = 0; i < p.size(); ++i) {
    ExpertHistogram& h = impl_->histograms[{p.span[i], p.layer[i], p.phase[i]}];
    if (p.expert[i] == kNoExpert) h.add_overflow(p.count[i]);
    else h.add(p.expert[i], p.weight[i], p.count[i]);
  }
}

void GcThin::operator()(TurnRecord& t) {
  std::vector<uint8_t> leaves, slots(t.context, 0);
  bool any = false;
  for (const LayoutEntry& e : t.layout) {
    leaves.push_back(impl_->gc.dropped(e.leaf, t.turn));
    if (!leaves.back()) continue;
    any = true;
    std::fill(slots.begin() + e.slot, slots.begin() + e.slot + e.len, uint8_t(1));
  }
  if (!any) return;
  impl_->thin_masses(t, leaves);
  impl_->thin_tokens(t, slots);
  if (!t.routing.empty()) impl_->thin_routing(t);
}

GcRecord::Picks GcThin::picks() const {
  GcRecord::Picks out;
  const auto add = [&](const auto& key, uint16_t expert, uint32_t count, double weight) {
    out.span.push_back(std::get<0>(key)), out.layer.push_back(std::get<1>(key)), out.phase.push_back(std::get<2>(key));
    out.expert.push_back(expert), out.count.push_back(count), out.weight.push_back(weight);
  };
  for (const auto& [key, h] : impl_->histograms) {
    for (const ExpertHistogram::Entry& e : h.entries()) add(key, e.expert, e.count, e.weight);
    if (h.overflow()) add(key, kNoExpert, h.overflow(), 0);
  }
  return out;
}

}  // namespace spanscope
