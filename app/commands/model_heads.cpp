// SPDX-License-Identifier: GPL-3.0-or-later
// spanscope model heads: which heads look things up, from needle prompts, from a recorded session or imported; kept by the
// model's digest, so that recordings know which heads to keep.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "app/commands/command.h"
#include "app/commands/session_json.h"
#include "core/base/files.h"
#include "core/record/head_counts.h"
#include "core/record/head_probe.h"
#include "core/record/head_selection.h"
#include "core/record/session_lazy.h"

namespace spanscope {
namespace {

struct HeadsOptions {
  std::string model, session, import, output, path = "fast";
  bool show = false, force = false;
  ProbeOptions probe;
  uint32_t top = 0;
};

// One turn in memory at a time: token statistics are large.
Result<HeadMap> from_session(const std::string& path, const Model& model, uint32_t recent) {
  auto session = LazySession::open(path, 0);
  if (!session) return std::move(session).error();
  const SessionHeader& h = (*session)->base().header;
  if (h.model_digest != model.digest)
    return make_error(ErrorCode::invalid, "SPAN-HEAD-MAP",
                      "recorded with another model (" + h.model_name + ", digest " + h.model_digest + "), expected " + model.recipe.name + ", digest " + model.digest, path);
  HeadCounter counter((*session)->base(), kDisplayTheta, recent);
  for (size_t i = 0; i < (*session)->turns(); ++i) {
    auto turn = (*session)->turn_with_details(i);
    if (!turn) return std::move(turn).error();
    counter.add(**turn);
  }
  return counter.finish();
}

Result<HeadMap> measure(const HeadsOptions& o, std::shared_ptr<const Model> model, const Context& context) {
  HeadMap map = empty_head_map(*model);
  if (!o.session.empty()) {
    auto counted = from_session(o.session, *model, o.probe.recent);
    if (!counted) return std::move(counted).error();
    SPANSCOPE_TRY(merge_head_map(map, *counted));
  }
  if (!o.import.empty()) {
    auto text = read_file(o.import, uint64_t(16) << 20);
    if (!text) return std::move(text).error();
    auto gates = import_duo_gates(*text, o.import, model->recipe);
    if (!gates) return std::move(gates).error();
    map[HeadMeasure::gate] = std::move(*gates);
  }
  if (!o.session.empty() || !o.import.empty()) return map;
  auto tokenizer = make_tokenizer(model->vocabulary);
  if (!tokenizer) return std::move(tokenizer).error();
  BackendOptions needs;
  needs.token_stats = true;
  auto backend = make_backend(model, o.path, context, needs);
  if (!backend) return std::move(backend).error();
  ProbeOptions options = o.probe;
  options.stop = context.stop;
  if (!context.quiet && context.progress == "lines")
    options.progress = [](uint32_t done, uint32_t all) { fmt::print(stderr, "prompt {} of {}\n", done, all); };
  auto outcome = probe_heads(**backend, **tokenizer, options);
  if (!outcome) return std::move(outcome).error();
  note(context, outcome->fed ? fmt::format("the model copied no needle ({:.0f} % of the tokens): the tokens that were fed count as its output", outcome->recall * 100)
                             : fmt::format("the model copied {:.0f} % of the tokens; {} of {} prompts count", outcome->recall * 100, outcome->used, outcome->prompts));
  return std::move(outcome->map);
}

void print_text(const HeadMap& map, const HeadsOptions& o, const std::string& path) {
  const size_t top = o.top ? o.top : std::max<size_t>(8, head_count(map.heads(), kKeptHeadFraction));
  static constexpr const char* kTitles[] = {"copy score, needle prompts", "copy score, recorded answers", "reads, needle prompts", "reads, recorded answers",
                                            "mass on the sink", "mass on sink and recent window", "imported full-attention gate"};
  fmt::print("{}: {} layers of {} query heads\n", map.model_name, map.layers, map.query_heads);
  for (size_t m = 0; m < kHeadMeasures; ++m) {
    const HeadTable& table = map.tables[m];
    if (table.empty()) continue;
    fmt::print("\n{} ({})\n", kTitles[m], table.source);
    const auto list = top_heads(table, top);
    if (list.empty()) fmt::print("  none above 0\n");
    for (size_t i = 0; i < list.size(); ++i) {
      const float x = table.value[list[i]];
      const bool count = m == size_t(HeadMeasure::reads) || m == size_t(HeadMeasure::session_reads);
      fmt::print("{}L{}H{} {}", i % 8 ? "  " : i ? "\n  " : "  ", list[i] / map.query_heads, list[i] % map.query_heads, count ? fmt::format("{:.0f}", x) : fmt::format("{:.3f}", x));
    }
    fmt::print("\n");
  }
  if (!path.empty()) fmt::print("\n{} {}\n", o.show ? "from" : "kept in", path);
}

void print_json(const HeadMap& map, const HeadsOptions& o, const std::string& path) {
  OrderedJson json = OrderedJson::parse(head_map_json(map));
  const size_t top = o.top ? o.top : head_count(map.heads(), kKeptHeadFraction);
  OrderedJson tops = OrderedJson::object();
  for (size_t m = 0; m < kHeadMeasures; ++m) {
    if (map.tables[m].empty()) continue;
    OrderedJson list = OrderedJson::array();
    for (uint32_t i : top_heads(map.tables[m], top))
      list.push_back({{"layer", i / map.query_heads}, {"head", i % map.query_heads}, {"value", map.tables[m].value[i]}});
    tops[head_measure_name(HeadMeasure(m))] = std::move(list);
  }
  json["top"] = std::move(tops);
  json["path"] = path.empty() ? OrderedJson() : OrderedJson(path);
  std::puts(dump(json).c_str());
}

int run(const HeadsOptions& o, const Context& context) {
  auto model = load_model(o.model);
  if (!model) return report_error(model.error());
  const std::string path = o.output.empty() ? head_map_path((*model)->digest) : o.output;
  if (path.empty())
    return report_error(make_error(ErrorCode::invalid, "SPAN-USAGE", "no place to keep the map: neither XDG_DATA_HOME nor HOME is set; name one with -o", "model heads"));
  auto kept = load_head_map(**model, path);
  if (!kept) return report_error(kept.error());
  if (o.show) {
    if (!kept->has_value()) return report_error(make_error(ErrorCode::not_found, "SPAN-NO-HEAD-MAP", "there is no head map of this model yet", path));
    context.json ? print_json(**kept, o, path) : print_text(**kept, o, path);
    return kExitOk;
  }
  // The default place holds what was measured so far; a file that somebody named is theirs.
  if (!o.output.empty() && kept->has_value() && !o.force)
    return report_error(make_error(ErrorCode::invalid, "SPAN-EXISTS", "the file exists; --force puts what is measured now into it", path));
  auto measured = measure(o, *model, context);
  if (!measured) return report_error(measured.error());
  HeadMap map = kept->has_value() ? std::move(**kept) : empty_head_map(**model);
  if (auto merged = merge_head_map(map, *measured); !merged) return report_error(merged.error());
  if (auto saved = save_head_map(map, path, o.output.empty() || o.force); !saved) return report_error(saved.error());
  context.json ? print_json(map, o, path) : print_text(map, o, path);
  return kExitOk;
}

}  // namespace

void add_model_heads(CLI::App& parent, Context& context) {
  auto o = std::make_shared<HeadsOptions>();
  auto* c = parent.add_subcommand("heads", "Which heads look things up: measure, import or show a head map");
  c->footer("Without --session and --import the model is asked to copy needles. What was measured before stays in the map.\n"
            "Example:\n  spanscope model heads --model resources/demo/relay-dense.gguf");
  c->add_option("--model,-m", o->model, "GGUF file, Hugging Face directory or ollama:NAME")->required();
  c->add_option("--session", o->session, "Count in this recorded session (copies by token with --detail token, else by leaf)");
  c->add_option("--import", o->import, "DuoAttention pattern: one line a layer, one number a key/value head");
  c->add_option("-o,--output", o->output, "The map (default: in the data folder, by the model's digest)");
  c->add_flag("--show", o->show, "Print the map that is there");
  c->add_flag("--force", o->force, "Write into a map named with -o that exists");
  c->add_option("--prompts", o->probe.prompts, "Needle prompts")->check(CLI::Range(1, 1000));
  c->add_option("--length", o->probe.length, "Tokens of filler in each")->check(CLI::Range(16, 1 << 20));
  c->add_option("--needle", o->probe.needle, "Tokens of a needle")->check(CLI::Range(1, 512));
  c->add_option("--recent", o->probe.recent, "Positions of the recent window")->check(CLI::Range(1, 4096));
  c->add_option("--seed", o->probe.seed, "Which prompts");
  c->add_option("--path", o->path, "reference or fast")->check(CLI::IsMember({"reference", "fast"}));
  c->add_option("--top", o->top, "How many heads to print of each kind (default: the best 5 %)")->check(CLI::Range(1, 100000));
  c->callback([o, &context] { context.run = [o, &context] { return run(*o, context); }; });
}

}  // namespace spanscope
