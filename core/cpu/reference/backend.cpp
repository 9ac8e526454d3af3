// SPDX-License-Identifier: GPL-3.0-or-later
// The reference backend: walks the recipe layer by layer with float32 activations. It is the yardstick for
// the other backends, so it shares no kernel with them and prefers plain code to speed.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/cpu/backends.h"
#include "core/cpu/reference/attention.h"
#include "core/model/batch_check.h"
#include "core/cpu/reference/cache.h"
#include "core/cpu/reference/kernels.h"
#include "core/cpu/reference/mass_fold.h"
#include "core/cpu/reference/routing.h"
#include "core/cpu/reference/token_stats.h"
#include "core/model/rotary.h"

namespace spanscope {
namespace reference {
namespace {

constexpr uint32_t kPassRows = 512;  // rows of activations held at once when no plan asks for more

// Of one input; swiglu_clamped needs two and is clamped_swiglu().
float activate(Activation kind, float x) {
  switch (kind) {
    case Activation::silu:
      return x / (1.0f + std::exp(-x));
    case Activation::gelu_tanh: {
      constexpr float kRoot = 0.7978845608028654f;  // sqrt(2 / pi)
      return 0.5f * x * (1.0f + std::tanh(kRoot * (x + 0.044715f * x * x * x)));
    }
    case Activation::gelu_erf:
      return 0.5f * x * (1.0f + std::erf(x * 0.7071067811865476f));
    case Activation::swiglu_clamped:
      break;
  }
  return x;
}

float clamped_swiglu(const Recipe& r, float gate, float up) {
  const float g = std::min(gate, r.swiglu_limit), u = std::clamp(up, -r.swiglu_limit, r.swiglu_limit);
  return (u + 1.0f) * (g / (1.0f + std::exp(-r.swiglu_alpha * g)));
}

void rms_norm(const float* x, const std::vector<float>& weight, float eps, float* out) {
  double squares = 0;
  for (size_t i = 0; i < weight.size(); ++i) squares += double(x[i]) * double(x[i]);
  const float inverse = float(1.0 / std::sqrt(squares / double(weight.size()) + double(eps)));
  for (size_t i = 0; i < weight.size(); ++i) out[i] = weight[i] * (x[i] * inverse);
}

void layer_norm(const float* x, const std::vector<float>& weight, const std::vector<float>& bias, float eps, float* out) {
  const size_t n = weight.size();
  double sum = 0, squares = 0;
  for (size_t i = 0; i < n; ++i) sum += double(x[i]);
  const double mean = sum / double(n);
  for (size_t i = 0; i < n; ++i) squares += (double(x[i]) - mean) * (double(x[i]) - mean);
  const double inverse = 1.0 / std::sqrt(squares / double(n) + double(eps));
  for (size_t i = 0; i < n; ++i)
    out[i] = weight[i] * float((double(x[i]) - mean) * inverse) + (bias.empty() ? 0.0f : bias[i]);
}

// Cosines and sines of one rotary table for the rows of a pass.
struct Angles {
  std::vector<float> cosines, sines;  // [rows][pairs]
};

class ReferenceBackend final : public Backend {
 public:
  ReferenceBackend(std::shared_ptr<const Model> model, const BackendOptions& options)
      : model_(std::move(model)),
        recipe_(model_->recipe),
        cache_type_(options.cache),
        pool_(options.threads),
        scratch_(pool_.threads()) {}

  const Model& model() const override { return *model_; }
  std::string name() const override {
    return cache_type_ == CacheType::f16 ? "cpu reference, f16 cache" : "cpu reference";
  }
  unsigned threads() const override { return pool_.threads(); }

  std::unique_ptr<Cache> new_cache(uint32_t capacity_hint, bool originals) const override {
    auto cache = std::make_unique<ReferenceCache>(model_, cache_type_, originals);
    cache->reserve(capacity_hint);
    return cache;
  }

  Result<ForwardResult> forward(Cache& cache, const Batch& batch, const ForwardOptions& options) override {
    auto* own = dynamic_cast<ReferenceCache*>(&cache);
    if (!own || !own->fits(recipe_.layers, recipe_.kv_heads, recipe_.head_dim))
      return make_error(ErrorCode::invalid, "SPAN-CACHE", "this cache belongs to another backend or model");
    const uint32_t before = own->size();
    try {
      SPANSCOPE_TRY(check_batch(recipe_, own->positions(), batch, options));
      SPANSCOPE_TRY(settle_rotary_length(recipe_, *own, batch));
      auto result = run(*own, batch, options);
      if (!result) own->truncate(before);
      return result;
    } catch (const std::bad_alloc&) {
      own->truncate(before);
      return make_error(
          ErrorCode::memory, "SPAN-MEMORY",
          fmt::format("not enough memory for {} rows behind {} slots", batch.ids.size(), before));
    }
  }

