// SPDX-License-Identifier: GPL-3.0-or-later
// config.json of a Hugging Face directory to a recipe. Takes the keys of published checkpoints (rope_theta,
// rope_scaling) and those that transformers 5 writes (rope_parameters). Defaults are those of transformers'
// configuration classes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/json.h"
#include "core/model/family.h"
#include "core/model/rotary.h"

namespace spanscope {
namespace {

constexpr uint64_t kWidth = 1 << 22, kIndex = 65535;

// Reads keys of one JSON object; remembers the first error. A null counts as absent.
class ConfigReader {
 public:
  ConfigReader(const OrderedJson& object, std::string where, std::string prefix = {})
      : object_(object), where_(std::move(where)), prefix_(std::move(prefix)) {}

  const OrderedJson* find(const char* key) const {
    if (!object_.is_object()) return nullptr;
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  uint32_t whole(const char* key, uint64_t least, uint64_t most, std::optional<uint64_t> fallback = {}) {
    const OrderedJson* v = find(key);
    if (!v) {
      if (fallback) return uint32_t(*fallback);
      return uint32_t(fail(key, "a whole number", "nothing"));
    }
    if (!v->is_number_unsigned()) return uint32_t(fail(key, "a whole number", shown(*v)));
    const uint64_t value = v->get<uint64_t>();
    if (value < least || value > most)
      return uint32_t(fail(key, fmt::format("{} to {}", least, most), fmt::to_string(value)));
    return uint32_t(value);
  }
  double number(const char* key, double least, double most, std::optional<double> fallback = {}) {
    const OrderedJson* v = find(key);
    if (!v) {
      if (fallback) return *fallback;
      return fail(key, "a number", "nothing");
    }
    if (!v->is_number()) return fail(key, "a number", shown(*v));
    const double value = v->get<double>();
    if (!(value >= least && value <= most))
      return fail(key, fmt::format("{} to {}", least, most), fmt::to_string(value));
    return value;
  }
  bool flag(const char* key, bool fallback) {
    const OrderedJson* v = find(key);
    if (!v) return fallback;
    if (!v->is_boolean()) {
      fail(key, "true or false", shown(*v));
      return fallback;
    }
    return v->get<bool>();
  }
  std::string text(const char* key, std::string fallback) {
    const OrderedJson* v = find(key);
    if (!v) return fallback;
    if (!v->is_string()) {
      fail(key, "a string", shown(*v));
      return fallback;
    }
    return v->get<std::string>();
  }
  // A list of numbers of a stated length, or empty when absent.
  std::vector<float> numbers(const char* key, size_t expected) {
    const OrderedJson* v = find(key);
    if (!v) return {};
    if (!v->is_array() || v->size() != expected) {
      fail(key, fmt::format("a list of {} numbers", expected), v->is_array() ? fmt::format("{}", v->size()) : shown(*v));
      return {};
    }
    std::vector<float> out;
    for (const auto& n : *v) {
      const double value = n.is_number() ? n.get<double>() : -1;
      if (!(value > 0 && value < 1e6)) {
        fail(key, "numbers above 0", shown(n));
        return {};
      }
      out.push_back(float(value));
    }
    return out;
  }
  double fail(const char* key, const std::string& expected, const std::string& found) {
    if (!error_)
      error_ = make_error(ErrorCode::corrupt, "SPAN-HF-CONFIG",
                          fmt::format("\"{}{}\": expected {}, found {}", prefix_, key, expected, found), where_);
    return 0;
  }
  void adopt(const ConfigReader& other) {
    if (!error_ && other.error_) error_ = other.error_;
  }
  const std::optional<Error>& error() const { return error_; }

 private:
  static std::string shown(const OrderedJson& v) {
    return printable(v.dump(-1, ' ', true, OrderedJson::error_handler_t::replace));
  }
  const OrderedJson& object_;
  std::string where_, prefix_;
  std::optional<Error> error_;
};

class ConfigRecipe {
 public:
  ConfigRecipe(const Family& family, const OrderedJson& config, const std::string& where, uint64_t tensors)
      : family_(family), where_(where), tensors_(tensors), keys_(config, where) {}

