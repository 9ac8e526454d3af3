// SPDX-License-Identifier: GPL-3.0-or-later
// Follows a session file while it is written: each poll gives the whole blobs that came since the last one, in order and
// never a torn one. Reads with pread, so that a file which shrinks is an error and not a crash. One thread at a time.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/file/safetensors.h"
#include "core/file/session_reader.h"

namespace spanscope {

struct TailFrame {
  FrameInfo info;
  Blob blob;  // joined when it came in parts
};

struct TailPoll {
  std::vector<TailFrame> frames;
  std::vector<Finding> findings;  // new ones: frames that are missing, damaged, foreign; the file replaced
  bool grew = false;              // bytes were taken (a part of a blob, a table)
};

class SessionTail {
 public:
  // The file may still be empty or hold only a part of its first frames. Error: no file, a directory, no session.
  static Result<std::unique_ptr<SessionTail>> open(const std::string& path);
  virtual ~SessionTail() = default;
  // At most about `most` bytes of content at a time; what remains comes with the next poll. Errors stick: bytes that are no
  // session, a file that became shorter.
  virtual Result<TailPoll> poll(uint64_t most = uint64_t(256) << 20) = 0;
  virtual const std::string& session_id() const = 0;  // empty until the header has come
  virtual uint64_t offset() const = 0;                // bytes taken so far
  virtual uint64_t file_bytes() const = 0;            // of the last poll
  // Index and seek table have come, and nothing behind them. A session that is continued later is unfinished again.
  virtual bool finished() const = 0;
  // Somebody holds the file for writing. False where the file system has no such locks.
  virtual bool being_written() const = 0;
};

}  // namespace spanscope
