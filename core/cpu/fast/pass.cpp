// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cpu/fast/pass.h"

#include <algorithm>
#include <cmath>

#include "core/cpu/fast/expert_choice.h"
#include "core/cpu/fast/few_row_kernels.h"
#include "core/cpu/fast/vector_kernels.h"
#include "core/model/rotary.h"

namespace spanscope::fast {
namespace {
size_t padded(uint32_t rows) { return (size_t(rows) + kRowPadding - 1) / kRowPadding * kRowPadding; }
Error cancelled() { return make_error(ErrorCode::cancelled, "SPAN-CANCELLED", "the pass was stopped"); }
}  // namespace

Pass::Pass(const Model& model, ThreadPool& pool)
    : model_(model), recipe_(model.recipe), team_(pool), matrices_(team_), attention_(team_, recipe_), tokens_(team_, recipe_) {}

template <class Body>
void Pass::each_row(uint32_t rows, const Body& body) {
  const uint32_t step = rows <= 4 ? rows : 8;
  team_.for_each((rows + step - 1) / step, [&](size_t item, unsigned thread) {
    const uint32_t end = std::min(rows, uint32_t(item + 1) * step);
    for (uint32_t row = uint32_t(item) * step; row < end; ++row) body(row, thread);
  });
}

void Pass::begin(const PassWork& work) {
  const uint32_t rows = work.rows(), width = recipe_.hidden;
  const size_t room = padded(rows), query_width = size_t(recipe_.query_heads) * recipe_.head_dim,
               kv_width = size_t(recipe_.kv_heads) * recipe_.head_dim;
  work.cache.make_room(work.cache.size() + rows);
  positions_.assign(work.cache.positions().begin(), work.cache.positions().end());
  positions_.insert(positions_.end(), work.positions.begin(), work.positions.end());
  for (Buffer* b : {&x_, &normed_, &delta_}) b->need(room * width);
  q_.need(room * query_width);
  mixed_.need(room * query_width);
  k_.need(room * kv_width);
  v_.need(room * kv_width);
  MassFold* fold = nullptr;
  if (work.options.plan) {
    fold = &fold_;
    fold_.begin_pass(*work.options.plan, recipe_, uint32_t(positions_.size()), work.positions,
                     team_.threads());
  }
  attention_.begin_pass(work.cache, positions_, rows, fold);
  if (work.options.token_stats)
    tokens_.begin_pass(*work.options.token_stats, work.positions, uint32_t(positions_.size()));

  fill_angles(work);
  each_row(rows, [&](uint32_t i, unsigned) { embed(work, i); });
}

void Pass::embed(const PassWork& work, uint32_t row) {
  const uint32_t width = recipe_.hidden;
  float *x = x_.data() + size_t(row) * width, *learned = normed_.data() + size_t(row) * width;
  dequantise_row(model_.embedding, uint64_t(work.ids[row]), x);
  if (recipe_.embedding_scale != 1)
    for (uint32_t c = 0; c < width; ++c) x[c] *= recipe_.embedding_scale;
  if (!recipe_.learned_positions) return;
  dequantise_row(model_.position_embedding, work.positions[row], learned);
  add_scaled(x, learned, 1.0f, width);
}

void Pass::fill_angles(const PassWork& work) {
  const uint32_t rows = work.rows(), pairs = recipe_.rotary_dims / 2;
  angles_.resize(recipe_.rotary_tables.size());
  for (size_t t = 0; t < angles_.size(); ++t) {
    float *cosines = angles_[t].cosines.need(size_t(rows) * pairs), *sines = angles_[t].sines.need(size_t(rows) * pairs);
    each_row(rows, [&](uint32_t i, unsigned) {
      rotary_angles(recipe_.rotary_tables[t], work.cache.long_rotary(), work.positions[i], cosines + size_t(i) * pairs, sines + size_t(i) * pairs);
    });
  }
}

// out = norm(x), or x where the family has no norm.  // [hidden]
void Pass::normalise(const float* x, const std::vector<float>& weight, const std::vector<float>& bias, float* out) {
  if (weight.empty()) {
    if (x != out) std::copy_n(x, recipe_.hidden, out);
  } else if (recipe_.norm == NormKind::rms) {
    rms_norm(x, weight.data(), recipe_.hidden, recipe_.norm_eps, out);
  } else {
    layer_norm(x, weight.data(), bias.empty() ? nullptr : bias.data(), recipe_.hidden, recipe_.norm_eps, out);
  }
}

// x += norm(delta) (unless null), normed = norm(x)
void Pass::add_and_normalise(float* delta, const std::vector<float>& post, const std::vector<float>& weight,
                             const std::vector<float>& bias, uint32_t rows) {
  const size_t width = recipe_.hidden;
  each_row(rows, [&](uint32_t i, unsigned) {
    float* x = x_.data() + i * width;
    if (delta) {
      float *d = delta + i * width, *normed = normed_.data() + i * width;
      if (!post.empty()) {
        normalise(d, post, {}, normed);
        d = normed;
      }
      add_scaled(x, d, recipe_.residual_scale, width);
    }
    normalise(x, weight, bias, normed_.data() + i * width);
  });
}

void Pass::add_bias(const std::vector<float>& bias, float* out, uint32_t rows) {
  if (bias.empty()) return;
  each_row(rows, [&](uint32_t i, unsigned) { add_scaled(out + i * bias.size(), bias.data(), 1.0f, bias.size()); });
}

// normed -> q, k, v, rotated; keys and values into the cache.
void Pass::attend(const PassWork& work, const LayerWeights& w, uint32_t layer) {
  const uint32_t rows = work.rows(), dim = recipe_.head_dim, pairs = recipe_.rotary_dims / 2;
  const size_t query_width = size_t(recipe_.query_heads) * dim, kv_width = size_t(recipe_.kv_heads) * dim;
  const Product products[] = {{&w.q, normed_.data(), q_.data(), query_width},
                              {&w.k, normed_.data(), k_.data(), kv_width},
                              {&w.v, normed_.data(), v_.data(), kv_width}};
  matrices_.multiply(products, rows);
  const Slot base = work.cache.size();
  const int table = recipe_.rotary_of_layer[layer];
  const bool full = recipe_.query_key_norm == QueryKeyNorm::full, head = recipe_.query_key_norm == QueryKeyNorm::head;
  const bool originals = work.cache.keeps_original(layer);
  if (originals) raw_.resize(rows * kv_width);
  const auto norm = [&](float* x, const std::vector<float>& weight) {
    rms_norm(x, weight.data(), uint32_t(weight.size()), recipe_.norm_eps, x);
  };
  each_row(rows, [&](uint32_t i, unsigned) {
    float *q = q_.data() + i * query_width, *k = k_.data() + i * kv_width, *v = v_.data() + i * kv_width;
    if (!w.q_bias.empty()) add_scaled(q, w.q_bias.data(), 1.0f, query_width);
    if (!w.k_bias.empty()) add_scaled(k, w.k_bias.data(), 1.0f, kv_width);
    if (!w.v_bias.empty()) add_scaled(v, w.v_bias.data(), 1.0f, kv_width);
    if (full) norm(q, w.q_norm), norm(k, w.k_norm);
    const float *c = table < 0 ? nullptr : angles_[size_t(table)].cosines.data() + size_t(i) * pairs,
                *s = table < 0 ? nullptr : angles_[size_t(table)].sines.data() + size_t(i) * pairs;
    for (uint32_t h = 0; h < recipe_.query_heads; ++h) {
      if (head) norm(q + size_t(h) * dim, w.q_norm);
      if (c) rotate(recipe_.rotary, c, s, pairs, q + size_t(h) * dim);
    }
    for (uint32_t h = 0; h < recipe_.kv_heads; ++h) {
      float* key = k + size_t(h) * dim;
      if (head) norm(key, w.k_norm);
      if (originals) std::copy_n(key, dim, raw_.data() + i * kv_width + size_t(h) * dim);
      if (c) rotate(recipe_.rotary, c, s, pairs, key);
      work.cache.write(layer, h, base + i, key, v + size_t(h) * dim, originals ? raw_.data() + i * kv_width + size_t(h) * dim : nullptr);
    }
  });
}

Status Pass::run(const PassWork& work) {
  const uint32_t rows = work.rows();
  begin(work);
  uint32_t moe_index = 0;
  float* delta = nullptr;  // of the layer before, not yet added
  const std::vector<float> none;
  const std::vector<float>* post = &none;
  for (uint32_t l = 0; l < recipe_.layers; ++l) {
    if (work.options.stop.stop_requested()) return cancelled();
    const LayerWeights& w = model_.layers[l];
    add_and_normalise(delta, *post, w.attention_norm, w.attention_norm_bias, rows);
    keep_hidden(work, l, x_.data());
    if (work.options.token_stats) {
      tokens_.keep(x_.data());
      work.options.token_sink->on_residual(tokens_.residual(l));
    }
    attend(work, w, l);
    attention_.begin_layer(l, w.sinks.empty() ? nullptr : w.sinks.data());
    if (work.options.plan) fold_.begin_layer(l, attention_.first(), attention_.end());
    if (!attention_.run(q_.data(), mixed_.data(), work.options.stop)) return cancelled();
    const Product o{&w.o, mixed_.data(), delta_.data(), recipe_.hidden};
    matrices_.multiply({&o, 1}, rows);
    add_bias(w.o_bias, delta_.data(), rows);
    add_and_normalise(delta_.data(), w.post_attention_norm, w.feed_forward_norm, w.feed_forward_norm_bias, rows);
    if (work.options.token_stats && work.options.token_stats->wants_layer(l)) {
      tokens_.attend(l, attention_, q_.data());
      tokens_.values(l, w.o, v_.data());
      tokens_.compare(x_.data());
      work.options.token_sink->on_tokens(tokens_.result(l));
    }
    const bool moe = recipe_.moe_layer[l];
    if (moe)
      run_experts(w, rows);
    else
      feed_forward(w.dense, normed_.data(), rows, delta_.data());
    post = &w.post_feed_forward_norm;
    delta = delta_.data();
    if (moe && work.options.router_logits) keep_routing(work, moe_index);
    moe_index += moe;
    if (work.options.plan) record(work, moe);
  }
  if (work.options.stop.stop_requested()) return cancelled();
  post_ = post;
  if (work.options.token_stats) report_last_residual(work);
  finish(work);
  work.cache.commit(work.positions);
  return {};
}

// What the last layer adds is added with the final norm, when logits are made; here it is added to a copy.
void Pass::report_last_residual(const PassWork& work) {
  const size_t width = recipe_.hidden;
  std::vector<float> last(size_t(work.rows()) * width);
  each_row(work.rows(), [&](uint32_t i, unsigned) {
    float* x = last.data() + i * width;
    const float* delta = delta_.data() + i * width;
    std::vector<float> normed;
    if (!post_->empty()) {
      normed.resize(width);
      normalise(delta, *post_, {}, normed.data());
      delta = normed.data();
    }
    std::copy_n(x_.data() + i * width, width, x);
    add_scaled(x, delta, recipe_.residual_scale, width);
  });
  tokens_.keep(last.data());
  work.options.token_sink->on_residual(tokens_.residual(recipe_.layers));
}

void Pass::record(const PassWork& work, bool moe) {
  LayerRecord record = fold_.finish_layer();
  if (moe && work.options.plan->want_routing) {
    record.experts_used = recipe_.experts_used;
    record.expert_ids = expert_ids_.data();
    record.expert_weights = expert_weights_.data();
    record.expert_margin = expert_margin_.data();
  }
  work.options.sink->on_layer(record);
}

// out = down(act(gate x) * up x), or down(act(up x)).  // x, out [rows][hidden]
void Pass::feed_forward(const FeedForwardWeights& w, const float* x, uint32_t rows, float* out) {
  const size_t inner = w.up.rows, width = recipe_.hidden;
  up_.need(padded(rows) * inner);
  gate_.need(padded(rows) * inner);
  const Product in[] = {{&w.up, x, up_.data(), inner}, {&w.gate, x, gate_.data(), inner}};
  matrices_.multiply(std::span(in).first(recipe_.gated ? 2 : 1), rows);
  add_bias(w.up_bias, up_.data(), rows);
  if (recipe_.gated) add_bias(w.gate_bias, gate_.data(), rows);
  // A few thousand values an item: one row of a wide feed-forward is worth sharing too.
  const size_t all = rows * inner, step = 2048;
  team_.for_each((all + step - 1) / step, [&](size_t item, unsigned) {
    const size_t at = item * step, count = std::min(step, all - at);
    if (recipe_.activation == Activation::swiglu_clamped)
      clamped_swiglu(recipe_.swiglu_limit, recipe_.swiglu_alpha, gate_.data() + at, up_.data() + at, count);
    else
      activate(recipe_.activation, recipe_.gated ? gate_.data() + at : nullptr, up_.data() + at, count);
  });
  const Product last{&w.down, up_.data(), out, width};
  matrices_.multiply({&last, 1}, rows);
  add_bias(w.down_bias, out, rows);
}

// Each expert runs the rows that chose it; a row adds its experts up in the order of their indices.
void Pass::run_experts(const LayerWeights& w, uint32_t rows) {
  const uint32_t used = recipe_.experts_used, experts = recipe_.experts;
  const size_t width = recipe_.hidden;
  router_.need(padded(rows) * experts);
  expert_ids_.resize(size_t(rows) * used);
  expert_weights_.resize(expert_ids_.size());
  expert_margin_.resize(rows);
  const Product router{&w.router, normed_.data(), router_.data(), experts};
  matrices_.multiply({&router, 1}, rows);
  add_bias(w.router_bias, router_.data(), rows);
  for (uint32_t i = 0; i < rows; ++i)
    expert_margin_[i] =
        choose_experts(recipe_, router_.data() + size_t(i) * experts, expert_ids_.data() + size_t(i) * used,
                       expert_weights_.data() + size_t(i) * used);
  std::vector<std::vector<uint32_t>> chosen(experts);  // indices into expert_ids_, rows ascending
  for (uint32_t p = 0; p < rows * used; ++p) chosen[size_t(expert_ids_[p])].push_back(p);
  std::fill_n(delta_.data(), rows * width, 0.0f);
  for (uint32_t e = 0; e < experts; ++e) {
    const auto& list = chosen[e];
    if (list.empty()) continue;
    const uint32_t n = uint32_t(list.size());
    gathered_.need(padded(n) * width);
    expert_out_.need(padded(n) * width);
    for (uint32_t i = 0; i < n; ++i)
      std::copy_n(normed_.data() + list[i] / used * width, width, gathered_.data() + i * width);
    feed_forward(w.experts[e], gathered_.data(), n, expert_out_.data());
    for (uint32_t i = 0; i < n; ++i)
      add_scaled(delta_.data() + list[i] / used * width, expert_out_.data() + i * width,
                 expert_weights_[list[i]], width);
  }
  if (recipe_.shared_feed_forward) add_shared_expert(w, rows);
}

// Runs for every row; its share is a sigmoid of its own router.
void Pass::add_shared_expert(const LayerWeights& w, uint32_t rows) {
  const size_t width = recipe_.hidden;
  expert_out_.need(padded(rows) * width);
  feed_forward(w.shared, normed_.data(), rows, expert_out_.data());
  each_row(rows, [&](uint32_t i, unsigned) {
    float score = 0;  // one output: a product of many rows is no better
    few_row_product(w.shared_router, 0, 1, normed_.data() + i * width, width, 1, &score, 1);
    const float weight = 1.0f / (1.0f + std::exp(-score));
    add_scaled(delta_.data() + i * width, expert_out_.data() + i * width, weight, width);
  });
}

void Pass::keep_routing(const PassWork& work, uint32_t moe_index) {
  const size_t at = size_t(moe_index) * work.all_rows + work.first_row, rows = work.rows();
  std::copy_n(router_.data(), rows * recipe_.experts,
              work.result.router_logits.data() + at * recipe_.experts);
  std::copy_n(expert_ids_.data(), rows * recipe_.experts_used,
              work.result.topk_ids.data() + at * recipe_.experts_used);
  std::copy_n(expert_weights_.data(), rows * recipe_.experts_used,
              work.result.topk_weights.data() + at * recipe_.experts_used);
}

void Pass::keep_hidden(const PassWork& work, uint32_t index, const float* x) {
  if (!work.options.hidden) return;
  const size_t at = (size_t(index) * work.all_rows + work.first_row) * recipe_.hidden;
  std::copy_n(x, size_t(work.rows()) * recipe_.hidden, work.result.hidden.data() + at);
}

// Final norm, hidden[layers], logits.
void Pass::finish(const PassWork& work) {
  const uint32_t rows = work.rows(), vocab = recipe_.vocab;
  const size_t width = recipe_.hidden;
  const LogitRows wanted = work.options.logits;
  const bool last_pass = work.first_row + rows == work.all_rows;
  if (!work.options.hidden && (wanted == LogitRows::none || (wanted == LogitRows::last && !last_pass)))
    return;
  add_and_normalise(delta_.data(), *post_, model_.output_norm, model_.output_norm_bias, rows);
  keep_hidden(work, recipe_.layers, normed_.data());
  uint32_t count = 0;
  float* out = work.result.logits.data();
  const float* x = normed_.data();
  if (wanted == LogitRows::all) {
    count = rows;
    out += size_t(work.first_row) * vocab;
  } else if (wanted == LogitRows::last && last_pass) {
    count = 1;
    x += (rows - 1) * width;
  }
  if (count == 0) return;
  const Product logits{&model_.output, x, out, vocab};
  matrices_.multiply({&logits, 1}, count);
  if (recipe_.logit_scale == 1 && recipe_.logit_cap == 0) return;
  for (size_t i = 0; i < size_t(count) * vocab; ++i) {
    out[i] *= recipe_.logit_scale;
    if (recipe_.logit_cap != 0) out[i] = recipe_.logit_cap * std::tanh(out[i] / recipe_.logit_cap);
  }
}

}  // namespace spanscope::fast
