// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/model/bind_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "core/model/rearrange.h"

namespace spanscope {
namespace {

using R = TensorRole;
using Vector = std::vector<float>;

struct MatrixPlace {
  R role;
  WeightMatrix LayerWeights::*member;
};
constexpr MatrixPlace kMatrices[] = {
    {R::q, &LayerWeights::q},       {R::k, &LayerWeights::k},           {R::v, &LayerWeights::v},
    {R::o, &LayerWeights::o},       {R::router, &LayerWeights::router}, {R::shared_router, &LayerWeights::shared_router}};
struct VectorPlace {
  R role;
  Vector LayerWeights::*member;
};
constexpr VectorPlace kVectors[] = {{R::attention_norm, &LayerWeights::attention_norm},
                                    {R::attention_norm_bias, &LayerWeights::attention_norm_bias},
                                    {R::post_attention_norm, &LayerWeights::post_attention_norm},
                                    {R::q_bias, &LayerWeights::q_bias},
                                    {R::k_bias, &LayerWeights::k_bias},
                                    {R::v_bias, &LayerWeights::v_bias},
                                    {R::o_bias, &LayerWeights::o_bias},
                                    {R::q_norm, &LayerWeights::q_norm},
                                    {R::k_norm, &LayerWeights::k_norm},
                                    {R::sinks, &LayerWeights::sinks},
                                    {R::feed_forward_norm, &LayerWeights::feed_forward_norm},
                                    {R::feed_forward_norm_bias, &LayerWeights::feed_forward_norm_bias},
                                    {R::post_feed_forward_norm, &LayerWeights::post_feed_forward_norm},
                                    {R::router_bias, &LayerWeights::router_bias}};
struct FeedForwardPlace {
  R stacked, single, shared, dense;
  WeightMatrix FeedForwardWeights::*member;
};
constexpr FeedForwardPlace kFeedForwardMatrices[] = {
    {R::stacked_gate, R::expert_gate, R::shared_gate, R::gate, &FeedForwardWeights::gate},
    {R::stacked_up, R::expert_up, R::shared_up, R::up, &FeedForwardWeights::up},
    {R::stacked_down, R::expert_down, R::shared_down, R::down, &FeedForwardWeights::down}};
struct FeedForwardBias {
  R stacked, dense;
  Vector FeedForwardWeights::*member;
};
constexpr FeedForwardBias kFeedForwardBiases[] = {{R::stacked_gate_bias, R::gate_bias, &FeedForwardWeights::gate_bias},
                                        {R::stacked_up_bias, R::up_bias, &FeedForwardWeights::up_bias},
                                        {R::stacked_down_bias, R::down_bias, &FeedForwardWeights::down_bias}};

bool is_norm(R role) {
  return role == R::attention_norm || role == R::post_attention_norm || role == R::feed_forward_norm ||
         role == R::post_feed_forward_norm || role == R::q_norm || role == R::k_norm || role == R::output_norm;
}
bool is_stack(R role) {
  return (role >= R::stacked_gate && role <= R::stacked_gate_up_bias);
}
bool is_special(R role) { return role >= R::stacked_gate_up && role <= R::mx_down_scales; }

std::string replace_index(std::string name, const char* mark, uint32_t index) {
  if (const size_t at = name.find(mark); at != std::string::npos) name.replace(at, 3, std::to_string(index));
  return name;
}

WeightMatrix rows_of(WeightMatrix w, uint32_t first, uint32_t count) {
  w.data = w.row(first);
  w.rows = count;
  return w;
}

class Binder {
 public:
  Binder(const TensorTable& table, const Family& family, Model& model)
      : table_(table), family_(family), model_(model), gguf_(table.kind == TensorTable::Kind::gguf) {}

