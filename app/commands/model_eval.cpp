// SPDX-License-Identifier: GPL-3.0-or-later
// spanscope model eval: one prompt through a model, and what came out as arrays in a safetensors file. The
// door through which other programs check this one; array names are part of the interface.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <numeric>
#include <optional>
#include <set>

#include "app/commands/command.h"
#include "app/commands/model_eval_input.h"
#include "core/base/json.h"
#include "core/file/safetensors.h"

namespace spanscope {
namespace {

constexpr uint32_t kMostAttentionTokens = 2048;
const std::set<std::string> kArrays = {"logits",        "hidden",    "attn",         "sink_mass",
                                       "router_logits", "topk_ids",  "topk_weights", "decode_ids",
                                       "decode_logits", "span_mass", "colsum",       "lse"};

struct EvalOptions {
  std::string model, spans, decode_ids, path = "fast", output;
  EvalPrompt prompt;
  std::vector<std::string> what;
  CLI::Option* text_option = nullptr;
  uint32_t decode = 0, chunk = 0;
  bool force = false;
};

Error usage(const std::string& message, const std::string& where) {
  return make_error(ErrorCode::invalid, "SPAN-USAGE", message, where);
}

// Copies row masses of leaves into [layers][heads][n][columns], and what is left over if somebody asked for
// it.
class MassSink final : public RecordSink {
 public:
  MassSink(const Recipe& r, uint32_t n, uint32_t columns, bool learned_sink, bool lse_too)
      : heads_(r.query_heads),
        n_(n),
        columns_(columns),
        mass(size_t(r.layers) * heads_ * n * columns),
        sink(learned_sink ? size_t(r.layers) * heads_ * n : 0),
        lse(lse_too ? size_t(r.layers) * heads_ * n : 0) {}
  void on_layer(const LayerRecord& r) override {
    for (uint32_t i = 0; i < r.rows; ++i)
      for (uint32_t h = 0; h < heads_; ++h) {
        const float* in = r.row_mass + (size_t(i) * heads_ + h) * (r.leaves + 2);
        const size_t row = (size_t(r.layer) * heads_ + h) * n_ + first_row + i;
        for (uint32_t s = 0; s < r.leaves; ++s) mass[row * columns_ + column_of[s]] = in[s];
        if (!sink.empty()) sink[row] = in[r.leaves + 1];
        if (!lse.empty()) lse[row] = r.row_lse[size_t(i) * heads_ + h];
      }
  }

 private:
  uint32_t heads_, n_, columns_;

 public:
  uint32_t first_row = 0;
  std::vector<uint32_t> column_of;  // [leaves of this pass]
  std::vector<float> mass, sink, lse;
};

// Appends a piece [planes][rows][width] to [planes][all rows][width].
template <class T>
void join(std::vector<T>& all, const std::vector<T>& piece, size_t planes, size_t all_rows, size_t first_row,
          size_t rows) {
  if (piece.empty()) return;
  const size_t width = piece.size() / planes / rows;
  all.resize(planes * all_rows * width);
  for (size_t p = 0; p < planes; ++p)
    std::copy_n(piece.data() + p * rows * width, rows * width,
                all.data() + (p * all_rows + first_row) * width);
}

class Evaluation {
 public:
  Evaluation(Backend& backend, const EvalOptions& o, std::set<std::string> what, std::vector<TokenId> ids,
             std::vector<EvalSpan> spans, std::stop_token stop)
      : backend_(backend),
        r_(backend.model().recipe),
        o_(o),
        what_(std::move(what)),
        ids_(std::move(ids)),
        spans_(std::move(spans)),
        stop_(std::move(stop)),
        n_(uint32_t(ids_.size())),
        chunk_(std::min(o.chunk ? o.chunk : kMaxPlannedRows, kMaxPlannedRows)) {}

  uint32_t chunk() const { return chunk_; }
  double prefill_seconds() const { return prefill_seconds_; }
  double decode_seconds() const { return decode_seconds_; }