 private:
  struct Pass {
    ReferenceCache& cache;
    std::span<const TokenId> ids;
    std::span<const TokenPos> positions;
    const ForwardOptions& options;
    ForwardResult& result;
    uint32_t first_row, all_rows;  // of the batch
    uint32_t rows() const { return uint32_t(ids.size()); }
  };

  Result<ForwardResult> run(ReferenceCache& cache, const Batch& batch, const ForwardOptions& options) {
    const uint32_t rows = uint32_t(batch.ids.size());
    ForwardResult result;
    if (options.logits != LogitRows::none)
      result.logits.resize(size_t(options.logits == LogitRows::all ? rows : 1) * recipe_.vocab);
    if (options.hidden) result.hidden.resize(size_t(recipe_.layers + 1) * rows * recipe_.hidden);
    if (options.router_logits) {
      const size_t moe_rows = size_t(recipe_.moe_layers()) * rows;
      result.router_logits.resize(moe_rows * recipe_.experts);
      result.topk_ids.resize(moe_rows * recipe_.experts_used);
      result.topk_weights.resize(moe_rows * recipe_.experts_used);
    }
    cache.reserve(cache.size() + rows);
    const uint32_t step = options.plan || options.token_stats ? rows : kPassRows;
    for (uint32_t at = 0; at < rows; at += step) {
      const uint32_t n = std::min(step, rows - at);
      Pass pass{cache, batch.ids.subspan(at, n), batch.positions.subspan(at, n), options, result, at, rows};
      SPANSCOPE_TRY(run_pass(pass));
    }
    return result;
  }

  Status run_pass(Pass& pass) {
    const uint32_t rows = pass.rows(), width = recipe_.hidden;
    const Slot first_slot = pass.cache.size();
    std::vector<TokenPos> positions(pass.cache.positions().begin(), pass.cache.positions().end());
    positions.insert(positions.end(), pass.positions.begin(), pass.positions.end());
    std::optional<MassFold> fold;
    if (pass.options.plan) fold.emplace(*pass.options.plan, recipe_, rows, pool_);
    std::optional<TokenStatsFold> tokens;
    std::vector<float> before;  // the residual stream at the layer's begin
    if (pass.options.token_stats)
      tokens.emplace(*pass.options.token_stats, recipe_, rows, first_slot + rows, pool_);

    const size_t query_width = size_t(recipe_.query_heads) * recipe_.head_dim,
                 kv_width = size_t(recipe_.kv_heads) * recipe_.head_dim;
    x_.resize(size_t(rows) * width);
    normed_.resize(x_.size());
    delta_.resize(x_.size());
    q_.resize(rows * query_width);
    mixed_.resize(q_.size());
    k_.resize(rows * kv_width);
    v_.resize(k_.size());
    fill_angles(pass);
    embed(pass);

    uint32_t moe_index = 0;
    for (uint32_t l = 0; l < recipe_.layers; ++l) {
      if (pass.options.stop.stop_requested()) return cancelled();
      keep_hidden(pass, l, x_);
      const LayerWeights& w = model_->layers[l];
      if (tokens) {
        before = x_;
        pass.options.token_sink->on_residual(residual_stats(l, before, width));
      }
      normalise(x_, w.attention_norm, w.attention_norm_bias, rows, normed_);
      linear(w.q, w.q_bias, normed_.data(), rows, q_.data());
      linear(w.k, w.k_bias, normed_.data(), rows, k_.data());
      linear(w.v, w.v_bias, normed_.data(), rows, v_.data());
      normalise_heads(q_.data(), w.q_norm, recipe_.query_heads, rows);
      normalise_heads(k_.data(), w.k_norm, recipe_.kv_heads, rows);
      const bool originals = pass.cache.keeps_original(l);
      if (originals) raw_k_ = k_;
      if (const int table = recipe_.rotary_of_layer[l]; table >= 0) {
        rotate(angles_[size_t(table)], q_.data(), recipe_.query_heads, rows);
        rotate(angles_[size_t(table)], k_.data(), recipe_.kv_heads, rows);
      }
      for (uint32_t i = 0; i < rows; ++i)
        for (uint32_t h = 0; h < recipe_.kv_heads; ++h) {
          const size_t from = i * kv_width + size_t(h) * recipe_.head_dim;
          pass.cache.write(l, h, first_slot + i, k_.data() + from, v_.data() + from, originals ? raw_k_.data() + from : nullptr);
        }
      if (fold) fold->begin_layer(l);
      const AttentionInput in{recipe_,    l,          rows,      q_.data(),
                              pass.cache, first_slot, positions, w.sinks.empty() ? nullptr : w.sinks.data(),
                              pass.options.stop};
      if (!attention(pool_, in, pass.options.plan, fold ? &*fold : nullptr, scratch_, mixed_.data()))
        return cancelled();
      linear(w.o, w.o_bias, mixed_.data(), rows, delta_.data());
      add_residual(w.post_attention_norm, rows);
      if (tokens && pass.options.token_stats->wants_layer(l)) {
        tokens->attention(in);
        tokens->values(w.o, v_.data());
        tokens->residual(before, x_);
        pass.options.token_sink->on_tokens(tokens->result(l));
      }

      normalise(x_, w.feed_forward_norm, w.feed_forward_norm_bias, rows, normed_);
      const bool moe = recipe_.moe_layer[l];
      if (moe)
        run_experts(w, rows);
      else
        run_feed_forward(w.dense, normed_.data(), rows,
                         delta_.data());
      add_residual(w.post_feed_forward_norm, rows);
      if (moe && pass.options.router_logits) keep_routing(pass, moe_index);
      moe_index += moe;

      if (fold) {
        LayerRecord record = fold->record();
        if (moe && pass.options.plan->want_routing) {
          record.experts_used = recipe_.experts_used;
          record.expert_ids = expert_ids_.data();
          record.expert_weights = expert_weights_.data();
          record.expert_margin = expert_margin_.data();
        }
        pass.options.sink->on_layer(record);
      }
    }
    if (pass.options.stop.stop_requested()) return cancelled();
    if (tokens) pass.options.token_sink->on_residual(residual_stats(recipe_.layers, x_, width));
    finish(pass);
    pass.cache.commit(pass.positions);
    return {};
  }

