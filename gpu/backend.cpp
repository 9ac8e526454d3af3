// SPDX-License-Identifier: GPL-3.0-or-later
#include "gpu/backend.h"

#include <algorithm>
#include <optional>

#include "core/cpu/reference/batch_check.h"
#include "gpu/pass.h"

namespace spanscope::gpu {
namespace {

constexpr uint32_t kPassRows = 512;  // rows of activations held at once when no plan asks for more

Error unsupported(const std::string& what) { return make_error(ErrorCode::unsupported, "SPAN-GPU-UNSUPPORTED", "the GPU backend cannot do this yet: " + what); }

class GpuBackend final : public Backend {
 public:
  explicit GpuBackend(std::shared_ptr<const Model> model) : model_(std::move(model)), pass_(*model_) {}
  const Model& model() const override { return *model_; }
  std::string name() const override { return "gpu exact"; }
  unsigned threads() const override { return 1; }
  std::unique_ptr<Cache> new_cache(uint32_t, bool) const override { return std::make_unique<GpuCache>(model_); }

  Result<ForwardResult> forward(Cache& cache, const Batch& batch, const ForwardOptions& options) override {
    auto* own = dynamic_cast<GpuCache*>(&cache);
    if (!own || !own->of(model_.get())) return make_error(ErrorCode::invalid, "SPAN-CACHE", "this cache belongs to another backend or model");
    if (options.token_stats) return unsupported("token statistics");
    const uint32_t before = own->size();
    try {
      SPANSCOPE_TRY(reference::check_batch(model_->recipe, own->positions(), batch, options));
      SPANSCOPE_TRY(settle_rotary_length(model_->recipe, *own, batch));
      auto result = run(*own, batch, options);
      if (!result) own->truncate(before);
      return result;
    } catch (const std::bad_alloc&) {
      own->truncate(before);
      return make_error(ErrorCode::memory, "SPAN-MEMORY", "not enough memory for " + std::to_string(batch.ids.size()) + " rows");
    }
  }

 private:
  Result<ForwardResult> run(GpuCache& cache, const Batch& batch, const ForwardOptions& options) {
    const Recipe& r = model_->recipe;
    const uint32_t rows = uint32_t(batch.ids.size());
    ForwardResult result;
    if (options.logits != LogitRows::none) result.logits.resize(size_t(options.logits == LogitRows::all ? rows : 1) * r.vocab);
    if (options.hidden) result.hidden.resize(size_t(r.layers + 1) * rows * r.hidden);
    if (options.router_logits) {
      const size_t moe_rows = size_t(r.moe_layers()) * rows;
      result.router_logits.resize(moe_rows * r.experts);
      result.topk_ids.resize(moe_rows * r.experts_used);
      result.topk_weights.resize(moe_rows * r.experts_used);
    }
    SPANSCOPE_TRY(cache.reserve(cache.size() + rows));
    const uint32_t step = options.plan ? rows : kPassRows;
    for (uint32_t at = 0; at < rows; at += step) {
      const uint32_t n = std::min(step, rows - at);
      SPANSCOPE_TRY(pass_.run({cache, batch.ids.subspan(at, n), batch.positions.subspan(at, n), options, result, at, rows}));
    }
    return result;
  }

  std::shared_ptr<const Model> model_;
  Pass pass_;
};

// Every matrix that a pass multiplies by; the embedding is read row by row on the host.
Status check_types(const Model& model) {
  auto check = [](const WeightMatrix& w, const char* what, size_t layer) -> Status {
    if (!w || products_have(w.type)) return {};
    return make_error(ErrorCode::unsupported, "SPAN-GPU-TYPE",
                      std::string("no GPU product for weights of type ") + tensor_type_name(w.type) + " (" + what + ", layer " + std::to_string(layer) + ")");
  };
  auto feed_forward = [&](const FeedForwardWeights& w, size_t l) -> Status {
    SPANSCOPE_TRY(check(w.gate, "gate", l));
    SPANSCOPE_TRY(check(w.up, "up", l));
    return check(w.down, "down", l);
  };
  for (size_t l = 0; l < model.layers.size(); ++l) {
    const LayerWeights& w = model.layers[l];
    for (const WeightMatrix* m : {&w.q, &w.k, &w.v, &w.o}) SPANSCOPE_TRY(check(*m, "attention", l));
    SPANSCOPE_TRY(check(w.router, "router", l));
    SPANSCOPE_TRY(check(w.shared_router, "shared router", l));
    SPANSCOPE_TRY(feed_forward(w.dense, l));
    SPANSCOPE_TRY(feed_forward(w.shared, l));
    for (const FeedForwardWeights& e : w.experts) SPANSCOPE_TRY(feed_forward(e, l));
  }
  return check(model.output, "output", model.layers.size());
}

}  // namespace

Result<std::unique_ptr<Backend>> make_gpu_backend(std::shared_ptr<const Model> model, BackendOptions options) {
  const Recipe& r = model->recipe;
  if (model->layers.size() != r.layers || !model->embedding)
    return make_error(ErrorCode::invalid, "SPAN-MODEL", "the model has no weights (it was opened for its vocabulary)", model->path);
  if (options.cache != CacheType::f32) return unsupported("an f16 cache");
  if (!attention_has(r.head_dim))
    return make_error(ErrorCode::unsupported, "SPAN-GPU-HEADS", "no attention kernel for heads of " + std::to_string(r.head_dim) + " (family " + r.family + ")");
  if (r.experts > kMaxExperts || r.experts_used > kMaxUsed) return unsupported(std::to_string(r.experts) + " experts");
  SPANSCOPE_TRY(check_types(*model));
  return std::unique_ptr<Backend>(std::make_unique<GpuBackend>(std::move(model)));
}

}  // namespace spanscope::gpu
