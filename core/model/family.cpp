// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/model/family.h"

#include <fmt/format.h>

#include <cmath>

namespace spanscope {
namespace {

using enum Extent;
constexpr TensorRule kLlamaTensors[] = {
    {TensorRole::embedding, "token_embd.weight", vocab, hidden, Presence::model},
    {TensorRole::output, "output.weight", vocab, hidden,
     Presence::optional_model},  // absent: tied to the embedding
    {TensorRole::output_norm, "output_norm.weight", one, hidden, Presence::model},
    {TensorRole::rotary_factors, "rope_freqs.weight", one, rotary_pairs, Presence::optional_model},
    {TensorRole::attention_norm, "blk.{l}.attn_norm.weight", one, hidden, Presence::layer},
    {TensorRole::q, "blk.{l}.attn_q.weight", query, hidden, Presence::layer},
    {TensorRole::k, "blk.{l}.attn_k.weight", key_value, hidden, Presence::layer},
    {TensorRole::v, "blk.{l}.attn_v.weight", key_value, hidden, Presence::layer},
    {TensorRole::o, "blk.{l}.attn_output.weight", hidden, query, Presence::layer},
    {TensorRole::feed_forward_norm, "blk.{l}.ffn_norm.weight", one, hidden, Presence::layer},
    {TensorRole::gate, "blk.{l}.ffn_gate.weight", feed_forward, hidden, Presence::dense_layer},
    {TensorRole::up, "blk.{l}.ffn_up.weight", feed_forward, hidden, Presence::dense_layer},
    {TensorRole::down, "blk.{l}.ffn_down.weight", hidden, feed_forward, Presence::dense_layer},
    {TensorRole::router, "blk.{l}.ffn_gate_inp.weight", experts, hidden, Presence::moe_layer},
    {TensorRole::stacked_gate, "blk.{l}.ffn_gate_exps.weight", expert_feed_forward, hidden,
     Presence::moe_stacked},
    {TensorRole::stacked_up, "blk.{l}.ffn_up_exps.weight", expert_feed_forward, hidden,
     Presence::moe_stacked},
    {TensorRole::stacked_down, "blk.{l}.ffn_down_exps.weight", hidden, expert_feed_forward,
     Presence::moe_stacked},
    {TensorRole::expert_gate, "blk.{l}.ffn_gate.{e}.weight", expert_feed_forward, hidden,
     Presence::moe_single},
    {TensorRole::expert_up, "blk.{l}.ffn_up.{e}.weight", expert_feed_forward, hidden, Presence::moe_single},
    {TensorRole::expert_down, "blk.{l}.ffn_down.{e}.weight", hidden, expert_feed_forward,
     Presence::moe_single},
};

constexpr Family kFamilies[] = {
    // Dense Llama-like models and, with expert_count > 0, Mixtral: softmax over all experts, the chosen ones
    // renormalised.
    {"llama", NormKind::rms, Activation::silu, true, RotaryLayout::interleaved, RouterRule::softmax_all, true,
     kLlamaTensors},
};

// Reads keys of one architecture; remembers the first error, so that a table of reads stays a table.
class KeyReader {
 public:
  KeyReader(const GgufFile& file, const char* architecture)
      : file_(file), prefix_(std::string(architecture) + ".") {}

  uint32_t whole(const char* key, uint64_t least, uint64_t most, std::optional<uint64_t> fallback = {}) {
    auto value = file_.unsigned_value(prefix_ + key, fallback);
    if (!value) return fail(std::move(value).error());
    if (*value < least || *value > most)
      return fail(out_of_range(key, fmt::format("{} to {}", least, most), fmt::to_string(*value)));
    return uint32_t(*value);
  }
  double number(const char* key, double least, double most, std::optional<double> fallback = {}) {
    auto value = file_.number(prefix_ + key, fallback);
    if (!value) return fail(std::move(value).error());
    if (!(*value >= least && *value <= most))
      return fail(out_of_range(key, fmt::format("{} to {}", least, most), fmt::to_string(*value)));
    return *value;
  }
  bool has(const char* key) const { return file_.find(prefix_ + key) != nullptr; }
  std::string text(const char* key, const char* fallback) {
    auto value = file_.text(prefix_ + key, fallback);
    if (!value) {
      fail(std::move(value).error());
      return {};
    }
    return *value;
  }
  uint32_t fail(Error error) {
    if (!error_) error_ = std::move(error);
    return 0;
  }
  const std::optional<Error>& error() const { return error_; }

