// SPDX-License-Identifier: GPL-3.0-or-later
// What writing and reading frames share. Inside core/record only.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/file/safetensors.h"
#include "core/file/session_reader.h"
#include "core/file/session_writer.h"
#include "core/record/session_data.h"

namespace spanscope::schema {

inline constexpr uint32_t kVersion = 1;  // of kinds that never changed
inline constexpr uint64_t kProfileBytes = 2u << 20;  // of one profile frame's content, about

// As the header names them, by enum value.
inline constexpr const char* kRowDetails[] = {"none", "layers", "heads"};
inline constexpr const char* kKeyDetails[] = {"none", "first_layer", "all"};

// A list of strings as two tensors: NAME.bytes u8 and NAME.ends u64.
struct Strings {
  std::vector<uint8_t> bytes;
  std::vector<uint64_t> ends;
  void add(const std::string& s) {
    bytes.insert(bytes.end(), s.begin(), s.end());
    ends.push_back(bytes.size());
  }
  void put(Blob& blob, const std::string& name) const {
    blob.add<uint8_t>(name + ".bytes", {bytes.size()}, bytes);
    blob.add<uint64_t>(name + ".ends", {ends.size()}, ends);
  }
};
Result<std::vector<std::string>> get_strings(const Blob& blob, const std::string& name, uint64_t count);

// One frame each; what they say is checked against the header, the ledger and the turn so far.
Result<SessionHeader> read_header(const Blob& blob, const std::string& where);
Status read_ledger(const Blob& blob, SessionData& out);
Status read_turn_begin(const Blob& blob, TurnRecord& turn, const SessionData& session);
Status read_mass(const Blob& blob, TurnRecord& turn, const SessionData& session);
Status read_profile(const Blob& blob, TurnRecord& turn, const SessionData& session);
Status read_events(const Blob& blob, TurnRecord& turn, const SessionData& session);
Status read_routing(const Blob& blob, TurnRecord& turn, const SessionData& session);
Status read_findings(const Blob& blob, SessionData& session);
// What is kept beyond span and head detail (schema_details.cpp). `end`: the turn's end, which says how many frames there were.
Status write_details(SessionWriter& writer, const TurnRecord& turn, const SessionHeader& header, Blob& end);
Status read_token_stats(const Blob& blob, TurnRecord& turn, const SessionData& session);
Status read_residual(const Blob& blob, TurnRecord& turn, const SessionData& session);
Status read_row_mass(const Blob& blob, TurnRecord& turn, const SessionData& session);
Status read_pair_mass(const Blob& blob, TurnRecord& turn, const SessionData& session);
Status read_keys(const Blob& blob, TurnRecord& turn, const SessionData& session);
Status read_values(const Blob& blob, TurnRecord& turn, const SessionData& session);
Status read_closing(const Blob& blob, SessionData& session);
Status read_gc(const Blob& blob, SessionData& session);

// Where a closed turn's frames stand in SessionReader::frames().
struct TurnFrames {
  TurnId turn = 0;
  size_t begin = SIZE_MAX, end = SIZE_MAX;
  std::vector<size_t> parts;    // the ones between them
  uint64_t content_bytes = 0;   // of all, uncompressed
};
// One turn by itself; `session` gives header and ledger.
enum class TurnDepth : uint8_t {
  head,     // layout, phases, tokens, nothing that was measured
  views,    // what views need
  details,  // token statistics, rows, pairs, keys, values as well
};
Result<TurnRecord> read_turn(const SessionReader& reader, const TurnFrames& frames, const SessionData& session, TurnDepth depth);
bool is_detail_kind(const std::string& kind);

}  // namespace spanscope::schema
