// SPDX-License-Identifier: GPL-3.0-or-later
// spanscope model bench: tokens per second of prefill and decode, recording off and on, as medians of interleaved runs.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <numeric>

#include "app/commands/command.h"
#include "core/base/json.h"
#include "core/record/recorder.h"

namespace spanscope {
namespace {

struct BenchOptions {
  std::string model, path = "fast", record = "span";
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
Result<Timing> run_once(Backend& backend, const Setting& s, uint32_t tokens, uint32_t depth, uint32_t decode, uint32_t pass_rows, bool record) {
  auto cache = backend.new_cache(uint32_t(s.turn.ids.size()));
  Recorder recorder(backend.model().recipe, {});
  if (record) recorder.begin_turn(s.turn, s.ledger);
  std::vector<TokenPos> positions(s.turn.ids.size());
  std::iota(positions.begin(), positions.end(), 0u);
  auto pass = [&](uint32_t begin, uint32_t end, LogitRows logits) -> Status {
    ForwardOptions options;
    options.logits = logits;
    if (record) {
      options.plan = &recorder.plan_pass(begin, end, {s.turn.phase.begin() + begin, s.turn.phase.begin() + end});
      options.sink = &recorder;
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
  if (o.record != "off" && o.record != "span")
    return report_error(make_error(ErrorCode::unsupported, "SPAN-DETAIL", "detail \"" + o.record + "\" cannot be recorded by this version; off or span", "--record"));
  auto model = load_model(o.model);
  if (!model) return report_error(model.error());
  auto backend = make_backend(*model, o.path, context);
  if (!backend) return report_error(backend.error());
  OrderedJson results = OrderedJson::array();
  if (!context.json)
    fmt::print("{} on {}, {} threads, {} spans, medians of {} interleaved runs\n\n{:>8} {:>7} {:>12} {:>12} {:>7} {:>12} {:>12} {:>7}\n", (*model)->recipe.name,
               (*backend)->name(), (*backend)->threads(), o.spans, o.repeat, "prompt", "depth", "prefill/s", "recorded/s", "ratio", "decode/s", "recorded/s", "ratio");
  for (uint32_t depth : o.depths)
    for (uint32_t prompt : o.prompts) {
      if (prompt < 2) return report_error(make_error(ErrorCode::invalid, "SPAN-USAGE", "expected prompts of at least 2 tokens", "-p"));
      const Setting setting = make_setting(depth + prompt, o.decode, o.spans, (*model)->recipe.vocab);
      std::vector<double> prefill[2], decode[2];
      if (auto warm = run_once(**backend, setting, prompt, depth, std::min(o.decode, 2u), o.pass_rows, false); !warm) return report_error(warm.error());
      for (uint32_t r = 0; r < o.repeat; ++r)
        for (int on = 0; on < (o.record == "off" ? 1 : 2); ++on) {
          if (context.stop.stop_requested()) return kExitStopped;
          auto t = run_once(**backend, setting, prompt, depth, o.decode, o.pass_rows, on == 1);
          if (!t) return report_error(t.error());
          prefill[on].push_back(t->prefill);
          decode[on].push_back(t->decode);
        }
      const double p0 = median(prefill[0]), p1 = median(prefill[1]), d0 = median(decode[0]), d1 = median(decode[1]);
      const double rows = prompt - 1;
      auto rate = [](double n, double s) { return s > 0 ? n / s : 0; };
      if (context.json) {
        auto value = [](double x) { return x > 0 ? OrderedJson(x) : OrderedJson(); };
        results.push_back({{"prompt", prompt}, {"depth", depth}, {"decode", o.decode}, {"prefill_per_second", value(rate(rows, p0))},
                           {"prefill_recorded_per_second", value(rate(rows, p1))}, {"prefill_time_ratio", value(p0 > 0 ? p1 / p0 : 0)},
                           {"decode_per_second", value(rate(o.decode, d0))}, {"decode_recorded_per_second", value(rate(o.decode, d1))},
                           {"decode_time_ratio", value(d0 > 0 ? d1 / d0 : 0)}});
      } else {
        auto cell = [](double x, const char* unit = "") { return x > 0 ? fmt::format("{:.1f}{}", x, unit) : std::string("-"); };
        auto ratio = [](double a, double b) { return a > 0 && b > 0 ? fmt::format("{:.3f}", b / a) : std::string("-"); };
        fmt::print("{:>8} {:>7} {:>12} {:>12} {:>7} {:>12} {:>12} {:>7}\n", prompt, depth, cell(rate(rows, p0)), cell(rate(rows, p1)), ratio(p0, p1),
                   cell(rate(o.decode, d0)), cell(rate(o.decode, d1)), ratio(d0, d1));
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
  c->add_option("--record", o->record, "off or span");
  c->add_option("--spans", o->spans, "Leaves")->check(CLI::Range(1u, 100000u));
  c->add_option("--path", o->path, "reference or fast")->check(CLI::IsMember({"reference", "fast"}));
  c->callback([o, &context] { context.run = [o, &context] { return run(*o, context); }; });
}

}  // namespace spanscope