  Status bind_all() {
    model_.layers.resize(model_.recipe.layers);
    for (const TensorGroup& group : family_.tensors)
      for (const TensorRule& rule : group) {
        if (!name_in_files(rule)) continue;
        if (rule.scope == Scope::model) {
          SPANSCOPE_TRY(bind(rule, 0, 0));
          continue;
        }
        for (uint32_t l = 0; l < model_.recipe.layers; ++l) {
          const bool moe = model_.recipe.moe_layer[l];
          if ((rule.scope == Scope::dense_layer && moe) ||
              ((rule.scope == Scope::moe_layer || rule.scope == Scope::expert) && !moe))
            continue;
          // Stacks and single experts are alternatives.
          if (gguf_ && is_stack(rule.role) && !stacked(l)) continue;
          if (gguf_ && rule.scope == Scope::expert && stacked(l)) continue;
          const uint32_t copies = rule.scope == Scope::expert ? model_.recipe.experts : 1;
          for (uint32_t e = 0; e < copies; ++e) SPANSCOPE_TRY(bind(rule, l, e));
        }
      }
    SPANSCOPE_TRY(everything_has_a_place());
    SPANSCOPE_TRY(every_layer_is_whole());
    if (!model_.output) {
      model_.recipe.tied_output = true;
      model_.output = model_.embedding;
    }
    for (const RotaryTable& table : model_.recipe.rotary_tables) {
      if (!(table.magnitude > 0 && table.magnitude <= 1e6f))
        return make_error(ErrorCode::corrupt, "SPAN-MODEL",
                          fmt::format("rotary cosines and sines are scaled by {}", table.magnitude), model_.path);
      for (const auto* frequencies : {&table.inverse_frequency, &table.long_inverse_frequency})
        for (float f : *frequencies)
          if (!(f >= 0 && f <= 1e6f))
            return make_error(ErrorCode::corrupt, "SPAN-MODEL", fmt::format("a rotary frequency is {}", f), model_.path);
    }
    model_.weight_types = type_summary();
    return {};
  }

 private:
  const char* tag() const { return gguf_ ? "SPAN-GGUF-TENSOR" : "SPAN-HF-TENSOR"; }
  const char* name_in_files(const TensorRule& rule) const { return gguf_ ? rule.gguf : rule.hf; }
  static std::string name_of(const char* pattern, uint32_t l, uint32_t e) {
    return replace_index(replace_index(pattern, "{l}", l), "{e}", e);
  }
  const SourceTensor* find(const std::string& name) const {
    if (const SourceTensor* t = table_.find(name)) return t;
    // Checkpoints of the bare model lack the outermost module's name.
    for (std::string_view prefix : {"transformer.", "model."})
      if (!gguf_ && name.starts_with(prefix))
        if (const SourceTensor* t = table_.find(std::string_view(name).substr(prefix.size()))) return t;
    return nullptr;
  }
  bool stacked(uint32_t layer) const {
    for (const TensorGroup& group : family_.tensors)
      for (const TensorRule& rule : group)
        if (rule.scope == Scope::expert && rule.gguf && find(name_of(rule.gguf, layer, 0))) return false;
    return true;
  }

  Status everything_has_a_place() const {
    if (bound_.size() == table_.all().size()) return {};
    for (const SourceTensor& t : table_.all())
      if (!bound_.count(&t))
        return make_error(ErrorCode::unsupported, "SPAN-UNSUPPORTED-TENSOR",
                          fmt::format("tensor \"{}\" has no place in architecture {} as it is run here",
                                      printable(t.name), family_.name),
                          t.where, t.offset);
    return {};
  }

