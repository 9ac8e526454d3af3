// SPDX-License-Identifier: GPL-3.0-or-later
// The writer: blobs of any size, full disks, files taken away, a killed process; and readers that are not ours.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <thread>

#include "core/file/frame_codec.h"
#include "core/file/session_format.h"
#include "tests/format/session/sample.h"
#include "tests/support/catch.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {

Blob large_blob() {
  Blob blob;
  blob.metadata["note"] = "kept in part 0";
  std::vector<float> big(3 * 700 * 1000 + 1);
  for (size_t i = 0; i < big.size(); ++i) big[i] = float(i % 9973) * 0.25f;
  std::vector<uint16_t> mid(1000);
  for (size_t i = 0; i < mid.size(); ++i) mid[i] = uint16_t(i * 7);
  blob.add<uint16_t>("first", {10, 100}, mid);
  blob.add<float>("big", {big.size()}, big);
  big.resize(3 * 700 * 1000);
  blob.add<float>("cube", {3, 700, 1000}, big);
  blob.add<float>("empty", {0, 5}, std::vector<float>{});
  blob.add<uint16_t>("last", {1000}, mid);
  return blob;
}

void check_equal(const Blob& a, const Blob& b) {
  REQUIRE(a.tensors.size() == b.tensors.size());
  for (const Tensor& t : a.tensors) {
    const Tensor* other = b.find(t.name);
    REQUIRE(other);
    CHECK(t.shape == other->shape);
    CHECK(t.dtype == other->dtype);
    CHECK((t.data == other->data));
  }
}

}  // namespace

TEST_CASE("a blob above 4 MiB goes through several frames and comes back whole") {
  const Folder folder;
  const std::string path = folder.file("big.span");
  {
    auto writer = SessionWriter::create(path, false);
    REQUIRE(writer);
    REQUIRE((*writer)->append({"session", 1, 0xffffffffu}, numbers(0, 3)));
    REQUIRE((*writer)->append({"mass", 2, 0}, large_blob()));
    REQUIRE((*writer)->append({"turn_end", 1, 0}, numbers(1, 1)));
    REQUIRE((*writer)->finish());
  }
  const Bytes bytes = read_bytes(path);
  auto check = [&](const SessionReader& reader) {
    REQUIRE(reader.frames().size() == 3);
    CHECK(reader.frames()[1].kind == "mass");
    CHECK(reader.frames()[1].version == 2);
    CHECK(reader.frames()[1].content_bytes > 4 * kFrameContent);
    const auto blob = reader.frame(1);
    REQUIRE(blob);
    check_equal(large_blob(), *blob);
    CHECK(blob->metadata.at("note") == "kept in part 0");
    CHECK(!blob->metadata.contains("parts"));
  };
  const auto finished = SessionReader::open(path);
  REQUIRE(finished);
  CHECK((*finished)->finished());
  check(**finished);
  const auto walked = SessionReader::from_bytes(slice(bytes, 0, bytes.size() - 1), "walked");
  REQUIRE(walked);
  CHECK(!(*walked)->finished());
  check(**walked);

  SECTION("without one of its parts it is a loss, and the rest stays") {
    const uint64_t start = (*finished)->frames()[1].offset, end = start + (*finished)->frames()[1].compressed_bytes;
    uint64_t second = 0;
    for (uint64_t at = start + 4; at + 4 <= end && !second; ++at)
      if (bytes[at] == 0x28 && bytes[at + 1] == 0xb5 && bytes[at + 2] == 0x2f && bytes[at + 3] == 0xfd) second = at;
    REQUIRE(second);
    const auto reader = SessionReader::from_bytes(slice(bytes, 0, start) + slice(bytes, second, bytes.size() - second), "part lost");
    REQUIRE(reader);
    CHECK((*reader)->frames().size() == 2);
    CHECK(has_finding((*reader)->findings(), "SPAN-PARTS"));
    CHECK(has_finding((*reader)->findings(), "SPAN-MISSING"));
  }
}

