// SPDX-License-Identifier: GPL-3.0-or-later
// Appends frames to a session file (session_format.h). One writer thread owns the descriptor; append() queues and
// blocks when the queue is full, so nothing is dropped silently. Thread: the recording thread calls this.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "core/base/result.h"
#include "core/file/safetensors.h"

namespace spanscope {

struct FrameTag {
  std::string kind;      // "session", "ledger", "tokens", "turn_begin", "mass", "reads", "profile", "routing", "turn_end", ...
  uint32_t version = 1;  // major version of that kind
  uint32_t turn = 0xffffffffu;
};

class SessionWriter {
 public:
  // Creates the file (umask applies; an existing one is an error unless `force`) and writes the leading skippable frame.
  static Result<std::unique_ptr<SessionWriter>> create(const std::string& path, bool force);
  // Goes on behind an existing session of the same id, finished or not (session_format.h, rule 5). Refused: a file that does
  // not end at a frame's border (SPAN-TORN: repair it first), one that is being written (SPAN-BUSY), no session at all.
  static Result<std::unique_ptr<SessionWriter>> resume(const std::string& path);
  virtual ~SessionWriter() = default;  // without finish() the file stays unfinished, and readable
  // Adds __metadata__ kind, v, session, seq (and turn) and queues the frame. Reports an earlier write error, if any.
  virtual Status append(const FrameTag& tag, Blob blob) = 0;
  virtual Status sync() = 0;    // everything queued is on disk (fdatasync)
  // The same without waiting: once synced() has reached the mark, what was queued so far is on disk. Called at each turn's
  // end. Reports an earlier write error, if any.
  virtual Result<uint64_t> request_sync() = 0;
  virtual uint64_t synced() const = 0;
  // How long append() has waited so far because the disk was slower than what came: more than the queue holds.
  virtual double seconds_waited() const = 0;
  virtual Status finish() = 0;  // index, seek table, fdatasync, close
  virtual uint64_t bytes_written() const = 0;
  virtual std::map<std::string, uint64_t> bytes_by_kind() const = 0;
  virtual std::string session_id() const = 0;  // 128 random bits, hex
};

}  // namespace spanscope
