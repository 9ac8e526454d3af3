// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/file/session_writer.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>

#include "core/base/files.h"
#include "core/file/frame_codec.h"
#include "core/file/session_contents.h"
#include "core/file/session_format.h"
#include "core/file/session_index.h"

namespace spanscope {
namespace {

constexpr size_t kQueueBytes = 128u << 20;  // content that may wait for the writer thread

std::string random_id() {
  uint8_t bytes[16];
  size_t got = 0;
  while (got < sizeof bytes) {
    const ssize_t n = ::getrandom(bytes + got, sizeof bytes - got, 0);
    if (n > 0) got += size_t(n);
  }
  static const char* hex = "0123456789abcdef";
  std::string id;
  for (uint8_t b : bytes) {
    id += hex[b >> 4];
    id += hex[b & 15];
  }
  return id;
}

bool no_room(int code) { return code == ENOSPC || code == EDQUOT || code == EFBIG; }

struct Job {
  enum class Kind { frame, raw, reserved, sync } kind = Kind::frame;
  FrameTag tag;
  std::vector<uint8_t> bytes;  // content of a frame, or bytes to write as they are (reserved: room is made first)
  uint32_t seq = 0, part = 0, parts = 1;

  static Job of(Kind kind, std::vector<uint8_t> bytes = {}, const char* name = "", uint32_t seq = 0) {
    Job job;
    job.kind = kind;
    job.tag.kind = name;
    job.bytes = std::move(bytes);
    job.seq = seq;
    return job;
  }
};

class Writer : public SessionWriter {
 public:
  // old: what the file holds already (rows up to the byte `at`, in file order), or nothing.
  Writer(int fd, std::string path, ZSTD_CCtx* context, std::string id, std::vector<PhysicalFrame> old, uint64_t at, uint32_t seq)
      : fd_(fd), path_(std::move(path)), id_(std::move(id)), context_(context), frames_(std::move(old)), at_(at), seq_(seq) {
    thread_ = std::thread([this] { work(); });
  }

  ~Writer() override {
    stop();
    ZSTD_freeCCtx(context_);
    if (fd_ >= 0) ::close(fd_);
  }

  Status write_preamble() {
    const auto bytes = session_preamble();
    push(Job::of(Job::Kind::raw, {bytes.begin(), bytes.end()}));
    return drained();
  }

