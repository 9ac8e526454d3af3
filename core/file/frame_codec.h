// SPDX-License-Identifier: GPL-3.0-or-later
// One zstd frame to one blob and back to its metadata, with every limit checked before anything is allocated; blobs to
// parts and back (session_format.h, rule 2). Pure functions of bytes; any thread.
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
  uint32_t part = 0, parts = 1;
};

// Decompresses exactly one frame that fills `bytes`; checks the declared size, window, checksum and the blob.
Result<Blob> decode_frame(std::span<const uint8_t> bytes, const std::string& where);
// Size that the frame at the start of `bytes` declares for its content; 0 if it declares none.
uint64_t declared_content(std::span<const uint8_t> bytes);
// kind, v, session, seq, turn, part of a blob's metadata. A missing or malformed one is an error.
Result<FrameHeader> frame_header(const Blob& blob, const std::string& where);

// Blobs of at most kFrameContent bytes each, with "part" and "parts"; a small blob comes back alone and unchanged.
// Tensors that a reader would refuse (bad or repeated name, size that is not its shape's) are an error.
Result<std::vector<Blob>> split_blob(Blob blob, const std::string& where);
// The inverse. `parts` are complete and in order.
Result<Blob> join_parts(std::vector<Blob> parts, const std::string& where);

struct SeekEntry {
  uint32_t compressed, content;
};
// The zstd seek table that ends the file, or nothing if there is none that is well-formed. table_bytes: its whole size.
std::optional<std::vector<SeekEntry>> read_seek_table(std::span<const uint8_t> file, uint64_t& table_bytes);

}  // namespace spanscope
