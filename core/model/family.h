// SPDX-License-Identifier: GPL-3.0-or-later
// Model families as data: what a GGUF architecture name implies, and which tensors make up the model. A new
// family is a row here, a tensor table and an oracle test; loading and both backends stay as they are. Any
// thread.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/model/gguf.h"
#include "core/model/recipe.h"

namespace spanscope {

enum class TensorRole : uint8_t {
  embedding,
  output,
  output_norm,
  rotary_factors,
  attention_norm,
  q,
  k,
  v,
  o,
  feed_forward_norm,
  gate,
  up,
  down,
  router,
  stacked_gate,
  stacked_up,
  stacked_down,  // [experts][rows][cols] in one tensor
  expert_gate,
  expert_up,
  expert_down  // one tensor per expert, as older files have them
};

// What a dimension must be, in terms of the recipe.
enum class Extent : uint8_t {
  one,
  hidden,
  query,
  key_value,
  feed_forward,
  expert_feed_forward,
  experts,
  vocab,
  rotary_pairs
};
uint64_t extent_of(Extent extent, const Recipe& recipe);

// Which layers have it. An optional tensor may be absent anywhere; stacked and one-per-expert tensors are
// alternatives.
enum class Presence : uint8_t {
  model,
  optional_model,
  layer,
  dense_layer,
  moe_layer,
  moe_stacked,
  moe_single
};

struct TensorRule {
  TensorRole role;
  const char* name;  // {l} = layer, {e} = expert
  Extent rows, cols;
  Presence presence;
};

struct Family {
  const char* name;  // general.architecture
  NormKind norm;
  Activation activation;
  bool gated;
  RotaryLayout rotary;
  RouterRule router;
  bool renormalise_experts;
  std::span<const TensorRule> tensors;
};

const Family* find_family(std::string_view architecture);
std::string family_names();  // "llama", for messages

// Keys to recipe. Needs the directory only for the number of layers that could exist and the vocabulary's
// size. Errors: SPAN-GGUF-KEY (missing, wrong type, out of range), SPAN-MODEL (contradiction),
// SPAN-UNSUPPORTED.
Result<Recipe> fill_recipe(const Family& family, const GgufFile& file);

}  // namespace spanscope