  Status append(const FrameTag& tag, Blob blob) override {
    if (finished_) return make_error(ErrorCode::invalid, "SPAN-WRITER", "the session is finished", path_);
    if (tag.kind.empty() || tag.kind.size() > 32 || tag.kind.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") != std::string::npos)
      return make_error(ErrorCode::invalid, "SPAN-WRITER", "a frame of kind \"" + tag.kind + "\"", path_);
    const std::string where = path_ + " frame " + std::to_string(seq_) + " (" + tag.kind + ")";
    auto parts = split_blob(std::move(blob), where);
    if (!parts) return std::move(parts).error();
    for (uint32_t p = 0; p < parts->size(); ++p) {
      const Job described{Job::Kind::frame, tag, {}, seq_, p, uint32_t(parts->size())};
      std::vector<uint8_t> bytes = write_safetensors(stamped(std::move((*parts)[p]), described));
      if (bytes.size() > kFrameContent)
        return make_error(ErrorCode::limit, "SPAN-FRAME-SIZE",
                          std::to_string(bytes.size()) + " bytes with metadata that cannot be split, the most is " +
                              std::to_string(kFrameContent),
                          where);
      Job job = described;
      job.bytes = std::move(bytes);
      ++seq_;
      push(std::move(job));
    }
    return error();
  }

  Status sync() override {
    if (finished_) return error();
    push(Job::of(Job::Kind::sync));
    return drained();
  }

  Result<uint64_t> request_sync() override {
    SPANSCOPE_TRY(error());
    if (!finished_) push(Job::of(Job::Kind::sync));
    std::lock_guard lock(mutex_);
    return marks_;
  }
  uint64_t synced() const override {
    std::lock_guard lock(mutex_);
    return synced_;
  }
  double seconds_waited() const override {
    std::lock_guard lock(mutex_);
    return waited_;
  }

  Status finish() override {
    if (finished_) return error();
    SPANSCOPE_TRY(drained());
    // The writer thread is idle: the rows are complete. One job for each table, so that neither is cut by the other's failure.
    uint64_t content = 0;
    auto index = index_frame(frames_, id_, seq_, content);
    if (!index) return std::move(index).error();
    std::vector<uint8_t> table = seek_table(frames_, index->size(), content);
    const uint64_t index_at = at_;
    const uint64_t index_bytes = index->size(), hash = XXH64(index->data(), index->size(), 0);
    push(Job::of(Job::Kind::reserved, std::move(*index), "index", seq_++));
    push(Job::of(Job::Kind::reserved, std::move(table), "seek_table", seq_));
    SPANSCOPE_TRY(drained());
    {
      std::lock_guard lock(mutex_);
      frames_.push_back({index_at, index_bytes, content, hash, "index", 1, seq_ - 1});
    }
    push(Job::of(Job::Kind::sync));
    SPANSCOPE_TRY(drained());
    finished_ = true;
    stop();
    const int fd = std::exchange(fd_, -1);
    if (::close(fd) != 0) return os_error("cannot close", errno);
    return {};
  }

  uint64_t bytes_written() const override {
    std::lock_guard lock(mutex_);
    return at_;
  }
  std::map<std::string, uint64_t> bytes_by_kind() const override {
    std::lock_guard lock(mutex_);
    std::map<std::string, uint64_t> out;
    for (const PhysicalFrame& f : frames_)
      if (f.kind != kSkippableKind) out[f.kind] += f.compressed;
    return out;
  }
  std::string session_id() const override { return id_; }

 private:
  Blob stamped(Blob blob, const Job& job) const {
    blob.metadata["kind"] = job.tag.kind;
    blob.metadata["v"] = std::to_string(job.tag.version);
    blob.metadata["session"] = id_;
    blob.metadata["seq"] = std::to_string(job.seq);
    if (job.tag.turn != 0xffffffffu) blob.metadata["turn"] = std::to_string(job.tag.turn);
    return blob;
  }

  Error os_error(const char* what, int code) const {
    Error e = make_error(ErrorCode::io, "SPAN-WRITE", std::string(what) + ": " + std::strerror(code), path_, at_);
    if (no_room(code)) e.advice.push_back("every turn closed so far is in the file and can be read");
    return e;
  }

  void push(Job job) {
    std::unique_lock lock(mutex_);
    const auto has_room = [&] { return queued_ < kQueueBytes || error_ || stop_; };
    if (!has_room()) {
      const auto start = std::chrono::steady_clock::now();
      room_.wait(lock, has_room);
      waited_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
    marks_ += job.kind == Job::Kind::sync;
    queued_ += job.bytes.size();
    queue_.push_back(std::move(job));
    wake_.notify_all();
  }

  Status error() const {
    std::lock_guard lock(mutex_);
    if (error_) return *error_;
    return {};
  }

  Status drained() {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [&] { return (queue_.empty() && !busy_) || error_; });
    if (error_) return *error_;
    return {};
  }

  void stop() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  void work() {
    for (;;) {
      Job job;
      {
        std::unique_lock lock(mutex_);
        busy_ = false;
        idle_.notify_all();
        wake_.wait(lock, [&] { return stop_ || !queue_.empty(); });
        if (queue_.empty()) return;
        job = std::move(queue_.front());
        queue_.pop_front();
        queued_ -= job.bytes.size();
        busy_ = true;
        room_.notify_all();
        if (error_) continue;  // nothing may follow a failed write
      }
      std::optional<Error> failed;
      try {
        failed = perform(job);
      } catch (const std::bad_alloc&) {
        failed = make_error(ErrorCode::memory, "SPAN-MEMORY", "no memory to compress a frame", path_);
      }
      if (!failed && job.kind == Job::Kind::sync) {
        std::lock_guard lock(mutex_);
        ++synced_;
      }
      if (failed) {
        std::lock_guard lock(mutex_);
        error_ = std::move(failed);
        room_.notify_all();
        idle_.notify_all();
      }
    }
  }

  std::optional<Error> perform(const Job& job) {
    if (job.kind == Job::Kind::sync) return flush();
    if (job.kind == Job::Kind::raw) return write_all(job.bytes);
    if (job.kind == Job::Kind::reserved) {
      if (auto failed = reserve(job.bytes.size())) {
        write_loss(job, failed->message);
        return failed;
      }
      return write_all(job.bytes);
    }
    if (auto failed = compress(job.bytes)) return failed;
    const uint64_t offset = at_;
    if (auto failed = reserve(compressed_.size())) {
      write_loss(job, failed->message);
      return failed;
    }
    if (auto failed = write_all(compressed_)) return failed;
    std::lock_guard lock(mutex_);
    frames_.push_back({offset, compressed_.size(), job.bytes.size(), XXH64(compressed_.data(), compressed_.size(), 0),
                       job.tag.kind, job.tag.version, job.seq, job.tag.turn, job.part, job.parts});
    return std::nullopt;
  }

  std::optional<Error> compress(const std::vector<uint8_t>& content) {
    compressed_.resize(ZSTD_compressBound(content.size()));
    ZSTD_CCtx_reset(context_, ZSTD_reset_session_and_parameters);
    ZSTD_CCtx_setParameter(context_, ZSTD_c_compressionLevel, kCompressionLevel);
    ZSTD_CCtx_setParameter(context_, ZSTD_c_checksumFlag, 1);
    ZSTD_CCtx_setParameter(context_, ZSTD_c_contentSizeFlag, 1);
    const size_t size = ZSTD_compress2(context_, compressed_.data(), compressed_.size(), content.data(), content.size());
    if (ZSTD_isError(size))
      return make_error(ErrorCode::memory, "SPAN-WRITE", std::string("zstd: ") + ZSTD_getErrorName(size), path_);
    compressed_.resize(size);
    return std::nullopt;
  }

  // Room on disk for a whole frame, so that a full disk does not leave half of one. File systems (and pipes) that cannot
  // reserve say so, and the write itself will tell.
  std::optional<Error> reserve(size_t bytes) {
    rlimit limit{};  // fallocate() does not look at it when the size stays
    if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && at_ + bytes > limit.rlim_cur)
      return os_error("no room for the next frame", EFBIG);
    if (::fallocate(fd_, FALLOC_FL_KEEP_SIZE, off_t(at_), off_t(bytes)) != 0 && no_room(errno))
      return os_error("no room for the next frame", errno);
    return std::nullopt;
  }

