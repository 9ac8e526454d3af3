// SPDX-License-Identifier: GPL-3.0-or-later
// Makes a SessionData of blobs as they come: from a file that is read whole, or from one that is being written. Damaged or
// missing blobs become findings and missing turns, never wrong numbers. One thread.
#pragma once
#include <set>
#include <string>

#include "core/base/result.h"
#include "core/file/session_reader.h"
#include "core/record/session_data.h"

namespace spanscope {

class SessionBuilder {
 public:
  // details: what load_session says.
  SessionBuilder(std::string path, std::string session_id, bool details = false);
  // The next blob in the file's order, or the error that stands in its place. Error: the session header cannot be used
  // (then nothing can).
  Status add(const FrameInfo& info, Result<Blob> blob);
  void find(Finding finding) { session_.findings.push_back(std::move(finding)); }
  bool has_header() const { return have_header_; }
  bool inside_turn() const { return open_; }
  // What has come so far, closed turns only; for a running session.
  const SessionData& session() const { return session_; }
  SessionData& session() { return session_; }
  // At the end: says what is lost there, and hands the session over.
  Result<SessionData> finish();

 private:
  void begin_turn(const FrameInfo& info, const Blob& blob, Status& status);
  void end_turn(const FrameInfo& info, const Blob& blob);
  void lose_turn(uint32_t turn, const std::string& why);

  SessionData session_;
  TurnRecord turn_;
  std::set<std::string> parts_;   // kinds of the open turn that were read
  std::set<uint32_t> lost_;       // turns whose loss has been said
  bool have_header_ = false, ledger_ok_ = true;
  const bool details_;
  bool open_ = false, whole_ = true;
};

}  // namespace spanscope
