// SPDX-License-Identifier: GPL-3.0-or-later
// How fast the session writer is beside what an engine produces: the frames of a recorded session are held in memory and
// written again, compressed and synced as while recording.
//   bench_write_rate SESSION SECONDS OUT      SECONDS: how long the recording of SESSION ran
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "core/file/session_reader.h"
#include "core/file/session_writer.h"

using namespace spanscope;

namespace {

[[noreturn]] void fail(const Error& error) {
  fmt::print(stderr, "{}\n", error.message);
  std::exit(1);
}

template <class T>
T value(Result<T> result) {
  if (!result) fail(result.error());
  return std::move(*result);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    fmt::print(stderr, "usage: bench_write_rate SESSION SECONDS OUT\n");
    return 2;
  }
  const double engine_seconds = std::strtod(argv[2], nullptr);
  std::vector<FrameTag> tags;
  std::vector<Blob> blobs;
  uint64_t content = 0, largest = 0;
  {
    const auto reader = value(SessionReader::open(argv[1]));
    for (size_t i = 0; i < reader->frames().size(); ++i) {
      const FrameInfo& frame = reader->frames()[i];
      tags.push_back({frame.kind, frame.version, frame.turn});
      blobs.push_back(value(reader->frame(i)));
      content += frame.content_bytes;
      largest = std::max(largest, frame.content_bytes);
    }
  }
  const auto begin = std::chrono::steady_clock::now();
  auto writer = value(SessionWriter::create(argv[3], true));
  for (size_t i = 0; i < blobs.size(); ++i) {
    const bool turn_ends = tags[i].kind == "turn_end";
    if (Status s = writer->append(tags[i], std::move(blobs[i])); !s) fail(s.error());
    if (turn_ends) value(writer->request_sync());
  }
  if (Status s = writer->finish(); !s) fail(s.error());
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  fmt::print("{:.1f} MB in {} frames (largest {:.1f} MB), {:.1f} MB on disk; recording {:.2f} MB/s, writer {:.1f} MB/s: {:.1f} times; "
             "waited for the disk {:.2f} s\n",
             content / 1e6, tags.size(), largest / 1e6, writer->bytes_written() / 1e6, content / 1e6 / engine_seconds,
             content / 1e6 / seconds, engine_seconds / seconds, writer->seconds_waited());
  return 0;
}
