// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/record/head_probe.h"

#include <algorithm>
#include <array>
#include <random>
#include <set>

#include "core/record/session_data.h"

namespace spanscope {
namespace {

// Plain sentences about nothing in particular.
constexpr std::array<const char*, 16> kFiller = {
    " The bus was late again this morning and nobody minded.",
    " A small dog slept under the table while it rained.",
    " We walked along the river until the shops were closed.",
    " Two of the windows on the second floor are still open.",
    " My neighbour grows beans and gives most of them away.",
    " The train to the coast stops at every village on its way.",
    " There was fresh bread in the kitchen and coffee on the stove.",
    " Somebody left a blue coat on the chair beside the door.",
    " In winter the lake is frozen and children play on it.",
    " The old clock in the hall has been wrong for many years.",
    " She wrote three letters and forgot to send any of them.",
    " After lunch the office is quiet and the phones are silent.",
    " The museum opens at ten and the garden one hour later.",
    " He painted the fence green because the shop had no white.",
    " A light wind moved the curtains and the papers on the desk.",
    " They talked about the weather, the harvest and the new road.",
};

Error probe_error(const std::string& message) { return make_error(ErrorCode::unsupported, "SPAN-PROBE", message, "needle prompts"); }

// Whole words with a space in front: what a model has seen everywhere. Where there are too few: any ordinary token.
std::vector<TokenId> needle_words(const Tokenizer& tokenizer, uint32_t vocab, const std::set<TokenId>& taken, size_t least) {
  std::vector<TokenId> words, any;
  const Vocabulary& v = tokenizer.vocabulary();
  for (TokenId id = 0; size_t(id) < v.tokens.size() && uint32_t(id) < vocab; ++id) {
    if (taken.count(id) || tokenizer.is_control(id) || tokenizer.ends_generation(id)) continue;
    if (size_t(id) < v.kinds.size() && v.kinds[size_t(id)] != TokenKind::normal) continue;
    const std::string piece = tokenizer.piece(id);
    if (piece.empty()) continue;
    any.push_back(id);
    const bool word = piece.size() >= 4 && piece[0] == ' ' && std::all_of(piece.begin() + 1, piece.end(), [](char c) { return c >= 'a' && c <= 'z'; });
    if (word) words.push_back(id);
  }
  return words.size() >= least ? words : any;
}

struct Prompt {
  std::vector<TokenId> ids;
  uint32_t needle = 0;     // slot of the needle's first own token
  uint32_t first_row = 0;  // slot of the last cue token: the row that outputs the needle's first token
};

class Prober final : public RecordSink, public TokenStatsSink {
 public:
  Prober(Backend& backend, const ProbeOptions& options) : backend_(backend), o_(options), recipe_(backend.model().recipe) {
    const size_t n = size_t(recipe_.layers) * recipe_.query_heads;
    for (Sums* s : {&copied_, &fed_})
      for (auto* v : {&s->copy, &s->reads, &s->sink, &s->streaming}) v->assign(n, 0);
  }

  Status run(const Prompt& prompt) {
    auto cache = backend_.new_cache(uint32_t(prompt.ids.size()));
    std::vector<TokenPos> positions(prompt.ids.size());
    for (size_t i = 0; i < positions.size(); ++i) positions[i] = TokenPos(i);
    const std::span<const TokenId> ids(prompt.ids);
    for (uint32_t begin = 0; begin < prompt.first_row; begin += o_.pass_rows) {
      const uint32_t end = std::min(prompt.first_row, begin + o_.pass_rows);
      ForwardOptions options;
      options.logits = LogitRows::none;
      options.stop = o_.stop;
      auto result = backend_.forward(*cache, {ids.subspan(begin, end - begin), std::span(positions).subspan(begin, end - begin), prompt.ids.size()}, options);
      if (!result) return std::move(result).error();
    }
    prompt_ = &prompt;
    rows_ = o_.needle;
    make_plan();
    const size_t n = fed_.copy.size();
    argmax_.assign(n * rows_, 0);
    pass_reads_.assign(n, 0), pass_sink_.assign(n, 0), pass_streaming_.assign(n, 0);
    TokenStatsPlan stats;
    ForwardOptions options;
    options.logits = LogitRows::all;
    options.plan = &plan_;
    options.sink = this;
    options.token_stats = &stats;
    options.token_sink = this;
    options.stop = o_.stop;
    auto result = backend_.forward(*cache, {ids.subspan(prompt.first_row, rows_), std::span(positions).subspan(prompt.first_row, rows_), prompt.ids.size()}, options);
    if (!result) return std::move(result).error();
    take(result->logits);
    return {};
  }

