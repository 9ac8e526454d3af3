// SPDX-License-Identifier: GPL-3.0-or-later
// One question over a recorded context, start to end: open the model, compare digests, run the recorded tokens again, run
// the question and the answer. Model and rebuilt context are kept between questions, so only the first one is slow.
// Thread: the engine thread.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/reattend/reattend.h"
#include "core/record/session_data.h"
#include "core/text/chat_template.h"
#include "core/text/tokenizer.h"

namespace spanscope {

struct ReattendQuestion {
  std::shared_ptr<const SessionData> session;
  std::string model_path;
  std::string text;                 // the question, asked as a user message
  ReattendMode mode = ReattendMode::kept_keys;
  std::vector<SpanId> subset;       // mode A: leaves or parents that stay visible; the sink always stays
  std::string subset_name;          // for people: "view: total_reads >= 145"
  uint32_t answer_tokens = 48;
  bool compare = false;             // mode A: run E too
};

// One mode's run.
struct ReattendRun {
  ReattendResult result;
  std::string answer;               // decoded
};

struct ReattendOutcome {
  ReattendQuestion question;
  TurnId turn = 0;                  // the recorded context's last turn
  uint32_t question_tokens = 0;
  ReattendRun main;
  std::shared_ptr<ReattendRun> everything;  // E beside A, if asked for
  double seconds_model = 0, seconds_rebuild = 0;  // 0: kept from an earlier question
  uint32_t rebuilt_tokens = 0;      // 0: kept
  uint64_t cache_bytes = 0;
  std::string backend;
  uint32_t threads = 0;
};

struct ReattendProgress {
  std::string stage;                // "rebuilding the context"
  uint64_t done = 0, total = 0;     // tokens; total 0: not countable
};

// What the engine thread keeps between questions.
class ReattendState {
 public:
  using MakeBackend = std::function<Result<std::unique_ptr<Backend>>(std::shared_ptr<const Model>)>;
  explicit ReattendState(MakeBackend make_backend);
  ~ReattendState();

  // Errors: SPAN-MODEL-FILE (empty path), those of load_model, SPAN-OTHER-MODEL, SPAN-NO-TEXT, a template that is not
  // known, SPAN-CANCELLED. Each has a way out in `advice`.
  Result<ReattendOutcome> ask(const ReattendQuestion& question, std::stop_token stop,
                              const std::function<void(const ReattendProgress&)>& progress);
  // The model file alone: opens it and compares digests with the session's.
  Status check(const SessionData& session, const std::string& model_path);

 private:
  Status open(const SessionData& session, const std::string& model_path);

  MakeBackend make_backend_;
  std::shared_ptr<const Model> model_;
  std::string opened_as_;  // what it was asked for by: "ollama:NAME" is no path
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::shared_ptr<const ChatTemplate> template_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Cache> cache_;
  std::weak_ptr<const SessionData> cache_session_;
  TurnId cache_turn_ = kNone32;
};

}  // namespace spanscope
