// SPDX-License-Identifier: GPL-3.0-or-later
// A session while it is being recorded: every poll takes what came, and the turns that are closed so far can be had as a
// SessionData like any other. A turn in work is not shown; a torn frame never is. One thread at a time; what snapshot()
// returns is immutable and may go anywhere.
#pragma once
#include <memory>
#include <string>

#include "core/base/result.h"
#include "core/file/session_tail.h"
#include "core/record/session_build.h"
#include "core/record/session_data.h"

namespace spanscope {

struct FollowStep {
  bool grew = false;          // something came
  uint32_t turns_closed = 0;  // with this poll
  bool changed = false;       // snapshot() would show something new
};

class SessionFollower {
 public:
  // The file may be empty still. Errors: no file, a directory; later, from poll(): no session, or a file that became shorter.
  static Result<std::unique_ptr<SessionFollower>> open(const std::string& path);

  Result<FollowStep> poll();
  // Nothing until the session header has come. Copies the turns: meant for each closed turn, not for each frame.
  std::shared_ptr<const SessionData> snapshot() const;
  size_t closed_turns() const { return builder_ ? builder_->session().turns.size() : 0; }
  bool inside_turn() const { return builder_ && builder_->inside_turn(); }
  bool finished() const { return tail_->finished(); }
  // A recorder holds the file. Not finished and not being written: the recorder is gone, nothing more will come.
  bool being_written() const { return tail_->being_written(); }

 private:
  explicit SessionFollower(std::unique_ptr<SessionTail> tail, std::string path) : tail_(std::move(tail)), path_(std::move(path)) {}
  std::unique_ptr<SessionTail> tail_;
  std::string path_;
  std::unique_ptr<SessionBuilder> builder_;
  std::vector<Finding> early_;  // before the header came
};

}  // namespace spanscope
