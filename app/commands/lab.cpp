// SPDX-License-Identifier: GPL-3.0-or-later
// spanscope lab criteria: does what a recording keeps earn its storage? Measured on a session, not assumed.
#include <fmt/format.h>

#include <cstdio>

#include "app/commands/command.h"
#include "app/commands/progress.h"
#include "app/commands/session_json.h"
#include "core/record/head_counts.h"
#include "core/record/head_criterion.h"
#include "core/record/session_lazy.h"

namespace spanscope {
namespace {

struct CriteriaOptions {
  std::string session, map;
};

OrderedJson heads_json(const std::vector<uint32_t>& heads, uint32_t per_layer) {
  OrderedJson out = OrderedJson::array();
  for (uint32_t i : heads) out.push_back({{"layer", i / per_layer}, {"head", i % per_layer}});
  return out;
}

void print_text(const HeadCriterion& c, const SessionHeader& h, const std::string& copy_source) {
  fmt::print("1. Does a profile per head earn its storage?\n\n");
  fmt::print("{:.0f} reads (requests left out)", c.reads);
  if (c.mass) fmt::print(", {:.1f} rows' worth of attention on earlier messages", *c.mass);
  fmt::print("; {} of {} heads are 5 %; the {} that read most hold half of the reads\n", c.top, c.heads, c.heads_for_half);
  if (!copy_source.empty()) fmt::print("copy score: {}\n", copy_source);
  fmt::print("\n{:<24} {:>5} {:>8} {:>8}   {}\n", "best by", "heads", "reads", "mass", "which");
  for (const HeadShare& s : c.shares) {
    std::string which;
    for (size_t i = 0; i < s.heads.size() && i < 6; ++i) which += fmt::format("{}L{}H{}", i ? " " : "", s.heads[i] / h.query_heads, s.heads[i] % h.query_heads);
    if (s.heads.size() > 6) which += " ...";
    fmt::print("{:<24} {:>5} {:>7.1f}% {:>8}   {}\n", s.by, s.heads.size(), s.reads * 100, s.mass ? fmt::format("{:.1f}%", *s.mass * 100) : "-", which);
  }
  fmt::print("\nspan detail {}", human_bytes(c.span_bytes));
  if (c.profile_bytes) {
    fmt::print(", head profile {} for {} heads", human_bytes(c.profile_bytes), c.profile_heads);
    const size_t few = c.shares[c.judged].heads.size();
    if (c.profile_heads > few) fmt::print(", about {} for {}", human_bytes(uint64_t(double(c.profile_bytes) * double(few) / double(c.profile_heads))), few);
    fmt::print("\n");
  } else {
    fmt::print(", no head profile (record with --detail head to see its size and the mass)\n");
  }
  fmt::print("{}\n", c.verdict);
}

void print_json(const HeadCriterion& c, const SessionHeader& h, const std::string& copy_source) {
  OrderedJson shares = OrderedJson::array();
  for (const HeadShare& s : c.shares)
    shares.push_back({{"by", s.by}, {"heads", heads_json(s.heads, h.query_heads)}, {"reads", s.reads}, {"mass", s.mass ? OrderedJson(*s.mass) : OrderedJson()}});
  OrderedJson first = {{"heads", c.heads}, {"top", c.top}, {"reads", c.reads}, {"heads_for_half", c.heads_for_half}, {"retrieval_mass", c.mass ? OrderedJson(*c.mass) : OrderedJson()},
                       {"copy_source", copy_source.empty() ? OrderedJson() : OrderedJson(copy_source)}, {"shares", shares}, {"span_bytes", c.span_bytes},
                       {"profile_bytes", c.profile_bytes}, {"profile_heads", c.profile_heads}, {"earns", c.earns}, {"verdict", c.verdict}};
  if (!c.mass) first["why"] = "no head detail of all heads in this session";
  std::puts(dump({{"head_profile", first}}).c_str());
}

int run_criteria(const CriteriaOptions& o, const Context& context) {
  auto session = LazySession::open(o.session, 0);
  if (!session) return report_error(session.error());
  const SessionHeader& h = (*session)->base().header;
  auto map = load_head_map(h, o.map);
  if (!map) return report_error(map.error());
  if (!o.map.empty() && !map->has_value()) return report_error(make_error(ErrorCode::not_found, "SPAN-NO-HEAD-MAP", "there is no such head map", o.map));
  HeadCounter counter((*session)->base());
  for (size_t i = 0; i < (*session)->turns(); ++i) {
    auto turn = (*session)->turn_with_details(i);
    if (!turn) return report_error(turn.error());
    counter.add(**turn);
  }
  const HeadMap counted = counter.finish();
  const HeadTable* copy = map->has_value() ? (*map)->best_copy() : nullptr;
  const HeadTable* reads = map->has_value() ? (*map)->best_reads() : nullptr;
  if (!copy && !counted[HeadMeasure::session_copy].empty()) copy = &counted[HeadMeasure::session_copy];
  const std::string copy_source = copy ? copy->source : std::string();
  uint64_t span_bytes = 0, profile_bytes = 0;
  for (const FrameInfo& f : (*session)->reader().frames()) {
    if (f.kind == "mass" || f.kind == "reads") span_bytes += f.compressed_bytes;
    if (f.kind == "profile") profile_bytes += f.compressed_bytes;
  }
  const size_t profile_heads = profile_bytes ? h.pairs_kept().size() : 0;
  const HeadCriterion criterion = head_criterion(counter.reads(), counter.retrieval(), copy, reads, span_bytes, profile_bytes, profile_heads);
  context.json ? print_json(criterion, h, copy_source) : print_text(criterion, h, copy_source);
  return has_loss((*session)->base().findings) ? kExitLoss : kExitOk;
}

}  // namespace

void add_lab(CLI::App& parent, Context& context) {
  auto* lab = parent.add_subcommand("lab", "Measurements about the design itself: criteria");
  lab->require_subcommand(1);
  lab->fallthrough();
  auto o = std::make_shared<CriteriaOptions>();
  auto* c = lab->add_subcommand("criteria", "Does what a recording keeps earn its storage?");
  c->footer("Copy scores come from the model's head map (`spanscope model heads`), else from the session itself.\n"
            "Example:\n  spanscope lab criteria demo12.span");
  c->add_option("session", o->session, "Session file, best with --detail head and all heads")->required();
  c->add_option("--map", o->map, "A head map (default: the one kept for the session's model)");
  c->callback([o, &context] { context.run = [o, &context] { return run_criteria(*o, context); }; });
}

}  // namespace spanscope
