// SPDX-License-Identifier: GPL-3.0-or-later
// spanscope record: run a model over a conversation and keep what it read.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "app/commands/command.h"
#include "app/commands/progress.h"
#include "app/commands/record_size.h"
#include "core/base/json.h"
#include "core/base/knobs.h"
#include "core/chat/conversation.h"
#include "core/record/head_selection.h"
#include "core/record/record_session.h"
#include "core/record/session_schema.h"
#include "core/span/evicting_replay.h"
#include "core/span/replay.h"
#include "core/text/chat_template.h"
#include "core/text/tokenizer.h"

namespace spanscope {
namespace {

struct RecordOptions {
  std::string model, chat, ids, spans, output, path = "fast", detail = "span", generate, split = "256", overflow = "stop", positions = "compact", append;
  std::string rows, keys, layers, heads, windows = "32";
  bool force = false, routing = false, no_text = false, dry_run = false, pairs = false, values = false;
  CLI::Option *generate_option = nullptr, *rows_option = nullptr, *keys_option = nullptr;
  uint32_t max_tokens = 1024, context = 0;
  double lambda = 0.9;
  float theta_rec = 0.20f, factor = 3.0f;
};

Error usage(const std::string& message, const std::string& where) {
  return make_error(ErrorCode::invalid, "SPAN-USAGE", message, where);
}

Result<GenerateMode> generate_mode(const RecordOptions& o) {
  GenerateMode mode;
  mode.max_tokens = o.max_tokens;
  if (!o.generate_option->count()) return mode;
  if (o.generate.empty() || o.generate == "open") {
    mode.kind = GenerateMode::Kind::open;
  } else if (o.generate == "all") {
    mode.kind = GenerateMode::Kind::all;
  } else {
    mode.kind = GenerateMode::Kind::turn;
    size_t used = 0;
    unsigned long n = 0;
    try {
      n = std::stoul(o.generate, &used);
    } catch (const std::exception&) {
      used = 0;
    }
    if (used != o.generate.size() || n < 1 || n > 0xffffffu)
      return usage("expected a turn number from 1, all, or nothing, found \"" + o.generate + "\"", "--generate");
    mode.turn = uint32_t(n);
  }
  return mode;
}

// "3,5..9" as [count], for --layers.
Result<std::vector<uint8_t>> chosen_layers(const std::string& text, uint32_t count) {
  std::vector<uint8_t> out(count, 0);
  const auto wrong = [&](const std::string& part) {
    return usage(fmt::format("expected layers 0..{} as 3,5..9, found \"{}\"", count - 1, part), "--layers");
  };
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, comma - at);
    const size_t dots = part.find("..");
    const auto number = [&](const std::string& digits) -> int64_t {
      if (digits.empty() || digits.size() > 6 || digits.find_first_not_of("0123456789") != std::string::npos) return -1;
      return std::stol(digits);
    };
    const int64_t first = number(part.substr(0, dots)), last = dots == std::string::npos ? first : number(part.substr(dots + 2));
    if (first < 0 || last < first || last >= int64_t(count)) return wrong(part);
    for (int64_t l = first; l <= last; ++l) out[size_t(l)] = 1;
    at = comma + 1;
  }
  return out;
}