  // The last thing in a file whose disk is full, if it fits: it takes the place of the frame that did not.
  void write_loss(const Job& job, const std::string& reason) {
    Job loss = Job::of(Job::Kind::frame, {}, "loss", job.seq);
    loss.tag.turn = job.tag.turn;
    Blob blob;
    blob.metadata["reason"] = "the recorder stopped here: " + reason;
    blob.metadata["lost_kind"] = job.tag.kind;
    if (compress(write_safetensors(stamped(std::move(blob), loss))) || reserve(compressed_.size())) return;
    if (!write_all(compressed_)) ::fdatasync(fd_);
  }

  std::optional<Error> flush() {
    if (::fdatasync(fd_) != 0 && errno != EINVAL && errno != EROFS && errno != ENOTSUP) return os_error("cannot sync", errno);
    struct stat info {};
    if (::fstat(fd_, &info) == 0 && S_ISREG(info.st_mode) && info.st_nlink == 0)
      return make_error(ErrorCode::io, "SPAN-REMOVED", "the file was removed while it was being written", path_);
    return std::nullopt;
  }

  std::optional<Error> write_all(const std::vector<uint8_t>& bytes) {
    size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t n = ::write(fd_, bytes.data() + done, bytes.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return os_error("cannot write", errno);
      done += size_t(n);
      std::lock_guard lock(mutex_);
      at_ += uint64_t(n);
    }
    return std::nullopt;
  }

