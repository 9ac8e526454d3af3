// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/file/session_reader.h"

#include <xxhash.h>

#include "core/base/files.h"
#include "core/file/frame_codec.h"
#include "core/file/session_contents.h"

namespace spanscope {
namespace {

class Reader : public SessionReader {
 public:
  Reader(std::shared_ptr<const void> owner, std::span<const uint8_t> bytes, std::string path, Contents contents)
      : owner_(std::move(owner)), bytes_(bytes), path_(std::move(path)), contents_(std::move(contents)) {}
  bool finished() const override { return contents_.finished; }
  const std::string& path() const override { return path_; }
  const std::string& session_id() const override { return contents_.session; }
  uint64_t file_bytes() const override { return bytes_.size(); }
  const std::vector<FrameInfo>& frames() const override { return contents_.frames; }
  const std::vector<Finding>& findings() const override { return contents_.findings; }

  Result<Blob> frame(size_t i) const override {
    if (i >= contents_.frames.size())
      return make_error(ErrorCode::not_found, "SPAN-FRAME", "no frame " + std::to_string(i), path_);
    const size_t first = contents_.first[i];
    const uint32_t parts = contents_.physical[first].parts;
    if (parts == 1) return read_physical(bytes_, contents_, first, path_);
    std::vector<Blob> blobs;
    for (uint32_t p = 0; p < parts; ++p) {
      auto blob = read_physical(bytes_, contents_, first + p, path_);
      if (!blob) return blob;
      blobs.push_back(std::move(*blob));
    }
    return join_parts(std::move(blobs), place_of(contents_.physical[first], path_));
  }

  std::vector<Finding> check_tables() const override {
    std::vector<Finding> out;
    if (!contents_.hashed) return out;
    for (const PhysicalFrame& f : contents_.others)
      if (XXH64(bytes_.data() + f.offset, f.compressed, 0) != f.hash)
        out.push_back({Grade::loss, "SPAN-HASH",
                       f.kind == "index" ? "an older index is not what was written" : "a skippable frame is not what was written",
                       path_, f.offset});
    return out;
  }

 private:
  std::shared_ptr<const void> owner_;
  std::span<const uint8_t> bytes_;
  const std::string path_;
  const Contents contents_;
};

Result<std::shared_ptr<const SessionReader>> make_reader(std::shared_ptr<const void> owner, std::span<const uint8_t> bytes,
                                                         const std::string& path) {
  auto contents = read_contents(bytes, path);
  if (!contents) return std::move(contents).error();
  return std::shared_ptr<const SessionReader>(std::make_shared<Reader>(std::move(owner), bytes, path, std::move(*contents)));
}

}  // namespace

Result<std::shared_ptr<const SessionReader>> SessionReader::open(const std::string& path) {
  auto file = MappedFile::open(path);
  if (!file) return std::move(file).error();
  const auto bytes = (*file)->bytes();
  return make_reader(std::move(*file), bytes, path);
}

Result<std::shared_ptr<const SessionReader>> SessionReader::from_bytes(std::vector<uint8_t> bytes, const std::string& name) {
  if (bytes.empty()) return make_error(ErrorCode::truncated, "SPAN-EMPTY", "the file is empty", name, 0);
  auto owner = std::make_shared<const std::vector<uint8_t>>(std::move(bytes));
  return make_reader(owner, *owner, name);
}

VerifyReport verify_session(const SessionReader& reader) {
  VerifyReport report;
  report.finished = reader.finished();
  report.findings = reader.findings();
  for (Finding& f : reader.check_tables()) report.findings.push_back(std::move(f));
  for (size_t i = 0; i < reader.frames().size(); ++i) {
    auto blob = reader.frame(i);
    ++report.frames;
    if (!blob) {
      const Error& e = blob.error();
      report.findings.push_back({Grade::loss, e.tag, e.message, e.where, e.offset});
    } else {
      ++report.frames_readable;
      ++report.frames_by_kind[reader.frames()[i].kind];
    }
  }
  return report;
}

Result<VerifyReport> verify_session(const std::string& path) {
  auto reader = SessionReader::open(path);
  if (!reader) return std::move(reader).error();
  return verify_session(**reader);
}

}  // namespace spanscope
