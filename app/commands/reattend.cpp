// SPDX-License-Identifier: GPL-3.0-or-later
// spanscope reattend: a new question over a recorded context, all of it (E) or a subset (A).
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "app/commands/command.h"
#include "core/base/json.h"
#include "core/file/safetensors.h"
#include "core/reattend/context.h"
#include "core/reattend/reattend.h"
#include "core/record/session_schema.h"
#include "core/view/view.h"

namespace spanscope {
namespace {

struct ReattendOptions {
  std::string session, model, ask, ask_ids, view, spans, mode = "E", path = "fast", output;
  uint32_t answer = 0, turn = 0;
  bool force = false;
};

Error usage(const std::string& message, const std::string& where) {
  return make_error(ErrorCode::invalid, "SPAN-USAGE", message, where);
}

Result<std::vector<SpanId>> parse_spans(const std::string& text) {
  std::vector<SpanId> out;
  size_t at = 0;
  while (at < text.size()) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const std::string part = text.substr(at, comma - at);
    if (part.empty() || part.size() > 9 || part.find_first_not_of("0123456789") != std::string::npos)
      return usage("expected span ids separated by commas, found \"" + part + "\"", "--spans");
    out.push_back(SpanId(std::stoul(part)));
    at = comma + 1;
  }
  return out;
}

Result<std::vector<TokenId>> parse_ids(const std::string& path, uint32_t vocab) {
  auto text = read_file(path, 64u << 20);
  if (!text) return std::move(text).error();
  auto json = parse_json(*text, path);
  if (!json) return std::move(json).error();
  if (!json->is_array() || json->empty())
    return make_error(ErrorCode::invalid, "SPAN-IDS", "expected a JSON array of token ids", path);
  std::vector<TokenId> out;
  for (const auto& value : *json) {
    if (!value.is_number_integer() || value.get<int64_t>() < 0 || value.get<int64_t>() >= int64_t(vocab))
      return make_error(ErrorCode::invalid, "SPAN-IDS",
                        fmt::format("entry {} is {}, expected a token id below {}", out.size(), value.dump(), vocab), path);
    out.push_back(value.get<TokenId>());
  }
  return out;
}

// Mean over rows, layers and heads of one column, for rows [begin, end).
double share_of(const ReattendResult& r, size_t column, uint32_t begin, uint32_t end) {
  if (end <= begin) return 0;
  const size_t columns = r.leaves.size() + 1, per_row = size_t(r.layers) * r.query_heads;
  double sum = 0;
  for (uint32_t row = begin; row < end; ++row)
    for (size_t lh = 0; lh < per_row; ++lh) sum += r.mass[(row * per_row + lh) * columns + column];
  return sum / (double(end - begin) * double(per_row));
}

int run(const ReattendOptions& o, const Context& context) {
  if (o.ask.empty() == o.ask_ids.empty()) return report_error(usage("give either --ask TEXT or --ask-ids FILE", "reattend"));
  if (o.mode != "A" && o.mode != "E")
    return report_error(make_error(ErrorCode::unsupported, "SPAN-MODE",
                                   "mode \"" + o.mode + "\" is not there yet; this version has A and E", "--mode"));
  auto session = load_session(o.session);
  if (!session) return report_error(session.error());
  const SessionData& s = **session;
  auto model = load_model(o.model);
  if (!model) return report_error(model.error());
  auto tokenizer = make_tokenizer((*model)->vocabulary);
  const std::string tokenizer_digest = tokenizer ? (*tokenizer)->digest() : s.header.tokenizer_digest;
  if (auto same = check_same_model(s, (*model)->digest, tokenizer_digest, o.model); !same) return report_error(same.error());

  auto recorded = recorded_context(s, o.turn ? o.turn - 1 : kNone32);
  if (!recorded) return report_error(recorded.error());
  ReattendRequest request;
  request.mode = o.mode == "A" ? ReattendMode::kept_keys : ReattendMode::everything;
  request.answer_tokens = o.answer;
  request.stop = context.stop;
  if (!o.ask_ids.empty()) {
    auto ids = parse_ids(o.ask_ids, (*model)->recipe.vocab);
    if (!ids) return report_error(ids.error());
    request.question = std::move(*ids);
  } else {
    if (!tokenizer) return report_error(tokenizer.error());
    auto chat_template = make_chat_template((*model)->chat_template, (*model)->vocabulary);
    if (!chat_template) return report_error(chat_template.error());
    auto ids = question_tokens(s, *recorded, **tokenizer, **chat_template, o.ask);
    if (!ids) return report_error(ids.error());
    request.question = std::move(*ids);
    for (TokenId id = 0; id < TokenId((*model)->recipe.vocab); ++id)
      if ((*tokenizer)->ends_generation(id)) request.stop_ids.push_back(id);
  }
  if (!o.spans.empty()) {
    auto ids = parse_spans(o.spans);
    if (!ids) return report_error(ids.error());
    request.subset = std::move(*ids);
  }
  if (!o.view.empty()) {
    ViewQuery query;
    query.predicate = o.view;
    query.turn = recorded->turn;
    query.with_request = true;
    auto view = run_view(s, query);
    if (!view) return report_error(view.error());
    for (const ViewRef& ref : view->refs) request.subset.push_back(ref.span);
  }
  if (request.mode == ReattendMode::kept_keys && o.view.empty() && o.spans.empty())
    return report_error(usage("mode A needs a subset: --view PREDICATE or --spans IDS", "reattend"));

  auto backend = make_backend(*model, o.path, context);
  if (!backend) return report_error(backend.error());
  const auto start = std::chrono::steady_clock::now();
  auto cache = rebuild_cache(**backend, recorded->ids, context.stop);
  if (!cache) return report_error(cache.error());
  const double seconds_rebuild = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  auto result = reattend(**backend, **cache, recorded->layout, s.ledger, request);
  if (!result) return report_error(result.error());
  const ReattendResult& r = *result;

  if (!o.output.empty()) {
    Blob blob;
    const uint64_t columns = r.leaves.size() + 1;
    blob.add<float>("mass", {r.rows, r.layers, r.query_heads, columns}, r.mass);
    blob.add<float>("logits_last", {r.logits_last.size()}, r.logits_last);
    blob.add<uint32_t>("leaves", {r.leaves.size()}, r.leaves);
    blob.add<uint8_t>("visible", {r.visible.size()}, r.visible);
    blob.add<int32_t>("answer", {r.answer.size()}, r.answer);
    blob.add<double>("answer_logp", {r.answer_logp.size()}, r.answer_logp);
    blob.metadata = {{"mode", o.mode}, {"question_rows", std::to_string(r.question_rows)},
                     {"provenance", "re-run: a later pass over the recorded tokens"}};
    if (auto written = write_safetensors_file(o.output, blob, o.force); !written) return report_error(written.error());
  }

  const uint32_t answer_begin = r.question_rows - 1, answer_end = answer_begin + r.answer_rows;
  const std::string answer_text = tokenizer ? (*tokenizer)->decode(r.answer) : std::string();
  struct Row {
    size_t column;
    double question, answer;
  };
  std::vector<Row> rows;
  for (size_t i = 0; i < r.leaves.size(); ++i)
    rows.push_back({i, share_of(r, i, 0, r.question_rows), share_of(r, i, answer_begin, answer_end)});
  const double own_question = share_of(r, r.leaves.size(), 0, r.question_rows);
  const double own_answer = share_of(r, r.leaves.size(), answer_begin, answer_end);
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.question > b.question; });

  if (context.json) {
    OrderedJson spans = OrderedJson::array();
    for (const Row& row : rows) {
      const Span& span = s.ledger[r.leaves[row.column]];
      const bool seen = r.visible[row.column];
      spans.push_back({{"span", span.id}, {"kind", span_kind_name(span.kind)}, {"name", span.name},
                       {"message", span.message < 0 ? OrderedJson() : OrderedJson(span.message)}, {"visible", seen},
                       {"question_share", seen ? OrderedJson(row.question) : OrderedJson()},
                       {"answer_share", seen && r.answer_rows ? OrderedJson(row.answer) : OrderedJson()},
                       {"why", seen ? OrderedJson() : OrderedJson("not in the subset")}});
    }
    OrderedJson document = {{"session", o.session}, {"mode", o.mode}, {"turn", recorded->turn + 1},
                            {"provenance", "re-run"}, {"backend", (*backend)->name()},
                            {"tokens_visible", r.tokens_visible}, {"tokens_context", r.tokens_context},
                            {"question_rows", r.question_rows}, {"answer_rows", r.answer_rows}, {"spans", spans},
                            {"new_tokens", {{"question_share", own_question},
                                            {"answer_share", r.answer_rows ? OrderedJson(own_answer) : OrderedJson()}}},
                            {"answer_ids", r.answer}, {"answer", answer_text}, {"answer_logp", r.answer_logp},
                            {"seconds", {{"rebuild", seconds_rebuild}, {"question", r.seconds_question},
                                         {"answer", r.seconds_answer}}}};
    std::puts(document.dump(2, ' ', false, OrderedJson::error_handler_t::replace).c_str());
    return kExitOk;
  }
  fmt::print("Mode {}: {}\n", o.mode,
             request.mode == ReattendMode::everything
                 ? "the question is appended to the full context"
                 : "new tokens see the subset, the sink and themselves; kept keys were made with the whole context");
  fmt::print("re-run on {}; {} of {} context tokens visible; rebuilt in {:.2f} s, question {:.2f} s, answer {:.2f} s\n\n",
             (*backend)->name(), r.tokens_visible, r.tokens_context, seconds_rebuild, r.seconds_question, r.seconds_answer);
  fmt::print("{:>6} {:<10} {:>9} {:>9}  {}\n", "span", "role", "question", r.answer_rows ? "answer" : "", "name");
  size_t hidden = 0;
  for (const Row& row : rows) {
    const Span& span = s.ledger[r.leaves[row.column]];
    if (!r.visible[row.column]) {
      ++hidden;
      continue;
    }
    fmt::print("{:>6} {:<10} {:>8.2f}% {:>9}  {}\n", span.id, span.role, 100 * row.question,
               r.answer_rows ? fmt::format("{:.2f}%", 100 * row.answer) : "", span.name);
  }
  fmt::print("{:>6} {:<10} {:>8.2f}% {:>9}  {}\n", "", "new", 100 * own_question,
             r.answer_rows ? fmt::format("{:.2f}%", 100 * own_answer) : "", "question and answer themselves");
  if (hidden) fmt::print("{} leaves are not in the subset: not seen\n", hidden);
  if (r.answer_rows) fmt::print("\nanswer: {}\n", tokenizer ? answer_text : "(no tokenizer)");
  return kExitOk;
}

}  // namespace