  static Error cancelled() {
    return make_error(ErrorCode::cancelled, "SPAN-CANCELLED", "the pass was stopped");
  }

  // out = W x + bias
  void linear(const WeightMatrix& w, const std::vector<float>& bias, const float* x, uint32_t rows, float* out) {
    matmul(pool_, scratch_, w, x, rows, out);
    if (bias.empty()) return;
    for (uint32_t i = 0; i < rows; ++i)
      for (uint32_t o = 0; o < w.rows; ++o) out[size_t(i) * w.rows + o] += bias[o];
  }

  // to = norm(from), or from itself where the family has no norm.  // [rows][hidden]
  void normalise(const std::vector<float>& from, const std::vector<float>& weight, const std::vector<float>& bias,
                 uint32_t rows, std::vector<float>& to) {
    for (uint32_t i = 0; i < rows; ++i) {
      const float* x = from.data() + size_t(i) * recipe_.hidden;
      float* out = to.data() + size_t(i) * recipe_.hidden;
      if (weight.empty())
        std::copy_n(x, recipe_.hidden, out);
      else if (recipe_.norm == NormKind::rms)
        rms_norm(x, weight, recipe_.norm_eps, out);
      else
        layer_norm(x, weight, bias, recipe_.norm_eps, out);
    }
  }

  // Queries or keys before rotation, in place.  // x [rows][heads][dim]
  void normalise_heads(float* x, const std::vector<float>& weight, uint32_t heads, uint32_t rows) const {
    if (recipe_.query_key_norm == QueryKeyNorm::none) return;
    // `weight` is as wide as what is normalised together.
    const size_t parts = size_t(rows) * heads * recipe_.head_dim / weight.size();
    for (size_t p = 0; p < parts; ++p)
      rms_norm(x + p * weight.size(), weight, recipe_.norm_eps, x + p * weight.size());
  }

  // x_ += scale * norm(delta_)
  void add_residual(const std::vector<float>& post_norm, uint32_t rows) {
    if (!post_norm.empty()) normalise(delta_, post_norm, {}, rows, delta_);
    if (recipe_.residual_scale == 1)
      for (size_t i = 0; i < x_.size(); ++i) x_[i] += delta_[i];
    else
      for (size_t i = 0; i < x_.size(); ++i) x_[i] += recipe_.residual_scale * delta_[i];
  }

