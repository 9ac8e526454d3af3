// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/file/session_tail.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/file/frame_codec.h"
#include "core/file/session_contents.h"

namespace spanscope {
namespace {

using Bytes = std::span<const uint8_t>;

constexpr size_t kFirstRead = 256u << 10;  // grows while a frame does not fit
const uint64_t kLongestFrame = ZSTD_compressBound(kMaxContent) + 64;

uint32_t u32_at(Bytes bytes, uint64_t at) {
  uint32_t value;
  std::memcpy(&value, bytes.data() + at, 4);
  return value;
}

std::string number(uint64_t n) { return std::to_string(n); }

class Tail : public SessionTail {
 public:
  Tail(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  ~Tail() override { ::close(fd_); }

  const std::string& session_id() const override { return session_; }
  uint64_t offset() const override { return at_; }
  uint64_t file_bytes() const override { return size_; }
  bool finished() const override { return finished_; }

  bool being_written() const override {
    struct flock whole {};
    whole.l_type = F_RDLCK;
    whole.l_whence = SEEK_SET;
    return ::fcntl(fd_, F_OFD_GETLK, &whole) == 0 && whole.l_type != F_UNLCK;
  }

  Result<TailPoll> poll(uint64_t most) override {
    if (failed_) return *failed_;
    TailPoll out;
    auto status = read_on(out, most);
    if (!status) {
      failed_ = status.error();
      return *failed_;
    }
    return out;
  }

 private:
  Status read_on(TailPoll& out, uint64_t most) {
    struct stat info {};
    if (::fstat(fd_, &info) != 0) return make_error(ErrorCode::io, "SPAN-READ", std::strerror(errno), path_, at_);
    size_ = uint64_t(info.st_size);
    if (size_ < at_)
      return make_error(ErrorCode::truncated, "SPAN-SHRUNK", "the file had at least " + number(at_) + " bytes, now " + number(size_), path_, size_);
    struct stat now {};
    if (!replaced_ && (::stat(path_.c_str(), &now) != 0 || now.st_ino != info.st_ino || now.st_dev != info.st_dev)) {
      replaced_ = true;
      out.findings.push_back({Grade::warning, "SPAN-REPLACED", "the file was removed or another one took its name; this one goes on as it is", path_, {}});
    }
    uint64_t content = 0;
    while (at_ < size_ && content < most) {
      const uint64_t before = at_;
      SPANSCOPE_TRY(at_ < kPreambleBytes ? preamble() : step(out, content));
      if (at_ == before) break;  // the rest of a frame has not come yet
      out.grew = true;
    }
    return {};
  }

  // Up to `bytes` at offset `at`, as many as there are.
  Status read(uint64_t at, uint64_t bytes) {
    bytes = std::min(bytes, size_ - at);
    buffer_.resize(bytes);
    for (uint64_t done = 0; done < bytes;) {
      const ssize_t n = ::pread(fd_, buffer_.data() + done, bytes - done, off_t(at + done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return make_error(ErrorCode::io, "SPAN-READ", std::string("cannot read: ") + std::strerror(errno), path_, at + done);
      if (n == 0) return make_error(ErrorCode::truncated, "SPAN-SHRUNK", "the file became shorter while it was read", path_, at + done);
      done += uint64_t(n);
    }
    return {};
  }

  Status preamble() {
    SPANSCOPE_TRY(read(0, kPreambleBytes));
    if (std::memcmp(buffer_.data(), session_preamble().data(), buffer_.size()) != 0)
      return make_error(ErrorCode::corrupt, "SPAN-NOT-A-SESSION", "expected a Spanscope session (first bytes 5a 2a 4d 18 08 00 00 00 SPANSCP), found something else", path_, 0);
    if (buffer_.size() == kPreambleBytes) at_ = kPreambleBytes;
    return {};
  }

  // Takes what begins at at_ when all of it is there.
  Status step(TailPoll& out, uint64_t& content) {
    for (uint64_t want = kFirstRead;; want *= 4) {
      want = std::min(want, kLongestFrame);
      SPANSCOPE_TRY(read(at_, want));
      if (buffer_.size() < 8) return {};
      const uint32_t magic = u32_at(buffer_, 0);
      if ((magic & 0xfffffff0u) == 0x184D2A50u) {
        const uint64_t size = uint64_t(8) + u32_at(buffer_, 4);
        if (size > size_ - at_) return {};
        const bool table = magic == kSeekTableFrameMagic && size <= buffer_.size() && size >= 17 && u32_at(buffer_, size - 4) == kSeekTableMagic;
        at_ += size;
        // A table that is longer than the buffer follows an index too; the reader that opens the file checks both.
        finished_ = after_index_ && at_ == size_ && (table || size > buffer_.size());
        return {};
      }
      const size_t size = ZSTD_findFrameCompressedSize(buffer_.data(), buffer_.size());
      if (!ZSTD_isError(size)) return take(Bytes(buffer_).first(size), out, content);
      const bool more = buffer_.size() == want && want < kLongestFrame;
      if (more) continue;
      // Cut: the rest may come. Anything else never becomes a frame.
      if (ZSTD_getErrorCode(size) == ZSTD_error_srcSize_wrong && buffer_.size() < kLongestFrame) return {};
      return pass_over(out, "bytes that are no frame");
    }
  }

  Status pass_over(TailPoll& out, const std::string& problem) {
    // Search on behind the damage; without a next frame wait where the damage begins.
    uint64_t from = at_ + 1;
    while (from + 4 <= size_) {
      SPANSCOPE_TRY(read(from, kFirstRead));
      for (size_t i = 0; i + 4 <= buffer_.size(); ++i) {
        const uint32_t magic = u32_at(buffer_, i);
        if (magic != kZstdMagic && magic != kSkippableMagic && magic != kSeekTableFrameMagic) continue;
        out.findings.push_back({Grade::loss, "SPAN-DAMAGED", problem + "; " + number(from + i - at_) + " bytes passed over", path_, at_});
        at_ = from + i;
        return {};
      }
      from += std::max<size_t>(buffer_.size(), 4) - 3;
    }
    return {};
  }

  Status take(Bytes frame, TailPoll& out, uint64_t& content) {
    const std::string where = path_ + " frame " + number(next_);
    auto blob = decode_frame(frame, where);
    auto header = blob ? frame_header(*blob, where) : Result<FrameHeader>(blob.error());
    if (!header) return pass_over(out, header.error().message);
    const uint64_t begin = at_;
    at_ += frame.size();
    finished_ = false;
    after_index_ = false;
    auto say = [&](Grade grade, const char* tag, std::string message) { out.findings.push_back({grade, tag, std::move(message), path_, begin}); };
    if (session_.empty()) {
      if (header->kind != "session" || header->seq != 0)
        return make_error(ErrorCode::corrupt, "SPAN-NO-HEADER", "frame of kind " + header->kind + " before the session header", path_, begin);
      session_ = header->session;
    }
    if (header->session != session_) {
      say(Grade::loss, "SPAN-FOREIGN", "frame of another session passed over (" + header->kind + ")");
      return {};
    }
    if (header->seq < next_) {
      say(Grade::loss, "SPAN-REPEATED", "frame " + number(header->seq) + " comes again or too late; it is passed over");
      return {};
    }
    if (header->seq > next_) {
      say(Grade::loss, "SPAN-MISSING", header->seq == next_ + 1 ? "frame " + number(next_) + " is missing" : "frames " + number(next_) + " to " + number(header->seq - 1) + " are missing");
      drop_parts(out);
    }
    next_ = uint64_t(header->seq) + 1;
    if (header->kind == "index") {
      drop_parts(out);
      after_index_ = true;
      return {};
    }
    if (header->kind == "loss") out.findings.push_back(loss_finding(*blob, begin));
    FrameInfo info{begin, frame.size(), declared_content(frame), header->kind, header->version, header->seq, header->turn};
    content += info.content_bytes;
    if (header->part == 0) {
      drop_parts(out);
      info_ = info;
    } else if (parts_.size() != header->part || info_.kind != info.kind || info_.turn != info.turn || info_.version != info.version) {
      drop_parts(out);
      say(Grade::loss, "SPAN-PARTS", "part " + number(header->part + 1) + " of frame " + header->kind + " without the ones before it");
      return {};
    } else {
      info_.compressed_bytes += info.compressed_bytes;
      info_.content_bytes += info.content_bytes;
    }
    if (info_.content_bytes > kMaxJoined) {
      drop_parts(out);
      say(Grade::loss, "SPAN-LIMIT", "a blob of more than " + number(kMaxJoined) + " bytes");
      return {};
    }
    parts_.push_back(std::move(*blob));
    if (parts_.size() < header->parts) return {};
    if (parts_.size() == 1) {
      out.frames.push_back({info_, std::move(parts_.front())});
    } else if (auto joined = join_parts(std::move(parts_), where)) {
      out.frames.push_back({info_, std::move(*joined)});
    } else {
      say(Grade::loss, "SPAN-PARTS", joined.error().message);
    }
    parts_.clear();
    return {};
  }

  void drop_parts(TailPoll& out) {
    if (!parts_.empty())
      out.findings.push_back({Grade::loss, "SPAN-PARTS", "frame " + number(info_.seq) + " (" + info_.kind + ") has only " + number(parts_.size()) + " of its parts", path_, info_.offset});
    parts_.clear();
  }

  const int fd_;
  const std::string path_;
  std::string session_;
  std::vector<uint8_t> buffer_;
  std::vector<Blob> parts_;  // of a blob whose last parts have not come yet
  FrameInfo info_;
  uint64_t at_ = 0, size_ = 0, next_ = 0;
  bool finished_ = false, after_index_ = false, replaced_ = false;
  std::optional<Error> failed_;
};

}  // namespace

Result<std::unique_ptr<SessionTail>> SessionTail::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return make_error(errno == ENOENT ? ErrorCode::not_found : ErrorCode::io, errno == ENOENT ? "SPAN-NOT-FOUND" : "SPAN-READ",
                      std::string("cannot open: ") + std::strerror(errno), path);
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    return S_ISDIR(info.st_mode) ? make_error(ErrorCode::invalid, "SPAN-DIRECTORY", "expected a file, found a directory", path)
                                 : make_error(ErrorCode::invalid, "SPAN-NOT-A-FILE", "expected a regular file", path);
  }
  std::unique_ptr<SessionTail> tail = std::make_unique<Tail>(fd, path);
  return tail;
}

}  // namespace spanscope
