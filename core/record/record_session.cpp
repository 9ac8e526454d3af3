// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/record/record_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <random>

#include "core/base/digest.h"
#include "core/base/knobs.h"
#include "core/record/session_schema.h"
#include "core/record/units.h"

namespace spanscope {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kReportSeconds = 0.05;  // between progress reports

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

bool same(const Span& a, const Span& b) {
  return a.kind == b.kind && a.parent == b.parent && a.attached_to == b.attached_to && a.tokens == b.tokens && a.head_skip == b.head_skip &&
         a.tail_skip == b.tail_skip && a.digest == b.digest && a.name == b.name && a.source == b.source && a.birth == b.birth &&
         a.message == b.message && a.replaces == b.replaces && a.pinned == b.pinned;
}

std::string random_salt() {
  std::random_device device;
  std::string out;
  for (int i = 0; i < 8; ++i) {
    out += std::to_string(device());
    out += '-';
  }
  return sha256_hex(out);
}

// Greedy; ties go to the lower id. A value that is no number is never chosen.
Result<TokenId> strongest(const std::vector<float>& logits) {
  int64_t best = -1;
  for (size_t i = 0; i < logits.size(); ++i)
    if (!std::isnan(logits[i]) && (best < 0 || logits[i] > logits[size_t(best)])) best = int64_t(i);
  if (best < 0) return make_error(ErrorCode::invalid, "SPAN-LOGITS", "the model's output holds no numbers: nothing can be generated");
  return TokenId(best);
}

// Without text nothing may lead back to it: names begin with the message's words, digests of short texts can be guessed.
Ledger without_text(const Ledger& ledger, const std::string& salt) {
  Ledger out = ledger;
  for (Span& s : out.spans) {
    if (!s.digest.empty()) s.digest = sha256_hex(salt + s.digest);
    if (s.kind != SpanKind::content && s.kind != SpanKind::parent) continue;
    s.name = s.message >= 0 ? "message " + std::to_string(s.message) : s.role;
    s.producer.clear();
  }
  return out;
}

Error cannot_append(const std::string& what) { return make_error(ErrorCode::invalid, "SPAN-APPEND", what, "--append"); }

// A turn that ran again against what the session holds of it.
Status compare_turns(const TurnRecord& now, const TurnRecord& then) {
  const auto differs = [&](const std::string& what) {
    return cannot_append(fmt::format("turn {}: {} than when the session was recorded: it is another conversation, model or setting", then.turn + 1, what));
  };
  if (now.turn != then.turn) return differs("it has another number");
  if (now.phase != then.phase || now.new_ids != then.new_ids) return differs("other tokens are run");
  const auto same_place = [](const LayoutEntry& a, const LayoutEntry& b) { return a.leaf == b.leaf && a.slot == b.slot && a.len == b.len && a.position == b.position; };
  if (!std::equal(now.layout.begin(), now.layout.end(), then.layout.begin(), then.layout.end(), same_place)) return differs("other spans stand in the context");
  if (now.mass_qk.size() != then.mass_qk.size()) return differs("other spans were attended");
  for (size_t i = 0; i < now.mass_qk.size(); ++i)
    if (!(std::fabs(now.mass_qk[i] - then.mass_qk[i]) <= 1e-5f * std::max(1.0f, std::fabs(then.mass_qk[i]))))
      return differs(fmt::format("attention differs ({:.6g} for {:.6g})", now.mass_qk[i], then.mass_qk[i]));
  return {};
}

class Loop {
 public:
  Loop(Backend& backend, Replay& replay, const Tokenizer* tokenizer, SessionWriter* writer, SessionHeader header,
       const std::vector<MessageInfo>& messages, const RecordRequest& request)
      : backend_(backend), replay_(replay), tokenizer_(tokenizer), writer_(writer), header_(std::move(header)), messages_(messages),
        request_(request), recorder_(backend.model().recipe, request.recorder) {
    request_.pass_rows = std::clamp<uint32_t>(request_.pass_rows, 1, kMaxPlannedRows);
  }

