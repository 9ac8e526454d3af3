// SPDX-License-Identifier: GPL-3.0-or-later
// The model recipe: a family as plain data. Reading a file fills it, every backend walks it. A new family is a
// table row, a tensor-name table and an oracle test. Not for: tensors (weights.h) or running (backend.h).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace spanscope {

enum class NormKind : uint8_t { rms, layer };
enum class Activation : uint8_t { silu, gelu_tanh, gelu_erf };
enum class RotaryLayout : uint8_t { interleaved, halves };  // pairs (2i, 2i+1) or (i, i+d/2)
enum class RouterRule : uint8_t { softmax_all, softmax_chosen };  // softmax over all experts, or over the chosen ones

struct Recipe {
  std::string family;  // GGUF architecture name: "llama"
  std::string name;    // what the file calls the model
  uint32_t layers = 0, hidden = 0, query_heads = 0, kv_heads = 0, head_dim = 0, feed_forward = 0, vocab = 0;
  uint32_t context = 0;  // positions the model was made for
  NormKind norm = NormKind::rms;
  float norm_eps = 1e-5f;
  Activation activation = Activation::silu;
  bool gated = true;  // feed-forward is down(act(gate(x)) * up(x)), else down(act(up(x)))
  bool tied_output = false;

  RotaryLayout rotary = RotaryLayout::interleaved;
  uint32_t rotary_dims = 0;
  // Inverse frequency per pair, scaling applied: angle = position * inverse_frequency[i]. // [rotary_dims/2] f32
  std::vector<float> inverse_frequency;
  float rotary_magnitude = 1.0f;  // factor on cos and sin (yarn)

  float attention_scale = 0;  // usually 1/sqrt(head_dim)
  float score_cap = 0;        // 0: none; else cap * tanh(score / cap) before the mask
  float logit_cap = 0;
  float embedding_scale = 1, residual_scale = 1, logit_scale = 1;
  std::vector<uint32_t> window;  // [layers]; 0: every earlier key is visible, else key j is visible when i - j < window
  bool learned_sink = false;

  uint32_t experts = 0, experts_used = 0, expert_feed_forward = 0;
  RouterRule router = RouterRule::softmax_all;
  bool renormalise_experts = true;
  std::vector<uint8_t> moe_layer;  // [layers] 1 where the feed-forward is a mixture of experts

  uint32_t moe_layers() const {
    uint32_t n = 0;
    for (uint8_t m : moe_layer) n += m;
    return n;
  }
};

}  // namespace spanscope