  Result<Recipe> read() {
    type_ = keys_.text("model_type", "");
    gpt2_ = type_ == "gpt2";
    r_.family = family_.name;
    r_.norm = family_.norm;
    r_.gated = family_.gated;
    r_.rotary = RotaryLayout::halves;
    r_.router = family_.router;
    r_.query_key_norm = family_.query_key_norm;
    SPANSCOPE_TRY(sizes());
    SPANSCOPE_TRY(activation());
    SPANSCOPE_TRY(windows());
    SPANSCOPE_TRY(experts());
    SPANSCOPE_TRY(rotation());
    SPANSCOPE_TRY(scales());
    return std::move(r_);
  }

 private:
  Error contradiction(const std::string& message) const {
    return make_error(ErrorCode::corrupt, "SPAN-MODEL", message, where_);
  }
  Error unsupported(const std::string& message) const {
    return make_error(ErrorCode::unsupported, "SPAN-UNSUPPORTED", message, where_);
  }
  Status checked() const {
    if (keys_.error()) return *keys_.error();
    return {};
  }

  Status sizes() {
    r_.layers = keys_.whole(gpt2_ ? "n_layer" : "num_hidden_layers", 1, kIndex);
    r_.hidden = keys_.whole(gpt2_ ? "n_embd" : "hidden_size", 1, kWidth);
    r_.vocab = keys_.whole("vocab_size", 1, INT32_MAX);
    r_.context = keys_.whole(gpt2_ ? "n_positions" : "max_position_embeddings", 1, UINT32_MAX);
    r_.query_heads = keys_.whole(gpt2_ ? "n_head" : "num_attention_heads", 1, kIndex);
    SPANSCOPE_TRY(checked());
    r_.kv_heads = keys_.whole("num_key_value_heads", 1, kIndex, r_.query_heads);
    r_.feed_forward =
        gpt2_ ? keys_.whole("n_inner", 1, kWidth, uint64_t(4) * r_.hidden) : keys_.whole("intermediate_size", 1, kWidth);
    const char* eps = gpt2_ ? "layer_norm_epsilon" : r_.norm == NormKind::layer ? "norm_epsilon" : "rms_norm_eps";
    r_.norm_eps = float(keys_.number(eps, 0, 1, r_.norm == NormKind::layer ? 1e-5 : 1e-6));
    SPANSCOPE_TRY(checked());
    if (r_.layers > tensors_)
      return contradiction(fmt::format("{} layers, but the files have {} tensors", r_.layers, tensors_));
    if (r_.query_heads % r_.kv_heads != 0)
      return contradiction(
          fmt::format("{} query heads cannot share {} key heads evenly", r_.query_heads, r_.kv_heads));
    if (!keys_.find("head_dim") && r_.hidden % r_.query_heads != 0)
      return contradiction(fmt::format("width {} does not divide into {} heads, and no head_dim is given", r_.hidden,
                                       r_.query_heads));
    r_.head_dim = keys_.whole("head_dim", 1, 1 << 16, r_.hidden / r_.query_heads);
    if (gpt2_) r_.learned_positions = r_.context;
    if (keys_.flag("scale_attn_by_inverse_layer_idx", false))
      return unsupported("scale_attn_by_inverse_layer_idx is not run");
    if (!keys_.flag("scale_attn_weights", true)) return unsupported("scale_attn_weights: false is not run");
    if (keys_.find("clip_qkv")) return unsupported("clip_qkv is not run");
    return checked();
  }

