// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/file/session_reader.h"

#include <xxhash.h>
#include <zstd.h>

#include <algorithm>
#include <optional>
#include <set>

#include "core/base/files.h"
#include "core/file/frame_codec.h"
#include "core/file/session_format.h"

namespace spanscope {
namespace {

using Bytes = std::span<const uint8_t>;

uint32_t u32_at(Bytes bytes, uint64_t at) {
  uint32_t value;
  std::memcpy(&value, bytes.data() + at, 4);
  return value;
}

std::string number(uint64_t n) { return std::to_string(n); }

struct IndexRow {
  FrameInfo info;
  uint64_t hash = 0;
};

// Everything found in a file, by index or by walking.
struct Contents {
  bool finished = false;
  std::string session;
  std::vector<FrameInfo> frames;
  std::vector<uint64_t> hashes;  // parallel to frames; empty when walked
  std::vector<Finding> findings;
  void find(Grade grade, std::string tag, std::string message, std::optional<uint64_t> offset = {}) {
    findings.push_back({grade, std::move(tag), std::move(message), {}, offset});
  }
};

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> out;
  size_t at = 0;
  while (at <= text.size() && !text.empty()) {
    const size_t comma = std::min(text.find(',', at), text.size());
    out.push_back(text.substr(at, comma - at));
    at = comma + 1;
  }
  return out;
}

// Uses index and seek table. Nothing on any disagreement: then the file is walked. `why` says what disagreed.
std::optional<Contents> by_index(Bytes file, const std::string& path, std::string& why) {
  uint64_t table_bytes = 0;
  const auto table = read_seek_table(file, table_bytes);
  if (!table) {
    why = "no seek table at the end";
    return std::nullopt;
  }
  uint64_t total = table_bytes;
  for (const SeekEntry& e : *table) total += e.compressed;
  if (total != file.size() || table->size() < 3) {
    why = "the seek table covers " + number(total) + " bytes, the file has " + number(file.size());
    return std::nullopt;
  }
  // The last entry is the index, the first the preamble.
  const uint64_t index_bytes = table->back().compressed;
  const uint64_t index_at = file.size() - table_bytes - index_bytes;
  if (ZSTD_getFrameContentSize(file.data() + index_at, index_bytes) != table->back().content) {
    why = "the seek table and the index frame disagree about the index's size";
    return std::nullopt;
  }
  auto index = decode_frame(file.subspan(index_at, index_bytes), path);
  if (!index) {
    why = "the index cannot be read: " + index.error().message;
    return std::nullopt;
  }
  auto header = frame_header(*index, path);
  if (!header || header->kind != "index" || header->version > kIndexVersion) {
    why = "the last frame is not an index of this version";
    return std::nullopt;
  }
  const uint64_t n = table->size() - 2;
  auto offset = index->get<uint64_t>("offset", n);
  auto compressed = index->get<uint64_t>("compressed", n);
  auto content = index->get<uint64_t>("content", n);
  auto hash = index->get<uint64_t>("xxh64", n);
  auto kind = index->get<uint32_t>("kind", n);
  auto version = index->get<uint32_t>("version", n);
  auto turn = index->get<uint32_t>("turn", n);
  const auto kinds = split_list(index->metadata["kinds"]);
  if (!offset || !compressed || !content || !hash || !kind || !version || !turn || header->seq != n) {
    why = "the index does not list " + number(n) + " frames";
    return std::nullopt;
  }
  Contents out;
  out.session = header->session;
  uint64_t at = kPreambleBytes;
  if (table->front().compressed != kPreambleBytes || table->front().content != 0) {
    why = "the seek table does not begin with the preamble";
    return std::nullopt;
  }
  for (uint64_t i = 0; i < n; ++i) {
    const SeekEntry& e = (*table)[i + 1];
    if ((*offset)[i] != at || (*compressed)[i] != e.compressed || (*content)[i] != e.content || (*kind)[i] >= kinds.size()) {
      why = "index and seek table disagree about frame " + number(i);
      return std::nullopt;
    }
    FrameInfo info;
    info.offset = at;
    info.compressed_bytes = e.compressed;
    info.content_bytes = e.content;
    info.kind = kinds[(*kind)[i]];
    info.version = (*version)[i];
    info.turn = (*turn)[i];
    info.seq = uint32_t(i);
    out.frames.push_back(std::move(info));
    at += e.compressed;
  }
  if (at != index_at) {
    why = "the index covers " + number(at) + " bytes, the frames end at " + number(index_at);
    return std::nullopt;
  }
  out.hashes = std::move(*hash);
  out.finished = true;
  return out;
}

// The next byte at which something known may begin.
uint64_t next_magic(Bytes file, uint64_t from) {
  for (uint64_t at = from; at + 4 <= file.size(); ++at) {
    const uint32_t magic = u32_at(file, at);
    if (magic == kZstdMagic || magic == kSkippableMagic || magic == kSeekTableFrameMagic) return at;
  }
  return file.size();
}

Contents by_walking(Bytes file, const std::string& path) {
  Contents out;
  uint64_t at = kPreambleBytes;
  std::set<uint32_t> seen;
  uint32_t next_seq = 0;
  while (at < file.size()) {
    if (out.frames.size() >= kMaxFrames) {
      out.find(Grade::loss, "SPAN-LIMIT", "more than " + number(kMaxFrames) + " frames; the rest is not read", at);
      break;
    }
    const Bytes rest = file.subspan(at);
    const size_t size = ZSTD_findFrameCompressedSize(rest.data(), rest.size());
    std::string problem;
    if (ZSTD_isError(size)) {
      problem = rest.size() < 4 || u32_at(file, at) == kZstdMagic || u32_at(file, at) == kSeekTableFrameMagic
                    ? "a frame is cut or damaged"
                    : "bytes that are no frame";
    } else if (u32_at(file, at) == kSeekTableFrameMagic || (u32_at(file, at) & 0xfffffff0u) == 0x184D2A50u) {
      at += size;  // an older index's seek table, or a foreign skippable frame
      continue;
    } else {
      const std::string where = path + " frame " + number(out.frames.size());
      auto blob = decode_frame(rest.subspan(0, size), where);
      Result<FrameHeader> header = blob ? frame_header(*blob, where) : Result<FrameHeader>(blob.error());
      if (!header) {
        problem = header.error().message;
      } else if (out.session.empty() && (header->kind != "session" || header->seq != 0)) {
        problem = "frame of kind " + header->kind + " before the session header";
      } else if (!out.session.empty() && header->session != out.session) {
        out.find(Grade::loss, "SPAN-FOREIGN", "frame of another session passed over (" + header->kind + ")", at);
        at += size;
        continue;
      } else if (!seen.insert(header->seq).second) {
        out.find(Grade::loss, "SPAN-REPEATED", "frame " + number(header->seq) + " is there twice; the second is passed over", at);
        at += size;
        continue;
      } else {
        if (out.session.empty()) out.session = header->session;
        if (header->seq > next_seq)
          out.find(Grade::loss, "SPAN-MISSING",
                   header->seq == next_seq + 1 ? "frame " + number(next_seq) + " is missing"
                                               : "frames " + number(next_seq) + " to " + number(header->seq - 1) + " are missing",
                   at);
        if (header->seq < next_seq) out.find(Grade::loss, "SPAN-SWAPPED", "frame " + number(header->seq) + " stands out of order", at);
        next_seq = std::max(next_seq, header->seq + 1);
        if (header->kind != "index") {
          FrameInfo info;
          info.offset = at;
          info.compressed_bytes = size;
          info.content_bytes = ZSTD_getFrameContentSize(rest.data(), rest.size());
          info.kind = header->kind;
          info.version = header->version;
          info.seq = header->seq;
          info.turn = header->turn;
          out.frames.push_back(std::move(info));
        }
        at += size;
        continue;
      }
    }
    const uint64_t resume = next_magic(file, at + 1);
    out.find(Grade::loss, resume == file.size() ? "SPAN-TRUNCATED" : "SPAN-DAMAGED",
             problem + "; " + number(resume - at) + " bytes passed over", at);
    at = resume;
  }
  // A repeated or swapped frame leaves the right one in place: order by sequence.
  std::stable_sort(out.frames.begin(), out.frames.end(), [](const FrameInfo& a, const FrameInfo& b) { return a.seq < b.seq; });
  return out;
}

Result<Contents> open_contents(Bytes file, const std::string& path) {
  static_assert(sizeof kSignature == 8);
  const size_t compare = std::min<size_t>(file.size(), kPreambleBytes);
  uint8_t preamble[kPreambleBytes];
  std::memcpy(preamble, &kSkippableMagic, 4);
  const uint32_t length = 8;
  std::memcpy(preamble + 4, &length, 4);
  std::memcpy(preamble + 8, kSignature, 8);
  if (std::memcmp(file.data(), preamble, compare) != 0)
    return make_error(ErrorCode::corrupt, "SPAN-NOT-A-SESSION",
                      "expected a Spanscope session (first bytes 5a 2a 4d 18 08 00 00 00 SPANSCP), found something else", path, 0);
  if (file.size() <= kPreambleBytes)
    return make_error(ErrorCode::truncated, "SPAN-TRUNCATED",
                      "the file ends after " + number(file.size()) + " bytes, before the session header", path, file.size());
  std::string why;
  if (auto contents = by_index(file, path, why)) return std::move(*contents);
  Contents contents = by_walking(file, path);
  if (contents.frames.empty() || contents.frames.front().kind != "session")
    return make_error(ErrorCode::corrupt, "SPAN-NO-HEADER", "the session header cannot be read", path, kPreambleBytes);
  uint32_t turns = 0;
  for (const FrameInfo& f : contents.frames) turns += f.kind == "turn_end";
  contents.findings.insert(contents.findings.begin(),
                           Finding{Grade::warning, "SPAN-UNFINISHED",
                                   "unfinished (" + why + "); " + number(turns) + " closed turns can be read", {}, {}});
  return contents;
}

class Reader : public SessionReader {
 public:
  Reader(std::shared_ptr<const MappedFile> file, Contents contents) : file_(std::move(file)), contents_(std::move(contents)) {}
  bool finished() const override { return contents_.finished; }
  const std::string& path() const override { return file_->path(); }
  const std::string& session_id() const override { return contents_.session; }
  uint64_t file_bytes() const override { return file_->bytes().size(); }
  const std::vector<FrameInfo>& frames() const override { return contents_.frames; }
  const std::vector<Finding>& findings() const override { return contents_.findings; }

