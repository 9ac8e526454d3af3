// SPDX-License-Identifier: GPL-3.0-or-later
// Session files. Bytes alone seldom get past zstd's checksums, so the input is a recipe for a file: pieces that become raw
// bytes, right frames around a given content, and a seek table that fits (or nearly fits) what came before.
//   piece: kind u8, size u16, size bytes.  kind % 4: 0 raw, 1 frame, 2 seek table (its first byte is added to one entry),
//   3 the file's signature
#include <zstd.h>

#include <cstdlib>
#include <cstring>

#include "core/file/session_format.h"
#include "core/file/session_reader.h"

namespace {
using namespace spanscope;
using Bytes = std::vector<uint8_t>;

template <class T>
void put(Bytes& out, T value) {
  const auto* p = reinterpret_cast<const uint8_t*>(&value);
  out.insert(out.end(), p, p + sizeof value);
}

Bytes build(const uint8_t* data, size_t size) {
  static ZSTD_CCtx* context = ZSTD_createCCtx();
  Bytes out;
  std::vector<std::pair<uint32_t, uint32_t>> frames;
  size_t at = 0;
  while (at + 3 <= size) {
    const uint8_t kind = data[at];
    uint16_t length;
    std::memcpy(&length, data + at + 1, 2);
    at += 3;
    const size_t n = std::min<size_t>(length, size - at);
    switch (kind % 4) {
      case 0: out.insert(out.end(), data + at, data + at + n); break;
      case 1: {
        Bytes frame(ZSTD_compressBound(n));
        ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
        frame.resize(ZSTD_compress2(context, frame.data(), frame.size(), data + at, n));
        out.insert(out.end(), frame.begin(), frame.end());
        frames.emplace_back(uint32_t(frame.size()), uint32_t(n));
        break;
      }
      case 2: {
        if (n && !frames.empty()) frames[data[at] % frames.size()].first += data[at] >> 6;
        put(out, kSeekTableFrameMagic);
        put(out, uint32_t(frames.size() * 8 + 9));
        for (auto [compressed, content] : frames) put(out, compressed), put(out, content);
        put(out, uint32_t(frames.size()));
        put(out, uint8_t(0));
        put(out, kSeekTableMagic);
        break;
      }
      default:
        put(out, kSkippableMagic);
        put(out, uint32_t(8));
        out.insert(out.end(), kSignature, kSignature + 8);
        frames.emplace_back(16, 0);
    }
    at += n;
  }
  return out;
}

void open(Bytes bytes) {
  const auto reader = SessionReader::from_bytes(std::move(bytes), "fuzz");
  if (!reader) {
    if (reader.error().tag.empty()) std::abort();
    return;
  }
  const VerifyReport report = verify_session(**reader);
  if (!(*reader)->finished() && report.findings.empty()) std::abort();
  if (report.frames_readable > report.frames) std::abort();
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  open(Bytes(data, data + size));
  open(build(data, size));
  return 0;
}