void add_reattend(CLI::App& parent, Context& context) {
  auto o = std::make_shared<ReattendOptions>();
  auto* c = parent.add_subcommand("reattend", "Ask a new question over the recorded context, or over a subset of it");
  c->footer("Example:\n  spanscope reattend demo12.span --model resources/demo/relay-dense.gguf --ask \"What is the desk number for Omar?\" --answer 16");
  c->add_option("session", o->session, "Session file")->required();
  c->add_option("--model,-m", o->model, "The model it was recorded with: GGUF file, Hugging Face directory or ollama:NAME")->required();
  c->add_option("--ask", o->ask, "The question, as a user message through the model's template");
  c->add_option("--ask-ids", o->ask_ids, "The question as a JSON array of token ids");
  c->add_option("--view", o->view, "Subset by predicate (spans of the view stay visible)");
  c->add_option("--spans", o->spans, "Subset by span ids: 3,7,12");
  c->add_option("--mode", o->mode, "E: everything; A: kept keys at their original places");
  c->add_option("--answer", o->answer, "Greedy answer tokens after the question")->check(CLI::Range(0u, 100000u));
  c->add_option("--turn", o->turn, "Context at the end of this turn (default: the last)")->check(CLI::Range(1u, 100000000u));
  c->add_option("--path", o->path, "reference or fast")->check(CLI::IsMember({"reference", "fast"}));
  c->add_option("--output,-o", o->output, "Masses and logits as safetensors");
  c->add_flag("--force", o->force, "Overwrite an existing output");
  c->callback([o, &context] { context.run = [o, &context] { return run(*o, context); }; });
}

}  // namespace spanscope
