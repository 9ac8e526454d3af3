// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/bench/bench_support.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>

namespace spanscope::bench {
namespace {

constexpr uint32_t kLeavesOfMessage = 4;

class Counter final : public RecordSink {
 public:
  void on_layer(const LayerRecord& r) override {
    for (size_t i = 0; i < size_t(r.query_heads) * kPhases * r.leaves; ++i) mass += r.head_mass[i];
    events += r.event_count;
  }
  double mass = 0;
  uint64_t events = 0;
};

// Leaf of a slot: `leaves` of equal length over the prompt, then one for the answer.
struct Layout {
  uint32_t prompt, leaves;
  uint32_t border(uint32_t leaf) const { return uint32_t(uint64_t(prompt) * leaf / leaves); }
  uint32_t leaf_of(uint32_t slot) const {
    if (slot >= prompt) return leaves;
    uint32_t leaf = uint32_t(uint64_t(slot) * leaves / prompt);
    while (border(leaf + 1) <= slot) ++leaf;
    while (border(leaf) > slot) --leaf;
    return leaf;
  }
};

RecordPlan make_plan(const Layout& layout, const Recipe& recipe, uint32_t begin, uint32_t end) {
  RecordPlan plan;
  plan.levels = 2;
  for (uint32_t s = 0; s <= layout.leaves; ++s) {
    const uint32_t from = layout.border(std::min(s, layout.leaves)),
                   to = s < layout.leaves ? layout.border(s + 1) : end;
    if (from >= end || (s == layout.leaves && end <= layout.prompt)) break;
    plan.leaves.push_back({from, std::min(to, end) - from, to, s > 0});
  }
  const size_t leaves = plan.leaves.size(), rows = end - begin;
  plan.group_of_leaf.resize(2 * leaves);
  for (size_t s = 0; s < leaves; ++s) {
    plan.group_of_leaf[s] = int32_t(s);
    plan.group_of_leaf[leaves + s] = int32_t(s / kLeavesOfMessage);
  }
  plan.group_of_row.resize(2 * rows);
  plan.query_leaves = layout.leaves + 1;
  for (uint32_t i = 0; i < rows; ++i) {
    const uint32_t leaf = layout.leaf_of(begin + i);
    plan.group_of_row[i] = int32_t(leaf);
    plan.group_of_row[rows + i] = int32_t(leaf / kLeavesOfMessage);
    plan.row_query.push_back(leaf);
    plan.row_phase.push_back(begin + i >= layout.prompt ? RowPhase::answer : RowPhase::prompt);
  }
  if (begin >= layout.prompt) plan.habit.assign(size_t(recipe.layers) * recipe.query_heads * leaves, 0.05f);
  return plan;
}

std::vector<uint32_t> numbers(const char* text) {
  std::vector<uint32_t> out;
  for (char* end = nullptr; *text; text = *end == ',' ? end + 1 : end) {
    out.push_back(uint32_t(std::strtoul(text, &end, 10)));
    if (end == text || (*end && *end != ',')) return {};
  }
  return out;
}

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

Arguments parse(int argc, char** argv, const char* what, std::vector<uint32_t> prompts) {
  Arguments a;
  a.prompts = std::move(prompts);
  bool good = true;
  for (int i = 1; i < argc && good; ++i) {
    const std::string option = argv[i];
    if (option == "--record") {
      a.record = true;
    } else if (option == "--child") {
      a.child = true;
    } else if (option[0] != '-') {
      good = a.model.empty();
      a.model = option;
    } else if (i + 1 == argc) {
      good = false;
    } else if (option == "--path") {
      a.path = argv[++i];
      good = a.path == "fast" || a.path == "reference";
    } else {
      const std::vector<uint32_t> values = numbers(argv[++i]);
      uint32_t* single = option == "--leaves"    ? &a.leaves
                         : option == "-n"        ? &a.decode
                         : option == "-r"        ? &a.repeat
                         : option == "--threads" ? &a.threads
                         : option == "--pass"    ? &a.pass_rows
                                                 : nullptr;
      if (option == "-p" && !values.empty())
        a.prompts = values;
      else if (single && values.size() == 1)
        *single = values[0];
      else
        good = false;
    }
  }
  for (uint32_t p : a.prompts) good = good && p >= a.leaves;
  if (good && !a.model.empty() && a.leaves > 0 && a.repeat > 0 && a.pass_rows > 0 &&
      a.pass_rows <= kMaxPlannedRows)
    return a;
  std::fprintf(
      stderr,
      "%s\nusage: %s MODEL.gguf [-p PROMPT,...] [--leaves N] [-n DECODE] [-r REPEAT] [--threads N] [--pass "
      "ROWS] "
      "[--path fast|reference]\n(prompts have at least as many tokens as leaves; a pass has 1 to %u rows)\n",
      what, argv[0], kMaxPlannedRows);
  std::exit(2);
}

std::unique_ptr<Backend> load(const Arguments& a) {
  auto model = load_model(a.model);
  if (model) {
    auto backend = a.path == "fast" ? make_fast_backend(*model, {a.threads})
                                    : make_reference_backend(*model, {a.threads});
    if (backend) return std::move(*backend);
    std::fprintf(stderr, "%s\n", backend.error().line().c_str());
  } else {
    std::fprintf(stderr, "%s\n", model.error().line().c_str());
  }
  std::exit(1);
}

Timing run_session(Backend& backend, const Arguments& a, uint32_t prompt, bool record) {
  const Recipe& recipe = backend.model().recipe;
  const uint32_t total = prompt + a.decode;
  std::vector<TokenId> ids(total);
  uint32_t state = 1;
  for (TokenId& id : ids) {
    state = state * 1103515245u + 12345u;
    id = TokenId((state >> 8) % recipe.vocab);
  }
  std::vector<TokenPos> positions(total);
  std::iota(positions.begin(), positions.end(), 0u);
  const Layout layout{prompt, a.leaves};
  auto cache = backend.new_cache(total);
  Counter counter;
  Timing timing;
  const auto pass = [&](uint32_t begin, uint32_t end, LogitRows logits, double& wall, double& cpu) {
    ForwardOptions options;
    options.logits = logits;
    RecordPlan plan;
    if (record) {
      plan = make_plan(layout, recipe, begin, end);
      options.plan = &plan;
      options.sink = &counter;
    }
    const auto start = std::chrono::steady_clock::now();
    const double cpu_start = processor_seconds();
    auto result = backend.forward(*cache,
                                  {std::span(ids).subspan(begin, end - begin),
                                   std::span<const TokenPos>(positions).subspan(begin, end - begin)},
                                  options);
    wall += seconds_since(start);
    cpu += processor_seconds() - cpu_start;
    if (!result) {
      std::fprintf(stderr, "%s\n", result.error().line().c_str());
      std::exit(1);
    }
  };
  for (uint32_t at = 0; at < prompt; at += a.pass_rows)
    pass(at, std::min(prompt, at + a.pass_rows), LogitRows::none, timing.prefill, timing.prefill_cpu);
  for (uint32_t at = prompt; at < total; ++at)
    pass(at, at + 1, LogitRows::last, timing.decode, timing.decode_cpu);
  timing.mass = counter.mass;
  timing.events = counter.events;
  return timing;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n == 0 ? 0 : n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

}  // namespace spanscope::bench
