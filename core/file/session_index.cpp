// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/file/session_index.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>

#include "core/file/frame_codec.h"
#include "core/file/session_format.h"

namespace spanscope {
namespace {

using Bytes = std::span<const uint8_t>;

std::string number(uint64_t n) { return std::to_string(n); }

template <class T>
void put(std::vector<uint8_t>& out, T value) {
  const auto* p = reinterpret_cast<const uint8_t*>(&value);
  out.insert(out.end(), p, p + sizeof value);
}

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> out;
  for (size_t at = 0; at <= text.size() && !text.empty();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    out.push_back(text.substr(at, comma - at));
    at = comma + 1;
  }
  return out;
}

bool plain(const std::vector<PhysicalFrame>& rows) {
  for (size_t i = 0; i < rows.size(); ++i)
    if (rows[i].seq != i || rows[i].kind == kSkippableKind || rows[i].kind == "index") return false;
  return true;
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

}  // namespace

Result<std::vector<uint8_t>> index_frame(const std::vector<PhysicalFrame>& rows, const std::string& session, uint32_t seq,
                                         uint64_t& content_bytes) {
  const uint64_t n = rows.size();
  const bool v1 = plain(rows);
  std::vector<std::string> kinds;
  std::vector<uint32_t> kind;
  for (const PhysicalFrame& f : rows) {
    const auto known = std::find(kinds.begin(), kinds.end(), f.kind);
    kind.push_back(uint32_t(known - kinds.begin()));
    if (known == kinds.end()) kinds.push_back(f.kind);
  }
  Blob index;
  auto column = [&]<class T>(const char* name, T PhysicalFrame::*member) {
    std::vector<T> values;
    values.reserve(rows.size());
    for (const PhysicalFrame& f : rows) values.push_back(f.*member);
    index.add<T>(name, {n}, values);
  };
  column("offset", &PhysicalFrame::offset);
  column("compressed", &PhysicalFrame::compressed);
  column("content", &PhysicalFrame::content);
  column("xxh64", &PhysicalFrame::hash);
  index.add<uint32_t>("kind", {n}, kind);
  column("version", &PhysicalFrame::version);
  column("turn", &PhysicalFrame::turn);
  column("part", &PhysicalFrame::part);
  column("parts", &PhysicalFrame::parts);
  if (!v1) column("seq", &PhysicalFrame::seq);
  std::string list;
  for (const std::string& k : kinds) {
    if (!list.empty()) list += ',';
    list += k;
  }
  index.metadata = {{"kinds", list}, {"kind", "index"}, {"v", v1 ? "1" : "2"}, {"session", session}, {"seq", number(seq)}};
  const std::vector<uint8_t> content = write_safetensors(index);
  if (content.size() > kMaxContent || n > kMaxFrames)
    return make_error(ErrorCode::limit, "SPAN-FRAME-SIZE", number(n) + " frames are too many for an index");
  content_bytes = content.size();
  return stored_frame(content);
}

std::vector<uint8_t> seek_table(const std::vector<PhysicalFrame>& rows, uint64_t index_compressed, uint64_t index_content) {
  std::vector<uint8_t> table;
  const uint32_t entries = uint32_t(rows.size()) + 2;  // the preamble counts as a frame without content
  put(table, kSeekTableFrameMagic);
  put(table, uint32_t(entries * 8 + 9));
  put(table, uint32_t(kPreambleBytes));
  put(table, uint32_t(0));
  for (const PhysicalFrame& f : rows) {
    put(table, uint32_t(f.compressed));
    put(table, uint32_t(f.content));
  }
  put(table, uint32_t(index_compressed));
  put(table, uint32_t(index_content));
  put(table, entries);
  put(table, uint8_t(0));  // no per-frame checksums: every frame carries its own
  put(table, kSeekTableMagic);
  return table;
}

std::optional<IndexTables> read_tables(Bytes file, const std::string& path, std::string& why) {
  auto disagree = [&](std::string message) {
    why = std::move(message);
    return std::nullopt;
  };
  uint64_t table_bytes = 0;
  const auto table = read_seek_table(file, table_bytes);
  if (!table) return disagree("no seek table at the end");
  uint64_t total = table_bytes;
  for (const SeekEntry& e : *table) total += e.compressed;
  if (total != file.size() || table->size() < 3)
    return disagree("the seek table covers " + number(total) + " bytes in " + number(table->size()) + " frames, the file has " +
                    number(file.size()) + " bytes");
  if (table->front().compressed != kPreambleBytes || table->front().content != 0)
    return disagree("the seek table does not begin with the preamble");
  // The last entry is the index, the first the preamble.
  const uint64_t index_bytes = table->back().compressed;
  const uint64_t index_at = file.size() - table_bytes - index_bytes;
  const Bytes frame = file.subspan(index_at, index_bytes);
  if (declared_content(frame) != table->back().content)
    return disagree("the seek table and the index frame disagree about the index's size");
  auto index = decode_frame(frame, path);
  if (!index) return disagree("the index cannot be read: " + index.error().message);
  auto header = frame_header(*index, path);
  if (!header || header->kind != "index") return disagree("the last frame is not an index");
  if (header->version > kIndexVersion)
    return disagree("the index has version " + number(header->version) + ", this program reads " + number(kIndexVersion));
  const uint64_t n = table->size() - 2;
  const bool v1 = header->version <= 1;
  auto offset = index->get<uint64_t>("offset", n);
  auto compressed = index->get<uint64_t>("compressed", n);
  auto content = index->get<uint64_t>("content", n);
  auto hash = index->get<uint64_t>("xxh64", n);
  auto kind = index->get<uint32_t>("kind", n);
  auto version = index->get<uint32_t>("version", n);
  auto turn = index->get<uint32_t>("turn", n);
  auto part = index->get<uint32_t>("part", n);
  auto parts = index->get<uint32_t>("parts", n);
  auto seq = v1 ? Result<std::vector<uint32_t>>(std::vector<uint32_t>(n)) : index->get<uint32_t>("seq", n);
  const auto kinds = split_list(index->metadata["kinds"]);
  if (!offset || !compressed || !content || !hash || !kind || !version || !turn || !part || !parts || !seq ||
      (v1 && header->seq != n))
    return disagree("the index does not list " + number(n) + " frames");
  IndexTables out;
  out.session = header->session;
  out.version = header->version;
  out.seq = header->seq;
  uint64_t at = kPreambleBytes;
  int64_t last = -1;
  for (uint64_t i = 0; i < n; ++i) {
    const SeekEntry& e = (*table)[i + 1];
    const std::string row = " about frame " + number(i);
    if ((*offset)[i] != at || (*compressed)[i] != e.compressed || (*content)[i] != e.content || (*kind)[i] >= kinds.size() ||
        (*parts)[i] == 0 || (*parts)[i] > kMaxParts || (*part)[i] >= (*parts)[i])
      return disagree("index and seek table disagree" + row);
    PhysicalFrame f{at, e.compressed, e.content, (*hash)[i], kinds[(*kind)[i]], (*version)[i], v1 ? uint32_t(i) : (*seq)[i],
                    (*turn)[i], (*part)[i], (*parts)[i]};
    if (v1 && (f.kind == kSkippableKind || f.kind == "index")) return disagree("an index of version 1 lists a " + f.kind);
    if (f.kind != kSkippableKind) {
      if (int64_t(f.seq) <= last || f.seq >= header->seq) return disagree("the index contradicts itself" + row);
      last = f.seq;
    } else if (f.content != 0) {
      return disagree("the index contradicts itself" + row);
    }
    out.rows.push_back(std::move(f));
    at += e.compressed;
  }
  if (at != index_at) return disagree("the index covers " + number(at) + " bytes, the frames end at " + number(index_at));
  out.index = {index_at, index_bytes, table->back().content, XXH64(frame.data(), frame.size(), 0), "index", header->version, header->seq};
  const Bytes tail = file.subspan(index_at + index_bytes);
  out.table = {index_at + index_bytes, table_bytes, 0, XXH64(tail.data(), tail.size(), 0), kSkippableKind, 1, 0xffffffffu};
  return out;
}

}  // namespace spanscope