  ProbeOutcome finish() const {
    ProbeOutcome out;
    out.prompts = o_.prompts;
    out.recall = recall_ / o_.prompts;
    out.fed = copied_.prompts == 0;
    const Sums& sums = out.fed ? fed_ : copied_;
    out.used = sums.prompts;
    out.map = empty_head_map(backend_.model());
    std::string source = std::to_string(out.used) + " of " + std::to_string(o_.prompts) + " needle prompts of " + std::to_string(o_.length) + " tokens, " +
                         std::to_string(o_.needle) + " rows each, recent window " + std::to_string(o_.recent) + ", seed " + std::to_string(o_.seed);
    if (out.fed) source += "; the model itself output " + std::to_string(int(out.recall * 100 + 0.5)) + " % of the needles, so the fed tokens count";
    const auto table = [&](HeadMeasure measure, const std::vector<double>& values, double by) {
      HeadTable& t = out.map[measure];
      t.source = source;
      for (double x : values) t.value.push_back(float(x / by));
    };
    table(HeadMeasure::copy, sums.copy, sums.prompts);
    table(HeadMeasure::reads, sums.reads, 1);
    table(HeadMeasure::sink, sums.sink, double(sums.prompts) * o_.needle);
    table(HeadMeasure::streaming, sums.streaming, double(sums.prompts) * o_.needle);
    return out;
  }

 private:
  // Leaves: the sink, the needle, and every position that a row's recent window reaches, alone.
  void make_plan() {
    plan_ = {};
    const uint32_t reach = prompt_->first_row + 1 > o_.recent ? prompt_->first_row + 1 - o_.recent : 0;
    first_recent_ = std::max({reach, o_.sink, prompt_->needle + o_.needle});
    plan_.leaves.push_back({0, o_.sink, o_.sink, false});
    plan_.leaves.push_back({prompt_->needle, o_.needle, prompt_->needle + o_.needle, true});
    for (uint32_t slot = first_recent_; slot < prompt_->first_row + rows_; ++slot) plan_.leaves.push_back({slot, 1, slot + 1, false});
    plan_.group_of_leaf.assign(plan_.leaves.size(), -1);
    plan_.group_of_row.assign(rows_, -1);
    plan_.row_phase.assign(rows_, RowPhase::answer);
    plan_.row_query.assign(rows_, 0);
    plan_.query_leaves = 1;
    plan_.want_row_masses = true;
  }

  void on_layer(const LayerRecord& r) override {
    const size_t width = r.leaves + 2;
    for (uint64_t e = 0; e < r.event_count; ++e)
      if (r.events[e].mass > kDisplayTheta) ++pass_reads_[size_t(r.layer) * r.query_heads + r.events[e].head];
    for (uint32_t row = 0; row < r.rows; ++row) {
      const uint32_t slot = prompt_->first_row + row;
      for (uint32_t h = 0; h < r.query_heads; ++h) {
        const float* mass = r.row_mass + (size_t(row) * r.query_heads + h) * width;
        const size_t i = size_t(r.layer) * r.query_heads + h;
        double near = 0;
        for (uint32_t s = 2; s < r.leaves; ++s) {
          const uint32_t key = first_recent_ + (s - 2);
          if (key + o_.recent > slot) near += mass[s];
        }
        const double sink = mass[0] + mass[r.leaves + 1];  // a learned sink is a sink
        pass_sink_[i] += sink;
        pass_streaming_[i] += sink + near;
      }
    }
  }
  void on_tokens(const TokenStats& s) override {
    for (uint32_t h = 0; h < s.query_heads; ++h)
      for (uint32_t row = 0; row < s.rows; ++row)
        argmax_[(size_t(s.layer) * s.query_heads + h) * rows_ + row] = s.row_argmax[size_t(h) * s.rows + row];
  }
  void on_residual(const ResidualStats&) override {}

  void take(const std::vector<float>& logits) {
    const size_t vocab = logits.size() / rows_;
    std::vector<ProbeRow> rows(rows_);
    uint32_t right = 0;
    for (uint32_t r = 0; r < rows_; ++r) {
      const auto begin = logits.begin() + std::ptrdiff_t(r * vocab);
      rows[r].output = TokenId(std::max_element(begin, begin + std::ptrdiff_t(vocab)) - begin);
      right += rows[r].output == prompt_->ids[prompt_->needle + r];
    }
    recall_ += double(right) / rows_;
    if (2 * right > rows_) add(copied_, rows);
    for (uint32_t r = 0; r < rows_; ++r) rows[r].output = prompt_->ids[prompt_->needle + r];
    add(fed_, rows);
  }

