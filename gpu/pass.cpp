// SPDX-License-Identifier: GPL-3.0-or-later
#include "gpu/pass.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/model/rotary.h"
// A kernel is compiled where its header is included: once in the module, so never in a header.
#include "gpu/kernels/router.cuh"
#include "gpu/kernels/row_ops.cuh"

namespace spanscope::gpu {
namespace {
Grid over(uint64_t elements) { return {uint32_t((elements + kRowThreads - 1) / kRowThreads)}; }
Error cancelled() { return make_error(ErrorCode::cancelled, "SPAN-CANCELLED", "the pass was stopped"); }
Act act_of(Activation kind) {
  switch (kind) {
    case Activation::silu: return Act::silu;
    case Activation::gelu_tanh: return Act::gelu_tanh;
    case Activation::gelu_erf: return Act::gelu_erf;
    case Activation::swiglu_clamped: break;
  }
  return Act::swiglu_clamped;
}
}  // namespace

Status Pass::run(const PassInput& in) {
  const uint32_t rows = in.rows(), first_slot = in.cache.size();
  std::vector<TokenPos> positions(in.cache.positions().begin(), in.cache.positions().end());
  positions.insert(positions.end(), in.positions.begin(), in.positions.end());
  std::optional<PlanTables> tables;
  if (in.options.plan) {
    auto made = PlanTables::make(*in.options.plan, recipe_.query_heads, in.positions, first_slot + rows);
    if (!made) return made.error();
    tables.emplace(std::move(*made));
    SPANSCOPE_TRY(plan_.begin_pass(*tables));
  }
  SPANSCOPE_TRY(attention_.begin_pass(positions, first_slot, tables ? &*tables : nullptr, &plan_));
  if (in.options.token_stats) SPANSCOPE_TRY(tokens_.begin_pass(*in.options.token_stats, in.positions, first_slot + rows));
  SPANSCOPE_TRY(fill_angles(in));
  SPANSCOPE_TRY(embed(in));

  uint32_t moe_index = 0;
  for (uint32_t l = 0; l < recipe_.layers; ++l) {
    if (in.options.stop.stop_requested()) return cancelled();
    SPANSCOPE_TRY(keep_hidden(in, l, x_));
    if (in.options.token_stats) SPANSCOPE_TRY(tokens_.begin_layer(l, x_, *in.options.token_sink));
    const LayerWeights& w = model_.layers[l];
    SPANSCOPE_TRY(attend(in, l, first_slot));
    SPANSCOPE_TRY(add_residual(w.post_attention_norm, rows));
    if (in.options.token_stats && in.options.token_stats->wants_layer(l)) SPANSCOPE_TRY(token_statistics(in, l));
    SPANSCOPE_TRY(normalise(x_, w.feed_forward_norm, w.feed_forward_norm_bias, recipe_.norm, rows, normed_));
    const bool moe = recipe_.moe_layer[l];
    if (moe) SPANSCOPE_TRY(experts(w, rows));
    else SPANSCOPE_TRY(feed_forward(w.dense, normed_, rows, delta_));
    SPANSCOPE_TRY(add_residual(w.post_feed_forward_norm, rows));
    if (moe && in.options.router_logits) SPANSCOPE_TRY(keep_routing(in, moe_index));
    moe_index += moe;
    if (tables) {
      LayerRecord record = tables->record();
      if (moe && in.options.plan->want_routing) {
        record.experts_used = recipe_.experts_used;
        record.expert_ids = host_ids_.data();
        record.expert_weights = host_weights_.data();
        record.expert_margin = host_margin_.data();
      }
      in.options.sink->on_layer(record);
    }
  }
  if (in.options.stop.stop_requested()) return cancelled();
  if (in.options.token_stats) SPANSCOPE_TRY(tokens_.begin_layer(recipe_.layers, x_, *in.options.token_sink));
  SPANSCOPE_TRY(finish(in));
  in.cache.commit(in.positions);
  return {};
}

// Rows of the embedding, scaled, plus those of positions: gathered on the host, from the mapped file.
Status Pass::embed(const PassInput& in) {
  const uint32_t width = recipe_.hidden;
  std::vector<float> x(size_t(in.rows()) * width), learned(recipe_.learned_positions ? width : 0);
  for (uint32_t i = 0; i < in.rows(); ++i) {
    float* row = x.data() + size_t(i) * width;
    dequantise_row(model_.embedding, uint64_t(in.ids[i]), row);
    if (recipe_.embedding_scale != 1)
      for (uint32_t c = 0; c < width; ++c) row[c] *= recipe_.embedding_scale;
    if (learned.empty()) continue;
    dequantise_row(model_.position_embedding, in.positions[i], learned.data());
    for (uint32_t c = 0; c < width; ++c) row[c] += learned[c];
  }
  SPANSCOPE_TRY(x_.resize(x.size()));
  return x_.upload(x.data(), x.size());
}

// Angles come from the host, where all backends compute them alike.
Status Pass::fill_angles(const PassInput& in) {
  const size_t pairs = recipe_.rotary_dims / 2, count = in.rows() * pairs;
  angles_.resize(recipe_.rotary_tables.size());
  std::vector<float> cosines(count), sines(count);
  for (size_t t = 0; t < angles_.size(); ++t) {
    for (size_t i = 0; i < in.rows(); ++i)
      rotary_angles(recipe_.rotary_tables[t], in.cache.long_rotary(), in.positions[i], cosines.data() + i * pairs, sines.data() + i * pairs);
    SPANSCOPE_TRY(angles_[t].cosines.resize(count));
    SPANSCOPE_TRY(angles_[t].sines.resize(count));
    SPANSCOPE_TRY(angles_[t].cosines.upload(cosines.data(), count));
    SPANSCOPE_TRY(angles_[t].sines.upload(sines.data(), count));
  }
  return {};
}

// to = norm(from), or from itself where the family has no norm. What is normalised together is as wide as `weight`.
Status Pass::normalise(const Array<float>& from, const std::vector<float>& weight, const std::vector<float>& bias, NormKind kind, uint32_t rows,
                       Array<float>& to) {
  if (to.size() < from.size() && &to != &from) SPANSCOPE_TRY(to.resize(from.size()));
  if (weight.empty()) {
    if (&to == &from) return {};
    SPANSCOPE_TRY(to.zero());
    AddParams p;
    p.from = from.view();
    p.to = to.view();
    p.count = rows * recipe_.hidden;
    return launch(add_rows, over(p.count), kRowThreads, 0, p);
  }
  auto w = products_.vector(weight), b = products_.vector(bias);
  if (!w) return w.error();
  if (!b) return b.error();
  NormParams p;
  p.in = from.view();
  p.weight = *w;
  p.bias = *b;
  p.out = to.view();
  p.width = uint32_t(weight.size());
  p.eps = recipe_.norm_eps;
  p.centre = kind == NormKind::layer;
  return launch(norm_rows, {rows}, kRowThreads, 16, p);
}

Status Pass::normalise_heads(Array<float>& x, const std::vector<float>& weight, uint32_t heads, uint32_t rows) {
  if (recipe_.query_key_norm == QueryKeyNorm::none) return {};
  return normalise(x, weight, {}, NormKind::rms, uint32_t(size_t(rows) * heads * recipe_.head_dim / weight.size()), x);
}

Status Pass::rotate(const Angles& angles, Array<float>& x, uint32_t heads, uint32_t rows) {
  RotateParams p;
  p.cosines = angles.cosines.view();
  p.sines = angles.sines.view();
  p.x = x.view();
  p.rows = rows;
  p.heads = heads;
  p.dim = recipe_.head_dim;
  p.pairs = recipe_.rotary_dims / 2;
  p.interleaved = recipe_.rotary == RotaryLayout::interleaved;
  return launch(rotate_rows, over(uint64_t(rows) * heads * p.pairs), kRowThreads, 0, p);
}

// delta_ = what attention adds.
Status Pass::attend(const PassInput& in, uint32_t l, uint32_t first_slot) {
  const LayerWeights& w = model_.layers[l];
  const uint32_t rows = in.rows();
  SPANSCOPE_TRY(normalise(x_, w.attention_norm, w.attention_norm_bias, recipe_.norm, rows, normed_));
  SPANSCOPE_TRY(products_.run(w.q, w.q_bias, normed_, rows, q_));
  SPANSCOPE_TRY(products_.run(w.k, w.k_bias, normed_, rows, k_));
  SPANSCOPE_TRY(products_.run(w.v, w.v_bias, normed_, rows, v_));
  SPANSCOPE_TRY(normalise_heads(q_, w.q_norm, recipe_.query_heads, rows));
  SPANSCOPE_TRY(normalise_heads(k_, w.k_norm, recipe_.kv_heads, rows));
  if (in.cache.keeps_original(l)) SPANSCOPE_TRY(in.cache.keep_originals(l, std::as_const(k_).view(), rows));
  if (const int table = recipe_.rotary_of_layer[l]; table >= 0) {
    SPANSCOPE_TRY(rotate(angles_[size_t(table)], q_, recipe_.query_heads, rows));
    SPANSCOPE_TRY(rotate(angles_[size_t(table)], k_, recipe_.kv_heads, rows));
  }
  StoreParams store;
  store.keys = std::as_const(k_).view();
  store.values = std::as_const(v_).view();
  if (in.cache.half()) store.half_pool = in.cache.half_pool(l);
  else store.pool = in.cache.pool(l);
  store.page_of = in.cache.page_of();
  store.rows = rows;
  store.kv_heads = recipe_.kv_heads;
  store.dim = recipe_.head_dim;
  store.first_slot = first_slot;
  SPANSCOPE_TRY(launch(store_rows, over(uint64_t(rows) * store.kv_heads * store.dim), kRowThreads, 0, store));
  auto sinks = products_.vector(w.sinks);
  if (!sinks) return sinks.error();
  SPANSCOPE_TRY(mixed_.resize(q_.size()));
  SPANSCOPE_TRY(attention_.run(l, in.cache, std::as_const(q_).view(), *sinks, mixed_.view()));
  return products_.run(w.o, w.o_bias, mixed_, rows, delta_);
}

// q_ and v_ are still those of the layer's attention, x_ has what it added.
Status Pass::token_statistics(const PassInput& in, uint32_t l) {
  auto sinks = products_.vector(model_.layers[l].sinks);
  if (!sinks) return sinks.error();
  SPANSCOPE_TRY(tokens_.attend(l, attention_, in.cache, std::as_const(q_).view(), *sinks));
  SPANSCOPE_TRY(tokens_.values(l, v_));
  SPANSCOPE_TRY(tokens_.compare(x_));
  auto stats = tokens_.result(l);
  if (!stats) return stats.error();
  in.options.token_sink->on_tokens(*stats);
  return {};
}

// x_ += scale * norm(delta_)
Status Pass::add_residual(const std::vector<float>& post_norm, uint32_t rows) {
  if (!post_norm.empty()) SPANSCOPE_TRY(normalise(delta_, post_norm, {}, recipe_.norm, rows, delta_));
  AddParams p;
  p.from = std::as_const(delta_).view();
  p.to = x_.view();
  p.count = rows * recipe_.hidden;
  p.scale = recipe_.residual_scale;
  return launch(add_rows, over(p.count), kRowThreads, 0, p);
}

Status Pass::feed_forward(const FeedForwardWeights& w, const Array<float>& x, uint32_t rows, Array<float>& out) {
  SPANSCOPE_TRY(products_.run(w.up, w.up_bias, x, rows, up_));
  ActivateParams p;
  if (recipe_.gated) {
    SPANSCOPE_TRY(products_.run(w.gate, w.gate_bias, x, rows, gate_));
    p.gate = std::as_const(gate_).view();
  }
  p.up = up_.view();
  p.count = rows * w.up.rows;
  p.kind = act_of(recipe_.activation);
  p.limit = recipe_.swiglu_limit;
  p.alpha = recipe_.swiglu_alpha;
  SPANSCOPE_TRY(launch(activate_rows, over(p.count), kRowThreads, 0, p));
  return products_.run(w.down, w.down_bias, up_, rows, out);
}

// delta_[row_of[c]] += weight[c] * from[c]
Status Pass::scatter(const Array<float>& from, const std::vector<uint32_t>& row_of, const std::vector<float>& weight) {
  SPANSCOPE_TRY(row_of_.resize(row_of.size()));
  SPANSCOPE_TRY(row_of_.upload(row_of.data(), row_of.size()));
  SPANSCOPE_TRY(row_weight_.resize(weight.size()));
  SPANSCOPE_TRY(row_weight_.upload(weight.data(), weight.size()));
  MoveParams p;
  p.from = from.view();
  p.weight = std::as_const(row_weight_).view();
  p.to = delta_.view();
  p.row_of = std::as_const(row_of_).view();
  p.chosen = uint32_t(row_of.size());
  p.width = recipe_.hidden;
  return launch(scatter_rows, over(uint64_t(p.chosen) * p.width), kRowThreads, 0, p);
}

// Each expert runs the rows that chose it; a row adds its experts up in the order of their indices.
Status Pass::experts(const LayerWeights& w, uint32_t rows) {
  const uint32_t used = recipe_.experts_used, width = recipe_.hidden;
  SPANSCOPE_TRY(products_.run(w.router, w.router_bias, normed_, rows, scores_));
  SPANSCOPE_TRY(ids_.resize(size_t(rows) * used));
  SPANSCOPE_TRY(weights_.resize(ids_.size()));
  SPANSCOPE_TRY(margin_.resize(rows));
  RouterParams p;
  p.scores = std::as_const(scores_).view();
  p.ids = ids_.view();
  p.weights = weights_.view();
  p.margin = margin_.view();
  p.experts = recipe_.experts;
  p.used = used;
  p.softmax_all = recipe_.router == RouterRule::softmax_all;
  p.renormalise = recipe_.renormalise_experts;
  SPANSCOPE_TRY(launch(choose_experts, {rows}, 32, 0, p));
  host_ids_.resize(ids_.size());
  host_weights_.resize(ids_.size());
  host_margin_.resize(rows);
  SPANSCOPE_TRY(ids_.download(host_ids_.data(), host_ids_.size()));
  SPANSCOPE_TRY(weights_.download(host_weights_.data(), host_weights_.size()));
  SPANSCOPE_TRY(margin_.download(host_margin_.data(), rows));

  SPANSCOPE_TRY(delta_.resize(size_t(rows) * width));
  for (uint32_t e = 0; e < recipe_.experts; ++e) {
    std::vector<uint32_t> row_of;
    std::vector<float> weight;
    for (uint32_t c = 0; c < rows * used; ++c)
      if (host_ids_[c] == int32_t(e)) {
        row_of.push_back(c / used);
        weight.push_back(host_weights_[c]);
      }
    if (row_of.empty()) continue;
    SPANSCOPE_TRY(row_of_.resize(row_of.size()));
    SPANSCOPE_TRY(row_of_.upload(row_of.data(), row_of.size()));
    SPANSCOPE_TRY(gathered_.resize(row_of.size() * width));
    MoveParams move;
    move.from = std::as_const(normed_).view();
    move.to = gathered_.view();
    move.row_of = std::as_const(row_of_).view();
    move.chosen = uint32_t(row_of.size());
    move.width = width;
    SPANSCOPE_TRY(launch(gather_rows, over(uint64_t(move.chosen) * width), kRowThreads, 0, move));
    SPANSCOPE_TRY(feed_forward(w.experts[e], gathered_, move.chosen, expert_out_));
    SPANSCOPE_TRY(scatter(expert_out_, row_of, weight));
  }
  return recipe_.shared_feed_forward ? shared_expert(w, rows) : Status{};
}

Status Pass::shared_expert(const LayerWeights& w, uint32_t rows) {
  SPANSCOPE_TRY(feed_forward(w.shared, normed_, rows, expert_out_));
  SPANSCOPE_TRY(products_.run(w.shared_router, {}, normed_, rows, gathered_));
  std::vector<float> share(rows);
  std::vector<uint32_t> row_of(rows);
  SPANSCOPE_TRY(gathered_.download(share.data(), rows));
  for (uint32_t i = 0; i < rows; ++i) {
    share[i] = 1.0f / (1.0f + std::exp(-share[i]));
    row_of[i] = i;
  }
  return scatter(expert_out_, row_of, share);
}

Status Pass::keep_hidden(const PassInput& in, uint32_t index, const Array<float>& x) {
  if (!in.options.hidden) return {};
  const size_t at = (size_t(index) * in.all_rows + in.first_row) * recipe_.hidden;
  return x.download(in.result.hidden.data() + at, size_t(in.rows()) * recipe_.hidden);
}

Status Pass::keep_routing(const PassInput& in, uint32_t moe_index) {
  const size_t at = size_t(moe_index) * in.all_rows + in.first_row;
  std::copy(host_ids_.begin(), host_ids_.end(), in.result.topk_ids.begin() + ptrdiff_t(at * recipe_.experts_used));
  std::copy(host_weights_.begin(), host_weights_.end(), in.result.topk_weights.begin() + ptrdiff_t(at * recipe_.experts_used));
  return scores_.download(in.result.router_logits.data() + at * recipe_.experts, size_t(in.rows()) * recipe_.experts);
}

// Final norm, hidden[layers], logits.
Status Pass::finish(const PassInput& in) {
  const uint32_t rows = in.rows();
  const LogitRows wanted = in.options.logits;
  const bool last_pass = in.first_row + rows == in.all_rows;
  if (!in.options.hidden && (wanted == LogitRows::none || (wanted == LogitRows::last && !last_pass))) return {};
  SPANSCOPE_TRY(normalise(x_, model_.output_norm, model_.output_norm_bias, recipe_.norm, rows, normed_));
  SPANSCOPE_TRY(keep_hidden(in, recipe_.layers, normed_));
  if (wanted == LogitRows::none || (wanted == LogitRows::last && !last_pass)) return {};
  uint32_t count = rows;
  float* out = in.result.logits.data();
  if (wanted == LogitRows::all) {
    out += size_t(in.first_row) * recipe_.vocab;
    SPANSCOPE_TRY(products_.run(model_.output, {}, normed_, rows, logits_));
  } else {
    count = 1;
    MoveParams move;
    SPANSCOPE_TRY(row_of_.resize(1));
    const uint32_t last = rows - 1;
    SPANSCOPE_TRY(row_of_.upload(&last, 1));
    SPANSCOPE_TRY(gathered_.resize(recipe_.hidden));
    move.from = std::as_const(normed_).view();
    move.to = gathered_.view();
    move.row_of = std::as_const(row_of_).view();
    move.chosen = 1;
    move.width = recipe_.hidden;
    SPANSCOPE_TRY(launch(gather_rows, over(recipe_.hidden), kRowThreads, 0, move));
    SPANSCOPE_TRY(products_.run(model_.output, {}, gathered_, 1, logits_));
  }
  if (recipe_.logit_scale != 1 || recipe_.logit_cap != 0) {
    CapParams p;
    p.x = logits_.view();
    p.count = count * recipe_.vocab;
    p.scale = recipe_.logit_scale;
    p.cap = recipe_.logit_cap;
    SPANSCOPE_TRY(launch(cap_logits, over(p.count), kRowThreads, 0, p));
  }
  return logits_.download(out, size_t(count) * recipe_.vocab);
}

}  // namespace spanscope::gpu
