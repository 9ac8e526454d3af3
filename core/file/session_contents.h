// SPDX-License-Identifier: GPL-3.0-or-later
// What a session file holds, by its index or by walking it. A pure function of bytes; any thread.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/file/session_format.h"
#include "core/file/session_index.h"
#include "core/file/session_reader.h"

namespace spanscope {

struct Contents {
  bool finished = false, hashed = false;
  std::string session;
  std::vector<PhysicalFrame> physical;  // content frames by seq, without indices
  std::vector<PhysicalFrame> others;    // skippables behind the preamble and indices, in file order
  std::vector<FrameInfo> frames;        // whole blobs: frames[i] is physical[first[i]] and the parts after it
  std::vector<size_t> first;
  std::vector<Finding> findings;
  // Nothing but good frames from the preamble to the end, in order: the file can be continued.
  bool whole_to_the_end = false;
  uint32_t next_seq = 0;  // of a frame that is appended

  void find(Grade grade, std::string tag, std::string message, std::optional<uint64_t> offset = {}) {
    if (findings.size() < 4 * kMaxDamages) findings.push_back({grade, std::move(tag), std::move(message), {}, offset});
  }
};

Result<Contents> read_contents(std::span<const uint8_t> file, const std::string& path);

// Decompresses physical[i] and checks hash, checksum, metadata. `path` names the file in errors.
Result<Blob> read_physical(std::span<const uint8_t> file, const Contents& contents, size_t i, const std::string& path);
// "talk.span frame 41 (mass, turn 12)"
std::string place_of(const PhysicalFrame& frame, const std::string& path);

// The 16 bytes that begin every session.
std::span<const uint8_t> session_preamble();
// What a "loss" frame says: its grade and words.
Finding loss_finding(const Blob& blob, uint64_t offset);
// "37 closed turns can be read, it ends inside turn 38"
std::string what_remains(const std::vector<FrameInfo>& frames);

}  // namespace spanscope