// What to keep beyond span detail, as the options say it.
// `chosen`: which heads that means, as a sentence; empty when all are kept.
Result<RecorderOptions> recorder_options(const RecordOptions& o, const Model& model, std::string& chosen) {
  const Recipe& recipe = model.recipe;
  RecorderOptions out;
  out.theta_rec = o.theta_rec;
  out.factor = o.factor;
  out.lambda = o.lambda;
  out.routing = o.routing;
  out.text = !o.no_text;
  out.heads = o.detail != "span";
  out.tokens = o.detail == "token";
  if (o.rows_option->count()) out.rows = o.rows == "heads" ? RowDetail::heads : RowDetail::layers;
  out.pairs = o.pairs;
  if (o.keys_option->count()) out.keys = o.keys == "layer0" ? KeyDetail::first_layer : KeyDetail::all;
  out.values = o.values;
  out.stat_windows.clear();
  for (size_t at = 0; at <= o.windows.size();) {
    const size_t comma = std::min(o.windows.find(',', at), o.windows.size());
    const std::string part = o.windows.substr(at, comma - at);
    if (part.empty() || part.size() > 6 || part.find_first_not_of("0123456789") != std::string::npos || std::stoul(part) == 0 ||
        out.stat_windows.size() == kMaxStatWindows)
      return usage(fmt::format("expected up to {} numbers of rows from 1 as 8,32, found \"{}\"", kMaxStatWindows, o.windows), "--windows");
    out.stat_windows.push_back(uint32_t(std::stoul(part)));
    at = comma + 1;
  }
  // A map decides by itself for head detail only: token statistics of a few heads are asked for by name.
  if (o.detail == "head" || !o.heads.empty()) {
    auto map = load_head_map(model);
    if (!map) return std::move(map).error();
    auto choice = choose_heads(o.heads, recipe, *map ? &**map : nullptr);
    if (!choice) return std::move(choice).error();
    out.kept_heads = std::move(choice->mask);
    chosen = std::move(choice->sentence);
  }
  if (!o.layers.empty()) {
    auto layers = chosen_layers(o.layers, recipe.layers);
    if (!layers) return std::move(layers).error();
    if (out.kept_heads.empty()) out.kept_heads.assign(size_t(recipe.layers) * recipe.query_heads, 1);
    for (size_t i = 0; i < out.kept_heads.size(); ++i) out.kept_heads[i] = out.kept_heads[i] && (*layers)[i / recipe.query_heads];
    if (std::find(out.kept_heads.begin(), out.kept_heads.end(), uint8_t(1)) == out.kept_heads.end())
      return usage("no head is left: --heads names none in these layers", "--layers");
  }
  return out;
}

struct Prepared {
  std::unique_ptr<Replay> replay;
  std::shared_ptr<const Tokenizer> tokenizer;
  std::vector<MessageInfo> messages;
};

// The conversation (or ids and spans) as a replay. `model` needs no weights here.
Result<Prepared> prepare(const RecordOptions& o, const Model& model) {
  Prepared out;
  ReplayOptions options;
  auto split = parse_split_rule(o.split);
  if (!split) return std::move(split).error();
  options.split = *split;
  const uint32_t limit = o.context ? o.context : model.recipe.context;
  const bool stops = o.overflow == "stop";
  options.context = stops ? limit : 0;
  if (!stops && limit == 0) return usage("the model does not say how many tokens it was made for; give --context", "--on-overflow");
  if (!stops && o.chat.empty()) return usage("ids and spans say themselves what leaves: leaving by --on-overflow needs a --chat", "--on-overflow");
  if (o.context && model.recipe.context && o.context > model.recipe.context)
    return make_error(ErrorCode::limit, "SPAN-CONTEXT",
                      fmt::format("{} tokens asked for, the model was made for {}", o.context, model.recipe.context),
                      "--context");
  if (!o.chat.empty()) {
    auto conversation = read_conversation(o.chat);
    if (!conversation) return std::move(conversation).error();
    for (const Message& m : conversation->messages) out.messages.push_back({m.role, m.name, m.id});
    auto tokenizer = make_tokenizer(model.vocabulary);
    if (!tokenizer) return std::move(tokenizer).error();
    out.tokenizer = *tokenizer;
    auto chat_template = make_chat_template(model.chat_template, model.vocabulary);
    if (!chat_template) return std::move(chat_template).error();
    auto replay = make_chat_replay(std::move(*conversation), out.tokenizer, *chat_template, options);
    if (!replay) return std::move(replay).error();
    out.replay = std::move(*replay);
    if (!stops) {
      OverflowOptions overflow;
      overflow.policy = o.overflow == "slide" ? OverflowPolicy::slide : OverflowPolicy::evict_coldest;
      overflow.compact = o.positions == "compact";
      overflow.limit = limit;
      overflow.model_context = model.recipe.context;
      out.replay = make_evicting_replay(std::move(out.replay), overflow);
    }
    return out;
  }
  auto spans = read_file(o.spans);
  if (!spans) return std::move(spans).error();
  std::string ids;
  if (!o.ids.empty()) {
    auto read = read_file(o.ids);
    if (!read) return std::move(read).error();
    ids = std::move(*read);
  }
  auto replay = make_ids_replay(ids, *spans, o.spans, options);
  if (!replay) return std::move(replay).error();
  out.replay = std::move(*replay);
  // Without a usable tokenizer the ids are recorded all the same; only texts are not shown.
  if (auto tokenizer = make_tokenizer(model.vocabulary)) out.tokenizer = *tokenizer;
  return out;
}

