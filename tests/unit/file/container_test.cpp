// SPDX-License-Identifier: GPL-3.0-or-later
// The container: round trip, unfinished files, what is no session. Damage and malice: tests/format/session.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "core/base/files.h"
#include "core/file/session_reader.h"
#include "core/file/session_writer.h"
#include "tests/support/catch.h"

using namespace spanscope;
namespace fs = std::filesystem;

namespace {

struct Folder {
  std::string path;
  Folder() {
    path = (fs::temp_directory_path() / "spanscope-container-XXXXXX").string();
    REQUIRE(::mkdtemp(path.data()));
  }
  ~Folder() { fs::remove_all(path); }
  std::string file(const std::string& name) const { return path + "/" + name; }
};

Blob numbers(int seed, int n) {
  Blob blob;
  std::vector<float> values;
  for (int i = 0; i < n; ++i) values.push_back(float((i * 7919 + seed * 104729) % 1000) / 7);
  blob.add<float>("x", {uint64_t(n)}, values);
  return blob;
}

std::string make_session(const std::string& path, int turns, bool finish = true) {
  auto writer = SessionWriter::create(path, false);
  REQUIRE(writer);
  REQUIRE((*writer)->append({"session", 1, 0xffffffffu}, numbers(0, 3)));
  for (int t = 0; t < turns; ++t) {
    REQUIRE((*writer)->append({"mass", 1, uint32_t(t)}, numbers(t + 1, 20 + t)));
    REQUIRE((*writer)->append({"turn_end", 1, uint32_t(t)}, numbers(t + 1, 1)));
    REQUIRE((*writer)->sync());
  }
  if (finish) REQUIRE((*writer)->finish());
  return *read_file(path);
}

void put(const std::string& path, const std::string& bytes) { REQUIRE(write_file(path, bytes, true)); }

uint32_t turns_in(const SessionReader& reader) {
  uint32_t n = 0;
  for (const auto& f : reader.frames()) n += f.kind == "turn_end";
  return n;
}

}  // namespace

TEST_CASE("what was written comes back, finished") {
  Folder folder;
  make_session(folder.file("a.span"), 5);
  auto reader = SessionReader::open(folder.file("a.span"));
  REQUIRE(reader);
  CHECK((*reader)->finished());
  CHECK((*reader)->findings().empty());
  REQUIRE((*reader)->frames().size() == 11);
  for (size_t i = 0; i < 11; ++i) {
    const FrameInfo& info = (*reader)->frames()[i];
    CHECK(info.seq == i);
    auto blob = (*reader)->frame(i);
    REQUIRE(blob);
    const int t = i == 0 ? 0 : int((i - 1) / 2) + 1;
    const int n = i == 0 ? 3 : i % 2 ? 19 + t : 1;
    CHECK(*blob->get<float>("x") == *numbers(t, n).get<float>("x"));
  }
  auto report = verify_session(folder.file("a.span"));
  REQUIRE(report);
  CHECK((report->finished && report->findings.empty()));
}

TEST_CASE("a session without finish() is unfinished and says what remains") {
  Folder folder;
  make_session(folder.file("a.span"), 3, false);
  auto reader = SessionReader::open(folder.file("a.span"));
  REQUIRE(reader);
  CHECK(!(*reader)->finished());
  CHECK(turns_in(**reader) == 3);
  REQUIRE((*reader)->findings().size() == 1);
  CHECK((*reader)->findings()[0].message.find("3 closed turns") != std::string::npos);
}

TEST_CASE("a text file, an empty file, a directory are not sessions") {
  Folder folder;
  put(folder.file("t"), "hello, this is not a session at all");
  CHECK(SessionReader::open(folder.file("t")).error().tag == "SPAN-NOT-A-SESSION");
  put(folder.file("e"), "");
  CHECK(SessionReader::open(folder.file("e")).error().tag == "SPAN-EMPTY");
  CHECK(SessionReader::open(folder.path).error().tag == "SPAN-DIRECTORY");
  CHECK(SessionReader::open(folder.file("none")).error().tag == "SPAN-NOT-FOUND");
}
