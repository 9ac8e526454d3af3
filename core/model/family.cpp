// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/model/family.h"

#include <array>

namespace spanscope {
namespace {

using namespace std::string_view_literals;
using T = std::string_view;
constexpr T kLlamaTypes[] = {"llama", "mistral", "mixtral"}, kQwen2Types[] = {"qwen2"}, kQwen2MoeTypes[] = {"qwen2_moe"},
            kQwen3Types[] = {"qwen3"}, kQwen3MoeTypes[] = {"qwen3_moe"}, kOlmoeTypes[] = {"olmoe"},
            kOlmo2Types[] = {"olmo2"}, kGemma2Types[] = {"gemma2"}, kGemma3Types[] = {"gemma3_text"},
            kGpt2Types[] = {"gpt2"}, kPhi3Types[] = {"phi3"}, kGraniteTypes[] = {"granite"},
            kSmolLm3Types[] = {"smollm3"}, kStarcoder2Types[] = {"starcoder2"}, kGptOssTypes[] = {"gpt_oss"};

constexpr auto kRms = NormKind::rms, kLayerNorm = NormKind::layer;
constexpr auto kSilu = Activation::silu, kGelu = Activation::gelu_tanh;
constexpr auto kPairs = RotaryLayout::interleaved, kHalves = RotaryLayout::halves;
constexpr auto kAll = RouterRule::softmax_all, kChosen = RouterRule::softmax_chosen;
constexpr auto kNone = QueryKeyNorm::none, kHead = QueryKeyNorm::head, kFull = QueryKeyNorm::full;

// A function's own variable: the tables of tensor_names.cpp are then made before they are used.
std::span<const Family> families() {
  static const Family all[] = {
      // name, model types, norm, activation, gated, pairs in GGUF, router, renormalise, qk norm, local every,
      // unrotated every, root, plus one, truncate, tensors
      {"llama", kLlamaTypes, kRms, kSilu, true, kPairs, kAll, true, kNone, 0, 0, false, false, true, tensors::kLlama},
      {"qwen2", kQwen2Types, kRms, kSilu, true, kHalves, kAll, true, kNone, 0, 0, false, false, true, tensors::kQwen2},
      {"qwen2moe", kQwen2MoeTypes, kRms, kSilu, true, kHalves, kAll, false, kNone, 0, 0, false, false, true,
       tensors::kQwen2Moe},
      {"qwen3", kQwen3Types, kRms, kSilu, true, kHalves, kAll, true, kHead, 0, 0, false, false, true, tensors::kQwen3},
      {"qwen3moe", kQwen3MoeTypes, kRms, kSilu, true, kHalves, kAll, true, kHead, 0, 0, false, false, true,
       tensors::kQwen3Moe},
      {"olmoe", kOlmoeTypes, kRms, kSilu, true, kHalves, kAll, false, kFull, 0, 0, false, false, true, tensors::kOlmoe},
      {"olmo2", kOlmo2Types, kRms, kSilu, true, kHalves, kAll, true, kFull, 0, 0, false, false, true, tensors::kOlmo2},
      {"gemma2", kGemma2Types, kRms, kGelu, true, kHalves, kAll, true, kNone, 2, 0, true, true, true, tensors::kGemma2},
      {"gemma3", kGemma3Types, kRms, kGelu, true, kHalves, kAll, true, kHead, 6, 0, true, true, true, tensors::kGemma3},
      {"gpt2", kGpt2Types, kLayerNorm, kGelu, false, kHalves, kAll, true, kNone, 0, 1, false, false, true,
       tensors::kGpt2},
      {"phi3", kPhi3Types, kRms, kSilu, true, kHalves, kAll, true, kNone, 0, 0, false, false, true, tensors::kPhi3},
      {"granite", kGraniteTypes, kRms, kSilu, true, kPairs, kAll, true, kNone, 0, 0, false, false, true, tensors::kLlama},
      {"smollm3", kSmolLm3Types, kRms, kSilu, true, kPairs, kAll, true, kNone, 0, 4, false, false, true, tensors::kLlama},
      {"starcoder2", kStarcoder2Types, kLayerNorm, kGelu, false, kHalves, kAll, true, kNone, 0, 0, false, false, true,
       tensors::kStarcoder2},
      {"gpt-oss", kGptOssTypes, kRms, Activation::swiglu_clamped, true, kHalves, kChosen, true, kNone, 2, 0, false, false,
       false, tensors::kGptOss},
  };
  return all;
}

struct Refusal {
  std::string_view name;
  const char* why;
};
constexpr const char* kRecurrent = "it has recurrent or linear-attention layers, whose reading is not attention";
constexpr const char* kEncoder = "it has an encoder: attention goes both ways";
constexpr const char* kLatent = "its latent attention has no keys per head";
constexpr Refusal kRefusals[] = {
    {"mamba", kRecurrent},      {"mamba2", kRecurrent},       {"jamba", kRecurrent},        {"rwkv6", kRecurrent},
    {"rwkv7", kRecurrent},      {"rwkv6qwen2", kRecurrent},   {"arwkv7", kRecurrent},       {"rwkv", kRecurrent},
    {"falcon-h1", kRecurrent},  {"falcon_h1", kRecurrent},    {"falcon_mamba", kRecurrent}, {"granitehybrid", kRecurrent},
    {"granitemoehybrid", kRecurrent},                         {"nemotron_h", kRecurrent},   {"nemotron_h_moe", kRecurrent},
    {"plamo2", kRecurrent},     {"lfm2", kRecurrent},         {"lfm2moe", kRecurrent},      {"qwen3next", kRecurrent},
    {"qwen3_next", kRecurrent}, {"kimi-linear", kRecurrent},  {"kimi_linear", kRecurrent},  {"bamba", kRecurrent},
    {"zamba2", kRecurrent},     {"recurrentgemma", kRecurrent}, {"recurrent_gemma", kRecurrent}, {"minimax", kRecurrent},
    {"bert", kEncoder},         {"nomic-bert", kEncoder},     {"t5", kEncoder},             {"t5encoder", kEncoder},
    {"deepseek2", kLatent},     {"deepseek_v2", kLatent},     {"deepseek_v3", kLatent},     {"minicpm3", kLatent},
};

}  // namespace

uint64_t extent_of(Extent extent, const Recipe& r) {
  const uint64_t query = uint64_t(r.query_heads) * r.head_dim, key_value = uint64_t(r.kv_heads) * r.head_dim;
  switch (extent) {
    case Extent::one: return 1;
    case Extent::hidden: return r.hidden;
    case Extent::query: return query;
    case Extent::key_value: return key_value;
    case Extent::query_key_value: return query + 2 * key_value;
    case Extent::feed_forward: return r.feed_forward;
    case Extent::twice_feed_forward: return 2 * uint64_t(r.feed_forward);
    case Extent::expert_feed_forward: return r.expert_feed_forward;
    case Extent::twice_expert_feed_forward: return 2 * uint64_t(r.expert_feed_forward);
    case Extent::shared_feed_forward: return r.shared_feed_forward;
    case Extent::experts: return r.experts;
    case Extent::vocab: return r.vocab;
    case Extent::positions: return r.learned_positions;
    case Extent::rotary_pairs: return r.rotary_dims / 2;
    case Extent::heads: return r.query_heads;
    case Extent::head: return r.head_dim;
    case Extent::any: return 0;
  }
  return 0;
}

const Family* find_family(std::string_view architecture) {
  for (const Family& family : families())
    if (architecture == family.name) return &family;
  return nullptr;
}
const Family* find_family_of_config(std::string_view model_type) {
  for (const Family& family : families())
    for (std::string_view type : family.model_types)
      if (type == model_type) return &family;
  return nullptr;
}

std::string family_names() {
  std::string out;
  for (const Family& family : families()) out += (out.empty() ? "" : ", ") + std::string(family.name);
  return out;
}
std::string model_type_names() {
  std::string out;
  for (const Family& family : families())
    for (std::string_view type : family.model_types) out += (out.empty() ? "" : ", ") + std::string(type);
  return out;
}

std::string refusal_of(std::string_view architecture) {
  for (const Refusal& r : kRefusals)
    if (architecture == r.name) return r.why;
  return {};
}

}  // namespace spanscope