  Result<RecordOutcome> run() {
    fill_header();
    session_ = std::make_shared<SessionData>();
    session_->header = header_;
    session_->messages = messages_;
    const SessionData* old = request_.append_to.get();
    if (old) {
      SPANSCOPE_TRY(check_append(*old, header_, messages_));
      messages_written_ = old->messages.size();
    } else if (writer_) {
      SPANSCOPE_TRY(write_header(*writer_, header_));
    }
    cache_ = backend_.new_cache(0, request_.recorder.keys != KeyDetail::none || replay_.moves_keys());
    start_ = Clock::now();
    if (request_.record) replay_.set_warmth([this] { return warmth(); });
    const GenerateMode& g = request_.generate;
    if (g.kind != GenerateMode::Kind::none && !tokenizer_)
      return make_error(ErrorCode::unsupported, "SPAN-GENERATE", "generating needs the model's tokenizer", "--generate");
    if (g.kind == GenerateMode::Kind::turn && (g.turn < 1 || g.turn > replay_.turns()))
      return make_error(ErrorCode::invalid, "SPAN-TURN", "turn " + std::to_string(g.turn) + " was asked for, the conversation has " + std::to_string(replay_.turns()), "--generate");
    if (g.kind == GenerateMode::Kind::open && !ends_open())
      return make_error(ErrorCode::invalid, "SPAN-TURN", "the conversation ends with an answer: there is no open turn to answer", "--generate");
    if (g.kind != GenerateMode::Kind::none && g.max_tokens == 0)
      return make_error(ErrorCode::invalid, "SPAN-GENERATE", "an answer needs at least one token", "--max-tokens");
    while (!replay_.done()) {
      if (request_.stop.stop_requested()) {
        outcome_.stopped = true;
        break;
      }
      const uint32_t index = replay_.next_index();
      const bool last = index + 1 == replay_.turns();
      const bool generate = g.kind == GenerateMode::Kind::all || (g.kind == GenerateMode::Kind::turn && index + 1 == g.turn) ||
                            (g.kind == GenerateMode::Kind::open && last && ends_open());
      auto status = generate ? generated_turn() : replayed_turn();
      if (!status) {
        if (status.error().code != ErrorCode::cancelled) return std::move(status).error();
        outcome_.stopped = true;
        break;
      }
      if (generate && g.kind == GenerateMode::Kind::turn) {
        replay_.drop_rest();
        break;
      }
    }
    if (writer_) note_slow_disk();
    session_->findings = replay_.findings();
    session_->findings.insert(session_->findings.end(), findings_.begin(), findings_.end());
    for (const TurnRecord& turn : session_->turns)
      if (auto f = dropped_finding(turn)) session_->findings.push_back(*f);
    if (writer_) {
      std::vector<Finding> noted = replay_.findings();
      noted.insert(noted.end(), findings_.begin(), findings_.end());
      if (request_.append_to)  // the file has those of its own turns
        std::erase_if(noted, [&](const Finding& f) {
          return std::any_of(request_.append_to->findings.begin(), request_.append_to->findings.end(),
                             [&](const Finding& o) { return o.tag == f.tag && o.message == f.message && o.where == f.where; });
        });
      if (!noted.empty()) SPANSCOPE_TRY(write_findings(*writer_, noted));
      if (!session_->turns.empty()) {
        session_->closing = closing();
        SPANSCOPE_TRY(write_closing(*writer_, session_->closing));
      }
      SPANSCOPE_TRY(writer_->finish());
      if (request_.progress) tell_closed(true);
      session_->finished = true;
      session_->file_bytes = writer_->bytes_written();
    }
    if (request_.record) outcome_.session = session_;
    return std::move(outcome_);
  }

