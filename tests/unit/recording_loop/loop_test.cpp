// SPDX-License-Identifier: GPL-3.0-or-later
// The recording loop over a backend that notes its passes: borders, generation, stopping, progress.
#include <unistd.h>

#include <filesystem>

#include "core/base/files.h"
#include "core/chat/conversation.h"
#include "core/cpu/backends.h"
#include "core/model/weights.h"
#include "core/record/record_session.h"
#include "core/record/session_schema.h"
#include "core/text/chat_template.h"
#include "tests/support/oracles.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {

template <class T>
T take(Result<T> result) {
  if (!result) FAIL(result.error().line());
  return std::move(*result);
}

struct Pass {
  uint32_t begin, rows;
  bool planned;
  std::vector<RowPhase> phases;
};

// The demo model behind a notebook.
class Spy : public Backend {
 public:
  Spy() : model_(take(load_model(demo("relay-dense.gguf")))), inner_(take(make_reference_backend(model_, {1}))) {}
  const Model& model() const override { return *model_; }
  std::string name() const override { return "spy"; }
  unsigned threads() const override { return 1; }
  std::unique_ptr<Cache> new_cache(uint32_t hint, bool originals) const override {
    return inner_->new_cache(hint, originals);
  }
  Result<ForwardResult> forward(Cache& cache, const Batch& batch, const ForwardOptions& options) override {
    passes.push_back({cache.size(), uint32_t(batch.ids.size()), options.plan != nullptr, options.plan ? options.plan->row_phase : std::vector<RowPhase>{}});
    if (stop_after && passes.size() >= stop_after) stop->request_stop();
    auto result = inner_->forward(cache, batch, options);
    if (result && change && !result->logits.empty()) change(result->logits);
    return result;
  }
  std::vector<Pass> passes;
  size_t stop_after = 0;
  std::stop_source* stop = nullptr;
  std::function<void(std::vector<float>&)> change;

 private:
  std::shared_ptr<const Model> model_;
  std::unique_ptr<Backend> inner_;
};

struct Talk {
  std::shared_ptr<const Tokenizer> tokenizer;
  std::unique_ptr<Replay> replay;
  std::vector<MessageInfo> messages;
};

Talk talk(const Model& model, const std::string& json) {
  Talk t;
  auto c = take(parse_conversation(json, "talk"));
  for (const Message& m : c.messages) t.messages.push_back({m.role, m.name, m.id});
  t.tokenizer = take(make_tokenizer(model.vocabulary));
  t.replay = take(make_chat_replay(std::move(c), t.tokenizer, take(make_chat_template(model.chat_template, model.vocabulary))));
  return t;
}

const char* kTalk = R"({"messages":[{"role":"user","content":"Please note: the locker code for Nora is 829."},
 {"role":"assistant","content":"Noted."},{"role":"user","content":"Someone at the desk needs the locker code for Nora."},
 {"role":"assistant","content":"The locker code for Nora is 829."}]})";
const char* kOpenTalk = R"({"messages":[{"role":"user","content":"Please note: the locker code for Nora is 829."},
 {"role":"assistant","content":"Noted."},{"role":"user","content":"Someone at the desk needs the locker code for Nora."}]})";

RecordOutcome record(Spy& spy, Talk& t, const RecordRequest& request, SessionWriter* writer = nullptr) {
  return take(record_session(spy, *t.replay, t.tokenizer.get(), writer, {}, t.messages, request));
}

}  // namespace

TEST_CASE("passes break before the first answer row, recording or not") {
  std::vector<std::pair<uint32_t, uint32_t>> borders[2];
  for (bool on : {false, true}) {
    Spy spy;
    Talk t = talk(spy.model(), kTalk);
    RecordRequest request;
    request.record = on;
    request.pass_rows = 10;
    const RecordOutcome outcome = record(spy, t, request);
    CHECK((outcome.session != nullptr) == on);
    for (const Pass& p : spy.passes) {
      CHECK(p.planned == on);
      CHECK(p.rows <= 10);
      borders[on].push_back({p.begin, p.rows});
      if (!on) continue;
      const bool answers = p.phases[0] == RowPhase::answer;
      for (RowPhase x : p.phases) CHECK((x == RowPhase::answer) == answers);
    }
    if (on) {
      uint32_t at = 0;
      for (const TurnRecord& turn : outcome.session->turns) {
        CHECK(turn.executed_begin == at);
        CHECK(turn.answer_rows() == turn.answer_len);
        at = turn.executed_end;
      }
      CHECK(outcome.prompt_rows + outcome.answer_rows == at);
    }
  }
  CHECK(borders[0] == borders[1]);
}

