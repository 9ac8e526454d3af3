// SPDX-License-Identifier: GPL-3.0-or-later
// spanscope model bench: tokens per second of prefill and decode, recording off and on, as medians of interleaved runs.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <numeric>
#include <optional>

#include "app/commands/command.h"
#include "core/base/json.h"
#include "core/record/recorder.h"

namespace spanscope {
namespace {

struct BenchOptions {
  std::string model, path = "fast";
  std::vector<std::string> record = {"span"};
  std::vector<uint32_t> prompts = {512}, depths = {0};
  uint32_t decode = 32, repeat = 5, spans = 50, pass_rows = 512;
};

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v.empty() ? 0 : v.size() % 2 ? v[v.size() / 2] : (v[v.size() / 2 - 1] + v[v.size() / 2]) / 2;
}

// A context of `tokens` fixed pseudo-random ids in `spans` content leaves of about equal length, then an answer.
struct Setting {
  TurnPlan turn;
  Ledger ledger;
};
Setting make_setting(uint32_t tokens, uint32_t answer, uint32_t spans, uint32_t vocab) {
  Setting s;
  uint32_t state = 12345;
  for (uint32_t i = 0; i < tokens + answer; ++i) {
    state = state * 1664525u + 1013904223u;
    s.turn.ids.push_back(TokenId((state >> 8) % vocab));
  }
  s.turn.executed_end = tokens + answer;
  s.turn.answer_begin = tokens;
  s.turn.answer_len = answer;
  s.turn.phase.assign(tokens + answer, RowPhase::prompt);
  for (uint32_t i = tokens ? tokens - 1 : 0; i < tokens + answer; ++i) s.turn.phase[i] = RowPhase::answer;
  spans = std::clamp(spans, 1u, std::max(1u, tokens));
  uint32_t at = 0;
  for (uint32_t k = 0; k <= spans; ++k) {
    const uint32_t end = k == spans ? tokens + answer : uint32_t(uint64_t(tokens) * (k + 1) / spans);
    if (end == at) continue;
    Span span;
    span.id = SpanId(s.ledger.spans.size());
    span.kind = SpanKind::content;
    span.role = "user";
    span.tokens = end - at;
    s.ledger.spans.push_back(span);
    s.turn.layout.push_back({span.id, at, end - at, at});
    at = end;
  }
  return s;
}

struct Timing {
  double prefill = 0, decode = 0;  // seconds
};
// Nothing: a name that is none.
std::optional<RecorderOptions> detail_of(const std::string& name) {
  RecorderOptions o;
  if (name == "span") return o;
  if (name == "rows") o.rows = RowDetail::layers;
  else if (name == "rows-heads") o.rows = RowDetail::heads;
  else if (name == "pairs") o.pairs = true;
  else if (name == "head" || name == "token") o.heads = true, o.tokens = name == "token";
  else return std::nullopt;
  return o;
}

// detail: null, nothing is recorded.
Result<Timing> run_once(Backend& backend, const Setting& s, uint32_t tokens, uint32_t depth, uint32_t decode, uint32_t pass_rows, const RecorderOptions* detail) {
  auto cache = backend.new_cache(uint32_t(s.turn.ids.size()));
  const bool record = detail;
  Recorder recorder(backend.model().recipe, detail ? *detail : RecorderOptions{});
  if (record) recorder.begin_turn(s.turn, s.ledger);
  std::vector<TokenPos> positions(s.turn.ids.size());
  std::iota(positions.begin(), positions.end(), 0u);
  auto pass = [&](uint32_t begin, uint32_t end, LogitRows logits) -> Status {
    ForwardOptions options;
    options.logits = logits;
    if (record) {
      options.plan = &recorder.plan_pass(begin, end, {s.turn.phase.begin() + begin, s.turn.phase.begin() + end});
      options.sink = &recorder;
      options.token_stats = recorder.token_plan();
      if (options.token_stats) options.token_sink = recorder.token_sink();
    }
    auto r = backend.forward(*cache, {std::span(s.turn.ids).subspan(begin, end - begin), std::span<const TokenPos>(positions).subspan(begin, end - begin), positions.size()}, options);
    return r ? Status() : Status(r.error());
  };
  Timing out;
  using Clock = std::chrono::steady_clock;
  const uint32_t total = depth + tokens;
  uint32_t at = 0;
  while (at < depth) {
    const uint32_t end = std::min(depth, at + pass_rows);
    SPANSCOPE_TRY(pass(at, end, LogitRows::none));
    at = end;
  }
  auto start = Clock::now();
  while (at + 1 < total) {
    const uint32_t end = std::min(total - 1, at + pass_rows);
    SPANSCOPE_TRY(pass(at, end, LogitRows::none));
    at = end;
  }
  out.prefill = std::chrono::duration<double>(Clock::now() - start).count();
  start = Clock::now();
  for (uint32_t i = 0; i < decode; ++i, ++at) SPANSCOPE_TRY(pass(at, at + 1, LogitRows::last));
  out.decode = std::chrono::duration<double>(Clock::now() - start).count();
  return out;
}

int run(const BenchOptions& o, const Context& context) {
  std::vector<std::pair<std::string, RecorderOptions>> details;
  for (const std::string& name : o.record) {
    if (name == "off") continue;
    const auto detail = detail_of(name);
    if (!detail) return report_error(make_error(ErrorCode::invalid, "SPAN-USAGE", "expected off, span, head, token, rows, rows-heads or pairs, found \"" + name + "\"", "--record"));
    details.emplace_back(name, *detail);
  }
  auto model = load_model(o.model);
  if (!model) return report_error(model.error());
  BackendOptions needs;
  for (const auto& [name, options] : details) needs.token_stats = needs.token_stats || options.tokens;
  auto backend = make_backend(*model, o.path, context, needs);
  if (!backend) return report_error(backend.error());
  OrderedJson results = OrderedJson::array();
  if (!context.json)
    fmt::print("{} on {}, {} threads, {} spans, medians of {} interleaved runs; ratio: of the times of a run and of the plain run before it\n\n{:>8} {:>7} {:<11} {:>12} {:>7} {:>12} {:>7}\n",
               (*model)->recipe.name, (*backend)->name(), (*backend)->threads(), o.spans, o.repeat, "prompt", "depth", "recording", "prefill/s", "ratio", "decode/s", "ratio");
  for (uint32_t depth : o.depths)
    for (uint32_t prompt : o.prompts) {
      if (prompt < 2) return report_error(make_error(ErrorCode::invalid, "SPAN-USAGE", "expected prompts of at least 2 tokens", "-p"));
      const Setting setting = make_setting(depth + prompt, o.decode, o.spans, (*model)->recipe.vocab);
      const size_t kinds = details.size() + 1;  // the first records nothing
      std::vector<std::vector<double>> prefill(kinds), decode(kinds), prefill_ratio(kinds), decode_ratio(kinds);
      if (auto warm = run_once(**backend, setting, prompt, depth, std::min(o.decode, 2u), o.pass_rows, nullptr); !warm) return report_error(warm.error());
      for (uint32_t r = 0; r < o.repeat; ++r)
        for (size_t k = details.empty() ? 0 : 1; k < kinds; ++k) {
          // A pair: plain and recorded, one after the other, in changing order.
          Timing pair[2];
          for (int i = 0; i < (k == 0 ? 1 : 2); ++i) {
            if (context.stop.stop_requested()) return kExitStopped;
            const bool on = k > 0 && (i == 1) != (r % 2 == 1);
            auto t = run_once(**backend, setting, prompt, depth, o.decode, o.pass_rows, on ? &details[k - 1].second : nullptr);
            if (!t) return report_error(t.error());
            pair[on] = *t;
          }
          prefill[0].push_back(pair[0].prefill), decode[0].push_back(pair[0].decode);
          if (k == 0) continue;
          prefill[k].push_back(pair[1].prefill), decode[k].push_back(pair[1].decode);
          prefill_ratio[k].push_back(pair[1].prefill / pair[0].prefill);
          if (o.decode) decode_ratio[k].push_back(pair[1].decode / pair[0].decode);
        }
      const double rows = prompt - 1;
      const auto rate = [](double n, double seconds) { return seconds > 0 ? n / seconds : 0; };
      for (size_t k = 0; k < kinds; ++k) {
        const double p = rate(rows, median(prefill[k])), d = rate(o.decode, median(decode[k])), pr = median(prefill_ratio[k]), dr = median(decode_ratio[k]);
        const std::string name = k ? details[k - 1].first : "off";
        if (context.json) {
          const auto value = [](double x) { return x > 0 ? OrderedJson(x) : OrderedJson(); };
          results.push_back({{"prompt", prompt}, {"depth", depth}, {"decode", o.decode}, {"record", name}, {"prefill_per_second", value(p)},
                             {"prefill_time_ratio", value(pr)}, {"decode_per_second", value(d)}, {"decode_time_ratio", value(dr)}});
        } else {
          const auto cell = [](double x, int digits) { return x > 0 ? fmt::format("{:.{}f}", x, digits) : std::string("-"); };
          fmt::print("{:>8} {:>7} {:<11} {:>12} {:>7} {:>12} {:>7}\n", prompt, depth, name, cell(p, 1), cell(pr, 3), cell(d, 1), cell(dr, 3));
        }
      }
    }
  if (context.json)
    std::puts(OrderedJson{{"model", o.model}, {"backend", (*backend)->name()}, {"threads", (*backend)->threads()}, {"spans", o.spans}, {"repeat", o.repeat}, {"results", results}}.dump(2).c_str());
  return kExitOk;
}

}  // namespace

