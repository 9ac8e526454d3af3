// SPDX-License-Identifier: GPL-3.0-or-later
// One zstd frame to one blob and back to its metadata, with every limit checked before anything is allocated. Pure
// functions of bytes; any thread.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/file/safetensors.h"

namespace spanscope {

struct FrameHeader {
  std::string kind, session;
  uint32_t version = 0, seq = 0, turn = 0xffffffffu;
};

// Decompresses exactly one frame that fills `bytes`; checks the declared size, window, checksum and the blob.
Result<Blob> decode_frame(std::span<const uint8_t> bytes, const std::string& where);
// kind, v, session, seq, turn of a blob's metadata. A missing or malformed one is an error.
Result<FrameHeader> frame_header(const Blob& blob, const std::string& where);

struct SeekEntry {
  uint32_t compressed, content;
};
// The zstd seek table that ends the file, or nothing if there is none that is well-formed. table_bytes: its whole size.
std::optional<std::vector<SeekEntry>> read_seek_table(std::span<const uint8_t> file, uint64_t& table_bytes);

}  // namespace spanscope
