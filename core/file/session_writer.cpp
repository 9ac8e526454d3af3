// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/file/session_writer.h"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>

#include "core/file/session_format.h"

namespace spanscope {
namespace {

constexpr size_t kQueueBytes = 64u << 20;  // content that may wait for the writer thread

template <class T>
void put(std::vector<uint8_t>& out, T value) {
  const auto* p = reinterpret_cast<const uint8_t*>(&value);
  out.insert(out.end(), p, p + sizeof value);
}

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

// A zstd frame of raw blocks. The index is stored so: no other frame holds its hash, and in a compressed frame some
// padding bits could flip without anybody noticing. Here every bit counts.
std::vector<uint8_t> stored_frame(const std::vector<uint8_t>& content) {
  std::vector<uint8_t> out;
  put(out, kZstdMagic);
  put(out, uint8_t(0xE4));  // content size in 8 bytes, single segment, checksum
  put(out, uint64_t(content.size()));
  constexpr size_t kBlock = 128 << 10;
  size_t at = 0;
  do {
    const size_t size = std::min(kBlock, content.size() - at);
    const uint32_t header = uint32_t(size << 3) | (at + size == content.size() ? 1u : 0u);  // type 0: raw
    out.insert(out.end(), {uint8_t(header), uint8_t(header >> 8), uint8_t(header >> 16)});
    out.insert(out.end(), content.begin() + ptrdiff_t(at), content.begin() + ptrdiff_t(at + size));
    at += size;
  } while (at < content.size());
  put(out, uint32_t(XXH64(content.data(), content.size(), 0)));
  return out;
}

struct Job {
  enum class Kind { frame, raw, sync } kind = Kind::frame;
  FrameTag tag;
  std::vector<uint8_t> bytes;  // content of a frame, or bytes to write as they are
};

struct Written {
  uint64_t offset, compressed, content, hash;
  std::string kind;
  uint32_t version, turn;
};

class Writer : public SessionWriter {
 public:
  Writer(int fd, std::string path) : fd_(fd), path_(std::move(path)), id_(random_id()) {
    context_ = ZSTD_createCCtx();
    thread_ = std::thread([this] { work(); });
  }

  ~Writer() override {
    stop();
    ZSTD_freeCCtx(context_);
    if (fd_ >= 0) ::close(fd_);
  }

  Status write_preamble() {
    std::vector<uint8_t> bytes;
    put(bytes, kSkippableMagic);
    put(bytes, uint32_t(8));
    bytes.insert(bytes.end(), kSignature, kSignature + 8);
    push({Job::Kind::raw, {}, std::move(bytes)});
    return drained();
  }

  Status append(const FrameTag& tag, Blob blob) override {
    if (finished_) return make_error(ErrorCode::invalid, "SPAN-WRITER", "the session is finished", path_);
    blob.metadata["kind"] = tag.kind;
    blob.metadata["v"] = std::to_string(tag.version);
    blob.metadata["session"] = id_;
    blob.metadata["seq"] = std::to_string(seq_);
    if (tag.turn != 0xffffffffu) blob.metadata["turn"] = std::to_string(tag.turn);
    std::vector<uint8_t> bytes = write_safetensors(blob);
    if (bytes.size() > kMaxContent)
      return make_error(ErrorCode::limit, "SPAN-FRAME-SIZE",
                        "frame " + tag.kind + " has " + std::to_string(bytes.size()) + " bytes, the most is " +
                            std::to_string(kMaxContent),
                        path_);
    ++seq_;
    push({Job::Kind::frame, tag, std::move(bytes)});
    return error();
  }

  Status sync() override {
    push({Job::Kind::sync, {}, {}});
    return drained();
  }

  Status finish() override {
    SPANSCOPE_TRY(drained());
    const uint64_t n = frames_.size();
    Blob index;
    std::vector<uint64_t> offset, compressed, content, hash;
    std::vector<uint32_t> kind, version, turn;
    std::vector<std::string> kinds;
    for (const Written& f : frames_) {
      offset.push_back(f.offset);
      compressed.push_back(f.compressed);
      content.push_back(f.content);
      hash.push_back(f.hash);
      size_t k = 0;
      while (k < kinds.size() && kinds[k] != f.kind) ++k;
      if (k == kinds.size()) kinds.push_back(f.kind);
      kind.push_back(uint32_t(k));
      version.push_back(f.version);
      turn.push_back(f.turn);
    }
    index.add<uint64_t>("offset", {n}, offset);
    index.add<uint64_t>("compressed", {n}, compressed);
    index.add<uint64_t>("content", {n}, content);
    index.add<uint64_t>("xxh64", {n}, hash);
    index.add<uint32_t>("kind", {n}, kind);
    index.add<uint32_t>("version", {n}, version);
    index.add<uint32_t>("turn", {n}, turn);
    std::string list;
    for (const std::string& k : kinds) list += (list.empty() ? "" : ",") + k;
    index.metadata["kinds"] = list;
    SPANSCOPE_TRY(append({"index", kIndexVersion, 0xffffffffu}, std::move(index)));
    SPANSCOPE_TRY(drained());

    std::vector<uint8_t> table;
    const uint32_t entries = uint32_t(frames_.size()) + 1;  // the preamble counts as a frame without content
    put(table, kSeekTableFrameMagic);
    put(table, uint32_t(entries * 8 + 9));
    put(table, uint32_t(kPreambleBytes));
    put(table, uint32_t(0));
    for (const Written& f : frames_) {
      put(table, uint32_t(f.compressed));
      put(table, uint32_t(f.content));
    }
    put(table, entries);
    put(table, uint8_t(0));  // no per-frame checksums: every frame carries its own
    put(table, kSeekTableMagic);
    push({Job::Kind::raw, {}, std::move(table)});
    push({Job::Kind::sync, {}, {}});
    SPANSCOPE_TRY(drained());
    finished_ = true;
    stop();
    const int fd = std::exchange(fd_, -1);
    if (::close(fd) != 0) return os_error("cannot close");
    return {};
  }