void add_model_bench(CLI::App& parent, Context& context) {
  auto o = std::make_shared<BenchOptions>();
  auto* c = parent.add_subcommand("bench", "Tokens per second with recording off and on");
  c->footer("Example:\n  spanscope model bench resources/demo/relay-dense.gguf -p 512 -n 32");
  c->add_option("model", o->model, "GGUF file, Hugging Face directory or ollama:NAME")->required();
  c->add_option("-p,--prompt", o->prompts, "Prompt lengths")->delimiter(',');
  c->add_option("-n,--decode", o->decode, "Tokens to decode")->check(CLI::Range(0u, 100000u));
  c->add_option("-d,--depth", o->depths, "Tokens already in the context")->delimiter(',');
  c->add_option("-r,--repeat", o->repeat, "Runs")->check(CLI::Range(1u, 1000u));
  c->add_option("--record", o->record, "What to compare with no recording: off, span, head, token, rows, rows-heads, pairs, or several of them")->delimiter(',');
  c->add_option("--spans", o->spans, "Leaves")->check(CLI::Range(1u, 100000u));
  c->add_option("--path", o->path, "reference or fast")->check(CLI::IsMember({"reference", "fast"}));
  c->callback([o, &context] { context.run = [o, &context] { return run(*o, context); }; });
}

}  // namespace spanscope
