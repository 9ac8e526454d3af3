// SPDX-License-Identifier: GPL-3.0-or-later
#include <algorithm>

#include "core/record/schema_parts.h"
#include "core/record/session_schema.h"

namespace spanscope {
using namespace schema;

Result<std::shared_ptr<const SessionData>> load_session(const SessionReader& reader) {
  auto s = std::make_shared<SessionData>();
  s->path = reader.path();
  s->file_bytes = reader.file_bytes();
  s->finished = reader.finished();
  s->findings = reader.findings();
  auto lose = [&](const Error& e, const std::string& what) {
    s->findings.push_back({Grade::loss, e.tag, what + ": " + e.message, e.where, e.offset});
  };
  bool have_header = false, ledger_ok = true;
  TurnRecord turn;
  bool open_turn = false, whole = true, have_mass = false, have_reads = false;
  std::string why;
  for (size_t i = 0; i < reader.frames().size(); ++i) {
    const FrameInfo& info = reader.frames()[i];
    static const char* known[] = {"session", "ledger", "turn_begin", "mass", "reads", "routing", "turn_end", "closing", "note"};
    if (std::none_of(std::begin(known), std::end(known), [&](const char* k) { return info.kind == k; })) continue;
    const std::string what = "frame " + std::to_string(info.seq) + " (" + info.kind + (info.turn == 0xffffffffu ? "" : ", turn " + std::to_string(uint64_t(info.turn) + 1)) + ")";
    Status status;
    if (info.version > kVersion) {
      status = make_error(ErrorCode::unsupported, "SPAN-VERSION",
                          "version " + std::to_string(info.version) + ", this program reads up to " + std::to_string(kVersion), reader.path());
    } else if (auto blob = reader.frame(i); !blob) {
      status = std::move(blob).error();
    } else if (info.kind == "session") {
      auto header = read_header(*blob, reader.path());
      if (!header) return std::move(header).error();
      s->header = std::move(*header);
      s->header.session_id = reader.session_id();
      have_header = true;
    } else if (!have_header) {
      continue;
    } else if (info.kind == "ledger") {
      if (ledger_ok) status = read_ledger(*blob, *s);
      if (!status) ledger_ok = false;
    } else if (info.kind == "turn_begin") {
      if (open_turn) s->findings.push_back({Grade::loss, "SPAN-TURN-LOST", "turn " + std::to_string(turn.turn + 1) + " was not finished", {}, {}});
      turn = TurnRecord{};
      open_turn = true;
      whole = true;
      have_mass = have_reads = false;
      status = read_turn_begin(*blob, turn, *s);
    } else if (info.kind == "mass" || info.kind == "reads" || info.kind == "routing") {
      if (!open_turn || info.turn != turn.turn) continue;  // its beginning is lost, which has been said
      if (whole) status = info.kind == "mass" ? read_mass(*blob, turn, *s) : info.kind == "reads" ? read_events(*blob, turn, *s) : read_routing(*blob, turn, *s);
      have_mass = have_mass || (info.kind == "mass" && status);
      have_reads = have_reads || (info.kind == "reads" && status);
    } else if (info.kind == "turn_end") {
      if (!open_turn || info.turn != turn.turn) {
        s->findings.push_back({Grade::loss, "SPAN-TURN-LOST", "turn " + std::to_string(uint64_t(info.turn) + 1) + " cannot be read", {}, {}});
        continue;
      }
      const auto events = blob->metadata.find("events"), routed = blob->metadata.find("routing");
      if (events == blob->metadata.end() || events->second != std::to_string(turn.events.size())) whole = false;
      if (routed != blob->metadata.end() && (routed->second == "1") != !turn.routing.empty()) whole = false;
      if (whole && have_mass) {
        if (auto f = dropped_finding(turn)) s->findings.push_back(*f);
        s->turns.push_back(std::move(turn));
      }
      else s->findings.push_back({Grade::loss, "SPAN-TURN-LOST", "turn " + std::to_string(uint64_t(info.turn) + 1) + " is left out: a part of it cannot be read", {}, {}});
      turn = TurnRecord{};
      open_turn = false;
    } else if (info.kind == "note") {
      status = read_findings(*blob, *s);
    } else if (info.kind == "closing") {
      status = read_closing(*blob, *s);
    }
    if (!status) {
      lose(status.error(), what);
      whole = false;
    }
  }
  if (!have_header) return make_error(ErrorCode::corrupt, "SPAN-NO-HEADER", "the session header cannot be read", reader.path());
  if (open_turn)
    s->findings.push_back({Grade::loss, "SPAN-TURN-LOST", "the file ends inside turn " + std::to_string(turn.turn + 1), {}, {}});
  return std::shared_ptr<const SessionData>(std::move(s));
}

Result<std::shared_ptr<const SessionData>> load_session(const std::string& path) {
  auto reader = SessionReader::open(path);
  if (!reader) return std::move(reader).error();
  return load_session(**reader);
}
}  // namespace spanscope