  Result<Blob> run(const std::vector<TokenId>& forced) {
    auto cache = backend_.new_cache(n_ + uint32_t(forced.size()) + o_.decode);
    const bool per_token = wants("attn") || wants("colsum") || wants("sink_mass") || wants("lse");
    const auto start = Clock::now();
    if (!spans_.empty()) {
      SPANSCOPE_TRY(prefill(*cache, &spans_, true));
      if (wants("span_mass"))
        add("span_mass", {r_.layers, r_.query_heads, n_, uint64_t(spans_.size())}, sink_->mass);
    } else if (!per_token) {
      SPANSCOPE_TRY(prefill(*cache, nullptr, true));
    }
    if (per_token) {
      std::vector<EvalSpan> tokens(n_);
      for (uint32_t j = 0; j < n_; ++j) tokens[j] = {j, 1, j};
      // With spans the first pass is theirs; the weights per key then come from a second one.
      auto own = spans_.empty() ? nullptr : backend_.new_cache(n_);
      SPANSCOPE_TRY(prefill(own ? *own : *cache, &tokens, spans_.empty()));
      if (wants("sink_mass")) add("sink_mass", {r_.layers, r_.query_heads, n_}, sink_->sink);
      if (wants("lse")) add("lse", {r_.layers, r_.query_heads, n_}, sink_->lse);
      if (wants("colsum")) add_column_sums();
      if (wants("attn")) add("attn", {r_.layers, r_.query_heads, n_, n_}, sink_->mass);
    }
    sink_.reset();
    prefill_seconds_ = seconds_since(start);
    add_outputs();
    SPANSCOPE_TRY(decode(*cache, forced));
    return std::move(blob_);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  }
  bool wants(const char* array) const { return what_.count(array) > 0; }

  template <class T>
  void add(const char* name, std::vector<uint64_t> shape, const std::vector<T>& values) {
    blob_.add(name, std::move(shape), values);
  }

  // The prompt in pieces; `spans`: with a plan over them. keep: outputs other than masses are kept.
  Status prefill(Cache& cache, const std::vector<EvalSpan>* spans, bool keep) {
    if (spans) sink_.emplace(r_, n_, uint32_t(spans->size()), wants("sink_mass"), wants("lse"));
    for (uint32_t at = 0; at < n_; at += chunk_) {
      const uint32_t rows = std::min(chunk_, n_ - at);
      std::vector<TokenPos> positions(rows);
      std::iota(positions.begin(), positions.end(), at);
      ForwardOptions options;
      options.stop = stop_;
      options.logits = !keep ? LogitRows::none : wants("logits") ? LogitRows::all : LogitRows::last;
      options.hidden = keep && wants("hidden");
      options.router_logits = keep && (wants("router_logits") || wants("topk_ids") || wants("topk_weights"));
      RecordPlan plan;
      if (spans) {
        plan = plan_for(*spans, at + rows, rows);
        sink_->first_row = at;
        options.plan = &plan;
        options.sink = &*sink_;
      }
      auto result = backend_.forward(cache, Batch{std::span(ids_).subspan(at, rows), positions, n_}, options);
      if (!result) return std::move(result).error();
      if (!keep) continue;
      if (wants("logits")) join(logits_, result->logits, 1, n_, at, rows);
      last_logits_.assign(result->logits.end() - ptrdiff_t(r_.vocab), result->logits.end());
      join(hidden_, result->hidden, r_.layers + 1, n_, at, rows);
      join(router_logits_, result->router_logits, r_.moe_layers(), n_, at, rows);
      join(topk_ids_, result->topk_ids, r_.moe_layers(), n_, at, rows);
      join(topk_weights_, result->topk_weights, r_.moe_layers(), n_, at, rows);
    }
    return {};
  }

