// SPDX-License-Identifier: GPL-3.0-or-later
// The recording loop: replay or generate turn by turn on a backend, record, write frames, report progress.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "core/file/session_writer.h"
#include "core/model/backend.h"
#include "core/record/recorder.h"
#include "core/record/session_data.h"
#include "core/span/replay.h"
#include "core/text/tokenizer.h"

namespace spanscope {

struct RecordProgress {
  uint32_t turn = 0, turns = 0;       // 1-based turn now running, of
  uint64_t tokens_done = 0, tokens_total = 0;  // total is an estimate while generating
  double tokens_per_second = 0, seconds_left = 0;
  uint64_t file_bytes = 0;
  bool turn_closed = false;           // this report closes a turn
  double seconds = 0;
};

struct GenerateMode {
  enum class Kind : uint8_t { none, open, turn, all } kind = Kind::none;
  uint32_t turn = 0;          // 1-based, with Kind::turn
  uint32_t max_tokens = 1024;
};

struct RecordRequest {
  RecorderOptions recorder;
  GenerateMode generate;
  bool record = true;         // false: the same passes without plan and file (for measurements)
  uint32_t pass_rows = 512;   // prefill pass size, at most kMaxPlannedRows
  uint64_t tokens_total = 0;  // rows of the whole replay when known (progress); 0: estimated from the turns
  // Goes on behind a session's turns: they run again without being stored (which makes cache and habit what they were, D2),
  // and must come out as the session says: else SPAN-APPEND. The writer has been resumed on that session's file.
  std::shared_ptr<const SessionData> append_to;
  std::function<void(const RecordProgress&)> progress;
  std::stop_token stop;
};

struct RecordOutcome {
  std::shared_ptr<const SessionData> session;  // as recorded (null with record = false)
  bool stopped = false;
  double seconds_prompt = 0, seconds_answer = 0;
  uint64_t prompt_rows = 0, answer_rows = 0;
  std::vector<std::string> generated;  // decoded answers
};

// Whether a session can be continued by these settings and messages; SPAN-APPEND names what differs.
Status check_append(const SessionData& session, const SessionHeader& header, const std::vector<MessageInfo>& messages);

// writer may be null (nothing is written). The header's model fields are filled from the backend.
Result<RecordOutcome> record_session(Backend& backend, Replay& replay, const Tokenizer* tokenizer, SessionWriter* writer,
                                     SessionHeader header, const std::vector<MessageInfo>& messages,
                                     const RecordRequest& request);

}  // namespace spanscope
