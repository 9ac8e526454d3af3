// SPDX-License-Identifier: GPL-3.0-or-later
// SessionData <-> frames: which tensors a frame of each kind holds. The only place that knows both sides.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/file/session_reader.h"
#include "core/file/session_writer.h"
#include "core/record/session_data.h"

namespace spanscope {

Status write_header(SessionWriter& writer, const SessionHeader& header);
// Spans and messages that are new since `first_span` / `first_message`.
Status write_ledger(SessionWriter& writer, const Ledger& ledger, size_t first_span,
                    const std::vector<MessageInfo>& messages, size_t first_message);
Status write_turn(SessionWriter& writer, const TurnRecord& turn, const SessionHeader& header, const Ledger& ledger);
Status write_closing(SessionWriter& writer, const ClosingScalars& closing);
Status write_gc(SessionWriter& writer, const GcRecord& gc);  // behind the ledger
// Findings about the conversation (what the model does not read, say). They come back in SessionData::findings.
Status write_findings(SessionWriter& writer, const std::vector<Finding>& findings);
// What to say about a turn that had more read events than a turn may keep.
std::optional<Finding> dropped_finding(const TurnRecord& turn);
std::optional<Finding> dropped_finding(const TurnRecord& turn, uint64_t kept);  // when the events are not at hand

// Reads a session. Damaged or missing frames become findings and missing turns, never wrong numbers. details: token
// statistics, rows, pairs, keys and values too; they may be larger than memory, and no view needs them. What is not read is
// not checked either: verify does that.
Result<std::shared_ptr<const SessionData>> load_session(const std::string& path, bool details = false);
Result<std::shared_ptr<const SessionData>> load_session(const SessionReader& reader, bool details = false);

}  // namespace spanscope
