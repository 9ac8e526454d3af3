// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/span/evicting_replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace spanscope {
namespace {

class EvictingReplay : public Replay {
 public:
  EvictingReplay(std::unique_ptr<Replay> inner, OverflowOptions options) : inner_(std::move(inner)), options_(options) {}

  const Ledger& ledger() const override { return inner_->ledger(); }
  const std::vector<Finding>& findings() const override {
    findings_ = inner_->findings();
    findings_.insert(findings_.end(), evictions_.begin(), evictions_.end());
    return findings_;
  }
  uint32_t turns() const override { return inner_->turns(); }
  uint32_t next_index() const override { return inner_->next_index(); }
  bool done() const override { return inner_->done(); }
  void drop_rest() override { inner_->drop_rest(); }
  bool moves_keys() const override { return options_.compact || inner_->moves_keys(); }
  std::optional<LocalTime> template_time() const override { return inner_->template_time(); }
  void set_warmth(WarmthFunction warmth) override { warmth_ = std::move(warmth); }

  Result<TurnPlan> next() override {
    auto full = inner_->next();
    if (!full) return full;
    const std::vector<SpanId> gone = make_room(*full, 0);
    return finish(std::move(*full), gone);
  }
  Result<TurnPlan> begin_answer(uint32_t max_tokens) override {
    auto full = inner_->begin_answer(max_tokens);
    if (!full) return full;
    pending_ = make_room(*full, max_tokens);
    auto reduced = reduce(*full, pending_);
    if (reduced) SPANSCOPE_TRY(check(*reduced, max_tokens));
    return reduced;
  }
  Result<TurnPlan> finish_answer(const std::vector<TokenId>& generated, bool cut) override {
    auto full = inner_->finish_answer(generated, cut);
    if (!full) return full;
    return finish(std::move(*full), std::exchange(pending_, {}));
  }

 private:
  bool resident(SpanId leaf) const { return !evicted_.contains(leaf); }

