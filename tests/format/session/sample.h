// SPDX-License-Identifier: GPL-3.0-or-later
// Small sessions for the format tests, made by the writer, and frames made by hand.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/file/session_reader.h"
#include "core/file/session_writer.h"

namespace spanscope::test {

using Bytes = std::vector<uint8_t>;

struct Folder {  // gone with the object
  std::string path;
  Folder();
  ~Folder();
  std::string file(const std::string& name) const { return path + "/" + name; }
};

Blob numbers(int seed, size_t n);  // one f32 tensor "x"
void write_turns(SessionWriter& writer, int turns, size_t values = 20);
// session header, `turns` turns, each synced; finished unless told otherwise.
Bytes make_session(const Folder& folder, int turns, bool finish = true);
Bytes read_bytes(const std::string& path);
void write_bytes(const std::string& path, const Bytes& bytes);
Bytes slice(const Bytes& bytes, uint64_t offset, uint64_t size);
Bytes operator+(Bytes a, const Bytes& b);

// One zstd frame with a checksum and a declared size around a blob that has the given metadata.
Bytes frame_of(Blob blob, const std::string& session, uint32_t seq, const std::string& kind, uint32_t version = 1);
// A frame of 4 GiB of zeros in about 130 KB. declared: what its header says of the content (UINT64_MAX: nothing).
Bytes bomb(uint64_t declared);

uint32_t closed_turns(const SessionReader& reader);
bool has_finding(const std::vector<Finding>& findings, const std::string& tag);
std::string tags_of(const std::vector<Finding>& findings);
// The first Python that can import zstandard; empty if there is none.
std::string python_with_zstandard();

}  // namespace spanscope::test
