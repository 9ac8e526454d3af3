// SPDX-License-Identifier: GPL-3.0-or-later
// GGUF metadata keys to a recipe. What a file does not say is fixed by its architecture (family.cpp).
#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "core/model/family.h"
#include "core/model/rotary.h"
#include "core/model/tensor_table.h"

namespace spanscope {
namespace {

constexpr uint64_t kWidth = 1 << 22, kIndex = 65535;  // layer and head numbers are 16 bits wide in read events

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

class GgufRecipe {
 public:
  GgufRecipe(const Family& family, const GgufFile& file, const TensorTable& table)
      : family_(family), file_(file), table_(table), keys_(file, family.name) {}

  Result<Recipe> read() {
    r_.family = family_.name;
    r_.norm = family_.norm;
    r_.activation = family_.activation;
    r_.gated = family_.gated;
    r_.rotary = family_.gguf_rotary;
    r_.router = family_.router;
    r_.renormalise_experts = family_.renormalise_experts;
    r_.query_key_norm = family_.query_key_norm;
    if (r_.activation == Activation::swiglu_clamped) r_.swiglu_limit = 7.0f, r_.swiglu_alpha = 1.702f;
    SPANSCOPE_TRY(sizes());
    SPANSCOPE_TRY(windows());
    SPANSCOPE_TRY(experts());
    SPANSCOPE_TRY(rotation());
    SPANSCOPE_TRY(scales());
    return std::move(r_);
  }

 private:
  Error contradiction(const std::string& message) const {
    return make_error(ErrorCode::corrupt, "SPAN-MODEL", message, file_.where());
  }
  Error unsupported(const std::string& message) const {
    return make_error(ErrorCode::unsupported, "SPAN-UNSUPPORTED", message, file_.where());
  }
  Status checked() const {
    if (keys_.error()) return *keys_.error();
    return {};
  }

