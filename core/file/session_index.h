// SPDX-License-Identifier: GPL-3.0-or-later
// The two tables at a session's end: the index (a content frame) and zstd's seek table. Both are made from rows and read
// back to rows; everything that ends a file - the writer, a resumed writer, repair - makes them here. Any thread.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/result.h"

namespace spanscope {

// The kind of a row that stands for a skippable frame; such a row has no sequence number (0xffffffff).
inline constexpr char kSkippableKind[] = "skippable";

struct PhysicalFrame {
  uint64_t offset = 0, compressed = 0, content = 0;
  uint64_t hash = 0;  // xxh64 of the compressed bytes, when known
  std::string kind;
  uint32_t version = 1, seq = 0, turn = 0xffffffffu, part = 0, parts = 1;
};

// The index frame (zstd, of raw blocks) over `rows`, which cover the file from the preamble on in file order. Plain rows - no
// skippables, no older index, sequence numbers without a gap - make an index of version 1, others one of version 2.
// Error: more rows than fit one frame.
Result<std::vector<uint8_t>> index_frame(const std::vector<PhysicalFrame>& rows, const std::string& session, uint32_t seq,
                                         uint64_t& content_bytes);
// The seek table behind it: the preamble, the rows, the index.
std::vector<uint8_t> seek_table(const std::vector<PhysicalFrame>& rows, uint64_t index_compressed, uint64_t index_content);

struct IndexTables {
  std::string session;
  uint32_t version = 1, seq = 0;    // of the index itself
  std::vector<PhysicalFrame> rows;  // every frame between the preamble and the index
  PhysicalFrame index, table;       // where they lie (hash: of their bytes)
};
// Reads and cross-checks both. Nothing on any disagreement: `why` says what disagreed.
std::optional<IndexTables> read_tables(std::span<const uint8_t> file, const std::string& path, std::string& why);

}  // namespace spanscope