int dry_run(const RecordOptions& o, const Context& context) {
  auto model = load_model(o.model);
  if (!model) return report_error(model.error());
  auto prepared = prepare(o, **model);
  if (!prepared) return report_error(prepared.error());
  std::string chosen;
  auto options = recorder_options(o, **model, chosen);
  if (!options) return report_error(options.error());
  RecordSizes sizes(**model, *options);
  Replay& replay = *prepared->replay;
  OrderedJson turns = OrderedJson::array();
  while (!replay.done()) {
    auto plan = replay.next();
    if (!plan) return report_error(plan.error());
    sizes.add(*plan, replay.ledger());
    uint32_t rows[4] = {0, 0, 0, 0};
    for (RowPhase p : plan->phase) ++rows[size_t(p)];
    turns.push_back({{"turn", plan->turn + 1},
                     {"message", plan->message < 0 ? OrderedJson() : OrderedJson(plan->message)},
                     {"context", plan->ids.size()},
                     {"prompt_rows", rows[0]},
                     {"answer_rows", rows[1]},
                     {"recompute_rows", rows[2]},
                     {"leaves", plan->layout.size()}});
  }
  if (context.json) {
    OrderedJson spans = OrderedJson::array();
    for (const Span& s : replay.ledger().spans)
      spans.push_back({{"id", s.id}, {"kind", span_kind_name(s.kind)}, {"role", s.role}, {"name", s.name},
                       {"message", s.message < 0 ? OrderedJson() : OrderedJson(s.message)},
                       {"parent", s.parent == kNoSpan ? OrderedJson() : OrderedJson(s.parent)},
                       {"tokens", s.tokens}, {"birth_turn", s.birth + 1}});
    OrderedJson kinds = OrderedJson::object();
    for (const auto& [kind, bytes] : sizes.by_kind()) kinds[kind] = bytes;
    OrderedJson document = {{"turns", turns}, {"spans", spans}, {"predicted_file_bytes", sizes.file_bytes()},
                            {"predicted_bytes_by_kind", kinds}, {"needed_memory_bytes", sizes.memory_bytes()}};
    std::puts(document.dump(2, ' ', false, OrderedJson::error_handler_t::replace).c_str());
    return kExitOk;
  }
  fmt::print("{:>6} {:>8} {:>8} {:>7} {:>9} {:>7}\n", "turn", "context", "prompt", "answer", "recompute", "leaves");
  for (const auto& t : turns)
    fmt::print("{:>6} {:>8} {:>8} {:>7} {:>9} {:>7}\n", t["turn"].get<uint32_t>(), t["context"].get<uint64_t>(),
               t["prompt_rows"].get<uint32_t>(), t["answer_rows"].get<uint32_t>(), t["recompute_rows"].get<uint32_t>(),
               t["leaves"].get<uint64_t>());
  fmt::print("\n{:>6} {:<9} {:<10} {:>7} {:>6}  {}\n", "span", "kind", "role", "tokens", "turn", "name");
  for (const Span& s : replay.ledger().spans)
    fmt::print("{:>6} {:<9} {:<10} {:>7} {:>6}  {}\n", s.id, span_kind_name(s.kind), s.role, s.tokens, s.birth + 1, s.name);
  fmt::print("\npredicted file {}, needed memory {}\n", human_bytes(sizes.file_bytes()), human_bytes(sizes.memory_bytes()));
  return kExitOk;
}