  // x_ = scaled embeddings, plus those of positions.
  void embed(const Pass& pass) {
    const uint32_t width = recipe_.hidden;
    std::vector<float> learned(recipe_.learned_positions ? width : 0);
    for (uint32_t i = 0; i < pass.rows(); ++i) {
      float* x = x_.data() + size_t(i) * width;
      dequantise_row(model_->embedding, uint64_t(pass.ids[i]), x);
      if (recipe_.embedding_scale != 1)
        for (uint32_t c = 0; c < width; ++c) x[c] *= recipe_.embedding_scale;
      if (learned.empty()) continue;
      dequantise_row(model_->position_embedding, pass.positions[i], learned.data());
      for (uint32_t c = 0; c < width; ++c) x[c] += learned[c];
    }
  }

  // Angles in float32 as transformers computes them (position * inverse frequency); cos and sin from there.
  void fill_angles(const Pass& pass) {
    angles_.resize(recipe_.rotary_tables.size());
    for (size_t t = 0; t < angles_.size(); ++t) {
      const size_t pairs = recipe_.rotary_dims / 2;
      angles_[t].cosines.resize(pass.rows() * pairs);
      angles_[t].sines.resize(pass.rows() * pairs);
      for (size_t i = 0; i < pass.rows(); ++i)
        rotary_angles(recipe_.rotary_tables[t], pass.cache.long_rotary(), pass.positions[i], angles_[t].cosines.data() + i * pairs,
                      angles_[t].sines.data() + i * pairs);
    }
  }

  void rotate(const Angles& angles, float* x, uint32_t heads, uint32_t rows) const {  // x [rows][heads][dim]
    const size_t pairs = recipe_.rotary_dims / 2;
    for (uint32_t i = 0; i < rows; ++i)
      for (uint32_t h = 0; h < heads; ++h)
        rotate_pairs(recipe_, angles.cosines.data() + i * pairs, angles.sines.data() + i * pairs, x + (size_t(i) * heads + h) * recipe_.head_dim);
  }

  // out = down(act(gate x) * up x), or down(act(up x)).  // x, out [rows][hidden]
  void run_feed_forward(const FeedForwardWeights& w, const float* x, uint32_t rows, float* out) {
    const size_t width = w.up.rows;
    up_.resize(rows * width);
    linear(w.up, w.up_bias, x, rows, up_.data());
    if (recipe_.gated) {
      gate_.resize(up_.size());
      linear(w.gate, w.gate_bias, x, rows, gate_.data());
    }
    pool_.parallel_for(rows, [&](size_t i, unsigned) {
      float* u = up_.data() + i * width;
      const float* g = recipe_.gated ? gate_.data() + i * width : nullptr;
      if (recipe_.activation == Activation::swiglu_clamped)
        for (size_t c = 0; c < width; ++c) u[c] = clamped_swiglu(recipe_, g[c], u[c]);
      else if (recipe_.gated)
        for (size_t c = 0; c < width; ++c) u[c] *= activate(recipe_.activation, g[c]);
      else
        for (size_t c = 0; c < width; ++c) u[c] = activate(recipe_.activation, u[c]);
    });
    linear(w.down, w.down_bias, up_.data(), rows, out);
  }

  // Each expert runs the rows that chose it; a row adds its experts up in the order of their indices.
  void run_experts(const LayerWeights& w, uint32_t rows) {
    const uint32_t used = recipe_.experts_used, width = recipe_.hidden;
    router_.resize(size_t(rows) * recipe_.experts);
    expert_ids_.resize(size_t(rows) * used);
    expert_weights_.resize(expert_ids_.size());
    expert_margin_.resize(rows);
    linear(w.router, w.router_bias, normed_.data(), rows, router_.data());
    for (uint32_t i = 0; i < rows; ++i)
      expert_margin_[i] =
          route(recipe_, router_.data() + size_t(i) * recipe_.experts, expert_ids_.data() + size_t(i) * used,
                expert_weights_.data() + size_t(i) * used);
    std::fill(delta_.begin(), delta_.end(), 0.0f);
    std::vector<uint32_t> chosen;
    for (uint32_t e = 0; e < recipe_.experts; ++e) {
      chosen.clear();
      for (uint32_t p = 0; p < rows * used; ++p)
        if (expert_ids_[p] == int32_t(e)) chosen.push_back(p);
      if (chosen.empty()) continue;
      gathered_.resize(chosen.size() * width);
      expert_out_.resize(gathered_.size());
      for (size_t c = 0; c < chosen.size(); ++c)
        std::copy_n(normed_.data() + size_t(chosen[c] / used) * width, width, gathered_.data() + c * width);
      run_feed_forward(w.experts[e], gathered_.data(), uint32_t(chosen.size()), expert_out_.data());
      for (size_t c = 0; c < chosen.size(); ++c) {
        const float weight = expert_weights_[chosen[c]];
        float* out = delta_.data() + size_t(chosen[c] / used) * width;
        for (uint32_t d = 0; d < width; ++d) out[d] += weight * expert_out_[c * width + d];
      }
    }
    if (recipe_.shared_feed_forward) add_shared_expert(w, rows);
  }

