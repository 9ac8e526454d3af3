// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/record/session_follow.h"

namespace spanscope {

Result<std::unique_ptr<SessionFollower>> SessionFollower::open(const std::string& path) {
  auto tail = SessionTail::open(path);
  if (!tail) return std::move(tail).error();
  return std::unique_ptr<SessionFollower>(new SessionFollower(std::move(*tail), path));
}

Result<FollowStep> SessionFollower::poll() {
  const bool was_finished = tail_->finished();
  const size_t turns = closed_turns();
  auto polled = tail_->poll();
  if (!polled) return std::move(polled).error();
  FollowStep step;
  step.grew = polled->grew;
  for (Finding& f : polled->findings) {
    step.changed = true;
    if (builder_) builder_->find(std::move(f));
    else early_.push_back(std::move(f));
  }
  for (TailFrame& frame : polled->frames) {
    if (!builder_) {
      builder_ = std::make_unique<SessionBuilder>(path_, tail_->session_id());
      for (Finding& f : early_) builder_->find(std::move(f));
      early_.clear();
      step.changed = true;
    }
    if (frame.info.kind == "closing" || frame.info.kind == "note") step.changed = true;
    SPANSCOPE_TRY(builder_->add(frame.info, std::move(frame.blob)));
  }
  step.turns_closed = uint32_t(closed_turns() - turns);
  step.changed = step.changed || step.turns_closed > 0 || tail_->finished() != was_finished;
  return step;
}

std::shared_ptr<const SessionData> SessionFollower::snapshot() const {
  if (!builder_ || !builder_->has_header()) return nullptr;
  auto out = std::make_shared<SessionData>(builder_->session());
  out->finished = tail_->finished();
  out->file_bytes = tail_->offset();
  if (!out->finished)
    out->findings.insert(out->findings.begin(),
                         {Grade::warning, "SPAN-UNFINISHED",
                          std::string(tail_->being_written() ? "being recorded" : "unfinished") + "; " + std::to_string(out->turns.size()) +
                              (out->turns.size() == 1 ? " closed turn" : " closed turns") + " so far",
                          {}, {}});
  return out;
}

}  // namespace spanscope
