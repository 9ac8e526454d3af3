// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/file/session_repair.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/files.h"
#include "core/file/session_contents.h"
#include "core/file/session_index.h"

namespace spanscope {
namespace {

using Bytes = std::span<const uint8_t>;
constexpr size_t kNamedFindings = 12;  // that the loss frame lists word for word

// A file beside the target that takes its name when it is whole.
class Output {
 public:
  Output(const std::string& path, bool force) : path_(path), force_(force) {}
  ~Output() {
    if (fd_ >= 0) ::close(fd_);
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
  }
  Status open() {
    struct stat info {};
    if (::lstat(path_.c_str(), &info) == 0) {
      if (S_ISDIR(info.st_mode)) return make_error(ErrorCode::invalid, "SPAN-DIRECTORY", "expected a file to write, found a directory", path_);
      if (!force_) return make_error(ErrorCode::invalid, "SPAN-EXISTS", "the file exists; --force overwrites it", path_);
    }
    std::string name = path_ + ".XXXXXX";
    fd_ = ::mkostemp(name.data(), O_CLOEXEC);
    if (fd_ < 0) return os_error("cannot create");
    temporary_ = name;
    const mode_t mask = ::umask(0);
    ::umask(mask);
    ::fchmod(fd_, 0666 & ~mask);
    return {};
  }
  Status write(Bytes bytes) {
    for (size_t done = 0; done < bytes.size();) {
      const ssize_t n = ::write(fd_, bytes.data() + done, bytes.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return os_error("cannot write");
      done += size_t(n);
    }
    at_ += bytes.size();
    return {};
  }
  Status close() {
    if (::fdatasync(fd_) != 0 && errno != EINVAL && errno != ENOTSUP) return os_error("cannot sync");
    if (::close(std::exchange(fd_, -1)) != 0) return os_error("cannot close");
    // Without --force a file that appeared meanwhile stays: link() refuses where rename() would replace.
    if (force_ ? ::rename(temporary_.c_str(), path_.c_str()) != 0 : ::link(temporary_.c_str(), path_.c_str()) != 0) {
      if (!force_ && (errno == EPERM || errno == ENOTSUP) && ::access(path_.c_str(), F_OK) != 0 &&
          ::rename(temporary_.c_str(), path_.c_str()) == 0) {
        temporary_.clear();
        return {};
      }
      return os_error("cannot put in place");
    }
    if (force_) temporary_.clear();
    return {};
  }
  uint64_t at() const { return at_; }

 private:
  Error os_error(const char* what) const {
    return make_error(ErrorCode::io, "SPAN-WRITE", std::string(what) + ": " + std::strerror(errno), path_, at_);
  }
  const std::string path_;
  const bool force_;
  std::string temporary_;
  int fd_ = -1;
  uint64_t at_ = 0;
};

bool same_file(const std::string& a, const std::string& b) {
  struct stat x {}, y {};
  return ::stat(a.c_str(), &x) == 0 && ::stat(b.c_str(), &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

Result<std::vector<uint8_t>> loss_frame(const Contents& contents, const RepairReport& report, uint32_t seq, uint64_t& content_bytes) {
  // An index as the last frame means that the recorder did finish, and only the tables around it were damaged.
  const bool ended = std::any_of(contents.others.begin(), contents.others.end(), [&](const PhysicalFrame& f) { return f.kind == "index" && f.seq + 1 == contents.next_seq; });
  std::string reason = report.was_finished ? "repaired" : ended ? "repaired; its tables were damaged" : "repaired; the recording was not finished: " + what_remains(contents.frames);
  size_t losses = 0;
  for (const Finding& f : report.findings)
    if (f.grade >= Grade::loss && losses++ < kNamedFindings) reason += "; " + f.message + (f.where.empty() ? "" : " (" + f.where.substr(f.where.find_last_of('/') + 1) + ")");
  if (losses > kNamedFindings) reason += "; and " + std::to_string(losses - kNamedFindings) + " more";
  Blob blob;
  blob.metadata = {{"kind", "loss"}, {"v", "1"}, {"session", contents.session}, {"seq", std::to_string(seq)},
                   {"reason", reason}, {"grade", report.lossy ? "loss" : "warning"}, {"by", "repair"}};
  const std::vector<uint8_t> content = write_safetensors(blob);
  content_bytes = content.size();
  std::vector<uint8_t> out(ZSTD_compressBound(content.size()));
  ZSTD_CCtx* context = ZSTD_createCCtx();
  size_t size = 0;
  if (context) {
    ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, kCompressionLevel);
    ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
    size = ZSTD_compress2(context, out.data(), out.size(), content.data(), content.size());
  }
  ZSTD_freeCCtx(context);
  if (!context || ZSTD_isError(size)) return make_error(ErrorCode::memory, "SPAN-MEMORY", "no memory for the compressor");
  out.resize(size);
  return out;
}

}  // namespace

Result<RepairReport> repair_session(const std::string& from, const std::string& to, bool force) {
  if (same_file(from, to))
    return make_error(ErrorCode::invalid, "SPAN-SAME-FILE", "repair writes a new file and never touches the old one; name another", to);
  auto file = MappedFile::open(from);
  if (!file) return std::move(file).error();
  const Bytes bytes = (*file)->bytes();
  auto opened = read_contents(bytes, from);
  if (!opened) return std::move(opened).error();
  const Contents& contents = *opened;

  RepairReport report;
  report.was_finished = contents.finished;
  report.findings = contents.findings;
  std::vector<size_t> good;
  uint64_t tables = kPreambleBytes;
  for (const PhysicalFrame& f : contents.others) tables += f.compressed;
  for (size_t i = 0; i < contents.physical.size(); ++i) {
    const PhysicalFrame& f = contents.physical[i];
    if (auto blob = read_physical(bytes, contents, i, from)) {
      good.push_back(i);
      ++report.kept[f.kind];
      report.bytes_kept += f.compressed;
    } else {
      const Error& e = blob.error();
      report.findings.push_back({Grade::loss, e.tag, e.message, e.where, e.offset});
      ++report.lost[f.kind];
    }
  }
  report.bytes_left = bytes.size() - std::min<uint64_t>(bytes.size(), tables + report.bytes_kept);
  if (good.empty() || contents.physical[good.front()].kind != "session")
    return make_error(ErrorCode::corrupt, "SPAN-NO-HEADER", "the session header cannot be read: nothing can be made of the rest", from);
  for (const Finding& f : report.findings) report.lossy = report.lossy || f.grade >= Grade::loss;

  Output out(to, force);
  SPANSCOPE_TRY(out.open());
  SPANSCOPE_TRY(out.write(session_preamble()));
  std::vector<PhysicalFrame> rows;
  auto add = [&](PhysicalFrame row, Bytes frame) -> Status {
    row.offset = out.at();
    row.compressed = frame.size();
    row.hash = XXH64(frame.data(), frame.size(), 0);
    rows.push_back(std::move(row));
    return out.write(frame);
  };
  std::vector<PhysicalFrame> kept;
  for (size_t i : good) kept.push_back(contents.physical[i]);
  // Older indices of a session that was continued keep their places: they have sequence numbers, and a gap means a loss.
  for (const PhysicalFrame& f : contents.others)
    if (f.kind == "index" && f.seq < contents.physical[good.back()].seq &&
        (!contents.hashed || XXH64(bytes.data() + f.offset, f.compressed, 0) == f.hash))
      kept.push_back(f);
  std::sort(kept.begin(), kept.end(), [](const PhysicalFrame& a, const PhysicalFrame& b) { return a.seq < b.seq; });
  for (const PhysicalFrame& f : kept) SPANSCOPE_TRY(add(f, bytes.subspan(f.offset, f.compressed)));
  uint32_t seq = rows.back().seq + 1;
  // What an earlier repair has said already is not said again.
  if (!report.lost.empty() || !report.was_finished) {
    PhysicalFrame row;
    row.kind = "loss";
    row.seq = seq++;
    auto frame = loss_frame(contents, report, row.seq, row.content);
    if (!frame) return std::move(frame).error();
    SPANSCOPE_TRY(add(std::move(row), *frame));
  }
  uint64_t content = 0;
  auto index = index_frame(rows, contents.session, seq, content);
  if (!index) return std::move(index).error();
  SPANSCOPE_TRY(out.write(*index));
  SPANSCOPE_TRY(out.write(seek_table(rows, index->size(), content)));
  SPANSCOPE_TRY(out.close());
  report.output_bytes = out.at();
  return report;
}

}  // namespace spanscope