int run(const RecordOptions& o, const Context& context) {
  if (o.chat.empty() == o.spans.empty())
    return report_error(usage("give either --chat, or --spans (with --ids unless the file holds \"tokens\")", "record"));
  if (!(o.theta_rec > 0 && o.theta_rec < 0.9f))
    return report_error(usage("expected a number between 0 and 0.9", "--theta-rec"));
  if (!(o.factor >= 1)) return report_error(usage("expected a number from 1", "--read-factor"));
  if (!(o.lambda >= 0 && o.lambda <= 1)) return report_error(usage("expected a number between 0 and 1", "--lambda"));
  if (o.dry_run) return dry_run(o, context);
  const bool appends = !o.append.empty();
  if (appends && (!o.output.empty() || o.generate_option->count()))
    return report_error(usage("--append goes on in its own file and with the conversation's own answers: no -o, no --generate", "--append"));
  if (o.output.empty() && !appends) return report_error(usage("-o FILE is missing", "record"));
  const std::string output = appends ? o.append : o.output;
  std::shared_ptr<const SessionData> before;
  if (appends) {
    auto session = load_session(o.append);
    if (!session) return report_error(session.error());
    before = std::move(*session);
  }
  if (!appends && !o.force && ::access(o.output.c_str(), F_OK) == 0)
    return report_error(make_error(ErrorCode::invalid, "SPAN-EXISTS", "the file exists; --force overwrites it", o.output));

  auto generate = generate_mode(o);
  if (!generate) return report_error(generate.error());
  auto model = load_model(o.model);
  if (!model) return report_error(model.error());
  auto prepared = prepare(o, **model);
  if (!prepared) return report_error(prepared.error());
  if (generate->kind == GenerateMode::Kind::none) {
    // Every turn is laid out once before anything runs or is written: a chat that is too long fails here, not after minutes.
    while (!prepared->replay->done())
      if (auto plan = prepared->replay->next(); !plan) return report_error(plan.error());
    prepared = prepare(o, **model);
    if (!prepared) return report_error(prepared.error());
  }
  std::string chosen;
  auto options = recorder_options(o, **model, chosen);
  if (!options) return report_error(options.error());
  BackendOptions needs;
  needs.token_stats = options->tokens;
  needs.originals = options->keys != KeyDetail::none || prepared->replay->moves_keys();
  auto backend = make_backend(*model, o.path, context, needs);
  if (!backend) return report_error(backend.error());
  auto writer = appends ? SessionWriter::resume(o.append) : SessionWriter::create(o.output, o.force);
  if (!writer) return report_error(writer.error());
  if (!chosen.empty()) note(context, chosen);
  if (!o.no_text) note(context, output + " holds the conversation's text");

  SessionHeader header;
  header.program_version = SPANSCOPE_VERSION;
  header.detail = o.detail;
  header.source = o.chat.empty() ? o.spans : o.chat;
  header.mode = o.chat.empty() ? "ids" : generate->kind == GenerateMode::Kind::none ? "replay" : "generate";
  if (prepared->tokenizer) header.tokenizer_digest = prepared->tokenizer->digest();
  header.knobs = knobs_set();

  RecordRequest request;
  request.recorder = std::move(*options);
  request.generate = *generate;
  request.append_to = before;
  if (o.overflow != "stop" && generate->kind != GenerateMode::Kind::none) {
    // Room is made for a whole answer: at most a quarter of the context.
    const uint32_t limit = o.context ? o.context : (*model)->recipe.context, most = std::max(1u, limit / 4);
    if (request.generate.max_tokens > most) note(context, fmt::format("answers of at most {} tokens: a quarter of the context", most));
    request.generate.max_tokens = std::min(request.generate.max_tokens, most);
  }
  request.stop = context.stop;
  const std::string rows = knob("SPANSCOPE_PASS_ROWS");
  request.pass_rows = uint32_t(std::clamp(std::atoi(rows.c_str()), 1, int(kMaxPlannedRows)));
  auto printer = std::make_shared<ProgressPrinter>(context);
  request.progress = [printer](const RecordProgress& p) { (*printer)(p); };

  if (o.routing && (*model)->recipe.experts == 0) note(context, "--routing: this model has no experts, nothing to keep");
  auto outcome = record_session(**backend, *prepared->replay, prepared->tokenizer.get(), writer->get(), header,
                                prepared->messages, request);
  request.progress = nullptr;
  printer.reset();
  if (!outcome) {
    // Closed turns stay readable; a file without one is of no use to anybody.
    if (!appends && (*writer)->bytes_by_kind().count("turn_end") == 0) ::unlink(o.output.c_str());
    return report_error(outcome.error());
  }
  for (const Finding& f : prepared->replay->findings()) note(context, f.where.empty() ? f.message : f.where + ": " + f.message);

  const double seconds = outcome->seconds_prompt + outcome->seconds_answer;
  const uint64_t tokens = outcome->prompt_rows + outcome->answer_rows;
  if (context.json) {
    OrderedJson document = {{"session", output}, {"turns", outcome->session ? outcome->session->turns.size() : 0},
                            {"stopped", outcome->stopped}, {"prompt_rows", outcome->prompt_rows},
                            {"answer_rows", outcome->answer_rows}, {"seconds", seconds},
                            {"bytes", (*writer)->bytes_written()}, {"generated", outcome->generated}};
    OrderedJson kinds = OrderedJson::object();
    for (const auto& [kind, bytes] : (*writer)->bytes_by_kind()) kinds[kind] = bytes;
    document["bytes_by_kind"] = kinds;
    std::puts(document.dump(2, ' ', false, OrderedJson::error_handler_t::replace).c_str());
  } else {
    for (const std::string& text : outcome->generated) fmt::print("{}\n", text);
    if (!context.quiet)
      fmt::print(stderr, "spanscope: {}: {} turns, {} rows in {} ({:.0f} tokens/s), {}{}\n", output,
                 outcome->session ? outcome->session->turns.size() : 0, tokens, human_seconds(seconds),
                 seconds > 0 ? double(tokens) / seconds : 0.0, human_bytes((*writer)->bytes_written()),
                 outcome->stopped ? "; stopped, the session is closed and readable" : "");
  }
  return outcome->stopped ? kExitStopped : kExitOk;
}

}  // namespace