  // Spans as far as they are in the cache after this pass.
  RecordPlan plan_for(const std::vector<EvalSpan>& spans, uint32_t slots, uint32_t rows) {
    RecordPlan plan;
    sink_->column_of.clear();
    for (const EvalSpan& s : spans) {
      if (s.from >= slots) break;
      plan.leaves.push_back({s.from, std::min(s.len, slots - s.from), s.from + s.len, false});
      sink_->column_of.push_back(s.column);
    }
    plan.group_of_leaf.assign(plan.leaves.size(), -1);
    plan.group_of_row.assign(rows, -1);
    plan.row_phase.assign(rows, RowPhase::prompt);
    plan.row_query.assign(rows, 0);
    plan.query_leaves = 1;
    plan.want_row_masses = true;
    plan.want_row_lse = wants("lse");
    return plan;
  }

  void add_column_sums() {
    std::vector<float> sums(size_t(r_.layers) * r_.query_heads * n_);
    for (size_t lh = 0; lh < size_t(r_.layers) * r_.query_heads; ++lh)
      for (uint32_t j = 0; j < n_; ++j) {
        double sum = 0;
        for (uint32_t i = j; i < n_; ++i) sum += double(sink_->mass[(lh * n_ + i) * n_ + j]);
        sums[lh * n_ + j] = float(sum);
      }
    add("colsum", {r_.layers, r_.query_heads, n_}, sums);
  }

  void add_outputs() {
    if (wants("logits")) add("logits", {n_, r_.vocab}, logits_);
    if (wants("hidden")) add("hidden", {r_.layers + 1, n_, r_.hidden}, hidden_);
    if (wants("router_logits")) add("router_logits", {r_.moe_layers(), n_, r_.experts}, router_logits_);
    if (wants("topk_ids")) add("topk_ids", {r_.moe_layers(), n_, r_.experts_used}, topk_ids_);
    if (wants("topk_weights")) add("topk_weights", {r_.moe_layers(), n_, r_.experts_used}, topk_weights_);
  }

  // One token a step: the given ones, or the most likely (the lowest id among equals).
  Status decode(Cache& cache, const std::vector<TokenId>& forced) {
    const uint32_t steps = forced.empty() ? o_.decode : uint32_t(forced.size());
    std::vector<int32_t> ids;
    std::vector<float> logits;
    const auto start = Clock::now();
    for (uint32_t s = 0; s < steps; ++s) {
      const TokenId id =
          forced.empty()
              ? TokenId(std::max_element(last_logits_.begin(), last_logits_.end()) - last_logits_.begin())
              : forced[s];
      const TokenPos position = n_ + s;
      SPANSCOPE_TRY(rebuild_where_rotation_changes(cache, ids, position));
      ForwardOptions options;
      options.stop = stop_;
      auto result = backend_.forward(cache, Batch{{&id, 1}, {&position, 1}}, options);
      if (!result) return std::move(result).error();
      last_logits_ = std::move(result->logits);
      ids.push_back(id);
      if (wants("decode_logits")) logits.insert(logits.end(), last_logits_.begin(), last_logits_.end());
    }
    decode_seconds_ = seconds_since(start);
    if (wants("decode_ids")) add("decode_ids", {steps}, ids);
    if (wants("decode_logits")) add("decode_logits", {steps, r_.vocab}, logits);
    return {};
  }

  // A model that changes its rotary factors with length: what is cached runs again once the sequence is long.
  Status rebuild_where_rotation_changes(Cache& cache, const std::vector<int32_t>& decoded, TokenPos position) {
    if (r_.long_rotary(uint64_t(position) + 1) == cache.long_rotary()) return {};
    std::vector<TokenId> all = ids_;
    all.insert(all.end(), decoded.begin(), decoded.end());
    cache.truncate(0);
    for (uint32_t at = 0; at < all.size(); at += chunk_) {
      const uint32_t rows = std::min(chunk_, uint32_t(all.size()) - at);
      std::vector<TokenPos> positions(rows);
      std::iota(positions.begin(), positions.end(), at);
      ForwardOptions options;
      options.logits = LogitRows::none;
      options.stop = stop_;
      auto result =
          backend_.forward(cache, Batch{std::span(all).subspan(at, rows), positions, uint64_t(position) + 1}, options);
      if (!result) return std::move(result).error();
    }
    return {};
  }

