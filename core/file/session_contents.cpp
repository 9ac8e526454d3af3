// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/file/session_contents.h"

#include <xxhash.h>
#include <zstd.h>

#include <algorithm>
#include <array>
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

void by_sequence(std::vector<PhysicalFrame>& frames) {
  std::stable_sort(frames.begin(), frames.end(), [](const PhysicalFrame& a, const PhysicalFrame& b) { return a.seq < b.seq; });
}

void find_missing(Contents& out, uint64_t expected, uint64_t found, uint64_t offset) {
  out.find(Grade::loss, "SPAN-MISSING",
           found == expected + 1 ? "frame " + number(expected) + " is missing"
                                 : "frames " + number(expected) + " to " + number(found - 1) + " are missing",
           offset);
}

// Uses index and seek table. Nothing on any disagreement: then the file is walked. `why` says what disagreed.
std::optional<Contents> by_index(Bytes file, const std::string& path, std::string& why) {
  auto tables = read_tables(file, path, why);
  if (!tables) return std::nullopt;
  Contents out;
  out.session = tables->session;
  // Gaps are what a repaired file could not keep; they stay a loss. A resumed file's older indices have numbers too.
  uint64_t next = 0;
  for (PhysicalFrame& f : tables->rows) {
    if (f.kind != kSkippableKind) {
      if (f.seq > next) find_missing(out, next, f.seq, f.offset);
      next = uint64_t(f.seq) + 1;
    }
    (f.kind == kSkippableKind || f.kind == "index" ? out.others : out.physical).push_back(std::move(f));
  }
  if (tables->seq > next) find_missing(out, next, tables->seq, tables->index.offset);
  if (out.physical.empty() || out.physical.front().kind != "session" || out.physical.front().seq != 0) {
    why = "the first frame is not the session header";
    return std::nullopt;
  }
  const size_t before = out.findings.size();
  group_parts(out);
  if (tables->version <= 1 && out.findings.size() != before) {
    why = "the index lists blobs whose parts are not complete";
    return std::nullopt;
  }
  for (const PhysicalFrame& f : out.physical) {
    if (f.kind != "loss" || out.findings.size() >= kMaxDamages) continue;
    const auto blob = decode_frame(file.subspan(f.offset, f.compressed), path);
    out.findings.push_back(blob ? loss_finding(*blob, f.offset)
                                : Finding{Grade::loss, "SPAN-LOSS", "a note of loss cannot be read", {}, f.offset});
  }
  out.others.push_back(tables->index);
  out.others.push_back(tables->table);
  out.next_seq = tables->seq + 1;
  out.hashed = out.finished = out.whole_to_the_end = true;
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
        in_order_ = false;
        break;
      }
      if (out_.findings.size() >= kMaxDamages) {
        out_.find(Grade::loss, "SPAN-LIMIT", "more than " + number(kMaxDamages) + " places of damage; the rest is not read", at_);
        break;
      }
      const std::string problem = step();
      if (problem.empty()) continue;
      in_order_ = false;
      const uint64_t resume = next_magic(file_, at_ + 1);
      out_.find(Grade::loss, resume == file_.size() ? "SPAN-TRUNCATED" : "SPAN-DAMAGED",
                problem + "; " + number(resume - at_) + " bytes passed over", at_);
      at_ = resume;
    }
    // A repeated or swapped frame leaves the right one in place: order by sequence.
    by_sequence(out_.physical);
    group_parts(out_);
    out_.whole_to_the_end = in_order_;
    out_.next_seq = uint32_t(next_);
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
      // Bytes that nothing vouches for: an older seek table is expected here, anything else is said.
      const bool table = magic == kSeekTableFrameMagic && size >= 17 && u32_at(file_, at_ + size - 4) == kSeekTableMagic;
      if (!table) out_.find(Grade::warning, "SPAN-SKIPPABLE", number(size) + " bytes of a foreign skippable frame passed over", at_);
      out_.others.push_back({at_, size, 0, 0, kSkippableKind, 1, 0xffffffffu});
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
    accept(*blob, *header, rest.first(size));
    at_ += size;
    return {};
  }

  void accept(const Blob& blob, const FrameHeader& header, Bytes frame) {
    const bool foreign = header.session != out_.session;
    if (foreign || seen_.contains(header.seq) || header.seq < next_ || header.seq == 0xffffffffu) in_order_ = false;
    if (foreign) {
      out_.find(Grade::loss, "SPAN-FOREIGN", "frame of another session passed over (" + header.kind + ")", at_);
      return;
    }
    if (!seen_.insert(header.seq).second) {
      out_.find(Grade::loss, "SPAN-REPEATED", "frame " + number(header.seq) + " is there twice; the second is passed over", at_);
      return;
    }
    if (header.seq > next_) find_missing(out_, next_, header.seq, at_);
    if (header.seq < next_) out_.find(Grade::loss, "SPAN-SWAPPED", "frame " + number(header.seq) + " stands out of order", at_);
    next_ = std::max<uint64_t>(next_, uint64_t(header.seq) + 1);
    PhysicalFrame f{at_, frame.size(), declared_content(frame), 0, header.kind, header.version, header.seq, header.turn,
                    header.part, header.parts};
    if (header.kind == "loss" && out_.findings.size() < kMaxDamages) out_.findings.push_back(loss_finding(blob, at_));
    (header.kind == "index" ? out_.others : out_.physical).push_back(std::move(f));
  }

  Bytes file_;
  const std::string& path_;
  uint64_t at_, next_ = 0;
  bool in_order_ = true;
  std::set<uint32_t> seen_;
  Contents out_;
};

}  // namespace

