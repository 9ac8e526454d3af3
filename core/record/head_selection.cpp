// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/record/head_selection.h"

#include <algorithm>

namespace spanscope {
namespace {

// "3", "3..5" or "*" below `count`; false: neither, or outside.
bool parse_range(const std::string& text, uint32_t count, uint32_t& first, uint32_t& last) {
  if (text == "*") {
    first = 0, last = count - 1;
    return count > 0;
  }
  const auto number = [](const std::string& digits, uint32_t& out) {
    if (digits.empty() || digits.size() > 6 || digits.find_first_not_of("0123456789") != std::string::npos) return false;
    out = uint32_t(std::stoul(digits));
    return true;
  };
  const size_t dots = text.find("..");
  if (!number(text.substr(0, dots), first)) return false;
  last = first;
  if (dots != std::string::npos && !number(text.substr(dots + 2), last)) return false;
  return first <= last && last < count;
}

Result<HeadChoice> from_list(const std::string& spec, const Recipe& recipe) {
  const uint32_t heads = recipe.query_heads;
  HeadChoice out;
  out.mask.assign(size_t(recipe.layers) * heads, 0);
  for (size_t at = 0; at <= spec.size();) {
    const size_t comma = std::min(spec.find(',', at), spec.size());
    const std::string part = spec.substr(at, comma - at);
    at = comma + 1;
    // The border between layer and head is the one dot that does not belong to a range.
    size_t dot = std::string::npos;
    for (size_t i = 0; i < part.size(); ++i) {
      if (part.compare(i, 2, "..") == 0) ++i;
      else if (part[i] == '.') {
        dot = i;
        break;
      }
    }
    uint32_t l0 = 0, l1 = 0, h0 = 0, h1 = 0;
    if (dot == std::string::npos || !parse_range(part.substr(0, dot), recipe.layers, l0, l1) || !parse_range(part.substr(dot + 1), heads, h0, h1))
      return make_error(ErrorCode::invalid, "SPAN-USAGE",
                        "expected all, map, or layer.head as 1.0,2.*,4..6.3 (layers 0.." + std::to_string(recipe.layers - 1) + ", query heads 0.." +
                            std::to_string(heads - 1) + "), found \"" + part + "\"",
                        "--heads");
    for (uint32_t l = l0; l <= l1; ++l)
      for (uint32_t h = h0; h <= h1; ++h) out.mask[size_t(l) * heads + h] = 1;
  }
  out.kept = size_t(std::count(out.mask.begin(), out.mask.end(), 1));
  out.sentence = std::to_string(out.kept) + " of " + std::to_string(out.mask.size()) + " heads kept, as listed";
  return out;
}

}  // namespace

Result<HeadChoice> choose_heads(const std::string& spec, const Recipe& recipe, const HeadMap* map) {
  const size_t all = size_t(recipe.layers) * recipe.query_heads;
  if (!spec.empty() && spec != "all" && spec != "map") return from_list(spec, recipe);
  const HeadTable* copy = map ? map->best_copy() : nullptr;
  const HeadTable* reads = map ? map->best_reads() : nullptr;
  const bool usable = (copy || reads) && map->heads() == all && map->query_heads == recipe.query_heads;
  if (spec == "map" && !usable)
    return make_error(ErrorCode::not_found, "SPAN-NO-HEAD-MAP",
                      map ? "the model's head map has neither copy scores nor reads" : "there is no head map of this model yet; `spanscope model heads` makes one",
                      "--heads");
  HeadChoice out;
  if (spec == "all" || !usable) {
    out.kept = all;
    out.sentence = "all " + std::to_string(all) + " heads kept" + (spec == "all" ? "" : "; with a head map (`spanscope model heads`) only those that look things up");
    return out;
  }
  out.mask.assign(all, 0);
  const size_t count = head_count(all, kKeptHeadFraction);
  const auto add = [&](const HeadTable* table) {
    if (!table) return;
    for (uint32_t i : top_heads(*table, count)) out.mask[i] = 1;
  };
  add(copy);
  add(reads);
  out.kept = size_t(std::count(out.mask.begin(), out.mask.end(), 1));
  out.sentence = std::to_string(out.kept) + " of " + std::to_string(all) + " heads kept: the model's head map, its best " + std::to_string(count) +
                 (copy && reads ? " by copy score and by reads" : copy ? " by copy score" : " by reads");
  if (out.kept == 0)
    return make_error(ErrorCode::not_found, "SPAN-NO-HEAD-MAP", "no head of the map has a score above 0", "--heads");
  return out;
}

}  // namespace spanscope
