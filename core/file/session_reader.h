// SPDX-License-Identifier: GPL-3.0-or-later
// Opens a session file: by its index when finished, else by walking the frames. Never yields a number from a damaged
// frame; what is lost is a graded finding. Immutable after open; frame() may be called from any thread.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/file/safetensors.h"

namespace spanscope {

struct FrameInfo {
  uint64_t offset = 0, compressed_bytes = 0, content_bytes = 0;
  std::string kind;
  uint32_t version = 1, seq = 0;
  uint32_t turn = 0xffffffffu;
};

class SessionReader {
 public:
  static Result<std::shared_ptr<const SessionReader>> open(const std::string& path);
  // The same from memory; `name` stands for the path in messages.
  static Result<std::shared_ptr<const SessionReader>> from_bytes(std::vector<uint8_t> bytes, const std::string& name);
  virtual ~SessionReader() = default;
  virtual bool finished() const = 0;
  virtual const std::string& path() const = 0;
  virtual const std::string& session_id() const = 0;
  virtual uint64_t file_bytes() const = 0;
  // Blobs in the order in which they were written (no index, no skippables). One that was split over several zstd frames
  // is one entry: its sizes are sums, its offset the first part's.
  virtual const std::vector<FrameInfo>& frames() const = 0;
  virtual const std::vector<Finding>& findings() const = 0;  // of opening
  virtual Result<Blob> frame(size_t i) const = 0;            // decompresses and checks
  // Checks what frames() leaves out: the indices and seek tables of a session that was continued.
  virtual std::vector<Finding> check_tables() const = 0;
};

// Reads everything: every frame's hash, checksum, metadata, sequence; index and seek table. Findings by grade; empty and
// finished means the file is whole.
struct VerifyReport {
  bool finished = false;
  uint64_t frames = 0, frames_readable = 0;
  std::map<std::string, uint64_t> frames_by_kind;  // readable ones
  std::vector<Finding> findings;
};
Result<VerifyReport> verify_session(const std::string& path);
VerifyReport verify_session(const SessionReader& reader);

}  // namespace spanscope
