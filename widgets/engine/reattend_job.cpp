// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/engine/reattend_job.h"

#include <chrono>

#include "core/model/weights.h"
#include "core/reattend/context.h"

namespace spanscope {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Passes everything on and counts the rows that went through: the only way to know how far a pass is.
class CountingBackend : public Backend {
 public:
  CountingBackend(Backend& inner, std::function<void(uint64_t)> rows) : inner_(inner), rows_(std::move(rows)) {}
  const Model& model() const override { return inner_.model(); }
  std::string name() const override { return inner_.name(); }
  unsigned threads() const override { return inner_.threads(); }
  std::unique_ptr<Cache> new_cache(uint32_t hint, bool originals) const override {
    return inner_.new_cache(hint, originals);
  }
  Result<ForwardResult> forward(Cache& cache, const Batch& batch, const ForwardOptions& options) override {
    auto result = inner_.forward(cache, batch, options);
    done_ += batch.ids.size();
    if (result) rows_(done_);
    return result;
  }

 private:
  Backend& inner_;
  std::function<void(uint64_t)> rows_;
  uint64_t done_ = 0;
};

Error cancelled() { return make_error(ErrorCode::cancelled, "SPAN-CANCELLED", "stopped before it was done"); }

// A rebuild in short passes can be stopped within a second and shows how far it is.
constexpr uint32_t kRebuildPass = 128;

}  // namespace

ReattendState::ReattendState(MakeBackend make_backend) : make_backend_(std::move(make_backend)) {}
ReattendState::~ReattendState() = default;

Status ReattendState::open(const SessionData& session, const std::string& model_path) {
  if (model_path.empty()) {
    Error e = make_error(ErrorCode::not_found, "SPAN-MODEL-FILE", "asking needs the model this session was recorded with");
    e.advice.push_back("recorded with " + session.header.model_path);
    return e;
  }
  if (!model_ || opened_as_ != model_path) {
    backend_.reset();
    cache_.reset();
    tokenizer_.reset();
    template_.reset();
    model_.reset();
    auto model = load_model(model_path);
    if (!model) return std::move(model).error();
    auto tokenizer = make_tokenizer((*model)->vocabulary);
    if (!tokenizer) return std::move(tokenizer).error();
    model_ = *model;
    opened_as_ = model_path;
    tokenizer_ = *tokenizer;
  }
  return check_same_model(session, model_->digest, tokenizer_->digest(), model_path);
}

Status ReattendState::check(const SessionData& session, const std::string& model_path) {
  return open(session, model_path);
}

Result<ReattendOutcome> ReattendState::ask(const ReattendQuestion& question, std::stop_token stop,
                                           const std::function<void(const ReattendProgress&)>& progress) {
  const SessionData& session = *question.session;
  ReattendOutcome out;
  out.question = question;
  auto start = Clock::now();
  progress({"opening the model", 0, 0});
  const bool kept_model = model_ && opened_as_ == question.model_path;
  SPANSCOPE_TRY(open(session, question.model_path));
  if (!template_) {
    auto made = make_chat_template(model_->chat_template, model_->vocabulary);
    if (!made) return std::move(made).error();
    template_ = *made;
  }
  auto recorded = recorded_context(session);
  if (!recorded) return std::move(recorded).error();
  out.turn = recorded->turn;
  auto ids = question_tokens(session, *recorded, *tokenizer_, *template_, question.text);
  if (!ids) return std::move(ids).error();
  out.question_tokens = uint32_t(ids->size());
  if (!backend_) {
    auto backend = make_backend_(model_);
    if (!backend) return std::move(backend).error();
    backend_ = std::move(*backend);
  }
  if (!kept_model) out.seconds_model = seconds_since(start);
  out.backend = backend_->name();
  out.threads = backend_->threads();
  if (stop.stop_requested()) return cancelled();

  if (!cache_ || cache_session_.lock() != question.session || cache_turn_ != recorded->turn) {
    cache_.reset();
    start = Clock::now();
    const uint64_t total = recorded->ids.size();
    progress({"rebuilding the context", 0, total});
    CountingBackend counting(*backend_, [&](uint64_t rows) { progress({"rebuilding the context", rows, total}); });
    std::vector<uint32_t> borders;
    for (uint32_t at = kRebuildPass; at < total; at += kRebuildPass) borders.push_back(at);
    auto cache = rebuild_cache(counting, recorded->ids, stop, borders);
    if (!cache) return std::move(cache).error();
    if (stop.stop_requested()) return cancelled();
    cache_ = std::move(*cache);
    cache_session_ = question.session;
    cache_turn_ = recorded->turn;
    out.seconds_rebuild = seconds_since(start);
    out.rebuilt_tokens = uint32_t(total);
  }
  out.cache_bytes = cache_->bytes();

  ReattendRequest request;
  request.question = std::move(*ids);
  request.answer_tokens = question.answer_tokens;
  request.stop = stop;
  for (TokenId id = 0; id < TokenId(model_->recipe.vocab); ++id)
    if (tokenizer_->ends_generation(id)) request.stop_ids.push_back(id);
  const auto run = [&](ReattendMode mode, const char* stage) -> Result<ReattendRun> {
    request.mode = mode;
    request.subset = mode == ReattendMode::kept_keys ? question.subset : std::vector<SpanId>{};
    const uint64_t asked = request.question.size(), total = asked + question.answer_tokens;
    progress({stage, 0, total});
    CountingBackend counting(*backend_, [&](uint64_t rows) { progress({stage, rows, total}); });
    auto result = reattend(counting, *cache_, recorded->layout, session.ledger, request);
    if (!result) return std::move(result).error();
    if (stop.stop_requested()) return cancelled();
    ReattendRun one;
    one.result = std::move(*result);
    // The end marker ends the answer, it is not a part of its text.
    std::vector<TokenId> words = one.result.answer;
    while (!words.empty() && tokenizer_->ends_generation(words.back())) words.pop_back();
    one.answer = tokenizer_->decode(words);
    return one;
  };
  auto main = run(question.mode, question.mode == ReattendMode::kept_keys ? "asking over the kept spans" : "asking over everything");
  if (!main) return std::move(main).error();
  out.main = std::move(*main);
  if (question.compare && question.mode == ReattendMode::kept_keys) {
    auto everything = run(ReattendMode::everything, "asking over everything, to compare");
    if (!everything) return std::move(everything).error();
    out.everything = std::make_shared<ReattendRun>(std::move(*everything));
  }
  return out;
}

}  // namespace spanscope