 private:
  void fill_header() {
    const Model& m = backend_.model();
    const Recipe& r = m.recipe;
    header_.model_name = r.name;
    header_.model_family = r.family;
    header_.model_path = m.path;
    header_.model_digest = m.digest;
    header_.weight_types = m.weight_types;
    header_.layers = r.layers;
    header_.query_heads = r.query_heads;
    header_.kv_heads = r.kv_heads;
    header_.head_dim = r.head_dim;
    header_.hidden = r.hidden;
    header_.vocab = r.vocab;
    header_.experts = r.experts;
    header_.experts_used = r.experts_used;
    header_.window = r.window;
    header_.window.resize(r.layers, 0);
    header_.moe_layer = r.moe_layer;
    header_.moe_layer.resize(r.layers, 0);
    header_.backend = backend_.name();
    header_.threads = backend_.threads();
    header_.routing = request_.recorder.routing && r.moe_layers() > 0;
    header_.has_text = request_.recorder.text;
    header_.rows = request_.recorder.rows;
    header_.pairs = request_.recorder.pairs;
    header_.keys = request_.recorder.keys;
    header_.values = request_.recorder.values;
    header_.kept_heads = request_.recorder.kept_heads;
    if (request_.recorder.tokens) header_.stat_windows = request_.recorder.stat_windows;
    header_.detail = request_.recorder.tokens ? "token" : request_.recorder.heads ? "head" : "span";
    header_.theta_rec = request_.recorder.theta_rec;
    header_.factor = request_.recorder.factor;
    header_.cap = request_.recorder.cap;
    header_.lambda = request_.recorder.lambda;
    header_.habit_min_rows = request_.recorder.habit_min_rows;
    if (header_.tokenizer_digest.empty() && tokenizer_) header_.tokenizer_digest = tokenizer_->digest();
    if (header_.knobs.empty()) header_.knobs = knobs_set();
    if (writer_) header_.session_id = writer_->session_id();
  }

  // Messages after the last assistant message form an open turn (D2).
  bool ends_open() const { return !messages_.empty() && messages_.back().role != "assistant"; }

  // One pass over slots [begin, end). Returns the last row's logits when asked for.
  Result<std::vector<float>> pass(const TurnPlan& plan, Slot begin, Slot end, const std::vector<RowPhase>& phases, bool logits) {
    fill_positions(plan, begin, end);
    ForwardOptions options;
    options.logits = logits ? LogitRows::last : LogitRows::none;
    options.stop = request_.stop;
    if (request_.record) {
      options.plan = &recorder_.plan_pass(begin, end, phases);
      options.sink = &recorder_;
      options.token_stats = recorder_.token_plan();
      if (options.token_stats) options.token_sink = recorder_.token_sink();
    }
    auto result = backend_.forward(
        *cache_, Batch{std::span(plan.ids).subspan(begin, end - begin), positions_, reach_}, options);
    if (!result) return std::move(result).error();
    done_ += end - begin;
    report(plan.turn, false);
    return std::move(result->logits);
  }

  // Slots [begin, end) in passes that never cross the first answer row, with recording or without: so both compute the same.
  Status passes(const TurnPlan& plan, Slot begin, Slot end) {
    const Slot first_answer = plan.answer_len ? plan.first_answer_row() : end;
    while (begin < end) {
      Slot stop = std::min(end, begin + request_.pass_rows);
      if (begin < first_answer) stop = std::min(stop, std::max(first_answer, begin + 1));
      phases_.assign(plan.phase.begin() + (begin - plan.cached), plan.phase.begin() + (stop - plan.cached));
      auto result = pass(plan, begin, stop, phases_, false);
      if (!result) return std::move(result).error();
      begin = stop;
    }
    return {};
  }

