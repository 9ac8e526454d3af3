// SPDX-License-Identifier: GPL-3.0-or-later
// What a session file holds, by its index or by walking it. A pure function of bytes; any thread.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/file/session_format.h"
#include "core/file/session_reader.h"

namespace spanscope {

struct PhysicalFrame {
  uint64_t offset = 0, compressed = 0, content = 0;
  uint64_t hash = 0;  // xxh64 of the compressed bytes, when known (Contents::hashed)
  std::string kind;
  uint32_t version = 1, seq = 0, turn = 0xffffffffu, part = 0, parts = 1;
};

struct Contents {
  bool finished = false, hashed = false;
  std::string session;
  std::vector<PhysicalFrame> physical;  // content frames by seq, without indices
  std::vector<FrameInfo> frames;        // whole blobs: frames[i] is physical[first[i]] and the parts after it
  std::vector<size_t> first;
  std::vector<Finding> findings;

  void find(Grade grade, std::string tag, std::string message, std::optional<uint64_t> offset = {}) {
    if (findings.size() < 4 * kMaxDamages) findings.push_back({grade, std::move(tag), std::move(message), {}, offset});
  }
};

Result<Contents> read_contents(std::span<const uint8_t> file, const std::string& path);

}  // namespace spanscope