TEST_CASE("generation: the open turn, one turn, all turns") {
  Spy spy;
  {
    Talk t = talk(spy.model(), kOpenTalk);
    RecordRequest request;
    request.generate = {GenerateMode::Kind::open, 0, 32};
    const RecordOutcome outcome = record(spy, t, request);
    REQUIRE(outcome.generated == std::vector<std::string>{"The locker code for Nora is 829."});
    const SessionData& s = *outcome.session;
    REQUIRE(s.turns.size() == 2);
    CHECK(s.turns[1].generated);
    CHECK(s.turns[1].message == 3);
    CHECK(s.turns[1].answer_len == s.turns[1].answer_rows());
    REQUIRE(s.messages.size() == 4);
    CHECK(s.messages[3].role == "assistant");
    CHECK(spy.passes.back().rows == 1);
    // The same answer given, not generated: the same numbers.
    Talk given = talk(spy.model(), kTalk);
    const RecordOutcome replayed = record(spy, given, {});
    const TurnRecord &a = s.turns[1], &b = replayed.session->turns[1];
    CHECK(a.phase == b.phase);
    CHECK(a.new_ids == b.new_ids);
    REQUIRE(a.mass_qk.size() == b.mass_qk.size());
    for (size_t i = 0; i < a.mass_qk.size(); ++i) CHECK(a.mass_qk[i] == Approx(b.mass_qk[i]).margin(1e-4));
    CHECK(a.events.row == b.events.row);
    CHECK(a.events.leaf == b.events.leaf);
  }
  {
    Talk t = talk(spy.model(), kTalk);
    RecordRequest request;
    request.generate = {GenerateMode::Kind::turn, 1, 32};
    const RecordOutcome outcome = record(spy, t, request);
    CHECK(outcome.generated.size() == 1);
    CHECK(outcome.session->turns.size() == 1);  // what came after was dropped
  }
  {
    Talk t = talk(spy.model(), kTalk);
    RecordRequest request;
    request.generate = {GenerateMode::Kind::all, 0, 32};
    const RecordOutcome outcome = record(spy, t, request);
    CHECK(outcome.generated.size() == 2);
    for (const TurnRecord& turn : outcome.session->turns) CHECK(turn.generated);
  }
}

TEST_CASE("a generated answer ends at the limit, and then it is cut") {
  Spy spy;
  Talk t = talk(spy.model(), kOpenTalk);
  RecordRequest request;
  request.generate = {GenerateMode::Kind::open, 0, 3};
  const RecordOutcome outcome = record(spy, t, request);
  const TurnRecord& turn = outcome.session->turns.back();
  CHECK(turn.cut);
  CHECK(turn.answer_len == 3);
  CHECK(turn.answer_rows() == 3);
}

TEST_CASE("greedy: ties go to the lower id, no number is an error") {
  Spy spy;
  spy.change = [](std::vector<float>& logits) {
    std::fill(logits.begin(), logits.end(), 1.0f);
    logits[0] = std::nanf(""), logits[1] = 0;
  };
  Talk t = talk(spy.model(), kOpenTalk);
  RecordRequest request;
  request.generate = {GenerateMode::Kind::open, 0, 2};
  const RecordOutcome outcome = record(spy, t, request);
  const TurnRecord& turn = outcome.session->turns.back();
  CHECK(turn.new_ids.back() == 2);  // the end marker: an empty answer
  CHECK(turn.answer_len == 1);
  CHECK(turn.answer_rows() == 1);
  CHECK(outcome.generated == std::vector<std::string>{""});
  spy.change = [](std::vector<float>& logits) { std::fill(logits.begin(), logits.end(), std::nanf("")); };
  Talk again = talk(spy.model(), kOpenTalk);
  const auto failed = record_session(spy, *again.replay, again.tokenizer.get(), nullptr, {}, again.messages, request);
  REQUIRE_FALSE(failed);
  CHECK(failed.error().tag == "SPAN-LOGITS");
}