TEST_CASE("splitting and joining are inverse, part by part within the limit") {
  for (size_t tensors : {size_t(1), size_t(3), size_t(900)}) {
    Blob blob;
    blob.metadata["note"] = "n";
    for (size_t i = 0; i < tensors; ++i) {
      std::vector<uint8_t> values(tensors == 900 ? 9000 : 5'000'000 + i * 777, uint8_t(i));
      blob.add<uint8_t>("t" + std::to_string(i), {values.size()}, values);
    }
    auto parts = split_blob(blob, "t");
    REQUIRE(parts);
    CHECK(parts->size() > 1);
    for (const Blob& part : *parts) CHECK(write_safetensors(part).size() <= kFrameContent);
    auto joined = join_parts(std::move(*parts), "t");
    REQUIRE(joined);
    check_equal(blob, *joined);
    CHECK(joined->metadata == blob.metadata);
  }
}

TEST_CASE("blobs that no reader would take are refused when they are written") {
  const Folder folder;
  auto writer = SessionWriter::create(folder.file("a.span"), false);
  REQUIRE(writer);
  Blob twice;
  twice.add<float>("x", {1}, std::vector<float>{1});
  twice.add<float>("x", {1}, std::vector<float>{2});
  CHECK((*writer)->append({"mass"}, twice).error().tag == "SPAN-WRITER");
  Blob name;
  name.add<float>("x y", {1}, std::vector<float>{1});
  CHECK((*writer)->append({"mass"}, name).error().tag == "SPAN-WRITER");
  Blob shape;
  shape.add<float>("x", {2}, std::vector<float>{1});
  CHECK((*writer)->append({"mass"}, shape).error().tag == "SPAN-WRITER");
  CHECK((*writer)->append({"with,comma"}, numbers(0, 1)).error().tag == "SPAN-WRITER");
  REQUIRE((*writer)->append({"session"}, numbers(0, 1)));
  REQUIRE((*writer)->finish());
  CHECK((*writer)->append({"mass"}, numbers(0, 1)).error().tag == "SPAN-WRITER");
  CHECK((*writer)->sync());
  CHECK((*writer)->finish());
}