  // A model that changes its rotary factors with length rotates every key otherwise once a sequence is long: what is
  // cached runs again, as recompute rows.
  void rebuild_where_rotation_changes(TurnPlan& plan) {
    const Recipe& recipe = backend_.model().recipe;
    if (plan.cached == 0 || recipe.long_rotary(reach_) == cache_->long_rotary()) return;
    rotation_finding(plan.turn, plan.cached);
    plan.phase.insert(plan.phase.begin(), plan.cached, RowPhase::recompute);
    plan.cached = 0;
    plan.kept.clear();
  }
  void rotation_finding(TurnId turn, uint32_t rows) {
    findings_.push_back({Grade::info, "SPAN-ROTARY-LENGTH",
                         "the sequence passes " + std::to_string(backend_.model().recipe.long_from) +
                             " tokens, where this model rotates all keys otherwise: " + std::to_string(rows) +
                             " cached tokens were run again",
                         "turn " + std::to_string(turn + 1),
                         {}});
  }

  // positions_ of slots [begin, end), by the layout.
  void fill_positions(const TurnPlan& plan, Slot begin, Slot end) {
    positions_.resize(end - begin);
    size_t e = 0;
    for (Slot slot = begin; slot < end; ++slot) {
      while (e + 1 < plan.layout.size() && slot >= plan.layout[e].slot + plan.layout[e].len) ++e;
      positions_[slot - begin] = e < plan.layout.size() ? plan.layout[e].position + (slot - plan.layout[e].slot) : slot;
    }
  }

  // The keys that the turn keeps, at the positions that it gives them.
  Status keep_keys(const TurnPlan& plan) {
    if (plan.kept.empty()) {
      cache_->truncate(plan.cached);
    } else {
      uint64_t kept = 0, behind = 0;
      for (const SlotRange& r : plan.kept) {
        if (r.begin < behind || r.end <= r.begin || r.end > cache_->size()) behind = UINT64_MAX;
        else behind = r.end;
        kept += r.end - r.begin;
        if (behind == UINT64_MAX) break;
      }
      if (behind == UINT64_MAX || kept != plan.cached)
        return make_error(ErrorCode::invalid, "SPAN-RECORDER", fmt::format("turn {} keeps slots that the cache of {} slots does not hold", plan.turn + 1, cache_->size()));
      cache_ = cache_->select(plan.kept);
    }
    fill_positions(plan, 0, plan.cached);
    for (Slot slot = 0; slot < plan.cached; ++slot)
      if (cache_->position(slot) != positions_[slot]) return cache_->move_to(positions_);
    return {};
  }

  Status begin(TurnPlan& plan) {
    fill_positions(plan, plan.executed_end ? plan.executed_end - 1 : 0, plan.executed_end);
    reach_ = positions_.empty() ? 0 : uint64_t(positions_.back()) + 1;
    rebuild_where_rotation_changes(plan);
    if (plan.kept.empty() && plan.cached > cache_->size())
      return make_error(ErrorCode::invalid, "SPAN-RECORDER",
                        "turn " + std::to_string(plan.turn + 1) + " builds on " + std::to_string(plan.cached) + " cached tokens, the cache holds " + std::to_string(cache_->size()));
    SPANSCOPE_TRY(keep_keys(plan));
    if (request_.record) recorder_.begin_turn(plan, replay_.ledger());
    return {};
  }

  Status replayed_turn() {
    auto plan = replay_.next();
    if (!plan) return std::move(plan).error();
    SPANSCOPE_TRY(begin(*plan));
    const Slot answer = plan->answer_len ? std::max(plan->first_answer_row(), plan->cached) : plan->executed_end;
    auto start = Clock::now();
    SPANSCOPE_TRY(passes(*plan, plan->cached, std::min(answer, plan->executed_end)));
    const double prompt = since(start);
    start = Clock::now();
    SPANSCOPE_TRY(passes(*plan, std::min(answer, plan->executed_end), plan->executed_end));
    return close(*plan, prompt, since(start));
  }

