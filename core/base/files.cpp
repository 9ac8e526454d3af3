// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/base/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace spanscope {
namespace {

Error os_error(const char* what, const std::string& path) {
  const int code = errno;
  return make_error(code == ENOENT ? ErrorCode::not_found : ErrorCode::io, code == ENOENT ? "SPAN-NOT-FOUND" : "SPAN-IO",
                    std::string(what) + ": " + std::strerror(code), path);
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::string& path) {
  Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) return os_error("cannot open", path);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return os_error("cannot stat", path);
  if (S_ISDIR(info.st_mode))
    return make_error(ErrorCode::invalid, "SPAN-DIRECTORY", "expected a file, found a directory", path);
  if (!S_ISREG(info.st_mode))
    return make_error(ErrorCode::invalid, "SPAN-NOT-A-FILE", "expected a regular file", path);
  if (info.st_size == 0) return make_error(ErrorCode::truncated, "SPAN-EMPTY", "the file is empty", path, 0);
  void* data = ::mmap(nullptr, size_t(info.st_size), PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (data == MAP_FAILED) return os_error("cannot map", path);
  std::shared_ptr<MappedFile> file(new MappedFile);
  file->data_ = static_cast<const uint8_t*>(data);
  file->size_ = size_t(info.st_size);
  file->path_ = path;
  return std::shared_ptr<const MappedFile>(std::move(file));
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<uint8_t*>(data_), size_);
}

Result<std::string> read_file(const std::string& path, uint64_t limit) {
  const bool standard = path == "-";
  Descriptor fd(standard ? ::dup(0) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) return os_error("cannot open", path);
  struct stat info {};
  if (::fstat(fd.get(), &info) == 0 && S_ISDIR(info.st_mode))
    return make_error(ErrorCode::invalid, "SPAN-DIRECTORY", "expected a file, found a directory", path);
  std::string out;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t n = ::read(fd.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return os_error("cannot read", path);
    if (n == 0) return out;
    if (out.size() + size_t(n) > limit)
      return make_error(ErrorCode::limit, "SPAN-TOO-LARGE",
                        "more than " + std::to_string(limit) + " bytes, the most that is read here", path);
    out.append(buffer, size_t(n));
  }
}

Status write_file(const std::string& path, std::string_view bytes, bool force) {
  if (path == "-") {
    if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) != bytes.size() || std::fflush(stdout) != 0)
      return os_error("cannot write", "standard output");
    return {};
  }
  if (!force && ::access(path.c_str(), F_OK) == 0)
    return make_error(ErrorCode::invalid, "SPAN-EXISTS", "the file exists; --force overwrites it", path);
  std::string temporary = path + ".part-XXXXXX";
  Descriptor fd(::mkstemp(temporary.data()));
  if (fd.get() < 0) return os_error("cannot create", path);
  const mode_t mask = ::umask(0);
  ::umask(mask);
  ::fchmod(fd.get(), 0666 & ~mask);
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      Error error = os_error("cannot write", path);
      ::unlink(temporary.c_str());
      return error;
    }
    bytes.remove_prefix(size_t(n));
  }
  if (::close(fd.release()) != 0 || ::rename(temporary.c_str(), path.c_str()) != 0) {
    Error error = os_error("cannot write", path);
    ::unlink(temporary.c_str());
    return error;
  }
  return {};
}

}  // namespace spanscope