TEST_CASE("a full disk ends the file at a frame's border, with a loss frame and a clear error") {
  const Folder folder;
  const std::string path = folder.file("full.span");
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    // A limit on the file's size stands for the disk: EFBIG instead of ENOSPC, the same path.
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{20000, 20000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    auto writer = SessionWriter::create(path, false);
    if (!writer || !(*writer)->append({"session"}, numbers(0, 3))) ::_exit(10);
    for (uint32_t t = 0; t < 1000; ++t) {
      Blob noise;  // does not compress
      std::vector<uint32_t> values(700);
      uint32_t x = t * 2654435761u + 1;
      for (uint32_t& v : values) x ^= x << 13, x ^= x >> 17, x ^= x << 5, v = x;
      noise.add<uint32_t>("x", {values.size()}, values);
      Status status = (*writer)->append({"mass", 1, t}, std::move(noise));
      if (status) status = (*writer)->append({"turn_end", 1, t}, numbers(1, 1));
      if (status) status = (*writer)->sync();
      if (status) continue;
      const bool clear = status.error().tag == "SPAN-WRITE" && status.error().message.find("too large") != std::string::npos &&
                         !status.error().advice.empty() && !(*writer)->finish();
      ::_exit(clear ? 0 : 11);
    }
    ::_exit(12);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  REQUIRE(WIFEXITED(status));
  REQUIRE(WEXITSTATUS(status) == 0);
  const auto reader = SessionReader::open(path);
  REQUIRE(reader);
  INFO(tags_of((*reader)->findings()));
  CHECK(!(*reader)->finished());
  CHECK(closed_turns(**reader) >= 4);
  CHECK((*reader)->frames().back().kind == "loss");
  CHECK(has_finding((*reader)->findings(), "SPAN-LOSS"));
  CHECK(!has_finding((*reader)->findings(), "SPAN-TRUNCATED"));
  for (size_t i = 0; i < (*reader)->frames().size(); ++i) CHECK((*reader)->frame(i));
}

TEST_CASE("targets that cannot be written, and one that is taken away") {
  const Folder folder;
  CHECK(SessionWriter::create(folder.file("no/where.span"), false).error().tag == "SPAN-WRITE");
  CHECK(SessionWriter::create(folder.path, true).error().tag == "SPAN-DIRECTORY");
  const std::string path = folder.file("a.span");
  write_bytes(path, {1});
  CHECK(SessionWriter::create(path, false).error().tag == "SPAN-EXISTS");
  if (::geteuid() == 0) {
    std::cout << "SKIPPED: root may write everywhere, so a read-only folder cannot be tried\n";
  } else {
    const std::string closed = folder.file("closed");
    std::filesystem::create_directory(closed);
    std::filesystem::permissions(closed, std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
    CHECK(SessionWriter::create(closed + "/a.span", false).error().message.find("denied") != std::string::npos);
  }
  if (std::filesystem::exists("/dev/full")) {
    const auto full = SessionWriter::create("/dev/full", true);
    REQUIRE(!full);
    CHECK(full.error().message.find("No space") != std::string::npos);
  }
  auto writer = SessionWriter::create(path, true);
  REQUIRE(writer);
  REQUIRE((*writer)->append({"session"}, numbers(0, 1)));
  REQUIRE((*writer)->sync());
  std::filesystem::remove(path);
  REQUIRE((*writer)->append({"mass"}, numbers(0, 1)));
  CHECK((*writer)->sync().error().tag == "SPAN-REMOVED");
  CHECK(!(*writer)->finish());
}

TEST_CASE("overwriting leaves an open session alone") {
  const Folder folder;
  make_session(folder, 3);
  const auto old = SessionReader::open(folder.file("sample.span"));
  REQUIRE(old);
  make_session(folder, 1);
  for (size_t i = 0; i < (*old)->frames().size(); ++i) CHECK((*old)->frame(i));
  CHECK(closed_turns(**SessionReader::open(folder.file("sample.span"))) == 1);
}

TEST_CASE("a writer that is killed leaves everything that was synced") {
  const Folder folder;
  for (int round = 0; round < 12; ++round) {
    const std::string path = folder.file("killed" + std::to_string(round));
    int pipe_ends[2];
    REQUIRE(::pipe(pipe_ends) == 0);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      ::close(pipe_ends[0]);
      auto writer = SessionWriter::create(path, false);
      if (!writer || !(*writer)->append({"session"}, numbers(0, 3))) ::_exit(1);
      for (uint32_t t = 0;; ++t) {
        if (!(*writer)->append({"mass", 1, t}, numbers(int(t), 2000)) || !(*writer)->append({"turn_end", 1, t}, numbers(1, 1)) ||
            !(*writer)->sync() || ::write(pipe_ends[1], "t", 1) != 1)
          ::_exit(1);
      }
    }
    ::close(pipe_ends[1]);
    uint32_t synced = 0;
    char byte;
    while (synced < uint32_t(3 + round * 2) && ::read(pipe_ends[0], &byte, 1) == 1) ++synced;
    std::this_thread::sleep_for(std::chrono::microseconds(137 * round));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    while (::read(pipe_ends[0], &byte, 1) == 1) ++synced;
    ::close(pipe_ends[0]);
    const auto reader = SessionReader::open(path);
    REQUIRE(reader);
    CHECK(!(*reader)->finished());
    CHECK(closed_turns(**reader) >= synced);
    for (size_t i = 0; i < (*reader)->frames().size(); ++i) REQUIRE((*reader)->frame(i));
  }
}

TEST_CASE("a sync that is asked for is done later, in order, and says so; a failed one is reported") {
  const Folder folder;
  const std::string path = folder.file("later.span");
  auto writer = SessionWriter::create(path, false);
  REQUIRE(writer);
  REQUIRE((*writer)->append({"session"}, numbers(0, 3)));
  uint64_t last = 0;
  for (uint32_t t = 0; t < 20; ++t) {
    REQUIRE((*writer)->append({"turn_end", 1, t}, numbers(1, 1)));
    const auto mark = (*writer)->request_sync();
    REQUIRE(mark);
    CHECK(*mark > last);
    last = *mark;
    CHECK((*writer)->synced() <= last);
  }
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while ((*writer)->synced() < last && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  CHECK((*writer)->synced() == last);
  CHECK(closed_turns(**SessionReader::open(path)) == 20);  // what is synced is in the file while it is open
  CHECK((*writer)->seconds_waited() == 0);
  std::filesystem::remove(path);
  REQUIRE((*writer)->request_sync());  // this one fails, and whatever comes then says so
  while ((*writer)->append({"mass"}, numbers(0, 1)) && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  const auto refused = (*writer)->request_sync();
  REQUIRE(!refused);
  CHECK(refused.error().tag == "SPAN-REMOVED");
}

TEST_CASE("a disk that is slower than what the queue holds makes append wait, and the time is known") {
  const Folder folder;
  const std::string path = folder.file("slow.span");
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);  // a pipe takes a little and then nothing until somebody reads
  std::atomic<bool> full{false};
  std::thread disk([&] {
    const int fd = ::open(path.c_str(), O_RDONLY);
    std::vector<char> bytes(1 << 20);
    while (!full) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    while (::read(fd, bytes.data(), bytes.size()) > 0) {
    }
    ::close(fd);
  });
  auto writer = SessionWriter::create(path, true);
  REQUIRE(writer);
  std::vector<uint32_t> values(1 << 20);  // 4 MiB that do not compress
  uint32_t x = 1;
  for (uint32_t& v : values) x ^= x << 13, x ^= x >> 17, x ^= x << 5, v = x;
  for (int i = 0; i < 30; ++i) {
    Blob blob;
    blob.add<uint32_t>("x", {values.size()}, values);
    REQUIRE((*writer)->append({"mass"}, std::move(blob)));
  }
  CHECK((*writer)->seconds_waited() == 0);  // it all fits into the queue
  full = true;
  for (int i = 0; i < 10; ++i) {
    Blob blob;
    blob.add<uint32_t>("x", {values.size()}, values);
    REQUIRE((*writer)->append({"mass"}, std::move(blob)));
  }
  CHECK((*writer)->seconds_waited() > 0.1);
  writer->reset();
  disk.join();
}

TEST_CASE("zstd and a few lines of Python read what the writer wrote") {
  const Folder folder;
  const std::string path = folder.file("foreign.span");
  {
    auto writer = SessionWriter::create(path, false);
    REQUIRE(writer);
    write_turns(**writer, 3);
    REQUIRE((*writer)->append({"mass", 1, 3}, large_blob()));
    REQUIRE((*writer)->finish());
  }
  if (std::system("zstd --version >/dev/null 2>&1") == 0) CHECK(std::system(("zstd -tq '" + path + "'").c_str()) == 0);
  else std::cout << "SKIPPED: no zstd program\n";
  const std::string python = python_with_zstandard();
  if (python.empty()) {
    std::cout << "SKIPPED: no Python with the zstandard module\n";
    return;
  }
  const std::string script = std::string(SPANSCOPE_SOURCE_DIR) + "/tests/format/session/read_session.py";
  CHECK(std::system((python + " '" + script + "' '" + path + "' > '" + folder.file("out") + "'").c_str()) == 0);
  const Bytes out = read_bytes(folder.file("out"));
  const std::string text(out.begin(), out.end());
  INFO(text);
  CHECK(text.find("0 session x F32 [3]\n") == 0);
  CHECK(text.find("6 turn_end x F32 [1]\n") != std::string::npos);
  CHECK(text.find("7 mass first U16 [10, 100]\n") != std::string::npos);
  CHECK(text.find(" index offset U64 [") != std::string::npos);
}