  Status generated_turn() {
    const Recipe& recipe = backend_.model().recipe;
    auto planned = replay_.begin_answer(request_.generate.max_tokens);
    if (!planned) return std::move(planned).error();
    TurnPlan plan = std::move(*planned);
    const Slot prompt_end = plan.cached + Slot(plan.phase.size());  // the first answer row included
    plan.executed_end = prompt_end;
    const uint32_t cached = plan.cached;
    SPANSCOPE_TRY(begin(plan));
    const bool rebuilt = plan.cached != cached;
    auto start = Clock::now();
    SPANSCOPE_TRY(passes(plan, plan.cached, prompt_end - 1));
    const double prompt = since(start);
    start = Clock::now();
    std::vector<TokenId> generated;
    bool cut = false;
    Slot at = prompt_end - 1;
    phases_.assign(1, RowPhase::answer);
    for (;;) {
      SPANSCOPE_TRY(rebuild_inside_answer(plan, at));
      auto logits = pass(plan, at, at + 1, phases_, true);
      if (!logits) return std::move(logits).error();
      ++at;
      auto chosen = strongest(*logits);
      if (!chosen) return std::move(chosen).error();
      const TokenId id = *chosen;
      generated.push_back(id);
      if (tokenizer_->ends_generation(id)) break;
      if (generated.size() >= request_.generate.max_tokens || (recipe.context && at >= recipe.context)) {
        cut = true;
        break;
      }
      plan.ids.push_back(id);  // slot `at`
    }
    auto finished = replay_.finish_answer(generated, cut);
    if (!finished) return std::move(finished).error();
    if (rebuilt) {
      finished->phase.insert(finished->phase.begin(), finished->cached, RowPhase::recompute);
      finished->cached = 0;
      finished->kept.clear();
    }
    std::vector<TokenId> words = generated;
    if (!cut) words.pop_back();
    outcome_.generated.push_back(tokenizer_->decode(words));
    note_answer(finished->message);
    return close(*finished, prompt, since(start));
  }

  // The same in the middle of an answer: the rows so far are recorded already, so they run again unrecorded.
  Status rebuild_inside_answer(const TurnPlan& plan, Slot at) {
    fill_positions(plan, at, at + 1);  // a gap before it counts
    reach_ = uint64_t(positions_[0]) + 1;
    if (cache_->size() == 0 || backend_.model().recipe.long_rotary(reach_) == cache_->long_rotary()) return {};
    rotation_finding(plan.turn, at);
    cache_->truncate(0);
    const std::vector<RowPhase> answer = phases_;
    for (Slot begin = 0; begin < at; begin += request_.pass_rows) {
      const Slot end = std::min(at, begin + request_.pass_rows);
      auto result = pass(plan, begin, end, std::vector<RowPhase>(end - begin, RowPhase::unrecorded), false);
      if (!result) return std::move(result).error();
    }
    phases_ = answer;
    return {};
  }

  // An open turn's answer is a message that the conversation did not have; one that replaces an answer has lost its id.
  void note_answer(int32_t message) {
    if (message < 0) return;
    const size_t at = size_t(message);
    if (at >= messages_.size()) {
      messages_.resize(at + 1);
      messages_[at].role = "assistant";
    } else {
      messages_[at].id.clear();
    }
    session_->messages = messages_;
  }

  Status close(const TurnPlan& plan, double prompt, double answer) {
    outcome_.seconds_prompt += prompt;
    outcome_.seconds_answer += answer;
    for (RowPhase p : plan.phase) ++(p == RowPhase::answer ? outcome_.answer_rows : outcome_.prompt_rows);
    if (request_.record) {
      SPANSCOPE_TRY(recorder_.take_cache(*cache_, plan));
      auto turn = recorder_.close_turn(plan, replay_.ledger());
      if (!turn) return std::move(turn).error();
      turn->seconds_prompt = prompt;
      turn->seconds_answer = answer;
      const Ledger ledger = header_.has_text ? replay_.ledger() : without_text(replay_.ledger(), salt_);
      if (const SessionData* old = request_.append_to.get(); old && session_->turns.size() < old->turns.size()) {
        SPANSCOPE_TRY(compare_turns(*turn, old->turns[session_->turns.size()]));
      } else if (writer_) {
        SPANSCOPE_TRY(write_changes(ledger));
        SPANSCOPE_TRY(write_turn(*writer_, *turn, header_, ledger));
        auto mark = writer_->request_sync();
        if (!mark) return std::move(mark).error();
        mark_ = *mark;
        turn->drop_details();  // the file has them: nobody keeps gigabytes for nothing
      }
      session_->ledger = ledger;
      session_->turns.push_back(std::move(*turn));
    }
    report(plan.turn, true);
    return {};
  }