  // Takes leaves out until the turn and `answer` more tokens fit. Returns what went.
  std::vector<SpanId> make_room(const TurnPlan& full, uint32_t answer) {
    uint64_t size = answer;
    for (const LayoutEntry& e : full.layout)
      if (resident(e.leaf) && e.slot < full.ids.size()) size += e.len;
    if (size <= options_.limit) return {};
    const Ledger& ledger = inner_->ledger();
    std::vector<Warmth> warmth;
    if (options_.policy == OverflowPolicy::evict_coldest && warmth_) warmth = warmth_();
    struct Candidate {
      bool young;
      double ema, cumulative;
      Slot slot;
      SpanId leaf;
    };
    std::vector<Candidate> candidates;
    std::map<SpanId, uint32_t> content_left;  // of each message, in the context
    for (const LayoutEntry& e : full.layout) {
      const Span& span = ledger[e.leaf];
      if (!resident(e.leaf) || span.kind != SpanKind::content) continue;
      ++content_left[ledger.message_of(e.leaf)];
      if (span.pinned || e.slot + e.len > full.cached) continue;
      const bool known = e.leaf < warmth.size();
      candidates.push_back({!warmth.empty() && span.birth + 2 > full.turn, known ? warmth[e.leaf].ema : 0, known ? warmth[e.leaf].cumulative : 0, e.slot, e.leaf});
    }
    std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
      return std::tuple(a.young, a.ema, a.cumulative, a.slot) < std::tuple(b.young, b.ema, b.cumulative, b.slot);
    });
    std::vector<SpanId> gone;
    const auto drop = [&](const LayoutEntry& e) {
      evicted_.insert(e.leaf);
      gone.push_back(e.leaf);
      size -= e.len;
    };
    const auto entry_of = [&](SpanId leaf) {
      return *std::find_if(full.layout.begin(), full.layout.end(), [&](const LayoutEntry& e) { return e.leaf == leaf; });
    };
    for (const Candidate& c : candidates) {
      if (size <= options_.limit) break;
      drop(entry_of(c.leaf));
      const SpanId message = ledger.message_of(c.leaf);
      if (message == kNoSpan || --content_left[message] > 0) continue;
      for (const LayoutEntry& e : full.layout)
        if (ledger[e.leaf].kind == SpanKind::template_text && ledger[e.leaf].attached_to == message && resident(e.leaf) && e.slot + e.len <= full.cached) drop(e);
    }
    return gone;
  }

  // The plan without what left. Keys of the turn before stay as far as they are the same tokens, in order.
  Result<TurnPlan> reduce(const TurnPlan& full, const std::vector<SpanId>& gone) {
    TurnPlan out = full;
    out.ids.clear(), out.token_bytes.clear(), out.text.clear(), out.layout.clear(), out.phase.clear(), out.kept.clear();
    out.evicted = gone;
    std::vector<uint64_t> text_end{0};
    for (uint32_t bytes : full.token_bytes) text_end.push_back(text_end.back() + bytes);
    slots_.clear();
    for (const LayoutEntry& e : full.layout) {
      if (!resident(e.leaf)) continue;
      const Slot slot = Slot(out.ids.size());
      out.layout.push_back({e.leaf, slot, e.len, options_.compact ? slot : e.position});
      for (Slot f = e.slot; f < std::min<Slot>(e.slot + e.len, Slot(full.ids.size())); ++f) {
        slots_.push_back(f);
        out.ids.push_back(full.ids[f]);
        if (f >= full.token_bytes.size()) continue;
        out.token_bytes.push_back(full.token_bytes[f]);
        if (text_end[f + 1] <= full.text.size()) out.text.append(full.text, text_end[f], full.token_bytes[f]);
      }
    }
    const auto before = [&](Slot f) { return uint32_t(std::lower_bound(slots_.begin(), slots_.end(), f) - slots_.begin()); };
    out.answer_begin = before(full.answer_begin);
    out.executed_end = before(full.executed_end);
    uint32_t cached = 0;
    for (const uint32_t end = before(full.cached); cached < end; ++cached) {
      const auto old = std::lower_bound(ran_.begin(), ran_.end(), slots_[cached]);
      if (old == ran_.end() || *old != slots_[cached]) break;
      const Slot at = Slot(old - ran_.begin());
      if (!out.kept.empty() && out.kept.back().end == at) ++out.kept.back().end;
      else out.kept.push_back({at, at + 1});
    }
    out.cached = cached;
    if (out.kept.size() == 1 && out.kept[0].begin == 0) out.kept.clear();  // a prefix, as usual
    for (uint32_t i = cached; i < out.executed_end; ++i) {
      const Slot f = slots_[i];
      // A generated answer's rows are not listed.
      if (f >= full.cached && f - full.cached >= full.phase.size()) break;
      out.phase.push_back(f < full.cached ? RowPhase::recompute : full.phase[f - full.cached]);
    }
    return out;
  }

  Status check(const TurnPlan& plan, uint32_t answer) const {
    if (plan.ids.size() + answer > options_.limit)
      return make_error(ErrorCode::limit, "SPAN-CONTEXT",
                        fmt::format("turn {} needs {} tokens after everything left that may leave, the limit is {}", plan.turn + 1, plan.ids.size() + answer, options_.limit),
                        "--context");
    const uint64_t last = plan.layout.empty() ? 0 : uint64_t(plan.layout.back().position) + std::max<uint64_t>(answer, plan.layout.back().len);
    if (options_.model_context && last > options_.model_context)
      return make_error(ErrorCode::limit, "SPAN-CONTEXT",
                        fmt::format("turn {} reaches position {}, the model was made for {}: positions that are kept only grow; --evict-positions compact moves the rest together",
                                    plan.turn + 1, last, options_.model_context),
                        "--evict-positions");
    return {};
  }

  Result<TurnPlan> finish(TurnPlan full, const std::vector<SpanId>& gone) {
    auto out = reduce(full, gone);
    if (!out) return out;
    SPANSCOPE_TRY(check(*out, 0));
    ran_.assign(slots_.begin(), slots_.begin() + out->executed_end);
    if (!gone.empty()) {
      uint64_t tokens = 0;
      for (SpanId leaf : gone) tokens += inner_->ledger()[leaf].tokens;
      evictions_.push_back({Grade::info, "SPAN-EVICTED",
                            fmt::format("turn {}: {} spans of {} tokens left the context ({}, {}): it may have {} tokens", full.turn + 1, gone.size(), tokens,
                                        options_.policy == OverflowPolicy::slide ? "the oldest first" : "the coldest first",
                                        options_.compact ? "the rest moved together" : "positions kept", options_.limit),
                            {}, {}});
    }
    return out;
  }

  std::unique_ptr<Replay> inner_;
  const OverflowOptions options_;
  WarmthFunction warmth_;
  std::set<SpanId> evicted_;
  std::vector<Slot> ran_;    // of the turn before: the full context's slot of each slot that ran
  std::vector<Slot> slots_;  // of the plan reduced last: the full context's slot of each
  std::vector<SpanId> pending_;
  std::vector<Finding> evictions_;
  mutable std::vector<Finding> findings_;
};

}  // namespace

std::unique_ptr<Replay> make_evicting_replay(std::unique_ptr<Replay> inner, OverflowOptions options) {
  return std::make_unique<EvictingReplay>(std::move(inner), options);
}

}  // namespace spanscope
