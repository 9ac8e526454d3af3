// SPDX-License-Identifier: GPL-3.0-or-later
// Which tensors make up the model of each family, under the names of both file kinds. Groups are shared between
// families; a family is a list of groups.
#include "core/model/family.h"

namespace spanscope::tensors {
namespace {

using enum Extent;
using R = TensorRole;
constexpr Scope kModel = Scope::model, kLayer = Scope::layer, kDense = Scope::dense_layer, kMoe = Scope::moe_layer,
                kExpert = Scope::expert;
constexpr Need kOptional = Need::optional;

// An absent output matrix is the embedding again.
constexpr TensorRule kEnds[] = {
    {R::embedding, "token_embd.weight", "model.embed_tokens.weight", vocab, hidden, kModel},
    {R::output, "output.weight", "lm_head.weight", vocab, hidden, kModel, kOptional},
    {R::output_norm, "output_norm.weight", "model.norm.weight", one, hidden, kModel},
    {R::rotary_factors, "rope_freqs.weight", nullptr, one, rotary_pairs, kModel, kOptional},
    {R::ignored, nullptr, "model.layers.{l}.self_attn.rotary_emb.inv_freq", one, any, kLayer, kOptional},
};
constexpr TensorRule kNorms[] = {
    {R::attention_norm, "blk.{l}.attn_norm.weight", "model.layers.{l}.input_layernorm.weight", one, hidden, kLayer},
    {R::feed_forward_norm, "blk.{l}.ffn_norm.weight", "model.layers.{l}.post_attention_layernorm.weight", one, hidden,
     kLayer},
};
constexpr TensorRule kNormBiases[] = {
    {R::output_norm_bias, "output_norm.bias", "model.norm.bias", one, hidden, kModel},
    {R::attention_norm_bias, "blk.{l}.attn_norm.bias", "model.layers.{l}.input_layernorm.bias", one, hidden, kLayer},
    {R::feed_forward_norm_bias, "blk.{l}.ffn_norm.bias", "model.layers.{l}.post_attention_layernorm.bias", one, hidden,
     kLayer},
};
// Gemma: norms before and after both halves of a layer.
constexpr TensorRule kNormsAround[] = {
    {R::attention_norm, "blk.{l}.attn_norm.weight", "model.layers.{l}.input_layernorm.weight", one, hidden, kLayer},
    {R::post_attention_norm, "blk.{l}.post_attention_norm.weight", "model.layers.{l}.post_attention_layernorm.weight",
     one, hidden, kLayer},
    {R::feed_forward_norm, "blk.{l}.ffn_norm.weight", "model.layers.{l}.pre_feedforward_layernorm.weight", one, hidden,
     kLayer},
    {R::post_feed_forward_norm, "blk.{l}.post_ffw_norm.weight", "model.layers.{l}.post_feedforward_layernorm.weight", one,
     hidden, kLayer},
};
constexpr TensorRule kNormsAfter[] = {
    {R::post_attention_norm, "blk.{l}.post_attention_norm.weight", "model.layers.{l}.post_attention_layernorm.weight",
     one, hidden, kLayer},
    {R::post_feed_forward_norm, "blk.{l}.post_ffw_norm.weight", "model.layers.{l}.post_feedforward_layernorm.weight", one,
     hidden, kLayer},
};
constexpr TensorRule kProjections[] = {
    {R::q, "blk.{l}.attn_q.weight", "model.layers.{l}.self_attn.q_proj.weight", query, hidden, kLayer},
    {R::k, "blk.{l}.attn_k.weight", "model.layers.{l}.self_attn.k_proj.weight", key_value, hidden, kLayer},
    {R::v, "blk.{l}.attn_v.weight", "model.layers.{l}.self_attn.v_proj.weight", key_value, hidden, kLayer},
    {R::o, "blk.{l}.attn_output.weight", "model.layers.{l}.self_attn.o_proj.weight", hidden, query, kLayer},
};
constexpr TensorRule kOptionalBiases[] = {
    {R::q_bias, "blk.{l}.attn_q.bias", "model.layers.{l}.self_attn.q_proj.bias", one, query, kLayer, kOptional},
    {R::k_bias, "blk.{l}.attn_k.bias", "model.layers.{l}.self_attn.k_proj.bias", one, key_value, kLayer, kOptional},
    {R::v_bias, "blk.{l}.attn_v.bias", "model.layers.{l}.self_attn.v_proj.bias", one, key_value, kLayer, kOptional},
    {R::o_bias, "blk.{l}.attn_output.bias", "model.layers.{l}.self_attn.o_proj.bias", one, hidden, kLayer, kOptional},
    {R::gate_bias, "blk.{l}.ffn_gate.bias", "model.layers.{l}.mlp.gate_proj.bias", one, feed_forward, kDense, kOptional},
    {R::up_bias, "blk.{l}.ffn_up.bias", "model.layers.{l}.mlp.up_proj.bias", one, feed_forward, kDense, kOptional},
    {R::down_bias, "blk.{l}.ffn_down.bias", "model.layers.{l}.mlp.down_proj.bias", one, hidden, kDense, kOptional},
};
constexpr TensorRule kQueryKeyValueBiases[] = {
    {R::q_bias, "blk.{l}.attn_q.bias", "model.layers.{l}.self_attn.q_proj.bias", one, query, kLayer},
    {R::k_bias, "blk.{l}.attn_k.bias", "model.layers.{l}.self_attn.k_proj.bias", one, key_value, kLayer},
    {R::v_bias, "blk.{l}.attn_v.bias", "model.layers.{l}.self_attn.v_proj.bias", one, key_value, kLayer},
};
constexpr TensorRule kOutputBias[] = {
    {R::o_bias, "blk.{l}.attn_output.bias", "model.layers.{l}.self_attn.o_proj.bias", one, hidden, kLayer},
};
constexpr TensorRule kHeadNorms[] = {
    {R::q_norm, "blk.{l}.attn_q_norm.weight", "model.layers.{l}.self_attn.q_norm.weight", one, head, kLayer},
    {R::k_norm, "blk.{l}.attn_k_norm.weight", "model.layers.{l}.self_attn.k_norm.weight", one, head, kLayer},
};
constexpr TensorRule kFullNorms[] = {
    {R::q_norm, "blk.{l}.attn_q_norm.weight", "model.layers.{l}.self_attn.q_norm.weight", one, query, kLayer},
    {R::k_norm, "blk.{l}.attn_k_norm.weight", "model.layers.{l}.self_attn.k_norm.weight", one, key_value, kLayer},
};
constexpr TensorRule kGated[] = {
    {R::gate, "blk.{l}.ffn_gate.weight", "model.layers.{l}.mlp.gate_proj.weight", feed_forward, hidden, kDense},
    {R::up, "blk.{l}.ffn_up.weight", "model.layers.{l}.mlp.up_proj.weight", feed_forward, hidden, kDense},
    {R::down, "blk.{l}.ffn_down.weight", "model.layers.{l}.mlp.down_proj.weight", hidden, feed_forward, kDense},
};
// GGUF files hold a layer's experts in one tensor each; files of 2023 one tensor per expert.
constexpr TensorRule kStackedExperts[] = {
    {R::stacked_gate, "blk.{l}.ffn_gate_exps.weight", nullptr, expert_feed_forward, hidden, kMoe},
    {R::stacked_up, "blk.{l}.ffn_up_exps.weight", nullptr, expert_feed_forward, hidden, kMoe},
    {R::stacked_down, "blk.{l}.ffn_down_exps.weight", nullptr, hidden, expert_feed_forward, kMoe},
};
constexpr TensorRule kMixtralExperts[] = {
    {R::router, "blk.{l}.ffn_gate_inp.weight", "model.layers.{l}.block_sparse_moe.gate.weight", experts, hidden, kMoe},
    {R::expert_gate, "blk.{l}.ffn_gate.{e}.weight", "model.layers.{l}.block_sparse_moe.experts.{e}.w1.weight",
     expert_feed_forward, hidden, kExpert},
    {R::expert_up, "blk.{l}.ffn_up.{e}.weight", "model.layers.{l}.block_sparse_moe.experts.{e}.w3.weight",
     expert_feed_forward, hidden, kExpert},
    {R::expert_down, "blk.{l}.ffn_down.{e}.weight", "model.layers.{l}.block_sparse_moe.experts.{e}.w2.weight", hidden,
     expert_feed_forward, kExpert},
};
constexpr TensorRule kExperts[] = {
    {R::router, "blk.{l}.ffn_gate_inp.weight", "model.layers.{l}.mlp.gate.weight", experts, hidden, kMoe},
    {R::expert_gate, nullptr, "model.layers.{l}.mlp.experts.{e}.gate_proj.weight", expert_feed_forward, hidden, kExpert},
    {R::expert_up, nullptr, "model.layers.{l}.mlp.experts.{e}.up_proj.weight", expert_feed_forward, hidden, kExpert},
    {R::expert_down, nullptr, "model.layers.{l}.mlp.experts.{e}.down_proj.weight", hidden, expert_feed_forward, kExpert},
};
constexpr TensorRule kSharedExpert[] = {
    {R::shared_gate, "blk.{l}.ffn_gate_shexp.weight", "model.layers.{l}.mlp.shared_expert.gate_proj.weight",
     shared_feed_forward, hidden, kMoe},
    {R::shared_up, "blk.{l}.ffn_up_shexp.weight", "model.layers.{l}.mlp.shared_expert.up_proj.weight",
     shared_feed_forward, hidden, kMoe},
    {R::shared_down, "blk.{l}.ffn_down_shexp.weight", "model.layers.{l}.mlp.shared_expert.down_proj.weight", hidden,
     shared_feed_forward, kMoe},
    {R::shared_router, "blk.{l}.ffn_gate_inp_shexp.weight", "model.layers.{l}.mlp.shared_expert_gate.weight", one, hidden,
     kMoe},
};
constexpr TensorRule kGpt2Rules[] = {
    {R::embedding, "token_embd.weight", "transformer.wte.weight", vocab, hidden, kModel},
    {R::position_embedding, "position_embd.weight", "transformer.wpe.weight", positions, hidden, kModel},
    {R::output, "output.weight", "lm_head.weight", vocab, hidden, kModel, kOptional},
    {R::output_norm, "output_norm.weight", "transformer.ln_f.weight", one, hidden, kModel},
    {R::output_norm_bias, "output_norm.bias", "transformer.ln_f.bias", one, hidden, kModel},
    {R::attention_norm, "blk.{l}.attn_norm.weight", "transformer.h.{l}.ln_1.weight", one, hidden, kLayer},
    {R::attention_norm_bias, "blk.{l}.attn_norm.bias", "transformer.h.{l}.ln_1.bias", one, hidden, kLayer},
    {R::qkv, "blk.{l}.attn_qkv.weight", "transformer.h.{l}.attn.c_attn.weight", query_key_value, hidden, kLayer,
     Need::required, true},
    {R::qkv_bias, "blk.{l}.attn_qkv.bias", "transformer.h.{l}.attn.c_attn.bias", one, query_key_value, kLayer},
    {R::o, "blk.{l}.attn_output.weight", "transformer.h.{l}.attn.c_proj.weight", hidden, query, kLayer, Need::required,
     true},
    {R::o_bias, "blk.{l}.attn_output.bias", "transformer.h.{l}.attn.c_proj.bias", one, hidden, kLayer},
    {R::feed_forward_norm, "blk.{l}.ffn_norm.weight", "transformer.h.{l}.ln_2.weight", one, hidden, kLayer},
    {R::feed_forward_norm_bias, "blk.{l}.ffn_norm.bias", "transformer.h.{l}.ln_2.bias", one, hidden, kLayer},
    {R::up, "blk.{l}.ffn_up.weight", "transformer.h.{l}.mlp.c_fc.weight", feed_forward, hidden, kDense, Need::required,
     true},
    {R::up_bias, "blk.{l}.ffn_up.bias", "transformer.h.{l}.mlp.c_fc.bias", one, feed_forward, kDense},
    {R::down, "blk.{l}.ffn_down.weight", "transformer.h.{l}.mlp.c_proj.weight", hidden, feed_forward, kDense,
     Need::required, true},
    {R::down_bias, "blk.{l}.ffn_down.bias", "transformer.h.{l}.mlp.c_proj.bias", one, hidden, kDense},
    // The causal mask, stored as a buffer by old versions.
    {R::ignored, nullptr, "transformer.h.{l}.attn.bias", any, any, kLayer, kOptional},
    {R::ignored, nullptr, "transformer.h.{l}.attn.masked_bias", any, any, kLayer, kOptional},
};
constexpr TensorRule kPhi3Rules[] = {
    {R::qkv, "blk.{l}.attn_qkv.weight", "model.layers.{l}.self_attn.qkv_proj.weight", query_key_value, hidden, kLayer},
    {R::o, "blk.{l}.attn_output.weight", "model.layers.{l}.self_attn.o_proj.weight", hidden, query, kLayer},
    {R::gate_up, "blk.{l}.ffn_up.weight", "model.layers.{l}.mlp.gate_up_proj.weight", twice_feed_forward, hidden, kDense},
    {R::down, "blk.{l}.ffn_down.weight", "model.layers.{l}.mlp.down_proj.weight", hidden, feed_forward, kDense},
    // Read with the keys: they make the rotary tables.
    {R::ignored, "rope_factors_long.weight", nullptr, one, rotary_pairs, kModel, kOptional},
    {R::ignored, "rope_factors_short.weight", nullptr, one, rotary_pairs, kModel, kOptional},
};
constexpr TensorRule kStarcoder2Rules[] = {
    {R::up, "blk.{l}.ffn_up.weight", "model.layers.{l}.mlp.c_fc.weight", feed_forward, hidden, kDense},
    {R::up_bias, "blk.{l}.ffn_up.bias", "model.layers.{l}.mlp.c_fc.bias", one, feed_forward, kDense},
    {R::down, "blk.{l}.ffn_down.weight", "model.layers.{l}.mlp.c_proj.weight", hidden, feed_forward, kDense},
    {R::down_bias, "blk.{l}.ffn_down.bias", "model.layers.{l}.mlp.c_proj.bias", one, hidden, kDense},
};
constexpr TensorRule kGptOssRules[] = {
    {R::attention_norm, "blk.{l}.attn_norm.weight", "model.layers.{l}.input_layernorm.weight", one, hidden, kLayer},
    {R::feed_forward_norm, "blk.{l}.post_attention_norm.weight", "model.layers.{l}.post_attention_layernorm.weight", one,
     hidden, kLayer},
    {R::sinks, "blk.{l}.attn_sinks.weight", "model.layers.{l}.self_attn.sinks", one, heads, kLayer},
    {R::router, "blk.{l}.ffn_gate_inp.weight", "model.layers.{l}.mlp.router.weight", experts, hidden, kMoe},
    {R::router_bias, "blk.{l}.ffn_gate_inp.bias", "model.layers.{l}.mlp.router.bias", one, experts, kMoe},
    {R::stacked_gate_bias, "blk.{l}.ffn_gate_exps.bias", nullptr, one, expert_feed_forward, kMoe},
    {R::stacked_up_bias, "blk.{l}.ffn_up_exps.bias", nullptr, one, expert_feed_forward, kMoe},
    {R::stacked_down_bias, "blk.{l}.ffn_down_exps.bias", "model.layers.{l}.mlp.experts.down_proj_bias", one, hidden,
     kMoe},
    {R::stacked_gate_up_bias, nullptr, "model.layers.{l}.mlp.experts.gate_up_proj_bias", one, twice_expert_feed_forward,
     kMoe},
    // Either quantised ...
    {R::mx_gate_up, nullptr, "model.layers.{l}.mlp.experts.gate_up_proj_blocks", twice_expert_feed_forward, hidden, kMoe,
     kOptional},
    {R::mx_gate_up_scales, nullptr, "model.layers.{l}.mlp.experts.gate_up_proj_scales", twice_expert_feed_forward, hidden,
     kMoe, kOptional},
    {R::mx_down, nullptr, "model.layers.{l}.mlp.experts.down_proj_blocks", hidden, expert_feed_forward, kMoe, kOptional},
    {R::mx_down_scales, nullptr, "model.layers.{l}.mlp.experts.down_proj_scales", hidden, expert_feed_forward, kMoe,
     kOptional},
    // ... or not.
    {R::stacked_gate_up, nullptr, "model.layers.{l}.mlp.experts.gate_up_proj", twice_expert_feed_forward, hidden, kMoe,
     kOptional},
    {R::stacked_down_transposed, nullptr, "model.layers.{l}.mlp.experts.down_proj", hidden, expert_feed_forward, kMoe,
     kOptional},
};

constexpr TensorGroup kLlamaGroups[] = {kEnds, kNorms, kProjections, kOptionalBiases, kGated, kMixtralExperts,
                                        kStackedExperts};
constexpr TensorGroup kQwen2Groups[] = {kEnds, kNorms, kProjections, kQueryKeyValueBiases, kGated};
constexpr TensorGroup kQwen2MoeGroups[] = {kEnds,    kNorms,          kProjections, kQueryKeyValueBiases, kGated,
                                           kExperts, kStackedExperts, kSharedExpert};
constexpr TensorGroup kQwen3Groups[] = {kEnds, kNorms, kProjections, kHeadNorms, kGated};
constexpr TensorGroup kQwen3MoeGroups[] = {kEnds, kNorms, kProjections, kHeadNorms, kGated, kExperts, kStackedExperts};
constexpr TensorGroup kOlmoeGroups[] = {kEnds, kNorms, kProjections, kFullNorms, kExperts, kStackedExperts};
constexpr TensorGroup kOlmo2Groups[] = {kEnds, kNormsAfter, kProjections, kFullNorms, kGated};
constexpr TensorGroup kGemma2Groups[] = {kEnds, kNormsAround, kProjections, kGated};
constexpr TensorGroup kGemma3Groups[] = {kEnds, kNormsAround, kProjections, kHeadNorms, kGated};
constexpr TensorGroup kGpt2Groups[] = {kGpt2Rules};
constexpr TensorGroup kPhi3Groups[] = {kEnds, kNorms, kPhi3Rules};
constexpr TensorGroup kStarcoder2Groups[] = {kEnds,       kNorms, kNormBiases, kProjections, kQueryKeyValueBiases,
                                             kOutputBias, kStarcoder2Rules};
constexpr TensorGroup kGptOssGroups[] = {kEnds,        kProjections, kQueryKeyValueBiases, kOutputBias, kStackedExperts,
                                         kGptOssRules};

}  // namespace

const std::span<const TensorGroup> kLlama = kLlamaGroups, kQwen2 = kQwen2Groups, kQwen2Moe = kQwen2MoeGroups,
                                   kQwen3 = kQwen3Groups, kQwen3Moe = kQwen3MoeGroups, kOlmoe = kOlmoeGroups,
                                   kOlmo2 = kOlmo2Groups, kGemma2 = kGemma2Groups, kGemma3 = kGemma3Groups,
                                   kGpt2 = kGpt2Groups, kPhi3 = kPhi3Groups, kStarcoder2 = kStarcoder2Groups,
                                   kGptOss = kGptOssGroups;

}  // namespace spanscope::tensors