  // New spans, and earlier ones that changed: the ledger as it stands from the first difference on.
  Status write_changes(const Ledger& ledger) {
    const std::vector<Span>& old = session_->ledger.spans;
    size_t first = 0;
    while (first < old.size() && first < ledger.spans.size() && same(old[first], ledger.spans[first])) ++first;
    const size_t reached = messages_written_;
    if (first == ledger.spans.size() && reached == messages_.size()) return {};
    SPANSCOPE_TRY(write_ledger(*writer_, ledger, first, messages_, reached));
    messages_written_ = messages_.size();
    return {};
  }

  // What was attended so far, for a replay that lets the coldest go: consumer mass (context-views A4).
  std::vector<Warmth> warmth() const {
    std::vector<Warmth> out;
    if (session_->turns.empty()) return out;
    const Recurrence r = replay_recurrence(*session_, RowSet::consumer, header_.lambda, session_->turns.back().turn);
    for (size_t i = 0; i < r.ema.size(); ++i) out.push_back({r.ema[i].n, r.cumulative[i].n});
    return out;
  }

  ClosingScalars closing() const {
    ClosingScalars c;
    for (RowSet rows : {RowSet::answer, RowSet::all, RowSet::consumer}) {
      const Recurrence r = replay_recurrence(*session_, rows, header_.lambda, session_->turns.back().turn);
      for (const Sums& s : r.ema) c.ema_n.push_back(s.n), c.ema_triples.push_back(s.triples), c.ema_sink.push_back(s.sink), c.ema_u.push_back(s.u);
      for (const Sums& s : r.cumulative) c.sum_n.push_back(s.n), c.sum_triples.push_back(s.triples), c.sum_sink.push_back(s.sink), c.sum_u.push_back(s.u);
    }
    return c;
  }

  void report(TurnId turn, bool closed) {
    if (!request_.progress) return;
    tell_closed(false);
    const double now = since(start_);
    if (!closed && now - reported_ < kReportSeconds) return;
    reported_ = now;
    RecordProgress p;
    p.turn = turn + 1;
    p.turns = replay_.turns();
    p.tokens_done = done_;
    // Without a total the turns are taken to be about as long as so far.
    const double turns_done = closed ? turn + 1 : std::max(0.5, turn + 0.5);
    p.tokens_total = request_.tokens_total ? request_.tokens_total : uint64_t(double(done_) * double(p.turns) / turns_done);
    p.tokens_total = std::max(p.tokens_total, done_);
    p.seconds = now;
    p.tokens_per_second = p.seconds > 0 ? double(done_) / p.seconds : 0;
    p.seconds_left = p.tokens_per_second > 0 ? double(p.tokens_total - done_) / p.tokens_per_second : 0;
    p.turn_closed = closed;
    if (!closed) return tell(p);
    closed_.push_back({mark_, p});
    tell_closed(false);
  }

  void tell(RecordProgress& p) {
    p.file_bytes = writer_ ? writer_->bytes_written() : 0;
    request_.progress(p);
  }

  // A turn is said to be closed when it is on disk: what was said stays true when the machine stops.
  void tell_closed(bool all) {
    while (!closed_.empty() && (all || !writer_ || closed_.front().mark <= writer_->synced())) {
      tell(closed_.front().progress);
      closed_.pop_front();
    }
  }

  // The engine went on while frames were written, unless more came than the queue holds.
  void note_slow_disk() {
    const double waited = writer_->seconds_waited(), total = since(start_);
    if (waited < 0.1 || waited < 0.01 * total) return;
    findings_.push_back({Grade::warning, "SPAN-DISK-SLOW",
                         fmt::format("the disk was slower than the recording: the model waited {:.1f} of {:.1f} s for it", waited, total), {}, {}});
  }