  struct Sums {
    uint32_t prompts = 0;
    std::vector<double> copy, reads, sink, streaming;  // [layers][query heads]
  };
  void add(Sums& sums, std::vector<ProbeRow>& rows) const {
    ++sums.prompts;
    for (size_t i = 0; i < sums.copy.size(); ++i) {
      for (uint32_t r = 0; r < rows_; ++r) rows[r].argmax = argmax_[i * rows_ + r];
      sums.copy[i] += copy_score(rows, prompt_->ids, prompt_->needle, o_.needle);
      sums.reads[i] += pass_reads_[i], sums.sink[i] += pass_sink_[i], sums.streaming[i] += pass_streaming_[i];
    }
  }

  Backend& backend_;
  const ProbeOptions& o_;
  const Recipe& recipe_;
  const Prompt* prompt_ = nullptr;
  RecordPlan plan_;
  uint32_t rows_ = 0, first_recent_ = 0;
  std::vector<uint32_t> argmax_;  // [layers][query heads][rows]
  std::vector<double> pass_reads_, pass_sink_, pass_streaming_;
  Sums copied_, fed_;  // prompts that the model copied; all, their fed tokens as outputs
  double recall_ = 0;
};

}  // namespace

double copy_score(const std::vector<ProbeRow>& rows, const std::vector<TokenId>& ids, uint32_t begin, uint32_t len) {
  std::set<TokenId> copied, needle(ids.begin() + begin, ids.begin() + begin + len);
  for (const ProbeRow& r : rows)
    if (r.argmax >= begin && r.argmax < begin + len && ids[r.argmax] == r.output) copied.insert(r.output);
  return needle.empty() ? 0 : double(copied.size()) / double(needle.size());
}

Result<ProbeOutcome> probe_heads(Backend& backend, const Tokenizer& tokenizer, const ProbeOptions& o) {
  const Recipe& recipe = backend.model().recipe;
  const uint32_t own = o.needle + o.cue;
  if (o.prompts == 0 || o.needle == 0 || o.cue == 0) return probe_error("expected at least one prompt, needle token and cue token");
  const uint64_t total = uint64_t(o.length) + 2 * own + o.sink;
  if (recipe.context && total > recipe.context)
    return probe_error("a prompt has " + std::to_string(total) + " tokens, the model was made for " + std::to_string(recipe.context));

  std::mt19937_64 random(o.seed);
  // Drawn by hand: the standard distributions differ between libraries, and a seed should say which prompts these are.
  const auto below = [&](size_t n) { return size_t(random() % n); };
  std::vector<std::vector<TokenId>> sentences;
  std::set<TokenId> taken;
  for (const char* sentence : kFiller) {
    sentences.push_back(tokenizer.encode(sentence).ids);
    taken.insert(sentences.back().begin(), sentences.back().end());
  }
  if (taken.empty()) return probe_error("the vocabulary has no tokens for plain English text");
  std::vector<TokenId> words = needle_words(tokenizer, recipe.vocab, taken, size_t(own) * 8);
  if (words.size() < own) return probe_error("the vocabulary has " + std::to_string(words.size()) + " tokens that the filler does not use, a needle needs " + std::to_string(own));

  Prober prober(backend, o);
  for (uint32_t p = 0; p < o.prompts; ++p) {
    Prompt prompt;
    if (tokenizer.vocabulary().add_bos && tokenizer.vocabulary().bos >= 0) prompt.ids.push_back(tokenizer.vocabulary().bos);
    std::vector<TokenId> filler;
    while (filler.size() < o.length) {
      const auto& s = sentences[below(sentences.size())];
      filler.insert(filler.end(), s.begin(), s.end());
    }
    filler.resize(o.length);
    for (uint32_t i = 0; i < own; ++i) std::swap(words[i], words[i + below(words.size() - i)]);
    // The needle stays behind the sink and outside the recent window of the rows that should find it.
    const uint32_t latest = o.length > o.recent ? o.length - o.recent : 0;
    const uint32_t at = std::clamp(uint32_t((double(p % 5) + 0.5) / 5 * o.length), std::min(o.sink, latest), latest);
    prompt.ids.insert(prompt.ids.end(), filler.begin(), filler.begin() + at);
    prompt.needle = uint32_t(prompt.ids.size()) + o.cue;
    prompt.ids.insert(prompt.ids.end(), words.begin(), words.begin() + own);
    prompt.ids.insert(prompt.ids.end(), filler.begin() + at, filler.end());
    prompt.ids.insert(prompt.ids.end(), words.begin(), words.begin() + own);
    prompt.first_row = uint32_t(prompt.ids.size()) - o.needle - 1;
    SPANSCOPE_TRY(prober.run(prompt));
    if (o.progress) o.progress(p + 1, o.prompts);
  }
  return prober.finish();
}

}  // namespace spanscope