  Status sizes() {
    r_.layers = keys_.whole("block_count", 1, kIndex);
    r_.hidden = keys_.whole("embedding_length", 1, kWidth);
    r_.context = keys_.whole("context_length", 1, UINT32_MAX);
    r_.feed_forward = keys_.whole("feed_forward_length", 1, kWidth);
    r_.query_heads = keys_.whole("attention.head_count", 1, kIndex);
    r_.kv_heads = keys_.whole("attention.head_count_kv", 1, kIndex, r_.query_heads);
    r_.norm_eps = float(keys_.number(
        r_.norm == NormKind::rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon", 0, 1));
    SPANSCOPE_TRY(checked());
    // Every layer has tensors of its own, so this also bounds what a hostile number could allocate.
    if (r_.layers > table_.all().size())
      return contradiction(
          fmt::format("{} layers, but the file has {} tensors", r_.layers, table_.all().size()));
    if (r_.query_heads % r_.kv_heads != 0)
      return contradiction(
          fmt::format("{} query heads cannot share {} key heads evenly", r_.query_heads, r_.kv_heads));
    if (!keys_.has("attention.key_length") && r_.hidden % r_.query_heads != 0)
      return contradiction(
          fmt::format("width {} does not divide into {} heads, and no attention.key_length is given", r_.hidden,
                      r_.query_heads));
    r_.head_dim = keys_.whole("attention.key_length", 1, 1 << 16, r_.hidden / r_.query_heads);
    const uint32_t value_dim = keys_.whole("attention.value_length", 1, 1 << 16, r_.head_dim);
    SPANSCOPE_TRY(checked());
    if (value_dim != r_.head_dim)
      return unsupported(fmt::format("keys of {} and values of {} elements: only equal lengths are run",
                                     r_.head_dim, value_dim));
    if (table_.find("position_embd.weight")) r_.learned_positions = r_.context;
    return {};
  }

  Status windows() {
    const uint32_t window = keys_.whole("attention.sliding_window", 0, UINT32_MAX, 0);
    uint32_t every = family_.local_every;
    const char* pattern = "attention.sliding_window_pattern";
    r_.window.assign(r_.layers, window);
    const GgufValue* stated = file_.find(std::string(family_.name) + "." + pattern);
    if (stated && stated->type == GgufType::array) {
      auto local = file_.integers(std::string(family_.name) + "." + pattern);
      if (!local) return std::move(local).error();
      if (local->size() != r_.layers)
        return contradiction(fmt::format("{} has {} values for {} layers", pattern, local->size(), r_.layers));
      for (uint32_t l = 0; l < r_.layers; ++l)
        if (!(*local)[l]) r_.window[l] = 0;
      return checked();
    }
    if (stated) every = keys_.whole(pattern, 0, kIndex);
    if (every)
      for (uint32_t l = every - 1; l < r_.layers; l += every) r_.window[l] = 0;
    return checked();
  }

  Status experts() {
    r_.experts = keys_.whole("expert_count", 0, kIndex, 0);
    SPANSCOPE_TRY(checked());
    r_.moe_layer.assign(r_.layers, r_.experts ? 1 : 0);
    if (!r_.experts) return {};
    r_.experts_used = keys_.whole("expert_used_count", 1, r_.experts);
    r_.expert_feed_forward = keys_.whole("expert_feed_forward_length", 1, kWidth, rows_of("blk.0.ffn_up_exps.weight"));
    // Files that do not state the shared expert's width have its tensor.
    if (const uint64_t rows = rows_of("blk.0.ffn_up_shexp.weight", 0))
      r_.shared_feed_forward = keys_.whole("expert_shared_feed_forward_length", 1, kWidth, rows);
    else if (keys_.whole("expert_shared_count", 0, kIndex, 0))
      return unsupported("expert_shared_count is set, but there is no tensor \"blk.0.ffn_up_shexp.weight\"");
    switch (keys_.whole("expert_gating_func", 0, UINT32_MAX, 0)) {
      case 0:
        break;  // what the family does
      case 1:
        r_.router = RouterRule::softmax_all;
        break;
      case 3:
        r_.router = RouterRule::softmax_chosen;
        break;
      default:
        return unsupported(
            "expert_gating_func: only softmax (1) and softmax over the chosen experts (3) are run");
    }
    return checked();
  }
  uint64_t rows_of(const char* tensor, std::optional<uint64_t> fallback = {}) const {
    const SourceTensor* t = table_.find(tensor);
    if (t && t->shape.size() >= 2) return t->shape[t->shape.size() - 2];
    return fallback.value_or(r_.feed_forward);
  }

  Status rotation() {
    if (family_.unrotated_every == 1) {
      r_.rotary_of_layer.assign(r_.layers, -1);
      return {};
    }
    r_.rotary_dims = keys_.whole("rope.dimension_count", 0, r_.head_dim, r_.head_dim);
    const double base = keys_.number("rope.freq_base", 1e-6, 1e12, 10000.0);
    const double local_base = keys_.number("rope.freq_base_swa", 1e-6, 1e12, 10000.0);
    const std::string kind = keys_.text("rope.scaling.type", "none");
    RotaryScaling s;
    s.factor = keys_.number("rope.scaling.factor", 1e-6, 1e6, 1.0);
    const double old_factor = keys_.number("rope.scale_linear", 1e-6, 1e6, 1.0);
    s.original_context = keys_.number("rope.scaling.original_context_length", 1, 1e12, double(r_.context));
    s.magnitude = keys_.number("rope.scaling.attn_factor", 0, 1e6, 0.0);
    s.beta_fast = keys_.number("rope.scaling.yarn_beta_fast", 1e-6, 1e6, 32.0);
    s.beta_slow = keys_.number("rope.scaling.yarn_beta_slow", 1e-6, 1e6, 1.0);
    s.truncate = family_.yarn_truncate;
    SPANSCOPE_TRY(checked());
    if (r_.rotary_dims % 2 != 0)
      return contradiction(fmt::format("rope.dimension_count is {}, expected an even number", r_.rotary_dims));
    double extension = 1;
    if (table_.find("rope_factors_long.weight")) {
      SPANSCOPE_TRY(factors("rope_factors_long.weight", s.long_factors));
      SPANSCOPE_TRY(factors("rope_factors_short.weight", s.short_factors));
      s.kind = RotaryScaling::Kind::longrope;
      r_.long_from = uint32_t(std::min(s.original_context, double(UINT32_MAX)));
      extension = double(r_.context) / s.original_context;
    } else if (kind == "yarn") {
      s.kind = RotaryScaling::Kind::yarn;
    } else if (kind == "linear" || ((kind == "none" || kind.empty()) && old_factor != 1.0)) {
      s.kind = RotaryScaling::Kind::linear;
      if (s.factor == 1.0 || kind != "linear") s.factor = old_factor == 1.0 ? s.factor : old_factor;
    } else if (kind != "none" && !kind.empty()) {
      return unsupported(fmt::format("rope.scaling.type \"{}\": only \"none\", \"linear\" and \"yarn\" are run",
                                     printable(kind)));
    }
    r_.rotary_tables.push_back(make_rotary(r_.rotary_dims, base, s, extension));
    r_.rotary_of_layer.assign(r_.layers, 0);
    if (std::strcmp(family_.name, "gemma3") == 0) {  // local layers turn faster and are not scaled
      r_.rotary_tables.push_back(make_rotary(r_.rotary_dims, local_base, {}));
      for (uint32_t l = 0; l < r_.layers; ++l) r_.rotary_of_layer[l] = r_.window[l] ? 1 : 0;
    }
    if (family_.unrotated_every)
      for (uint32_t l = family_.unrotated_every - 1; l < r_.layers; l += family_.unrotated_every)
        r_.rotary_of_layer[l] = -1;
    return {};
  }
  Status factors(const char* name, std::vector<float>& out) const {
    const SourceTensor* t = table_.find(name);
    const auto bad = [&](const std::string& found) {
      return make_error(ErrorCode::corrupt, "SPAN-GGUF-TENSOR",
                        fmt::format("tensor \"{}\": expected {} values as F32, found {}", name, r_.rotary_dims / 2, found),
                        t ? t->where : file_.where(), t ? t->offset : std::nullopt);
    };
    if (!t) return bad("none");
    if (t->type != TensorType::f32 || t->shape.size() != 1 || t->shape[0] != r_.rotary_dims / 2)
      return bad(fmt::format("[{}] {}", fmt::join(t->shape, " x "), t->type_name));
    out.resize(r_.rotary_dims / 2);
    std::memcpy(out.data(), t->data, out.size() * sizeof(float));
    for (float f : out)
      if (!(f > 0 && f < 1e6f)) return bad(fmt::format("the factor {}", f));
    return {};
  }

  Status scales() {
    r_.attention_scale = float(keys_.number("attention.scale", 0, 1e6, 0.0));
    if (r_.attention_scale == 0) {
      // The query scale is no key of Gemma's files; their largest models divide by the root of width per head.
      const std::string_view name = family_.name;
      const bool largest = (name == "gemma2" && r_.layers == 46) || (name == "gemma3" && r_.layers == 62);
      r_.attention_scale = 1.0f / std::sqrt(float(largest ? r_.hidden / r_.query_heads : r_.head_dim));
    }
    r_.score_cap = float(keys_.number("attn_logit_softcapping", 0, 1e6, 0.0));
    r_.logit_cap = float(keys_.number("final_logit_softcapping", 0, 1e6, 0.0));
    r_.embedding_scale = float(keys_.number("embedding_scale", 0, 1e6, 1.0));
    if (family_.embedding_by_root) r_.embedding_scale = std::sqrt(float(r_.hidden));
    r_.residual_scale = float(keys_.number("residual_scale", 0, 1e6, 1.0));
    const double divisor = keys_.number("logit_scale", 0, 1e6, 1.0);
    r_.logit_scale = divisor > 0 ? float(1.0 / divisor) : 1.0f;
    r_.learned_sink = table_.find("blk.0.attn_sinks.weight") != nullptr;
    return checked();
  }

  const Family& family_;
  const GgufFile& file_;
  const TensorTable& table_;
  KeyReader keys_;
  Recipe r_;
};

}  // namespace

Result<Recipe> recipe_from_gguf(const Family& family, const GgufFile& file, const TensorTable& table) {
  return GgufRecipe(family, file, table).read();
}

}  // namespace spanscope
