// SPDX-License-Identifier: GPL-3.0-or-later
// Model families as data: what an architecture name implies, and which tensors make up the model. A new family is a
// row in family.cpp, a table in tensor_names.cpp and an oracle test; loading and backends stay as they are
// (docs: core/model/ADDING_A_FAMILY.md). Any thread.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/model/gguf.h"
#include "core/model/recipe.h"
#include "core/model/tensor_table.h"

namespace spanscope {

// Where a tensor goes. `*_scales` and the stacked forms exist in one of the two file kinds only.
enum class TensorRole : uint8_t {
  embedding, output, output_norm, output_norm_bias, position_embedding,
  rotary_factors,  // divides the frequencies
  attention_norm, attention_norm_bias, post_attention_norm,
  q, k, v, qkv, o, q_bias, k_bias, v_bias, qkv_bias, o_bias, q_norm, k_norm, sinks,
  feed_forward_norm, feed_forward_norm_bias, post_feed_forward_norm,
  gate, up, gate_up, down, gate_bias, up_bias, down_bias,
  router, router_bias,
  stacked_gate, stacked_up, stacked_down,  // [experts][rows][cols] in one tensor
  stacked_gate_bias, stacked_up_bias, stacked_down_bias,
  stacked_gate_up_bias,                    // [experts][2 rows]: gate and up alternate
  stacked_gate_up, stacked_down_transposed,    // [experts][cols][2 rows], gate and up alternate; [experts][cols][rows]
  mx_gate_up, mx_gate_up_scales, mx_down, mx_down_scales,  // MXFP4: codes and scales apart
  expert_gate, expert_up, expert_down,     // one tensor per expert
  shared_gate, shared_up, shared_down, shared_router,
  ignored,                                 // stored buffers that follow from the configuration
};

// What a dimension must be, in terms of the recipe.
enum class Extent : uint8_t {
  one, hidden, query, key_value, query_key_value, feed_forward, twice_feed_forward, expert_feed_forward,
  twice_expert_feed_forward, shared_feed_forward, experts, vocab, positions, rotary_pairs, heads, head, any
};
uint64_t extent_of(Extent extent, const Recipe& recipe);

// Where it is found: once, in each layer, in layers of one kind, or once per expert of a layer.
enum class Scope : uint8_t { model, layer, dense_layer, moe_layer, expert };
enum class Need : uint8_t { required, optional };

struct TensorRule {
  TensorRole role;
  const char* gguf;  // {l} = layer, {e} = expert; nullptr: not in such files
  const char* hf;
  Extent rows, cols;  // of a stack: of one expert
  Scope scope;
  Need need = Need::required;
  bool transposed = false;  // Hugging Face files hold [cols][rows]
};
using TensorGroup = std::span<const TensorRule>;

struct Family {
  const char* name;                               // general.architecture in GGUF
  std::span<const std::string_view> model_types;  // Hugging Face config.json
  NormKind norm;
  Activation activation;
  bool gated;
  RotaryLayout gguf_rotary;  // Hugging Face files always rotate halves
  RouterRule router;
  bool renormalise_experts;  // where the file does not say
  QueryKeyNorm query_key_norm;
  uint32_t local_every;     // n: all but each n-th layer have the window; 0: all layers have it
  uint32_t unrotated_every; // n: each n-th layer does not rotate; 0: all rotate; 1: none does
  bool embedding_by_root;   // embeddings times sqrt(hidden)
  bool norm_plus_one;       // Hugging Face files store norm weights less one
  bool yarn_truncate;       // what a GGUF file cannot say
  std::span<const TensorGroup> tensors;
};

const Family* find_family(std::string_view gguf_architecture);
const Family* find_family_of_config(std::string_view model_type);
std::string family_names();      // "llama, qwen2, ...", for messages
std::string model_type_names();  // as config.json calls them
// Why an architecture that is known elsewhere is not run ("it has recurrent layers"), or empty.
std::string refusal_of(std::string_view architecture);

// Families' tensors, by family name (tensor_names.cpp).
namespace tensors {
extern const std::span<const TensorGroup> kLlama, kQwen2, kQwen2Moe, kQwen3, kQwen3Moe, kOlmoe, kOlmo2, kGemma2, kGemma3,
    kGpt2, kPhi3, kStarcoder2, kGptOss;
}

// Keys of a GGUF file (of a split model: its first) to a recipe. Needs the tensors only for the number of layers that
// could exist and for what files do not state as keys. Errors: SPAN-GGUF-KEY (missing, wrong type, out of range), SPAN-MODEL (contradiction),
// SPAN-UNSUPPORTED.
Result<Recipe> recipe_from_gguf(const Family& family, const GgufFile& file, const TensorTable& table);
// config.json to a recipe; `tensors`: how many tensors the directory has. Errors: SPAN-HF-CONFIG, SPAN-MODEL,
// SPAN-UNSUPPORTED.
Result<Recipe> recipe_from_config(const Family& family, std::string_view config_json, const std::string& where,
                                  uint64_t tensors);

}  // namespace spanscope
