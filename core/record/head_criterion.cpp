// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/record/head_criterion.h"

#include <algorithm>
#include <cstdio>
#include <numeric>

#include "core/record/head_selection.h"

namespace spanscope {
namespace {

double sum_of(const std::vector<double>& values, const std::vector<uint32_t>& heads) {
  double out = 0;
  for (uint32_t h : heads) out += values[h];
  return out;
}

HeadTable table_of(const std::vector<double>& values) {
  HeadTable out;
  out.value.assign(values.begin(), values.end());
  return out;
}

std::string percent(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f %%", x * 100);
  return text;
}

}  // namespace

HeadCriterion head_criterion(const std::vector<double>& reads, const std::vector<double>& retrieval, const HeadTable* map_copy, const HeadTable* map_reads,
                             uint64_t span_bytes, uint64_t profile_bytes, size_t profile_heads) {
  HeadCriterion out;
  out.heads = reads.size();
  out.top = head_count(out.heads, kKeptHeadFraction);
  out.reads = std::accumulate(reads.begin(), reads.end(), 0.0);
  if (retrieval.size() == reads.size()) out.mass = std::accumulate(retrieval.begin(), retrieval.end(), 0.0);
  out.span_bytes = span_bytes, out.profile_bytes = profile_bytes, out.profile_heads = profile_heads;
  const auto add = [&](const std::string& by, std::vector<uint32_t> heads) {
    HeadShare share{by, std::move(heads), 0, {}};
    if (out.reads > 0) share.reads = sum_of(reads, share.heads) / out.reads;
    if (out.mass && *out.mass > 0) share.mass = sum_of(retrieval, share.heads) / *out.mass;
    out.shares.push_back(std::move(share));
  };
  std::vector<uint32_t> kept;
  for (const auto& [table, name] : {std::pair{map_copy, "copy score"}, {map_reads, "reads, head map"}}) {
    if (!table || table->value.size() != reads.size()) continue;
    const auto heads = top_heads(*table, out.top);
    for (uint32_t h : heads)
      if (std::find(kept.begin(), kept.end(), h) == kept.end()) kept.push_back(h);
    add(name, heads);
  }
  out.judged = out.shares.size();
  if (!kept.empty()) add("copy score and reads", kept);
  add("reads, this session", top_heads(table_of(reads), out.top));
  if (out.mass) add("mass, this session", top_heads(table_of(retrieval), out.top));

  if (!(out.reads > 0)) {
    out.verdict = "no reads in this session: nothing can be said about heads";
    return out;
  }
  double sum = 0;
  for (uint32_t h : top_heads(table_of(reads), reads.size())) {
    if (sum >= 0.5 * out.reads) break;
    sum += reads[h];
    ++out.heads_for_half;
  }
  const HeadShare& few = out.shares[out.judged];
  out.earns = few.reads >= kEnoughReads;
  const std::string who = std::to_string(few.heads.size()) + " of " + std::to_string(out.heads) + " heads (best by " + few.by + ") hold " + percent(few.reads) + " of the reads, " +
                          percent(double(few.heads.size()) / double(out.heads)) + " by chance";
  out.verdict = who + (out.earns ? ": a profile of these heads earns its storage, one of all heads does not"
                                 : ": less than half, so a profile of them alone misses most of what is read; the fewest heads with half of the reads are " + std::to_string(out.heads_for_half));
  return out;
}

}  // namespace spanscope
