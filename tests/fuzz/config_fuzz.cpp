// SPDX-License-Identifier: GPL-3.0-or-later
// Any bytes as a config.json: a recipe whose parts fit each other, or an error that says what and where.
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "core/model/family.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace spanscope;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  constexpr uint64_t kTensors = 500;
  // The family by the file's own word where there is one, and one of each kind whatever it says.
  for (const char* name : {"llama", "qwen2_moe", "gemma3_text", "gpt2", "phi3", "gpt_oss", "granite", "smollm3"}) {
    const auto recipe = recipe_from_config(*find_family_of_config(name), text, "fuzz", kTensors);
    if (!recipe) {
      if (recipe.error().tag.empty() || recipe.error().message.empty() || recipe.error().where.rfind("fuzz", 0) != 0) std::abort();
      continue;
    }
    const Recipe& r = *recipe;
    if (r.layers == 0 || r.layers > kTensors || r.window.size() != r.layers || r.moe_layer.size() != r.layers ||
        r.rotary_of_layer.size() != r.layers || r.query_heads % r.kv_heads != 0 || r.rotary_dims % 2 != 0 ||
        r.rotary_dims > r.head_dim || (r.experts && (r.experts_used == 0 || r.experts_used > r.experts)))
      std::abort();
    for (const int8_t t : r.rotary_of_layer)
      if (t >= int(r.rotary_tables.size())) std::abort();
    for (const RotaryTable& t : r.rotary_tables)
      if (t.inverse_frequency.size() != r.rotary_dims / 2 ||
          (r.long_from != 0 && !t.long_inverse_frequency.empty() && t.long_inverse_frequency.size() != r.rotary_dims / 2))
        std::abort();
  }
  return 0;
}