  Status activation() {
    if (family_.activation == Activation::swiglu_clamped) {
      r_.activation = Activation::swiglu_clamped;
      r_.swiglu_limit = float(keys_.number("swiglu_limit", 0, 1e6, 7.0));
      r_.swiglu_alpha = float(keys_.number("swiglu_alpha", 0, 1e6, 1.702));
      return checked();
    }
    const std::string fallback = family_.activation == Activation::silu ? "silu" : "gelu_pytorch_tanh";
    // Gemma's first key is a leftover; the second one counts.
    const std::string name = keys_.text(gpt2_                               ? "activation_function"
                                        : keys_.find("hidden_activation") ? "hidden_activation"
                                                                            : "hidden_act",
                                        fallback);
    if (name == "silu" || name == "swish")
      r_.activation = Activation::silu;
    else if (name == "gelu_pytorch_tanh" || name == "gelu_new")
      r_.activation = Activation::gelu_tanh;
    else if (name == "gelu")
      r_.activation = Activation::gelu_erf;
    else
      return unsupported(fmt::format("the activation \"{}\" is not run", printable(name)));
    return checked();
  }

  Status windows() {
    uint32_t window = keys_.whole("sliding_window", 0, UINT32_MAX, 0);
    // Families that state a window which is off unless a second key says otherwise.
    const bool switched = type_ == "qwen2" || type_ == "qwen2_moe" || type_ == "qwen3" || type_ == "qwen3_moe" ||
                          type_ == "smollm3";
    if (switched && !keys_.flag("use_sliding_window", false)) window = 0;
    if (type_ == "llama" || type_ == "olmo2" || type_ == "olmoe" || type_ == "granite" || gpt2_) window = 0;
    r_.window.assign(r_.layers, window);
    if (const OrderedJson* types = keys_.find("layer_types")) {
      if (!types->is_array() || types->size() != r_.layers)
        return contradiction(fmt::format("layer_types: expected a list of {} names", r_.layers));
      for (uint32_t l = 0; l < r_.layers; ++l) {
        const OrderedJson& t = (*types)[l];
        const std::string name = t.is_string() ? t.get<std::string>() : t.dump();
        if (name == "full_attention")
          r_.window[l] = 0;
        else if (name != "sliding_attention")
          return unsupported(fmt::format("layer {} is of type \"{}\"; run are full_attention and sliding_attention", l,
                                         printable(name)));
      }
      return checked();
    }
    if (switched) {
      const uint32_t first = keys_.whole("max_window_layers", 0, kIndex, 28);
      for (uint32_t l = 0; l < std::min(first, r_.layers); ++l) r_.window[l] = 0;
    }
    uint32_t every = family_.local_every;
    if (every) every = keys_.whole("sliding_window_pattern", 0, kIndex, every);
    if (every)
      for (uint32_t l = every - 1; l < r_.layers; l += every) r_.window[l] = 0;
    return checked();
  }

  Status experts() {
    const bool moe = type_ == "mixtral" || type_ == "qwen2_moe" || type_ == "qwen3_moe" || type_ == "olmoe" ||
                     type_ == "gpt_oss";
    r_.moe_layer.assign(r_.layers, 0);
    r_.renormalise_experts = family_.renormalise_experts;
    if (!moe) return {};
    r_.experts = keys_.whole(keys_.find("num_local_experts") ? "num_local_experts" : "num_experts", 0, kIndex);
    SPANSCOPE_TRY(checked());
    if (!r_.experts) return {};
    r_.experts_used = keys_.whole("num_experts_per_tok", 1, r_.experts);
    r_.expert_feed_forward = keys_.whole("moe_intermediate_size", 1, kWidth, r_.feed_forward);
    if (type_ == "qwen2_moe") r_.shared_feed_forward = keys_.whole("shared_expert_intermediate_size", 1, kWidth);
    if (type_ == "qwen2_moe" || type_ == "qwen3_moe" || type_ == "olmoe")
      r_.renormalise_experts = keys_.flag("norm_topk_prob", false);
    const uint32_t step = keys_.whole("decoder_sparse_step", 1, kIndex, 1);
    SPANSCOPE_TRY(checked());
    for (uint32_t l = 0; l < r_.layers; ++l) r_.moe_layer[l] = (l + 1) % step == 0;
    if (const OrderedJson* dense = keys_.find("mlp_only_layers")) {
      if (!dense->is_array()) return contradiction("mlp_only_layers: expected a list");
      for (const auto& l : *dense) {
        if (!l.is_number_unsigned() || l.get<uint64_t>() >= r_.layers)
          return contradiction(fmt::format("mlp_only_layers: expected layers below {}, found {}", r_.layers, l.dump()));
        r_.moe_layer[l.get<size_t>()] = 0;
      }
    }
    return {};
  }