  // Tables with alternatives cannot say by themselves that one of them was there.
  Status every_layer_is_whole() const {
    for (uint32_t l = 0; l < model_.recipe.layers; ++l) {
      const LayerWeights& w = model_.layers[l];
      const auto missing = [&](const char* what) {
        return make_error(ErrorCode::not_found, tag(), fmt::format("layer {} has no {}", l, what), model_.path);
      };
      if (!w.q || !w.k || !w.v || !w.o) return missing("attention matrices");
      if (!model_.recipe.moe_layer[l]) {
        if (!w.dense.up || !w.dense.down || (model_.recipe.gated && !w.dense.gate)) return missing("feed-forward matrices");
        continue;
      }
      if (!w.router || w.experts.size() != model_.recipe.experts) return missing("experts");
      for (const FeedForwardWeights& e : w.experts)
        if (!e.gate || !e.up || !e.down) return missing("experts' matrices");
    }
    return {};
  }

  Error wrong_shape(const SourceTensor& t, std::vector<uint64_t> expected) const {
    std::vector<uint64_t> found = t.shape;
    if (gguf_) {  // as the file states them: fastest dimension first
      std::reverse(expected.begin(), expected.end());
      std::reverse(found.begin(), found.end());
    }
    return make_error(ErrorCode::corrupt, tag(),
                      fmt::format("tensor \"{}\": expected shape [{}], found [{}]", printable(t.name),
                                  fmt::join(expected, " x "), fmt::join(found, " x ")),
                      t.where, t.offset);
  }

  Status bind(const TensorRule& rule, uint32_t l, uint32_t e) {
    const std::string name = name_of(name_in_files(rule), l, e);
    const SourceTensor* t = find(name);
    if (!t) {
      if (rule.need == Need::optional) return {};
      return make_error(ErrorCode::not_found, tag(),
                        fmt::format("tensor \"{}\" is missing ({} layers, {} experts)", name, model_.recipe.layers,
                                    model_.recipe.experts),
                        model_.path);
    }
    bound_.insert(t);
    if (rule.role == R::ignored) return {};
    bytes_of_type_[is_special(rule.role) && t->type_name == "U8" ? "MXFP4" : t->type_name] += t->bytes;
    if (is_special(rule.role)) return bind_special(rule, *t, l);
    if (!t->type)
      return make_error(ErrorCode::unsupported, "SPAN-UNSUPPORTED-TYPE",
                        fmt::format("tensor \"{}\" has type {}; supported are {}", printable(t->name), t->type_name,
                                    supported_tensor_types()),
                        t->where, t->offset);
    const uint64_t rows = extent_of(rule.rows, model_.recipe), cols = extent_of(rule.cols, model_.recipe);
    std::vector<uint64_t> expected{cols};
    if (rule.rows != Extent::one) expected.insert(expected.begin(), rows);
    const bool transposed = rule.transposed && !gguf_;
    if (transposed) std::swap(expected[0], expected[1]);
    if (is_stack(rule.role)) expected.insert(expected.begin(), model_.recipe.experts);
    std::vector<uint64_t> found = t->shape;
    while (found.size() > expected.size() && found.front() == 1) found.erase(found.begin());
    if (found != expected) return wrong_shape(*t, expected);
    if (cols % block_elements(*t->type) != 0)
      return make_error(ErrorCode::corrupt, tag(),
                        fmt::format("tensor \"{}\": rows of {} elements do not divide into {} blocks of {}",
                                    printable(t->name), cols, t->type_name, block_elements(*t->type)),
                        t->where, t->offset);
    WeightMatrix w;
    w.type = *t->type;
    w.cols = uint32_t(cols);
    w.rows = uint32_t(rows);
    w.data = t->data;
    if (transposed) w = keep(transpose(w));
    place(rule.role, w, l, e);
    return {};
  }

  WeightMatrix keep(Rearranged made) {
    model_.rearranged.push_back(made.storage);
    return made.matrix;
  }