 private:
  Error out_of_range(const char* key, const std::string& expected, const std::string& found) const {
    const GgufValue* v = file_.find(prefix_ + key);
    return make_error(
        ErrorCode::corrupt, "SPAN-GGUF-KEY",
        fmt::format("metadata key \"{}{}\": expected {}, found {}", prefix_, key, expected, found),
        file_.where(), v ? std::optional<uint64_t>(v->offset) : std::nullopt);
  }
  const GgufFile& file_;
  std::string prefix_;
  std::optional<Error> error_;
};

// 1 / base^(2i / dims) as transformers computes it: power and reciprocal each rounded to float32.
std::vector<float> inverse_frequencies(uint32_t dims, float base) {
  std::vector<float> out(dims / 2);
  for (uint32_t i = 0; i < out.size(); ++i) {
    const float exponent = float(2 * i) / float(dims);
    out[i] = 1.0f / float(std::pow(double(base), double(exponent)));
  }
  return out;
}

}  // namespace

uint64_t extent_of(Extent extent, const Recipe& r) {
  switch (extent) {
    case one:
      return 1;
    case hidden:
      return r.hidden;
    case query:
      return uint64_t(r.query_heads) * r.head_dim;
    case key_value:
      return uint64_t(r.kv_heads) * r.head_dim;
    case feed_forward:
      return r.feed_forward;
    case expert_feed_forward:
      return r.expert_feed_forward;
    case experts:
      return r.experts;
    case vocab:
      return r.vocab;
    case rotary_pairs:
      return r.rotary_dims / 2;
  }
  return 0;
}

const Family* find_family(std::string_view architecture) {
  for (const Family& family : kFamilies)
    if (architecture == family.name) return &family;
  return nullptr;
}

std::string family_names() {
  std::string out;
  for (const Family& family : kFamilies) out += (out.empty() ? "" : ", ") + std::string(family.name);
  return out;
}

Result<Recipe> fill_recipe(const Family& family, const GgufFile& file) {
  constexpr uint64_t kWidth = 1 << 22,
                     kIndex = 65535;  // layer and head numbers are 16 bits wide in read events
  KeyReader keys(file, family.name);
  Recipe r;
  r.family = family.name;
  r.norm = family.norm;
  r.activation = family.activation;
  r.gated = family.gated;
  r.rotary = family.rotary;
  r.router = family.router;
  r.renormalise_experts = family.renormalise_experts;

  r.layers = keys.whole("block_count", 1, kIndex);
  r.hidden = keys.whole("embedding_length", 1, kWidth);
  r.context = keys.whole("context_length", 1, UINT32_MAX);
  r.feed_forward = keys.whole("feed_forward_length", 1, kWidth);
  r.query_heads = keys.whole("attention.head_count", 1, kIndex);
  r.kv_heads = keys.whole("attention.head_count_kv", 1, kIndex, r.query_heads);
  r.norm_eps = float(keys.number("attention.layer_norm_rms_epsilon", 0, 1));
  if (keys.error()) return *keys.error();

  auto contradiction = [&](const std::string& message) {
    return make_error(ErrorCode::corrupt, "SPAN-MODEL", message, file.where());
  };
  auto unsupported = [&](const std::string& message) {
    return make_error(ErrorCode::unsupported, "SPAN-UNSUPPORTED", message, file.where());
  };
  // Every layer has tensors of its own, so this also bounds what a hostile number could allocate.
  if (r.layers > file.tensors().size())
    return contradiction(
        fmt::format("{} layers, but the file has {} tensors", r.layers, file.tensors().size()));
  if (r.query_heads % r.kv_heads != 0)
    return contradiction(
        fmt::format("{} query heads cannot share {} key heads evenly", r.query_heads, r.kv_heads));
  if (!keys.has("attention.key_length") && r.hidden % r.query_heads != 0)
    return contradiction(
        fmt::format("width {} does not divide into {} heads, and no attention.key_length is given", r.hidden,
                    r.query_heads));
  r.head_dim = keys.whole("attention.key_length", 1, 1 << 16, r.hidden / r.query_heads);
  const uint32_t value_dim = keys.whole("attention.value_length", 1, 1 << 16, r.head_dim);
  r.rotary_dims = keys.whole("rope.dimension_count", 0, r.head_dim, r.head_dim);
  const double base = keys.number("rope.freq_base", 1e-6, 1e12, 10000.0);
  r.attention_scale = float(keys.number("attention.scale", 0, 1e6, 0.0));
  const std::string scaling = keys.text("rope.scaling.type", "none");
  double factor = keys.number("rope.scaling.factor", 1e-6, 1e6, 1.0);
  const double old_factor = keys.number("rope.scale_linear", 1e-6, 1e6, 1.0);
  r.window.assign(r.layers, keys.whole("attention.sliding_window", 0, UINT32_MAX, 0));
  r.experts = keys.whole("expert_count", 0, kIndex, 0);
  if (r.experts) {
    r.experts_used = keys.whole("expert_used_count", 1, r.experts);
    r.expert_feed_forward = keys.whole("expert_feed_forward_length", 1, kWidth, r.feed_forward);
    if (keys.whole("expert_shared_count", 0, kIndex, 0)) return unsupported("shared experts are not run yet");
    switch (keys.whole("expert_gating_func", 0, UINT32_MAX, 0)) {
      case 0:
        break;  // what the family does
      case 1:
        r.router = RouterRule::softmax_all;
        break;
      case 3:
        r.router = RouterRule::softmax_chosen;
        break;
      default:
        return unsupported(
            "expert_gating_func: only softmax (1) and softmax over the chosen experts (3) are run");
    }
  }
  if (keys.error()) return *keys.error();
  if (value_dim != r.head_dim)
    return unsupported(fmt::format("keys of {} and values of {} elements: only equal lengths are run",
                                   r.head_dim, value_dim));
  if (r.rotary_dims % 2 != 0)
    return contradiction(fmt::format("rope.dimension_count is {}, expected an even number", r.rotary_dims));
  if (r.attention_scale == 0) r.attention_scale = 1.0f / std::sqrt(float(r.head_dim));
  if (scaling == "none" || scaling.empty())
    factor = 1.0;
  else if (scaling != "linear")
    return unsupported(
        fmt::format("rope.scaling.type \"{}\": only \"none\" and \"linear\" are run", printable(scaling)));
  if (factor == 1.0) factor = old_factor;
  r.inverse_frequency = inverse_frequencies(r.rotary_dims, float(base));
  for (float& f : r.inverse_frequency) f /= float(factor);
  r.moe_layer.assign(r.layers, r.experts ? 1 : 0);
  return r;
}

}  // namespace spanscope