  // One description of rotation: {"rope_type", "factor", ...}.
  Result<RotaryScaling> scaling_of(const OrderedJson& object, const char* name) {
    ConfigReader keys(object, where_, std::string(name) + ".");
    RotaryScaling s;
    const std::string kind = keys.find("rope_type") ? keys.text("rope_type", "") : keys.text("type", "default");
    const double trained = keys_.number("original_max_position_embeddings", 1, 1e12, double(r_.context));
    s.original_context = keys.number("original_max_position_embeddings", 1, 1e12, trained);
    using Kind = RotaryScaling::Kind;
    if (kind == "linear") {
      s.kind = Kind::linear;
      s.factor = keys.number("factor", 1e-6, 1e6);
    } else if (kind == "llama3") {
      s.kind = Kind::llama3;
      s.factor = keys.number("factor", 1e-6, 1e6);
      s.low_factor = keys.number("low_freq_factor", 1e-6, 1e6);
      s.high_factor = keys.number("high_freq_factor", 1e-6, 1e6);
      if (s.low_factor >= s.high_factor) keys.fail("low_freq_factor", "less than high_freq_factor", "not");
    } else if (kind == "yarn") {
      s.kind = Kind::yarn;
      s.factor = keys.number("factor", 1e-6, 1e6);
      s.beta_fast = keys.number("beta_fast", 1e-6, 1e6, 32.0);
      s.beta_slow = keys.number("beta_slow", 1e-6, 1e6, 1.0);
      s.truncate = keys.flag("truncate", true);
      s.magnitude = keys.number("attention_factor", 0, 1e6, 0.0);
      if (keys.find("mscale") || keys.find("mscale_all_dim"))
        return unsupported("rope scaling with mscale is not run");
    } else if (kind == "longrope" || kind == "su") {
      s.kind = Kind::longrope;
      s.short_factors = keys.numbers("short_factor", r_.rotary_dims / 2);
      s.long_factors = keys.numbers("long_factor", r_.rotary_dims / 2);
      s.magnitude = keys.number("attention_factor", 0, 1e6, 0.0);
      if (!keys.error() && (s.short_factors.empty() || s.long_factors.empty()))
        keys.fail("short_factor", "two lists of factors", "nothing");
      r_.long_from = uint32_t(std::min(s.original_context, double(UINT32_MAX)));
    } else if (kind != "default") {
      return unsupported(fmt::format(
          "rope_type \"{}\": only default, linear, llama3, yarn and longrope are run", printable(kind)));
    }
    if (keys.error()) return *keys.error();
    return s;
  }

  Status add_table(const OrderedJson* object, const char* name, double base) {
    RotaryScaling s;
    if (object) {
      auto read = scaling_of(*object, name);
      if (!read) return std::move(read).error();
      s = std::move(*read);
    }
    r_.rotary_tables.push_back(make_rotary(r_.rotary_dims, base, s, double(r_.context) / s.original_context));
    return {};
  }