  Backend& backend_;
  const Recipe& r_;
  const EvalOptions& o_;
  std::set<std::string> what_;
  std::vector<TokenId> ids_;
  std::vector<EvalSpan> spans_;
  std::stop_token stop_;
  uint32_t n_, chunk_;
  std::optional<MassSink> sink_;
  std::vector<float> logits_, last_logits_, hidden_, router_logits_, topk_weights_;
  std::vector<int32_t> topk_ids_;
  Blob blob_;
  double prefill_seconds_ = 0, decode_seconds_ = 0;
};

// The arrays asked for, or what the other options suggest. Refuses what this model or this request cannot
// give.
Result<std::set<std::string>> wanted_arrays(const EvalOptions& o, const Recipe& r) {
  std::set<std::string> what(o.what.begin(), o.what.end());
  const bool decodes = o.decode > 0 || !o.decode_ids.empty();
  if (what.empty()) {
    what = {"logits"};
    if (decodes) what.insert({"decode_ids", "decode_logits"});
    if (!o.spans.empty()) what.insert("span_mass");
  }
  for (const std::string& name : what) {
    if (!kArrays.count(name))
      return usage(fmt::format("\"{}\" is no array; there are: {}", name, fmt::join(kArrays, ", ")),
                   "--what");
    if (name.rfind("decode_", 0) == 0 && !decodes)
      return usage(name + " needs --decode or --decode-ids", "--what");
    if (name == "span_mass" && o.spans.empty()) return usage("span_mass needs --spans", "--what");
    if ((name == "router_logits" || name.rfind("topk_", 0) == 0) && r.moe_layers() == 0)
      return make_error(ErrorCode::unsupported, "SPAN-UNSUPPORTED",
                        name + ": the model has no mixture-of-experts layer", "--what");
  }
  return what;
}

int run(const EvalOptions& o, const Context& context) {
  if (!o.force && std::filesystem::exists(o.output))
    return report_error(make_error(ErrorCode::invalid, "SPAN-EXISTS",
                                   "the file is there already; --force overwrites it", o.output));
  if (o.decode > 0 && !o.decode_ids.empty())
    return report_error(usage("give either --decode or --decode-ids", "model eval"));
  auto model = load_model(o.model);
  if (!model) return report_error(model.error());
  const Recipe& r = (*model)->recipe;
  auto what = wanted_arrays(o, r);
  if (!what) return report_error(what.error());
  EvalPrompt prompt = o.prompt;
  prompt.has_text = o.text_option->count() > 0;
  auto ids = eval_prompt_ids(prompt, **model);
  if (!ids) return report_error(ids.error());
  std::vector<TokenId> forced;
  if (!o.decode_ids.empty()) {
    auto read = eval_ids_file(o.decode_ids, r.vocab);
    if (!read) return report_error(read.error());
    forced = std::move(*read);
  }
  std::vector<EvalSpan> spans;
  if (!o.spans.empty()) {
    auto read = eval_spans_file(o.spans, ids->size());
    if (!read) return report_error(read.error());
    spans = std::move(*read);
  }
  const uint64_t tokens = ids->size() + o.decode + forced.size();
  if (tokens > r.context)
    return report_error(make_error(
        ErrorCode::limit, "SPAN-CONTEXT",
        fmt::format("{} tokens with those to decode, the model's context has {}", tokens, r.context),
        o.model));
  for (const char* array : {"attn", "colsum", "sink_mass", "lse"})
    if (what->count(array) && ids->size() > kMostAttentionTokens)
      return report_error(make_error(ErrorCode::limit, "SPAN-LIMIT",
                                     fmt::format("{} for {} tokens, at most {} (it grows with their square)",
                                                 array, ids->size(), kMostAttentionTokens),
                                     "--what"));
  auto backend = make_backend(*model, o.path, context);
  if (!backend) return report_error(backend.error());

  Evaluation evaluation(**backend, o, *what, std::move(*ids), std::move(spans), context.stop);
  auto blob = evaluation.run(forced);
  if (!blob) return report_error(blob.error());
  rusage usage_now{};
  getrusage(RUSAGE_SELF, &usage_now);
  blob->metadata = {{"model_digest", (*model)->digest},
                    {"path", o.path},
                    {"backend", (*backend)->name()},
                    {"threads", std::to_string((*backend)->threads())},
                    {"chunk", std::to_string(evaluation.chunk())},
                    {"prefill_seconds", fmt::format("{:.6f}", evaluation.prefill_seconds())},
                    {"decode_seconds", fmt::format("{:.6f}", evaluation.decode_seconds())},
                    {"peak_memory_bytes", std::to_string(uint64_t(usage_now.ru_maxrss) * 1024)}};
  if (auto written = write_safetensors_file(o.output, *blob, o.force); !written)
    return report_error(written.error());

  if (context.json) {
    OrderedJson out;
    out["output"] = o.output;
    for (const auto& [key, value] : blob->metadata) out["metadata"][key] = value;
    for (const Tensor& t : blob->tensors)
      out["arrays"][t.name] = {{"dtype", dtype_name(t.dtype)}, {"shape", t.shape}};
    fmt::print("{}\n", out.dump(2, ' ', false, OrderedJson::error_handler_t::replace));
  } else if (!context.quiet) {
    for (const Tensor& t : blob->tensors)
      fmt::print("{:<14} {} [{}]\n", t.name, dtype_name(t.dtype), fmt::join(t.shape, ", "));
    fmt::print("prefill {:.3f} s, decode {:.3f} s, {} threads, {}\n", evaluation.prefill_seconds(),
               evaluation.decode_seconds(), (*backend)->threads(), (*backend)->name());
  }
  return kExitOk;
}

}  // namespace

void add_model_eval(CLI::App& parent, Context& context) {
  auto o = std::make_shared<EvalOptions>();
  auto* c = parent.add_subcommand("eval", "Run a prompt and write logits, attention, routing as arrays");
  c->footer(
      "Example:\n  spanscope model eval --model resources/demo/relay-dense.gguf --chat "
      "resources/demo/demo12.json --what logits -o eval.safetensors");
  c->add_option("--model,-m", o->model, "GGUF file, Hugging Face directory or ollama:NAME")->required();
  c->add_option("--ids", o->prompt.ids, "Prompt: a JSON array of token ids");
  o->text_option = c->add_option("--text", o->prompt.text, "Prompt: text, tokenised as the model says");
  c->add_option("--chat,-c", o->prompt.chat,
                "Prompt: a conversation through the chat template, as record runs its last turn");
  c->add_option("--spans", o->spans, "Spans for span_mass: {\"spans\": [{\"id\", \"from\", \"len\"}, ...]}");
  c->add_option(
       "--what", o->what,
       "Arrays, separated by commas: logits, hidden, attn, sink_mass, router_logits, topk_ids, topk_weights, "
       "decode_ids, decode_logits, span_mass, colsum, lse")
      ->delimiter(',');
  c->add_option("--decode", o->decode, "Greedy tokens after the prompt")->check(CLI::Range(0u, 1000000u));
  c->add_option("--decode-ids", o->decode_ids, "Tokens to feed after the prompt, one by one: a JSON array");
  c->add_option("--chunk", o->chunk, "Prefill in pieces of this many tokens (default and most: 1024)")
      ->check(CLI::Range(1u, 1024u));
  c->add_option("--path", o->path, "reference or fast")->check(CLI::IsMember({"reference", "fast"}));
  c->add_option("--output,-o", o->output, "The safetensors file to write")->required();
  c->add_flag("--force", o->force, "Overwrite an existing file");
  c->callback([o, &context] { context.run = [o, &context] { return run(*o, context); }; });
}

}  // namespace spanscope