std::string place_of(const PhysicalFrame& f, const std::string& path) {
  std::string where = path + " frame " + number(f.seq) + " (" + f.kind;
  if (f.turn != 0xffffffffu) where += ", turn " + number(uint64_t(f.turn) + 1);
  return where + ")";
}

Result<Blob> read_physical(Bytes file, const Contents& contents, size_t i, const std::string& path) {
  const PhysicalFrame& f = contents.physical[i];
  const std::string where = place_of(f, path);
  const Bytes bytes = file.subspan(f.offset, f.compressed);
  if (contents.hashed && XXH64(bytes.data(), bytes.size(), 0) != f.hash)
    return make_error(ErrorCode::corrupt, "SPAN-HASH", "the frame's bytes are not the ones that were written", where, f.offset);
  auto blob = decode_frame(bytes, where);
  if (!blob) {
    blob.error().offset = f.offset;
    return blob;
  }
  auto header = frame_header(*blob, where);
  if (!header) return std::move(header).error();
  if (header->session != contents.session || header->kind != f.kind || header->seq != f.seq || header->version != f.version ||
      header->turn != f.turn || header->part != f.part || header->parts != f.parts)
    return make_error(ErrorCode::corrupt, "SPAN-FOREIGN",
                      "expected frame " + number(f.seq) + " of kind " + f.kind + " of this session, found " + number(header->seq) +
                          " of kind " + header->kind,
                      where, f.offset);
  return blob;
}

Finding loss_finding(const Blob& blob, uint64_t offset) {
  const auto reason = blob.metadata.find("reason"), grade = blob.metadata.find("grade");
  const bool warning = grade != blob.metadata.end() && grade->second == "warning";
  return {warning ? Grade::warning : Grade::loss, "SPAN-LOSS",
          reason == blob.metadata.end() ? "the recorder stopped here: it could not write on" : reason->second, {}, offset};
}

std::span<const uint8_t> session_preamble() {
  static const std::array<uint8_t, kPreambleBytes> bytes = [] {
    std::array<uint8_t, kPreambleBytes> out{};
    const uint32_t length = sizeof kSignature;
    std::memcpy(out.data(), &kSkippableMagic, 4);
    std::memcpy(out.data() + 4, &length, 4);
    std::memcpy(out.data() + 8, kSignature, sizeof kSignature);
    return out;
  }();
  return bytes;
}

std::string what_remains(const std::vector<FrameInfo>& frames) {
  std::set<uint32_t> closed;
  uint32_t last = 0xffffffffu;
  for (const FrameInfo& f : frames) {
    if (f.kind == "turn_end") closed.insert(f.turn);
    if (f.turn != 0xffffffffu) last = f.turn;
  }
  std::string out = number(closed.size()) + (closed.size() == 1 ? " closed turn" : " closed turns") + " can be read";
  if (last != 0xffffffffu && !closed.contains(last)) out += ", it ends inside turn " + number(uint64_t(last) + 1);
  return out;
}

Result<Contents> read_contents(Bytes file, const std::string& path) {
  const auto preamble = session_preamble();
  const bool signed_ = std::memcmp(file.data(), preamble.data(), std::min<size_t>(file.size(), kPreambleBytes)) == 0;
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
                           {Grade::warning, "SPAN-UNFINISHED", "unfinished (" + why + "); " + what_remains(contents.frames), {}, {}});
  return contents;
}

}  // namespace spanscope