  Status rotation() {
    if (family_.unrotated_every == 1) {
      r_.rotary_of_layer.assign(r_.layers, -1);
      return {};
    }
    const OrderedJson* parameters = keys_.find("rope_parameters");
    const OrderedJson* scaling = keys_.find("rope_scaling");
    const bool by_layer = parameters && parameters->contains("full_attention");
    const OrderedJson* global = by_layer ? &(*parameters)["full_attention"] : parameters;
    const char* global_name = by_layer ? "rope_parameters.full_attention" : "rope_parameters";
    double base = keys_.number("rope_theta", 1e-6, 1e12, type_ == "gemma3_text" ? 1e6 : 1e4);
    double partial = keys_.number("partial_rotary_factor", 1e-6, 1, 1.0);
    if (global) {
      ConfigReader keys(*global, where_, std::string(global_name) + ".");
      base = keys.number("rope_theta", 1e-6, 1e12, base);
      partial = keys.number("partial_rotary_factor", 1e-6, 1, partial);
      keys_.adopt(keys);
    }
    SPANSCOPE_TRY(checked());
    r_.rotary_dims = uint32_t(double(r_.head_dim) * partial);
    if (r_.rotary_dims % 2 != 0)
      return contradiction(fmt::format("{} of {} dimensions rotate, expected an even number", r_.rotary_dims,
                                       r_.head_dim));
    SPANSCOPE_TRY(add_table(global ? global : scaling, global ? global_name : "rope_scaling", base));
    r_.rotary_of_layer.assign(r_.layers, 0);
    if (type_ == "gemma3_text") {  // local layers turn faster and are not scaled
      double local = keys_.number("rope_local_base_freq", 1e-6, 1e12, 1e4);
      const OrderedJson* object = by_layer && parameters->contains("sliding_attention")
                                      ? &(*parameters)["sliding_attention"]
                                      : nullptr;
      if (object) {
        ConfigReader keys(*object, where_, "rope_parameters.sliding_attention.");
        local = keys.number("rope_theta", 1e-6, 1e12, local);
        keys_.adopt(keys);
      }
      SPANSCOPE_TRY(checked());
      SPANSCOPE_TRY(add_table(object, "rope_parameters.sliding_attention", local));
      for (uint32_t l = 0; l < r_.layers; ++l) r_.rotary_of_layer[l] = r_.window[l] ? 1 : 0;
    }
    if (const OrderedJson* rotates = keys_.find("no_rope_layers")) {
      if (!rotates->is_array() || rotates->size() != r_.layers)
        return contradiction(fmt::format("no_rope_layers: expected a list of {} values", r_.layers));
      for (uint32_t l = 0; l < r_.layers; ++l)
        if (const auto& v = (*rotates)[l]; v.is_number() ? v.get<double>() == 0 : v.is_boolean() && !v.get<bool>())
          r_.rotary_of_layer[l] = -1;
    } else if (family_.unrotated_every) {
      const uint32_t every = keys_.whole("no_rope_layer_interval", 1, kIndex, family_.unrotated_every);
      SPANSCOPE_TRY(checked());
      for (uint32_t l = every - 1; l < r_.layers; l += every) r_.rotary_of_layer[l] = -1;
    }
    return checked();
  }

  Status scales() {
    double scale = 1.0 / std::sqrt(double(r_.head_dim));
    if (family_.norm_plus_one)  // Gemma
      scale = 1.0 / std::sqrt(keys_.number("query_pre_attn_scalar", 1e-6, 1e9, 256.0));
    r_.score_cap = float(keys_.number("attn_logit_softcapping", 0, 1e6, 0.0));
    r_.logit_cap = float(keys_.number("final_logit_softcapping", 0, 1e6, 0.0));
    if (family_.embedding_by_root) r_.embedding_scale = std::sqrt(float(r_.hidden));
    if (type_ == "granite") {
      r_.embedding_scale = float(keys_.number("embedding_multiplier", 0, 1e6, 1.0));
      r_.residual_scale = float(keys_.number("residual_multiplier", 0, 1e6, 1.0));
      scale = keys_.number("attention_multiplier", 0, 1e6, 1.0);
      r_.logit_scale = float(1.0 / keys_.number("logits_scaling", 1e-6, 1e6, 1.0));
    }
    r_.attention_scale = float(scale);
    r_.learned_sink = type_ == "gpt_oss";
    return checked();
  }

  const Family& family_;
  const std::string& where_;
  uint64_t tensors_;
  ConfigReader keys_;
  Recipe r_;
  std::string type_;
  bool gpt2_ = false;
};

}  // namespace

Result<Recipe> recipe_from_config(const Family& family, std::string_view config_json, const std::string& where,
                                  uint64_t tensors) {
  auto config = parse_json(config_json, where);
  if (!config) return std::move(config).error();
  if (!config->is_object())
    return make_error(ErrorCode::corrupt, "SPAN-HF-CONFIG", "expected a JSON object", where);
  return ConfigRecipe(family, *config, where, tensors).read();
}

}  // namespace spanscope
