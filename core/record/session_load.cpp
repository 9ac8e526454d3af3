// SPDX-License-Identifier: GPL-3.0-or-later
#include <algorithm>
#include <cstdlib>

#include "core/file/session_format.h"
#include "core/record/schema_parts.h"
#include "core/record/schema_versions.h"
#include "core/record/session_build.h"
#include "core/record/session_schema.h"

namespace spanscope {
using namespace schema;

namespace {

// Parts of a turn between its begin and its end. A part that cannot be read costs the turn when nothing is left to show
// without it (needed); else only that part is missing.
struct TurnPart {
  const char* kind;
  Status (*read)(const Blob& blob, TurnRecord& turn, const SessionData& session);
  bool needed;
  bool detail;  // read only when details are asked for
};
constexpr TurnPart kTurnParts[] = {{"mass", read_mass, true, false},           {"profile", read_profile, true, false},
                                    {"reads", read_events, true, false},         {"routing", read_routing, true, false},
                                    {"tokenstat", read_token_stats, false, true}, {"residual", read_residual, false, true},
                                    {"rows", read_row_mass, false, true},        {"pairs", read_pair_mass, false, true},
                                    {"keys", read_keys, false, true},            {"values", read_values, false, true}};

const TurnPart* turn_part(const std::string& kind) {
  for (const TurnPart& part : kTurnParts)
    if (kind == part.kind) return &part;
  return nullptr;
}

std::string turn_name(uint32_t turn) { return "turn " + std::to_string(uint64_t(turn) + 1); }

// The turn's end says what the turn held. Profiles are whole or not there: the last frame ends at the last layer.
bool complete(const TurnRecord& turn, const Blob& end, const SessionHeader& header) {
  const auto profiles = end.metadata.find("profiles");
  const bool expected = profiles != end.metadata.end() && profiles->second != "0";
  const uint64_t whole = header.pairs_kept().size() * 2 * turn.profile_spans.size();
  if (turn.head_mass.size() != (expected ? whole : 0)) return false;
  const auto events = end.metadata.find("events"), routing = end.metadata.find("routing");
  return events != end.metadata.end() && events->second == std::to_string(turn.events.size()) &&
         (routing == end.metadata.end() || (routing->second == "1") == !turn.routing.empty());
}

uint64_t frames_of(const Blob& end, const char* kind) {
  const auto text = end.metadata.find(kind);
  return text == end.metadata.end() ? 0 : std::strtoull(text->second.c_str(), nullptr, 10);
}

// Details of one kind are whole or not there. Returns the kinds that were dropped because a frame is missing.
std::vector<std::string> drop_incomplete_details(TurnRecord& t, const Blob& end) {
  std::vector<std::string> out;
  const auto check = [&](const char* kind, auto& list, uint64_t found) {
    if (found == frames_of(end, kind)) return;
    list = {};
    out.emplace_back(kind);
  };
  check("tokenstat", t.token_stats, t.token_stats.size());
  check("residual", t.residual, t.residual.passes() ? 1 : 0);
  check("rows", t.row_mass, t.row_mass.size());
  check("pairs", t.pair_mass, t.pair_mass.size());
  check("keys", t.keys, t.keys.size());
  check("values", t.values, t.values.size());
  return out;
}

}  // namespace

namespace schema {

bool is_detail_kind(const std::string& kind) {
  const TurnPart* part = turn_part(kind);
  return part && part->detail;
}

Result<TurnRecord> read_turn(const SessionReader& reader, const TurnFrames& frames, const SessionData& session, TurnDepth depth) {
  TurnRecord turn;
  auto blob_of = [&](size_t frame) -> Result<Blob> {
    const FrameInfo& info = reader.frames()[frame];
    auto blob = reader.frame(frame);
    if (!blob) return blob;
    SPANSCOPE_TRY(convert(*blob, info.kind, info.version, version_of(info.kind), converters(), session.header.program_version));
    return blob;
  };
  auto begin = blob_of(frames.begin);
  if (!begin) return std::move(begin).error();
  SPANSCOPE_TRY(read_turn_begin(*begin, turn, session));
  if (turn.turn != frames.turn)
    return make_error(ErrorCode::corrupt, "SPAN-TURN-DATA", "the frame belongs to " + turn_name(frames.turn) + ", its content to " + turn_name(turn.turn), reader.path());
  if (depth == TurnDepth::head) return turn;
  bool have_mass = false;
  for (size_t frame : frames.parts) {
    const TurnPart* part = turn_part(reader.frames()[frame].kind);
    if (!part || (part->detail && depth != TurnDepth::details)) continue;
    auto blob = blob_of(frame);
    if (!blob) return std::move(blob).error();
    SPANSCOPE_TRY(part->read(*blob, turn, session));
    have_mass = have_mass || reader.frames()[frame].kind == "mass";
  }
  auto end = blob_of(frames.end);
  if (!end) return std::move(end).error();
  if (!have_mass || !complete(turn, *end, session.header) ||
      (depth == TurnDepth::details && !drop_incomplete_details(turn, *end).empty()))
    return make_error(ErrorCode::corrupt, "SPAN-TURN-LOST", turn_name(turn.turn) + " is not whole: a part of it is missing", reader.path());
  return turn;
}

}  // namespace schema

SessionBuilder::SessionBuilder(std::string path, std::string session_id, bool details) : details_(details) {
  session_.path = std::move(path);
  session_.header.session_id = std::move(session_id);
}

Status SessionBuilder::add(const FrameInfo& info, Result<Blob> blob) {
  const uint32_t wanted = version_of(info.kind);
  if (wanted == 0 || info.kind == "loss") return {};  // the container's reader reports losses
  if (!details_ && is_detail_kind(info.kind)) return {};
  Status status;
  if (!blob) status = blob.error();
  else status = convert(*blob, info.kind, info.version, wanted, converters(), session_.header.program_version);
  if (info.kind == "session") {
    SPANSCOPE_TRY(std::move(status));
    auto header = read_header(*blob, session_.path);
    if (!header) return std::move(header).error();
    header->session_id = session_.header.session_id;
    session_.header = std::move(*header);
    have_header_ = true;
    return {};
  }
  if (!have_header_) return {};
  const TurnPart* part = turn_part(info.kind);
  if (status) {
    if (info.kind == "ledger") {
      if (ledger_ok_) status = read_ledger(*blob, session_);
    } else if (info.kind == "turn_begin") {
      begin_turn(info, *blob, status);
    } else if (part) {
      if (!open_ || info.turn != turn_.turn) return {};  // its beginning is lost, which has been said
      if (whole_) status = part->read(*blob, turn_, session_);
      if (status) parts_.insert(info.kind);
    } else if (info.kind == "turn_end") {
      end_turn(info, *blob);
    } else if (info.kind == "note") {
      status = read_findings(*blob, session_);
    } else if (info.kind == "gc") {
      status = read_gc(*blob, session_);
    } else if (info.kind == "closing") {
      status = read_closing(*blob, session_);
    }
  }
  if (!status) {
    const Error& e = status.error();
    const std::string what = "frame " + std::to_string(info.seq) + " (" + info.kind + (info.turn == kNone32 ? "" : ", " + turn_name(info.turn)) + ")";
    find({Grade::loss, e.tag, what + ": " + e.message, e.where, e.offset});
    if (info.kind == "ledger") ledger_ok_ = false;
    if (!part || part->needed) whole_ = false;
  }
  return {};
}

void SessionBuilder::begin_turn(const FrameInfo& info, const Blob& blob, Status& status) {
  if (open_ && info.turn == turn_.turn)
    // A recording that was continued runs the turn again in which it had stopped.
    find({Grade::info, "SPAN-TURN-AGAIN", turn_name(info.turn) + " was begun twice; the second one counts", {}, {}});
  else if (open_)
    lose_turn(turn_.turn, "was not finished");
  turn_ = TurnRecord{};
  parts_.clear();
  open_ = whole_ = true;
  status = read_turn_begin(blob, turn_, session_);
  if (status && info.turn != turn_.turn)
    status = make_error(ErrorCode::corrupt, "SPAN-TURN-DATA", "the frame belongs to " + turn_name(info.turn) + ", its content to " + turn_name(turn_.turn));
  turn_.turn = info.turn;
}

void SessionBuilder::end_turn(const FrameInfo& info, const Blob& blob) {
  if (!open_ || info.turn != turn_.turn) {
    if (open_) lose_turn(turn_.turn, "was not finished");
    lose_turn(info.turn, "cannot be read");
    open_ = false;
    return;
  }
  open_ = false;
  if (!complete(turn_, blob, session_.header)) whole_ = false;
  if (!whole_ || !parts_.contains("mass")) return lose_turn(info.turn, "is left out: a part of it cannot be read");
  // A turn that is not there at all, not even in pieces: sums through time lack it.
  for (uint32_t t = session_.turns.empty() ? 0 : session_.turns.back().turn + 1; t < turn_.turn && lost_.size() < kMaxDamages; ++t)
    if (!lost_.contains(t)) lose_turn(t, "is missing");
  if (details_)
    for (const std::string& kind : drop_incomplete_details(turn_, blob))
      find({Grade::loss, "SPAN-DETAIL-LOST", turn_name(turn_.turn) + ": " + kind + " is left out, a part of it cannot be read", {}, {}});
  if (auto f = dropped_finding(turn_)) find(*f);
  session_.turns.push_back(std::move(turn_));
  turn_ = TurnRecord{};
}

void SessionBuilder::lose_turn(uint32_t turn, const std::string& why) {
  if (lost_.insert(turn).second) find({Grade::loss, "SPAN-TURN-LOST", turn_name(turn) + " " + why, {}, {}});
}

Result<SessionData> SessionBuilder::finish() {
  if (!have_header_) return make_error(ErrorCode::corrupt, "SPAN-NO-HEADER", "the session header cannot be read", session_.path);
  if (open_ && lost_.insert(turn_.turn).second)
    find({Grade::loss, "SPAN-TURN-LOST", "the file ends inside " + turn_name(turn_.turn), {}, {}});
  open_ = false;
  return std::move(session_);
}

Result<std::shared_ptr<const SessionData>> load_session(const SessionReader& reader, bool details) {
  SessionBuilder builder(reader.path(), reader.session_id(), details);
  for (const Finding& f : reader.findings()) builder.find(f);
  for (size_t i = 0; i < reader.frames().size(); ++i) {
    const FrameInfo& info = reader.frames()[i];
    if (version_of(info.kind) == 0 || (!details && is_detail_kind(info.kind))) continue;
    SPANSCOPE_TRY(builder.add(info, reader.frame(i)));
  }
  auto session = builder.finish();
  if (!session) return std::move(session).error();
  session->file_bytes = reader.file_bytes();
  session->finished = reader.finished();
  return std::make_shared<const SessionData>(std::move(*session));
}

Result<std::shared_ptr<const SessionData>> load_session(const std::string& path, bool details) {
  auto reader = SessionReader::open(path);
  if (!reader) return std::move(reader).error();
  return load_session(**reader, details);
}

}  // namespace spanscope