  int fd_;
  const std::string path_, id_;
  ZSTD_CCtx* const context_;
  std::thread thread_;
  mutable std::mutex mutex_;
  std::condition_variable wake_, room_, idle_;
  std::deque<Job> queue_;
  size_t queued_ = 0;
  uint64_t marks_ = 0, synced_ = 0;  // sync requests: asked for, done
  double waited_ = 0;
  bool stop_ = false, busy_ = false, finished_ = false;
  std::optional<Error> error_;
  std::vector<uint8_t> compressed_;  // writer thread only
  std::vector<PhysicalFrame> frames_;
  uint64_t at_;   // written by the writer thread under the mutex
  uint32_t seq_;  // recording thread only
};

// So that a second writer is refused, and readers see that the file may grow. File systems without such locks do without.
bool lock(int fd) {
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  return ::fcntl(fd, F_OFD_SETLK, &whole) == 0 || (errno != EAGAIN && errno != EACCES);
}

// Takes the descriptor, whatever happens.
Result<std::unique_ptr<Writer>> start(int fd, const std::string& path, std::string id, std::vector<PhysicalFrame> old, uint64_t at, uint32_t seq) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  if (!context) {
    ::close(fd);
    return make_error(ErrorCode::memory, "SPAN-MEMORY", "no memory for the compressor", path);
  }
  try {
    return std::make_unique<Writer>(fd, path, context, std::move(id), std::move(old), at, seq);
  } catch (const std::system_error& e) {
    ::close(fd);
    ZSTD_freeCCtx(context);
    return make_error(ErrorCode::io, "SPAN-WRITE", std::string("cannot start the writer thread: ") + e.what(), path);
  }
}

// An old session gets out of the way instead of being emptied: whoever has it open keeps it.
int open_new(const std::string& path, bool force) {
  struct stat info {};
  if (force && ::lstat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && ::access(path.c_str(), W_OK) == 0)
    ::unlink(path.c_str());
  return ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | (force ? O_TRUNC : O_EXCL), 0666);
}

}  // namespace

Result<std::unique_ptr<SessionWriter>> SessionWriter::create(const std::string& path, bool force) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode))
    return make_error(ErrorCode::invalid, "SPAN-DIRECTORY", "expected a file to write, found a directory", path);
  const int fd = open_new(path, force);
  if (fd < 0) {
    if (errno == EEXIST)
      return make_error(ErrorCode::invalid, "SPAN-EXISTS", "the file exists; --force overwrites it", path);
    return make_error(ErrorCode::io, "SPAN-WRITE", std::string("cannot create: ") + std::strerror(errno), path);
  }
  if (!lock(fd)) {
    ::close(fd);
    return make_error(ErrorCode::io, "SPAN-BUSY", "the file is being written by another program", path);
  }
  auto writer = start(fd, path, random_id(), {}, 0, 0);
  if (!writer) return std::move(writer).error();
  if (auto status = (*writer)->write_preamble(); !status) return std::move(status).error();
  return std::unique_ptr<SessionWriter>(std::move(*writer));
}

Result<std::unique_ptr<SessionWriter>> SessionWriter::resume(const std::string& path) {
  auto file = MappedFile::open(path);
  if (!file) return std::move(file).error();
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return make_error(ErrorCode::io, "SPAN-WRITE", std::string("cannot open for writing: ") + std::strerror(errno), path);
  auto refuse = [&](Error e) {
    ::close(fd);
    return e;
  };
  if (!lock(fd)) return refuse(make_error(ErrorCode::io, "SPAN-BUSY", "the session is being written by another program", path));
  const auto bytes = (*file)->bytes();
  struct stat info {};
  if (::fstat(fd, &info) != 0 || uint64_t(info.st_size) != bytes.size())
    return refuse(make_error(ErrorCode::io, "SPAN-BUSY", "the session changes while it is opened", path));
  auto contents = read_contents(bytes, path);
  if (!contents) return refuse(std::move(contents).error());
  if (!contents->whole_to_the_end) {
    Error e = make_error(ErrorCode::corrupt, "SPAN-TORN", "the session is damaged or does not end at a frame's border: it cannot be continued", path);
    e.advice.push_back("spanscope repair " + path + " -o NEW writes a whole file of what can be read, which can be continued");
    return refuse(std::move(e));
  }
  std::vector<PhysicalFrame> rows = std::move(contents->physical);
  rows.insert(rows.end(), contents->others.begin(), contents->others.end());
  std::sort(rows.begin(), rows.end(), [](const PhysicalFrame& a, const PhysicalFrame& b) { return a.offset < b.offset; });
  if (!contents->hashed)
    for (PhysicalFrame& f : rows) f.hash = XXH64(bytes.data() + f.offset, f.compressed, 0);
  if (::lseek(fd, off_t(bytes.size()), SEEK_SET) < 0)
    return refuse(make_error(ErrorCode::io, "SPAN-WRITE", std::string("cannot go to the end: ") + std::strerror(errno), path));
  auto writer = start(fd, path, contents->session, std::move(rows), bytes.size(), contents->next_seq);
  if (!writer) return std::move(writer).error();
  return std::unique_ptr<SessionWriter>(std::move(*writer));
}

}  // namespace spanscope