  Backend& backend_;
  Replay& replay_;
  const Tokenizer* tokenizer_;
  SessionWriter* writer_;
  SessionHeader header_;
  std::vector<MessageInfo> messages_;
  std::vector<Finding> findings_;  // of this run; the replay has its own
  uint64_t reach_ = 0;             // positions that this turn's sequence reaches
  RecordRequest request_;
  Recorder recorder_;
  RecordOutcome outcome_;
  std::shared_ptr<SessionData> session_;
  std::unique_ptr<Cache> cache_;
  std::vector<TokenPos> positions_;
  std::vector<RowPhase> phases_;
  const std::string salt_ = random_salt();
  size_t messages_written_ = 0;
  uint64_t done_ = 0, mark_ = 0;
  struct Closed {
    uint64_t mark;  // of the writer: reached, and the turn is on disk
    RecordProgress progress;
  };
  std::deque<Closed> closed_;  // turns that are not on disk yet
  double reported_ = -1;
  Clock::time_point start_;
};

}  // namespace

Status check_append(const SessionData& old, const SessionHeader& now, const std::vector<MessageInfo>& messages) {
  const SessionHeader& h = old.header;
  const auto same = [](const std::string& what, const auto& then, const auto& wanted) -> Status {
    if (then == wanted) return {};
    return cannot_append(what + " is not what the session was recorded with");
  };
  SPANSCOPE_TRY(same("the model", h.model_digest, now.model_digest));
  SPANSCOPE_TRY(same("the tokenizer", h.tokenizer_digest, now.tokenizer_digest));
  SPANSCOPE_TRY(same("--detail", h.detail, now.detail));
  SPANSCOPE_TRY(same("--rows", h.rows, now.rows));
  SPANSCOPE_TRY(same("--pairs", h.pairs, now.pairs));
  SPANSCOPE_TRY(same("--keys", h.keys, now.keys));
  SPANSCOPE_TRY(same("--values", h.values, now.values));
  SPANSCOPE_TRY(same("--heads or --layers", h.kept_heads, now.kept_heads));
  SPANSCOPE_TRY(same("--windows", h.stat_windows, now.stat_windows));
  SPANSCOPE_TRY(same("--routing", h.routing, now.routing));
  SPANSCOPE_TRY(same("--theta-rec", h.theta_rec, now.theta_rec));
  SPANSCOPE_TRY(same("--read-factor", h.factor, now.factor));
  SPANSCOPE_TRY(same("--lambda", h.lambda, now.lambda));
  if (!h.redacted.empty() || !h.has_text || !now.has_text)
    return cannot_append("a session without text cannot be compared with the conversation, so it cannot be continued");
  if (!old.gc.spans.empty()) return cannot_append("gc dropped numbers of its turns: record the conversation anew");
  for (size_t t = 0; t < old.turns.size(); ++t) {
    if (old.turns[t].turn != t) return cannot_append(fmt::format("turn {} of the session is lost", t + 1));
    if (old.turns[t].open || old.turns[t].generated)
      return cannot_append(fmt::format("turn {} was {}: only replayed turns with an answer can be run again", t + 1, old.turns[t].open ? "open" : "generated"));
  }
  for (size_t m = 0; m < old.messages.size(); ++m)
    if (m >= messages.size() || messages[m].role != old.messages[m].role || messages[m].name != old.messages[m].name || messages[m].id != old.messages[m].id)
      return cannot_append(fmt::format("message {} of the session is not in the conversation", m));
  return {};
}

Result<RecordOutcome> record_session(Backend& backend, Replay& replay, const Tokenizer* tokenizer, SessionWriter* writer, SessionHeader header,
                                     const std::vector<MessageInfo>& messages, const RecordRequest& request) {
  return Loop(backend, replay, tokenizer, writer, std::move(header), messages, request).run();
}

}  // namespace spanscope