  Result<Blob> frame(size_t i) const override {
    if (i >= contents_.frames.size())
      return make_error(ErrorCode::not_found, "SPAN-FRAME", "no frame " + number(i), path());
    const FrameInfo& info = contents_.frames[i];
    std::string where = path() + " frame " + number(i) + " (" + info.kind;
    if (info.turn != 0xffffffffu) where += ", turn " + number(uint64_t(info.turn) + 1);
    where += ")";
    const Bytes bytes = file_->bytes().subspan(info.offset, info.compressed_bytes);
    if (!contents_.hashes.empty() && XXH64(bytes.data(), bytes.size(), 0) != contents_.hashes[i])
      return make_error(ErrorCode::corrupt, "SPAN-HASH", "the frame's bytes are not the ones that were written", where, info.offset);
    auto blob = decode_frame(bytes, where);
    if (!blob) {
      blob.error().offset = info.offset;
      return blob;
    }
    auto header = frame_header(*blob, where);
    if (!header) return std::move(header).error();
    if (header->session != contents_.session || header->kind != info.kind || header->seq != info.seq ||
        header->version != info.version || header->turn != info.turn)
      return make_error(ErrorCode::corrupt, "SPAN-FOREIGN",
                        "expected frame " + number(info.seq) + " of kind " + info.kind + " of this session, found " +
                            number(header->seq) + " of kind " + header->kind,
                        where, info.offset);
    return blob;
  }

 private:
  std::shared_ptr<const MappedFile> file_;
  Contents contents_;
};

}  // namespace

Result<std::shared_ptr<const SessionReader>> SessionReader::open(const std::string& path) {
  auto file = MappedFile::open(path);
  if (!file) return std::move(file).error();
  auto contents = open_contents((*file)->bytes(), path);
  if (!contents) return std::move(contents).error();
  return std::shared_ptr<const SessionReader>(std::make_shared<Reader>(std::move(*file), std::move(*contents)));
}

Result<VerifyReport> verify_session(const std::string& path) {
  auto reader = SessionReader::open(path);
  if (!reader) return std::move(reader).error();
  VerifyReport report;
  report.finished = (*reader)->finished();
  report.findings = (*reader)->findings();
  for (size_t i = 0; i < (*reader)->frames().size(); ++i) {
    auto blob = (*reader)->frame(i);
    ++report.frames;
    if (!blob) {
      const Error& e = blob.error();
      report.findings.push_back({Grade::loss, e.tag, e.message, e.where, e.offset});
    } else {
      ++report.frames_readable;
      ++report.frames_by_kind[(*reader)->frames()[i].kind];
    }
  }
  return report;
}

}  // namespace spanscope
