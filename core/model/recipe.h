// SPDX-License-Identifier: GPL-3.0-or-later
// The model recipe: a family as plain data. Reading a file fills it, every backend walks it. A new family is a
// table row, a tensor-name table and an oracle test. Not for: tensors (weights.h) or running (backend.h).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace spanscope {

enum class NormKind : uint8_t { rms, layer };
// swiglu_clamped: g = min(gate, limit), u = clamp(up, -limit, limit), (u + 1) * g * sigmoid(alpha * g).
enum class Activation : uint8_t { silu, gelu_tanh, gelu_erf, swiglu_clamped };
enum class RotaryLayout : uint8_t { interleaved, halves };  // pairs (2i, 2i+1) or (i, i+d/2)
enum class RouterRule : uint8_t { softmax_all, softmax_chosen };  // softmax over all experts, or over the chosen ones
enum class QueryKeyNorm : uint8_t { none, head, full };  // before rotation: of each head by itself, or of all heads together

// Angles of one kind of layer: angle = position * inverse_frequency[i], scaling applied; cos and sin times magnitude.
struct RotaryTable {
  std::vector<float> inverse_frequency;  // [rotary_dims/2]
  float magnitude = 1.0f;
  // Of models that change with length: what sequences of more than Recipe::long_from positions use, for all positions.
  std::vector<float> long_inverse_frequency;  // [rotary_dims/2] or empty
};

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

  float swiglu_limit = 0, swiglu_alpha = 0;  // of swiglu_clamped

  RotaryLayout rotary = RotaryLayout::interleaved;
  uint32_t rotary_dims = 0;
  std::vector<RotaryTable> rotary_tables;
  std::vector<int8_t> rotary_of_layer;  // [layers] index into rotary_tables, -1: this layer does not rotate
  uint32_t long_from = 0;               // 0: the rotary tables do not change with length
  uint32_t learned_positions = 0;       // rows of Model::position_embedding, 0: none

  QueryKeyNorm query_key_norm = QueryKeyNorm::none;
  float attention_scale = 0;  // usually 1/sqrt(head_dim)
  float score_cap = 0;        // 0: none; else cap * tanh(score / cap) before the mask
  float logit_cap = 0;
  float embedding_scale = 1, residual_scale = 1, logit_scale = 1;
  std::vector<uint32_t> window;  // [layers]; 0: every earlier key is visible, else key j is visible when i - j < window
  bool learned_sink = false;

  uint32_t experts = 0, experts_used = 0, expert_feed_forward = 0;
  uint32_t shared_feed_forward = 0;  // 0: no shared expert
  RouterRule router = RouterRule::softmax_all;
  bool renormalise_experts = true;
  std::vector<uint8_t> moe_layer;  // [layers] 1 where the feed-forward is a mixture of experts

  // Whether a sequence that reaches `positions` positions uses the long factors.
  bool long_rotary(uint64_t positions) const { return long_from != 0 && positions > long_from; }
  uint32_t moe_layers() const {
    uint32_t n = 0;
    for (uint8_t m : moe_layer) n += m;
    return n;
  }
};

}  // namespace spanscope