TEST_CASE("requests that cannot be met") {
  Spy spy;
  const auto error_of = [&](const char* json, GenerateMode mode) {
    Talk t = talk(spy.model(), json);
    RecordRequest request;
    request.generate = mode;
    const auto r = record_session(spy, *t.replay, t.tokenizer.get(), nullptr, {}, t.messages, request);
    return r ? std::string() : r.error().message;
  };
  CHECK(error_of(kTalk, {GenerateMode::Kind::open, 0, 8}).find("no open turn") != std::string::npos);
  CHECK(error_of(kTalk, {GenerateMode::Kind::turn, 3, 8}).find("turn 3") != std::string::npos);
  CHECK(error_of(kTalk, {GenerateMode::Kind::turn, 0, 8}).find("turn 0") != std::string::npos);
  CHECK_FALSE(error_of(kTalk, {GenerateMode::Kind::all, 0, 0}).empty());
}

TEST_CASE("stopping closes the session; the turn that was running is not in it") {
  const std::string path = (std::filesystem::temp_directory_path() / (std::to_string(::getpid()) + "-stop.span")).string();
  Spy spy;
  std::stop_source stop;
  spy.stop = &stop;
  Talk t = talk(spy.model(), kTalk);
  RecordRequest request;
  request.pass_rows = 10;
  request.stop = stop.get_token();
  {
    Spy counting;
    Talk first = talk(counting.model(), kTalk);
    const RecordOutcome whole = record(counting, first, request);
    size_t first_turn = 0;
    for (const Pass& p : counting.passes) first_turn += p.begin < whole.session->turns[0].executed_end;
    spy.stop_after = first_turn + 2;
  }
  auto writer = take(SessionWriter::create(path, true));
  const RecordOutcome outcome = record(spy, t, request, writer.get());
  CHECK(outcome.stopped);
  writer.reset();
  const auto s = take(load_session(path));
  CHECK(s->finished);
  REQUIRE(s->turns.size() == 1);
  CHECK(s->closing.ema_n.size() == 3 * s->ledger.spans.size());
  CHECK(s->findings.empty());
  std::filesystem::remove(path);
}

TEST_CASE("progress tells every closed turn and never goes back") {
  Spy spy;
  Talk t = talk(spy.model(), kTalk);
  RecordRequest request;
  uint32_t closed = 0;
  uint64_t last = 0;
  request.progress = [&](const RecordProgress& p) {
    CHECK(p.tokens_done >= last);
    CHECK(p.tokens_total >= p.tokens_done);
    CHECK(p.turns == 2);
    CHECK(p.turn <= 2);
    last = p.tokens_done;
    closed += p.turn_closed;
  };
  const RecordOutcome outcome = record(spy, t, request);
  CHECK(closed == 2);
  CHECK(last == outcome.prompt_rows + outcome.answer_rows);
}

TEST_CASE("without text names and digests do not lead back to it") {
  Spy spy;
  Talk one = talk(spy.model(), kTalk), two = talk(spy.model(), kTalk), plain = talk(spy.model(), kTalk);
  RecordRequest request;
  request.recorder.text = false;
  const auto a = record(spy, one, request).session, b = record(spy, two, request).session, open = record(spy, plain, {}).session;
  bool digests = false;
  for (const Span& s : a->ledger.spans) {
    CHECK(s.name.find("locker") == std::string::npos);
    if (s.digest.empty()) continue;
    digests = true;
    CHECK(s.digest != open->ledger[s.id].digest);
    CHECK(s.digest != b->ledger[s.id].digest);  // another salt
  }
  CHECK(digests);
  CHECK(a->turns[0].new_ids.empty());
  CHECK(a->turns[0].new_text.empty());
  CHECK(a->turns[1].mass_qk == open->turns[1].mass_qk);
}