  uint64_t bytes_written() const override {
    std::lock_guard lock(mutex_);
    return at_;
  }
  std::map<std::string, uint64_t> bytes_by_kind() const override {
    std::lock_guard lock(mutex_);
    std::map<std::string, uint64_t> out;
    for (const Written& f : frames_) out[f.kind] += f.compressed;
    return out;
  }
  std::string session_id() const override { return id_; }

 private:
  Error os_error(const char* what) const {
    Error e = make_error(ErrorCode::io, "SPAN-WRITE", std::string(what) + ": " + std::strerror(errno), path_, at_);
    if (errno == ENOSPC) e.advice.push_back("the disk is full; every closed turn so far is readable");
    return e;
  }

  void push(Job job) {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [&] { return queued_ < kQueueBytes || error_ || stop_; });
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
    std::vector<uint8_t> compressed;
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
      if (job.kind == Job::Kind::sync) {
        if (::fdatasync(fd_) != 0 && errno != EINVAL && errno != EROFS) failed = os_error("cannot sync");
      } else if (job.kind == Job::Kind::raw) {
        failed = write_all(job.bytes);
      } else {
        size_t size = 0;
        if (job.tag.kind == "index") {
          compressed = stored_frame(job.bytes);
          size = compressed.size();
        } else {
          compressed.resize(ZSTD_compressBound(job.bytes.size()));
          ZSTD_CCtx_reset(context_, ZSTD_reset_session_and_parameters);
          ZSTD_CCtx_setParameter(context_, ZSTD_c_compressionLevel, kCompressionLevel);
          ZSTD_CCtx_setParameter(context_, ZSTD_c_checksumFlag, 1);
          ZSTD_CCtx_setParameter(context_, ZSTD_c_contentSizeFlag, 1);
          size = ZSTD_compress2(context_, compressed.data(), compressed.size(), job.bytes.data(), job.bytes.size());
        }
        if (ZSTD_isError(size)) {
          failed = make_error(ErrorCode::memory, "SPAN-WRITE", std::string("zstd: ") + ZSTD_getErrorName(size), path_);
        } else {
          compressed.resize(size);
          const uint64_t offset = at_;
          failed = write_all(compressed);
          if (!failed) {
            std::lock_guard lock(mutex_);
            frames_.push_back({offset, size, job.bytes.size(), XXH64(compressed.data(), size, 0), job.tag.kind,
                               job.tag.version, job.tag.turn});
          }
        }
      }
      if (failed) {
        std::lock_guard lock(mutex_);
        if (!error_) error_ = std::move(failed);
        room_.notify_all();
      }
    }
  }

  std::optional<Error> write_all(const std::vector<uint8_t>& bytes) {
    size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t n = ::write(fd_, bytes.data() + done, bytes.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return os_error("cannot write");
      done += size_t(n);
      std::lock_guard lock(mutex_);
      at_ += uint64_t(n);
    }
    return std::nullopt;
  }

  int fd_;
  const std::string path_, id_;
  ZSTD_CCtx* context_ = nullptr;
  std::thread thread_;
  mutable std::mutex mutex_;
  std::condition_variable wake_, room_, idle_;
  std::deque<Job> queue_;
  size_t queued_ = 0;
  bool stop_ = false, busy_ = false, finished_ = false;
  std::optional<Error> error_;
  std::vector<Written> frames_;
  uint64_t at_ = 0;
  uint32_t seq_ = 0;
};

}  // namespace

Result<std::unique_ptr<SessionWriter>> SessionWriter::create(const std::string& path, bool force) {
  const int flags = O_WRONLY | O_CREAT | O_CLOEXEC | (force ? O_TRUNC : O_EXCL);
  const int fd = ::open(path.c_str(), flags, 0666);
  if (fd < 0) {
    if (errno == EEXIST)
      return make_error(ErrorCode::invalid, "SPAN-EXISTS", "the file exists; --force overwrites it", path);
    return make_error(ErrorCode::io, "SPAN-WRITE", std::string("cannot create: ") + std::strerror(errno), path);
  }
  auto writer = std::make_unique<Writer>(fd, path);
  if (auto status = writer->write_preamble(); !status) return std::move(status).error();
  return std::unique_ptr<SessionWriter>(std::move(writer));
}

}  // namespace spanscope