void add_record(CLI::App& parent, Context& context) {
  auto o = std::make_shared<RecordOptions>();
  auto* c = parent.add_subcommand("record", "Run a model over a conversation and keep what it read");
  c->footer("Example:\n  spanscope record --model resources/demo/relay-dense.gguf --chat resources/demo/demo12.json -o demo12.span");
  c->add_option("--model,-m", o->model, "GGUF file, Hugging Face directory or ollama:NAME")->required();
  c->add_option("--chat,-c", o->chat, "Conversation: OpenAI-style messages, JSON or JSON Lines (- reads standard input)");
  c->add_option("--ids", o->ids, "Instead of a chat: a JSON array of token ids, with --spans");
  c->add_option("--spans", o->spans, "Spans and turns for --ids (JSON)");
  c->add_option("--output,-o", o->output, "The session file to write (.span)");
  c->add_flag("--force", o->force, "Overwrite an existing file");
  c->add_option("--append", o->append, "Instead of -o: go on in this session with a longer conversation; its turns run again, unstored, and are compared");
  o->generate_option =
      c->add_option("--generate", o->generate, "The model answers: the open turn (no value), turn N and stop there, or all")
          ->expected(0, 1);
  c->add_option("--max-tokens", o->max_tokens, "Most tokens of a generated answer")->check(CLI::Range(1u, 1000000u));
  c->add_option("--path", o->path, "reference or fast")->check(CLI::IsMember({"reference", "fast"}));
  c->add_option("--detail", o->detail, "What to keep: span; head (each head's profile of every span beside it); token (statistics of every key and row too)")
      ->check(CLI::IsMember({"span", "head", "token"}));
  o->rows_option = c->add_option("--rows", o->rows, "Keep what each answer row gave each span, per layer; heads: per head")
                       ->expected(0, 1)
                       ->check(CLI::IsMember({"", "layers", "heads"}));
  c->add_flag("--pairs", o->pairs, "Keep span-to-span mass per layer");
  o->keys_option = c->add_option("--keys", o->keys, "Keep keys as they were before rotation, 16-bit; layer0: of the first layer only")
                       ->expected(0, 1)
                       ->check(CLI::IsMember({"", "all", "layer0"}));
  c->add_flag("--values", o->values, "Keep values, 16-bit");
  c->add_option("--heads", o->heads,
                "Keep what goes beyond span detail for these heads only: all, map (those of the model's head map), or layer.head as 1.0,1.3,2.*; "
                "head detail takes the map's where there is one");
  c->add_option("--layers", o->layers, "Keep what goes beyond span detail for these layers only: 3,5..9");
  c->add_option("--windows", o->windows, "Token detail: column sums over the last rows before the answer, as many as these numbers say");
  c->add_flag("--routing", o->routing, "Keep expert ids and weights (mixture-of-experts models)");
  c->add_flag("--no-text", o->no_text, "Keep no text and no token ids");
  c->add_option("--split", o->split, "Longest leaf in tokens, or message, or paragraph");
  c->add_option("--lambda", o->lambda, "Decay of ema sums");
  c->add_option("--theta-rec", o->theta_rec, "Weakest read that is kept");
  c->add_option("--read-factor", o->factor, "Times uniform attention and habit that a read must exceed");
  c->add_option("--context", o->context, "Most tokens in the context (default: the model's)");
  c->add_option("--on-overflow", o->overflow, "When a turn does not fit: stop, evict-coldest or slide (the oldest leave)")
      ->check(CLI::IsMember({"stop", "evict-coldest", "slide"}));
  c->add_option("--evict-positions", o->positions, "compact: what stays moves together; keep: positions stay, with gaps")->check(CLI::IsMember({"compact", "keep"}));
  c->add_flag("--dry-run", o->dry_run, "Print spans, turns, predicted size and memory; run nothing");
  c->callback([o, &context] { context.run = [o, &context] { return run(*o, context); }; });
}

}  // namespace spanscope
