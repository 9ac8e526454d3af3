// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/file/frame_codec.h"

#include <zstd.h>

#include <charconv>
#include <memory>

#include "core/file/session_format.h"

namespace spanscope {
namespace {

// Window log as the frame header states it (RFC 8878, 3.1.1.1.2); 0 when the frame is a single segment.
unsigned window_log(std::span<const uint8_t> bytes) {
  const uint8_t descriptor = bytes[4];
  if (descriptor & 0x20) return 0;
  return 10 + (bytes[5] >> 3) + ((bytes[5] & 7) ? 1 : 0);
}

template <class T>
bool parse_count(const std::string& text, T& out) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), out);
  return result.ec == std::errc() && result.ptr == text.data() + text.size();
}

uint32_t u32_at(std::span<const uint8_t> bytes, uint64_t at) {
  uint32_t value;
  std::memcpy(&value, bytes.data() + at, 4);
  return value;
}

}  // namespace

Result<Blob> decode_frame(std::span<const uint8_t> bytes, const std::string& where) {
  if (bytes.size() < 9 || u32_at(bytes, 0) != kZstdMagic)
    return make_error(ErrorCode::corrupt, "SPAN-FRAME", "expected a zstd frame", where);
  const unsigned long long content = ZSTD_getFrameContentSize(bytes.data(), bytes.size());
  if (content == ZSTD_CONTENTSIZE_ERROR || content == ZSTD_CONTENTSIZE_UNKNOWN)
    return make_error(ErrorCode::corrupt, "SPAN-FRAME", "the frame does not declare its content size", where);
  if (content > kMaxContent)
    return make_error(ErrorCode::limit, "SPAN-FRAME-SIZE",
                      "the frame declares " + std::to_string(content) + " bytes, the most is " + std::to_string(kMaxContent),
                      where);
  if (window_log(bytes) > kMaxWindowLog)
    return make_error(ErrorCode::limit, "SPAN-FRAME-SIZE", "the frame's window is larger than 64 MiB", where);
  // The unused bit changes nothing for zstd; a flipped one must be named all the same.
  if (bytes[4] & 0x10) return make_error(ErrorCode::corrupt, "SPAN-FRAME", "an unused bit of the frame header is set", where);
  if (!(bytes[4] & 0x04)) return make_error(ErrorCode::corrupt, "SPAN-FRAME", "the frame has no checksum", where);
  // One context per thread: making it costs more than a small frame.
  thread_local const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context(ZSTD_createDCtx(), ZSTD_freeDCtx);
  if (!context) return make_error(ErrorCode::memory, "SPAN-MEMORY", "no memory for the decompressor", where);
  std::vector<uint8_t> data;
  try {
    data.resize(size_t(content));
  } catch (const std::bad_alloc&) {
    return make_error(ErrorCode::memory, "SPAN-MEMORY", "no memory for a frame of " + std::to_string(content) + " bytes", where);
  }
  const size_t size = ZSTD_decompressDCtx(context.get(), data.data(), data.size(), bytes.data(), bytes.size());
  if (ZSTD_isError(size))
    return make_error(ErrorCode::corrupt, "SPAN-FRAME", std::string("zstd: ") + ZSTD_getErrorName(size), where);
  if (size != content)
    return make_error(ErrorCode::corrupt, "SPAN-FRAME",
                      "declared " + std::to_string(content) + " bytes, found " + std::to_string(size), where);
  return parse_safetensors(data, where);
}

uint64_t declared_content(std::span<const uint8_t> bytes) {
  const unsigned long long content = ZSTD_getFrameContentSize(bytes.data(), bytes.size());
  return content == ZSTD_CONTENTSIZE_ERROR || content == ZSTD_CONTENTSIZE_UNKNOWN ? 0 : content;
}

Result<FrameHeader> frame_header(const Blob& blob, const std::string& where) {
  FrameHeader out;
  auto text = [&](const char* key) -> const std::string* {
    const auto it = blob.metadata.find(key);
    return it == blob.metadata.end() ? nullptr : &it->second;
  };
  const std::string *kind = text("kind"), *version = text("v"), *session = text("session"), *seq = text("seq");
  if (!kind || !version || !session || !seq || session->size() != 32 || kind->empty() || kind->size() > 32 ||
      !parse_count(*version, out.version) || !parse_count(*seq, out.seq))
    return make_error(ErrorCode::corrupt, "SPAN-FRAME", "metadata without kind, v, session and seq", where);
  out.kind = *kind;
  out.session = *session;
  if (const std::string* turn = text("turn"); turn && !parse_count(*turn, out.turn))
    return make_error(ErrorCode::corrupt, "SPAN-FRAME", "metadata with a turn that is no number", where);
  const std::string *part = text("part"), *parts = text("parts");
  if (bool(part) != bool(parts) || (part && (!parse_count(*part, out.part) || !parse_count(*parts, out.parts) ||
                                             out.parts > kMaxParts || out.part >= out.parts)))
    return make_error(ErrorCode::corrupt, "SPAN-FRAME", "metadata with part and parts that do not fit", where);
  return out;
}

std::optional<std::vector<SeekEntry>> read_seek_table(std::span<const uint8_t> file, uint64_t& table_bytes) {
  if (file.size() < 17 || u32_at(file, file.size() - 4) != kSeekTableMagic) return std::nullopt;
  const uint8_t descriptor = file[file.size() - 5];
  if (descriptor & 0x7f) return std::nullopt;  // reserved bits
  const uint64_t entry_bytes = descriptor & 0x80 ? 12 : 8;
  const uint64_t entries = u32_at(file, file.size() - 9);
  if (entries > kMaxFrames || entries * entry_bytes + 17 > file.size()) return std::nullopt;
  const uint64_t begin = file.size() - (entries * entry_bytes + 17);
  if (u32_at(file, begin) != kSeekTableFrameMagic || u32_at(file, begin + 4) != entries * entry_bytes + 9) return std::nullopt;
  std::vector<SeekEntry> out;
  out.reserve(entries);
  for (uint64_t i = 0; i < entries; ++i)
    out.push_back({u32_at(file, begin + 8 + i * entry_bytes), u32_at(file, begin + 12 + i * entry_bytes)});
  table_bytes = entries * entry_bytes + 17;
  return out;
}

}  // namespace spanscope
