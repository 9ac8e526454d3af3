// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/format/session/sample.h"

#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/file/session_format.h"
#include "tests/support/catch.h"

namespace spanscope::test {
namespace fs = std::filesystem;

Folder::Folder() {
  path = (fs::temp_directory_path() / "spanscope-format-XXXXXX").string();
  REQUIRE(::mkdtemp(path.data()));
}
Folder::~Folder() { fs::remove_all(path); }

Blob numbers(int seed, size_t n) {
  std::vector<float> values;
  for (size_t i = 0; i < n; ++i) values.push_back(float((i * 7919 + size_t(seed) * 104729) % 1000) / 7);
  Blob blob;
  blob.add<float>("x", {n}, values);
  return blob;
}

void write_turns(SessionWriter& writer, int turns, size_t values) {
  REQUIRE(writer.append({"session", 1, 0xffffffffu}, numbers(0, 3)));
  for (int t = 0; t < turns; ++t) {
    REQUIRE(writer.append({"mass", 1, uint32_t(t)}, numbers(t + 1, values + size_t(t))));
    REQUIRE(writer.append({"turn_end", 1, uint32_t(t)}, numbers(t + 1, 1)));
    REQUIRE(writer.sync());
  }
}

Bytes make_session(const Folder& folder, int turns, bool finish) {
  const std::string path = folder.file("sample.span");
  auto writer = SessionWriter::create(path, true);
  REQUIRE(writer);
  write_turns(**writer, turns);
  if (finish) REQUIRE((*writer)->finish());
  return read_bytes(path);
}

Bytes read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(in), {});
}

void write_bytes(const std::string& path, const Bytes& bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()), std::streamsize(bytes.size()));
  REQUIRE(out.flush());
}

Bytes slice(const Bytes& bytes, uint64_t offset, uint64_t size) {
  return Bytes(bytes.begin() + ptrdiff_t(offset), bytes.begin() + ptrdiff_t(offset + size));
}

Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Bytes frame_of(Blob blob, const std::string& session, uint32_t seq, const std::string& kind, uint32_t version) {
  blob.metadata["kind"] = kind;
  blob.metadata["v"] = std::to_string(version);
  blob.metadata["session"] = session;
  blob.metadata["seq"] = std::to_string(seq);
  const Bytes content = write_safetensors(blob);
  Bytes out(ZSTD_compressBound(content.size()));
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  out.resize(ZSTD_compress2(context, out.data(), out.size(), content.data(), content.size()));
  ZSTD_freeCCtx(context);
  return out;
}

Bytes bomb(uint64_t declared) {
  Bytes out;
  auto put = [&](const auto& value) {
    const auto* p = reinterpret_cast<const uint8_t*>(&value);
    out.insert(out.end(), p, p + sizeof value);
  };
  put(kZstdMagic);
  put(uint8_t(declared == UINT64_MAX ? 0x04 : 0xC4));  // checksum; size in 8 bytes or none
  put(uint8_t((17 - 10) << 3));                        // a window of 128 KiB, so that its blocks are allowed
  if (declared != UINT64_MAX) put(declared);
  constexpr uint32_t kBlock = 128 << 10, kBlocks = (uint64_t(4) << 30) / kBlock;
  for (uint32_t i = 0; i < kBlocks; ++i) {
    const uint32_t header = (kBlock << 3) | (1u << 1) | (i + 1 == kBlocks);  // type 1: one byte, repeated
    out.insert(out.end(), {uint8_t(header), uint8_t(header >> 8), uint8_t(header >> 16), 0});
  }
  XXH64_state_t* state = XXH64_createState();
  XXH64_reset(state, 0);
  const Bytes zeros(kBlock, 0);
  for (uint32_t i = 0; i < kBlocks; ++i) XXH64_update(state, zeros.data(), zeros.size());
  put(uint32_t(XXH64_digest(state)));
  XXH64_freeState(state);
  return out;
}

uint32_t closed_turns(const SessionReader& reader) {
  uint32_t n = 0;
  for (const FrameInfo& f : reader.frames()) n += f.kind == "turn_end";
  return n;
}

bool has_finding(const std::vector<Finding>& findings, const std::string& tag) {
  for (const Finding& f : findings)
    if (f.tag == tag) return true;
  return false;
}

std::string tags_of(const std::vector<Finding>& findings) {
  std::string out;
  for (const Finding& f : findings) out += f.tag + ": " + f.message + "\n";
  return out;
}

std::string python_with_zstandard() {
  for (const char* python : {"python3", "/usr/bin/python3"})
    if (std::system((std::string(python) + " -c 'import zstandard' 2>/dev/null").c_str()) == 0) return python;
  return {};
}

}  // namespace spanscope::test