  void add_shared_expert(const LayerWeights& w, uint32_t rows) {
    expert_out_.resize(size_t(rows) * recipe_.hidden);
    run_feed_forward(w.shared, normed_.data(), rows, expert_out_.data());
    std::vector<float> share(rows);
    matmul(pool_, scratch_, w.shared_router, normed_.data(), rows, share.data());
    for (uint32_t i = 0; i < rows; ++i) {
      const float weight = 1.0f / (1.0f + std::exp(-share[i]));
      for (size_t d = size_t(i) * recipe_.hidden; d < size_t(i + 1) * recipe_.hidden; ++d)
        delta_[d] += weight * expert_out_[d];
    }
  }

  void keep_routing(Pass& pass, uint32_t moe_index) {
    const size_t at = size_t(moe_index) * pass.all_rows + pass.first_row;
    std::copy(router_.begin(), router_.end(),
              pass.result.router_logits.begin() + ptrdiff_t(at * recipe_.experts));
    std::copy(expert_ids_.begin(), expert_ids_.end(),
              pass.result.topk_ids.begin() + ptrdiff_t(at * recipe_.experts_used));
    std::copy(expert_weights_.begin(), expert_weights_.end(),
              pass.result.topk_weights.begin() + ptrdiff_t(at * recipe_.experts_used));
  }

  void keep_hidden(Pass& pass, uint32_t index, const std::vector<float>& x) {
    if (!pass.options.hidden) return;
    const size_t at = (size_t(index) * pass.all_rows + pass.first_row) * recipe_.hidden;
    std::copy(x.begin(), x.end(), pass.result.hidden.begin() + ptrdiff_t(at));
  }

  // Final norm, hidden[layers], logits.
  void finish(Pass& pass) {
    const uint32_t rows = pass.rows();
    const LogitRows wanted = pass.options.logits;
    const bool last_pass = pass.first_row + rows == pass.all_rows;
    if (!pass.options.hidden && (wanted == LogitRows::none || (wanted == LogitRows::last && !last_pass)))
      return;
    normalise(x_, model_->output_norm, model_->output_norm_bias, rows, normed_);
    keep_hidden(pass, recipe_.layers, normed_);
    float* out = pass.result.logits.data();
    size_t count = 0;
    if (wanted == LogitRows::all) {
      out += size_t(pass.first_row) * recipe_.vocab;
      count = rows;
      matmul(pool_, scratch_, model_->output, normed_.data(), rows, out);
    } else if (wanted == LogitRows::last && last_pass) {
      count = 1;
      matmul(pool_, scratch_, model_->output, normed_.data() + size_t(rows - 1) * recipe_.hidden, 1, out);
    }
    for (size_t i = 0; i < count * recipe_.vocab; ++i) {
      if (recipe_.logit_scale != 1) out[i] *= recipe_.logit_scale;
      if (recipe_.logit_cap != 0) out[i] = recipe_.logit_cap * std::tanh(out[i] / recipe_.logit_cap);
    }
  }

  std::shared_ptr<const Model> model_;
  const Recipe& recipe_;
  CacheType cache_type_;
  ThreadPool pool_;
  std::vector<ThreadScratch> scratch_;  // [thread]
  // Activations of one pass.  // x_, normed_, delta_ [rows][hidden]
  std::vector<float> x_, normed_, delta_, q_, k_, raw_k_, v_, mixed_, up_, gate_;  // raw_k_: before rotation, when the cache keeps it
  std::vector<Angles> angles_;  // [rotary tables]
  std::vector<float> router_, gathered_, expert_out_, expert_weights_, expert_margin_;
  std::vector<int32_t> expert_ids_;
};

}  // namespace
}  // namespace reference

Result<std::unique_ptr<Backend>> make_reference_backend(std::shared_ptr<const Model> model,
                                                        BackendOptions options) {
  const Recipe& r = model->recipe;
  if (model->layers.size() != r.layers || !model->embedding)
    return make_error(ErrorCode::invalid, "SPAN-MODEL",
                      "the model has no weights (it was opened for its vocabulary)", model->path);
  try {
    return std::unique_ptr<Backend>(
        std::make_unique<reference::ReferenceBackend>(std::move(model), options));
  } catch (const std::bad_alloc&) {
    return make_error(ErrorCode::memory, "SPAN-MEMORY", "not enough memory for the reference path");
  }
}

}  // namespace spanscope
