// SPDX-License-Identifier: GPL-3.0-or-later
// Models split over several GGUF files, NAME-00001-of-00003.gguf and so on. The first file holds the
// metadata, each file the directory of its own tensors, and the keys split.no (from 0), split.count and
// split.tensors.count (of all files together) tie them to each other. Any thread.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/files.h"
#include "core/base/result.h"
#include "core/model/gguf.h"

namespace spanscope {

// What a shard's file name says.
struct GgufShardName {
  std::string prefix;              // "dir/NAME"
  uint32_t number = 0, count = 0;  // from 1
};
// Nothing when the name does not end in -NNNNN-of-NNNNN.gguf with 1 <= number <= count.
std::optional<GgufShardName> gguf_shard_name(const std::string& path);

// Paths of all files of the model that `path` (any one of them) belongs to, in order, by its name and by the
// numbers that its own metadata gives. One file, however it is called, when split_count is 1 or less.
// Errors: SPAN-GGUF-SPLIT: the name gives no numbers or others than the metadata, or files are missing
// (named).
Result<std::vector<std::string>> gguf_shard_paths(const std::string& path, uint64_t split_count,
                                                  uint64_t split_no);

struct GgufPart {
  std::shared_ptr<const MappedFile> mapped;
  GgufFile file;  // looks into `mapped`
};
// Opens the model that `path` belongs to: one part, or all shards in order, whichever of them is given. The
// first part has the metadata. Errors: those of MappedFile::open and GgufFile::parse, and SPAN-GGUF-SPLIT: a
// shard that is missing, or that says it is another number, of another count or of a model with another
// number of tensors; a tensor that two shards have; shards that together have fewer or more tensors than they
// say.
Result<std::vector<GgufPart>> open_gguf_parts(const std::string& path);

// The part with the metadata only (the first shard), tensors unchecked: for the vocabulary.
Result<GgufPart> open_gguf_metadata(const std::string& path);

}  // namespace spanscope