  // The forms that only gpt-oss directories have.
  Status bind_special(const TensorRule& rule, const SourceTensor& t, uint32_t l) {
    const uint32_t experts = model_.recipe.experts;
    const uint64_t rows = extent_of(rule.rows, model_.recipe), cols = extent_of(rule.cols, model_.recipe);
    LayerWeights& layer = model_.layers[l];
    layer.experts.resize(experts);
    if (rule.role == R::stacked_gate_up || rule.role == R::stacked_down_transposed) {
      if (!t.type)
        return make_error(ErrorCode::unsupported, "SPAN-UNSUPPORTED-TYPE",
                          fmt::format("tensor \"{}\" has type {}", printable(t.name), t.type_name), t.where);
      if (t.shape != std::vector<uint64_t>{experts, cols, rows}) return wrong_shape(t, {experts, cols, rows});
      const uint64_t each = row_bytes(*t.type, rows) * cols;
      for (uint32_t e = 0; e < experts; ++e) {
        WeightMatrix stored;  // [cols][rows]
        stored.type = *t.type, stored.rows = uint32_t(cols), stored.cols = uint32_t(rows);
        stored.data = t.data + e * each;
        if (rule.role == R::stacked_down_transposed) {
          stored.rows = uint32_t(rows), stored.cols = uint32_t(cols);
          layer.experts[e].down = keep(transpose(stored));
        } else {
          stored.rows = uint32_t(rows), stored.cols = uint32_t(cols);
          const WeightMatrix both = keep(transpose(stored));  // [rows][cols], gate and up alternate
          layer.experts[e].gate = keep(every_other_row(both, 0));
          layer.experts[e].up = keep(every_other_row(both, 1));
        }
      }
      return {};
    }
    const bool scales = rule.role == R::mx_gate_up_scales || rule.role == R::mx_down_scales;
    std::vector<uint64_t> expected{experts, rows, cols / 32};
    if (!scales) expected.push_back(16);
    if (cols % 32 != 0 || t.shape != expected) return wrong_shape(t, expected);
    if (t.type_name != "U8")
      return make_error(ErrorCode::unsupported, "SPAN-UNSUPPORTED-TYPE",
                        fmt::format("tensor \"{}\" has type {}, expected U8", printable(t.name), t.type_name), t.where);
    if (!scales) return {};  // joined when the rule of the scales comes
    std::string partner = t.name;
    partner.replace(partner.size() - 6, 6, "blocks");
    const SourceTensor* blocks = table_.find(partner);
    if (!blocks)
      return make_error(ErrorCode::not_found, tag(),
                        fmt::format("tensor \"{}\" is there without its blocks", printable(t.name)), t.where);
    const uint64_t code_bytes = rows * cols / 2, scale_bytes = rows * cols / 32;
    if (blocks->bytes != code_bytes * experts) return wrong_shape(*blocks, {experts, rows, cols / 32, 16});
    for (uint32_t e = 0; e < experts; ++e) {
      const uint8_t *codes = blocks->data + e * code_bytes, *exponents = t.data + e * scale_bytes;
      const auto part = [&](uint32_t first, uint32_t step) {
        return keep(join_mxfp4(codes, exponents, uint32_t(rows), uint32_t(cols), first, step));
      };
      if (rule.role == R::mx_down_scales) {
        layer.experts[e].down = part(0, 1);
      } else {
        layer.experts[e].gate = part(0, 2);
        layer.experts[e].up = part(1, 2);
      }
    }
    return {};
  }

  Vector vector_of(const WeightMatrix& w, R role) const {
    Vector out(w.cols);
    dequantise_row(w, 0, out.data());
    if (!gguf_ && family_.norm_plus_one && is_norm(role))
      for (float& x : out) x += 1.0f;
    return out;
  }

