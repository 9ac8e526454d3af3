// SPDX-License-Identifier: GPL-3.0-or-later
// Which heads `head` and `token` detail keep. Any thread.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/model/recipe.h"
#include "core/record/head_map.h"

namespace spanscope {

inline constexpr double kKeptHeadFraction = 0.05;  // by copy score, and as many by reads

struct HeadChoice {
  std::vector<uint8_t> mask;  // [layers][query heads] 1: kept; empty: all
  size_t kept = 0;            // heads
  std::string sentence;       // what was chosen and why, for people
};

// spec: "all"; "map": the map's heads, an error (SPAN-NO-HEAD-MAP) without one; "": the map's where there is a map with copy
// scores or reads, else all; or a list of layer.head, 0-based, each part a number, a range or *: "1.0,1.3,2.*,4..6.0".
// map: of the same model, or null. Errors: SPAN-USAGE names the part that cannot be read, or a layer or head that the
// model does not have.
Result<HeadChoice> choose_heads(const std::string& spec, const Recipe& recipe, const HeadMap* map);

}  // namespace spanscope
