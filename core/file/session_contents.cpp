// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/file/session_contents.h"

#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>

#include "core/file/frame_codec.h"
#include "core/file/session_format.h"

namespace spanscope {
namespace {

using Bytes = std::span<const uint8_t>;

// No frame that decode_frame() accepts is longer: its content is bounded and zstd's own blocks never grow much.
const uint64_t kLongestFrame = ZSTD_compressBound(kMaxContent) + 64;

uint32_t u32_at(Bytes bytes, uint64_t at) {
  uint32_t value;
  std::memcpy(&value, bytes.data() + at, 4);
  return value;
}

std::string number(uint64_t n) { return std::to_string(n); }

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> out;
  for (size_t at = 0; at <= text.size() && !text.empty();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    out.push_back(text.substr(at, comma - at));
    at = comma + 1;
  }
  return out;
}

bool is_skippable(uint32_t magic) { return (magic & 0xfffffff0u) == 0x184D2A50u; }

// Blobs of several frames become one entry; parts that are not complete are a loss.
void group_parts(Contents& out) {
  for (size_t i = 0; i < out.physical.size();) {
    const PhysicalFrame& f = out.physical[i];
    size_t n = 0;
    FrameInfo info{f.offset, 0, 0, f.kind, f.version, f.seq, f.turn};
    while (i + n < out.physical.size() && n < f.parts) {
      const PhysicalFrame& p = out.physical[i + n];
      if (p.part != n || p.parts != f.parts || p.kind != f.kind || p.turn != f.turn || p.version != f.version ||
          p.seq != f.seq + n)
        break;
      info.compressed_bytes += p.compressed;
      info.content_bytes += p.content;
      ++n;
    }
    if (n == f.parts && info.content_bytes <= kMaxJoined) {
      out.first.push_back(i);
      out.frames.push_back(std::move(info));
    } else {
      out.find(Grade::loss, n == f.parts ? "SPAN-LIMIT" : "SPAN-PARTS",
               "frame " + number(f.seq) + " (" + f.kind + ") has " + number(n == f.parts ? info.content_bytes : n) +
                   (n == f.parts ? " bytes, the most is " + number(kMaxJoined) : " of " + number(f.parts) + " parts in place"),
               f.offset);
    }
    i += std::max<size_t>(n, 1);
  }
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
    why = "the seek table covers " + number(total) + " bytes in " + number(table->size()) + " frames, the file has " +
          number(file.size()) + " bytes";
    return std::nullopt;
  }
  if (table->front().compressed != kPreambleBytes || table->front().content != 0) {
    why = "the seek table does not begin with the preamble";
    return std::nullopt;
  }
  // The last entry is the index, the first the preamble.
  const uint64_t index_bytes = table->back().compressed;
  const uint64_t index_at = file.size() - table_bytes - index_bytes;
  const Bytes index_frame = file.subspan(index_at, index_bytes);
  if (declared_content(index_frame) != table->back().content) {
    why = "the seek table and the index frame disagree about the index's size";
    return std::nullopt;
  }
  auto index = decode_frame(index_frame, path);
  if (!index) {
    why = "the index cannot be read: " + index.error().message;
    return std::nullopt;
  }
  auto header = frame_header(*index, path);
  if (!header || header->kind != "index") {
    why = "the last frame is not an index";
    return std::nullopt;
  }
  if (header->version > kIndexVersion) {
    why = "the index has version " + number(header->version) + ", this program reads " + number(kIndexVersion);
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
  auto part = index->get<uint32_t>("part", n);
  auto parts = index->get<uint32_t>("parts", n);
  const auto kinds = split_list(index->metadata["kinds"]);
  if (!offset || !compressed || !content || !hash || !kind || !version || !turn || !part || !parts || header->seq != n) {
    why = "the index does not list " + number(n) + " frames";
    return std::nullopt;
  }
  Contents out;
  out.session = header->session;
  uint64_t at = kPreambleBytes;
  for (uint64_t i = 0; i < n; ++i) {
    const SeekEntry& e = (*table)[i + 1];
    if ((*offset)[i] != at || (*compressed)[i] != e.compressed || (*content)[i] != e.content || (*kind)[i] >= kinds.size() ||
        (*parts)[i] == 0 || (*parts)[i] > kMaxParts) {
      why = "index and seek table disagree about frame " + number(i);
      return std::nullopt;
    }
    out.physical.push_back({at, e.compressed, e.content, (*hash)[i], kinds[(*kind)[i]], (*version)[i], uint32_t(i), (*turn)[i],
                            (*part)[i], (*parts)[i]});
    at += e.compressed;
  }
  if (at != index_at) {
    why = "the index covers " + number(at) + " bytes, the frames end at " + number(index_at);
    return std::nullopt;
  }
  if (out.physical.front().kind != "session") {
    why = "the first frame is not the session header";
    return std::nullopt;
  }
  group_parts(out);
  if (!out.findings.empty()) {
    why = "the index lists blobs whose parts are not complete";
    return std::nullopt;
  }
  out.hashed = out.finished = true;
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

class Walk {
 public:
  Walk(Bytes file, const std::string& path, uint64_t from) : file_(file), path_(path), at_(from) {}

  Contents run() {
    while (at_ < file_.size()) {
      if (out_.physical.size() >= kMaxFrames) {
        out_.find(Grade::loss, "SPAN-LIMIT", "more than " + number(kMaxFrames) + " frames; the rest is not read", at_);
        break;
      }
      if (out_.findings.size() >= kMaxDamages) {
        out_.find(Grade::loss, "SPAN-LIMIT", "more than " + number(kMaxDamages) + " places of damage; the rest is not read", at_);
        break;
      }
      const std::string problem = step();
      if (problem.empty()) continue;
      const uint64_t resume = next_magic(file_, at_ + 1);
      out_.find(Grade::loss, resume == file_.size() ? "SPAN-TRUNCATED" : "SPAN-DAMAGED",
                problem + "; " + number(resume - at_) + " bytes passed over", at_);
      at_ = resume;
    }
    // A repeated or swapped frame leaves the right one in place: order by sequence.
    std::stable_sort(out_.physical.begin(), out_.physical.end(),
                     [](const PhysicalFrame& a, const PhysicalFrame& b) { return a.seq < b.seq; });
    group_parts(out_);
    return std::move(out_);
  }

 private:
  // Takes what begins at at_ and moves behind it, or says why nothing can be taken.
  std::string step() {
    const Bytes rest = file_.subspan(at_, std::min(file_.size() - at_, kLongestFrame));
    const uint32_t magic = rest.size() >= 4 ? u32_at(rest, 0) : 0;
    if (is_skippable(magic)) {  // an older index's seek table, or a foreign skippable frame
      const uint64_t size = rest.size() >= 8 ? uint64_t(8) + u32_at(rest, 4) : UINT64_MAX;
      if (size > file_.size() - at_) return "a skippable frame is cut";
      at_ += size;
      return {};
    }
    const size_t size = ZSTD_findFrameCompressedSize(rest.data(), rest.size());
    if (ZSTD_isError(size)) return magic == kZstdMagic || rest.size() < 4 ? "a frame is cut or damaged" : "bytes that are no frame";
    const std::string where = path_ + " frame " + number(out_.physical.size());
    auto blob = decode_frame(rest.first(size), where);
    if (!blob) return blob.error().message;
    auto header = frame_header(*blob, where);
    if (!header) return header.error().message;
    if (out_.session.empty()) {
      if (header->kind != "session" || header->seq != 0) return "frame of kind " + header->kind + " before the session header";
      out_.session = header->session;
    }
    accept(*header, rest.first(size));
    at_ += size;
    return {};
  }

  void accept(const FrameHeader& header, Bytes frame) {
    if (header.session != out_.session) {
      out_.find(Grade::loss, "SPAN-FOREIGN", "frame of another session passed over (" + header.kind + ")", at_);
      return;
    }
    if (!seen_.insert(header.seq).second) {
      out_.find(Grade::loss, "SPAN-REPEATED", "frame " + number(header.seq) + " is there twice; the second is passed over", at_);
      return;
    }
    if (header.seq > next_)
      out_.find(Grade::loss, "SPAN-MISSING",
                header.seq == next_ + 1 ? "frame " + number(next_) + " is missing"
                                        : "frames " + number(next_) + " to " + number(header.seq - 1) + " are missing",
                at_);
    if (header.seq < next_) out_.find(Grade::loss, "SPAN-SWAPPED", "frame " + number(header.seq) + " stands out of order", at_);
    next_ = std::max<uint64_t>(next_, uint64_t(header.seq) + 1);
    if (header.kind == "index") return;
    if (header.kind == "loss") out_.find(Grade::loss, "SPAN-LOSS", "the recorder stopped here: it could not write on", at_);
    out_.physical.push_back({at_, frame.size(), declared_content(frame), 0, header.kind, header.version, header.seq, header.turn,
                             header.part, header.parts});
  }

  Bytes file_;
  const std::string& path_;
  uint64_t at_, next_ = 0;
  std::set<uint32_t> seen_;
  Contents out_;
};

// "37 closed turns can be read, it ends inside turn 38"
std::string what_remains(const Contents& contents) {
  std::set<uint32_t> closed;
  uint32_t last = 0xffffffffu;
  for (const FrameInfo& f : contents.frames) {
    if (f.kind == "turn_end") closed.insert(f.turn);
    if (f.turn != 0xffffffffu) last = f.turn;
  }
  std::string out = number(closed.size()) + (closed.size() == 1 ? " closed turn" : " closed turns") + " can be read";
  if (last != 0xffffffffu && !closed.contains(last)) out += ", it ends inside turn " + number(uint64_t(last) + 1);
  return out;
}

}  // namespace

Result<Contents> read_contents(Bytes file, const std::string& path) {
  uint8_t preamble[kPreambleBytes];
  const uint32_t length = sizeof kSignature;
  std::memcpy(preamble, &kSkippableMagic, 4);
  std::memcpy(preamble + 4, &length, 4);
  std::memcpy(preamble + 8, kSignature, sizeof kSignature);
  const bool signed_ = std::memcmp(file.data(), preamble, std::min<size_t>(file.size(), kPreambleBytes)) == 0;
  // A damaged signature costs nothing else, provided that a frame follows in its place.
  const bool frame_follows = file.size() >= kPreambleBytes + 4 && u32_at(file, kPreambleBytes) == kZstdMagic;
  auto not_a_session = [&] {
    return make_error(ErrorCode::corrupt, "SPAN-NOT-A-SESSION",
                      "expected a Spanscope session (first bytes 5a 2a 4d 18 08 00 00 00 SPANSCP), found something else", path, 0);
  };
  if (!signed_ && !frame_follows) return not_a_session();
  if (file.size() <= kPreambleBytes)
    return make_error(ErrorCode::truncated, "SPAN-TRUNCATED",
                      "the file ends after " + number(file.size()) + " bytes, before the session header", path, file.size());
  std::string why = "the first 16 bytes are damaged";
  if (signed_)
    if (auto contents = by_index(file, path, why)) return std::move(*contents);
  Contents contents = Walk(file, path, kPreambleBytes).run();
  if (contents.frames.empty() || contents.frames.front().kind != "session") {
    if (!signed_) return not_a_session();
    return make_error(ErrorCode::corrupt, "SPAN-NO-HEADER",
                      "the session header cannot be read" +
                          (contents.findings.empty() ? std::string() : ": " + contents.findings.front().message),
                      path, kPreambleBytes);
  }
  if (!signed_)
    contents.findings.insert(contents.findings.begin(), {Grade::loss, "SPAN-DAMAGED", "the first 16 bytes are not a session's", {}, 0});
  contents.findings.insert(contents.findings.begin(),
                           {Grade::warning, "SPAN-UNFINISHED", "unfinished (" + why + "); " + what_remains(contents), {}, {}});
  return contents;
}

}  // namespace spanscope