  void place(R role, const WeightMatrix& w, uint32_t l, uint32_t e) {
    const Recipe& r = model_.recipe;
    switch (role) {
      case R::embedding: model_.embedding = w; return;
      case R::output: model_.output = w; return;
      case R::position_embedding: model_.position_embedding = w; return;
      case R::output_norm: model_.output_norm = vector_of(w, role); return;
      case R::output_norm_bias: model_.output_norm_bias = vector_of(w, role); return;
      case R::rotary_factors: {
        const Vector factors = vector_of(w, role);
        for (RotaryTable& table : model_.recipe.rotary_tables)
          for (size_t i = 0; i < factors.size(); ++i) table.inverse_frequency[i] /= factors[i];
        return;
      }
      default: break;
    }
    LayerWeights& layer = model_.layers[l];
    for (const MatrixPlace& p : kMatrices)
      if (p.role == role) layer.*p.member = w;
    for (const VectorPlace& p : kVectors)
      if (p.role == role) layer.*p.member = vector_of(w, role);
    for (const FeedForwardPlace& p : kFeedForwardMatrices) {
      if (p.shared == role) layer.shared.*p.member = w;
      if (p.dense == role) layer.dense.*p.member = w;
      if (p.stacked != role && p.single != role) continue;
      layer.experts.resize(r.experts);
      if (p.single == role) {
        layer.experts[e].*p.member = w;
        continue;
      }
      WeightMatrix one = w;
      for (FeedForwardWeights& expert : layer.experts) {
        expert.*p.member = one;
        one.data += row_bytes(w.type, w.cols) * w.rows;
      }
    }
    for (const FeedForwardBias& p : kFeedForwardBiases) {
      if (p.dense == role) layer.dense.*p.member = vector_of(w, role);
      if (p.stacked == role) each_expert(layer, w, [&](FeedForwardWeights& x, Vector row) { x.*p.member = std::move(row); });
    }
    const uint32_t query = r.query_heads * r.head_dim, key_value = r.kv_heads * r.head_dim;
    switch (role) {
      case R::qkv:
        layer.q = rows_of(w, 0, query);
        layer.k = rows_of(w, query, key_value);
        layer.v = rows_of(w, query + key_value, key_value);
        break;
      case R::qkv_bias: {
        const Vector all = vector_of(w, role);
        layer.q_bias.assign(all.begin(), all.begin() + query);
        layer.k_bias.assign(all.begin() + query, all.begin() + query + key_value);
        layer.v_bias.assign(all.begin() + query + key_value, all.end());
        break;
      }
      case R::gate_up:
        layer.dense.gate = rows_of(w, 0, r.feed_forward);
        layer.dense.up = rows_of(w, r.feed_forward, r.feed_forward);
        break;
      case R::stacked_gate_up_bias:
        each_expert(layer, w, [](FeedForwardWeights& x, const Vector& row) {
          for (size_t i = 0; i < row.size(); ++i) (i % 2 ? x.up_bias : x.gate_bias).push_back(row[i]);
        });
        break;
      default: break;
    }
  }

  // use(expert, row) for the rows of [experts][cols].
  template <class Use>
  void each_expert(LayerWeights& layer, const WeightMatrix& w, const Use& use) {
    WeightMatrix all = w;
    all.rows = model_.recipe.experts;
    layer.experts.resize(all.rows);
    for (uint32_t e = 0; e < all.rows; ++e) {
      Vector row(w.cols);
      dequantise_row(all, e, row.data());
      use(layer.experts[e], std::move(row));
    }
  }

  // Types by the bytes they take, largest first.
  std::string type_summary() const {
    std::vector<std::pair<uint64_t, std::string>> types;
    for (const auto& [name, bytes] : bytes_of_type_) types.emplace_back(bytes, name);
    std::sort(types.rbegin(), types.rend());
    std::string out;
    for (const auto& [bytes, name] : types) out += (out.empty() ? "" : ", ") + name;
    return out;
  }

  const TensorTable& table_;
  const Family& family_;
  Model& model_;
  bool gguf_;
  std::set<const SourceTensor*> bound_;
  std::map<std::string, uint64_t> bytes_of_type_;
};

}  // namespace

Status bind_weights(const TensorTable& table, const Family& family, Model& model) {
  return Binder(table, family, model).bind_all();
}

}  // namespace spanscope
