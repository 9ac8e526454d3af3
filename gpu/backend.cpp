// SPDX-License-Identifier: GPL-3.0-or-later
#include "gpu/backend.h"

#include <algorithm>
#include <optional>

#include "core/model/batch_check.h"
#include "gpu/pass.h"

namespace spanscope::gpu {
namespace {

constexpr uint32_t kPassRows = 512;  // rows of activations held at once when no plan asks for more

Error unsupported(const std::string& what) { return make_error(ErrorCode::unsupported, "SPAN-GPU-UNSUPPORTED", "the GPU backend cannot do this yet: " + what); }

class GpuBackend final : public Backend {
 public:
  GpuBackend(std::shared_ptr<const Model> model, int device, Arithmetic arithmetic, const std::string& device_name)
      : model_(std::move(model)),
        device_(device),
        arithmetic_(arithmetic),
        name_((arithmetic == Arithmetic::fast ? "gpu fast (" : "gpu exact (") + device_name + ")"),
        pass_(*model_, arithmetic) {}
  const Model& model() const override { return *model_; }
  std::string name() const override { return name_; }
  unsigned threads() const override { return 1; }
  std::unique_ptr<Cache> new_cache(uint32_t, bool originals) const override {
    return std::make_unique<GpuCache>(model_, device_, arithmetic_, originals);
  }

  Result<ForwardResult> forward(Cache& cache, const Batch& batch, const ForwardOptions& options) override {
    auto* own = dynamic_cast<GpuCache*>(&cache);
    if (!own || !own->of(model_.get())) return make_error(ErrorCode::invalid, "SPAN-CACHE", "this cache belongs to another backend or model");
    const uint32_t before = own->size();
    SPANSCOPE_TRY(use_device(device_));
    try {
      SPANSCOPE_TRY(check_batch(model_->recipe, own->positions(), batch, options));
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
    const uint32_t step = options.plan || options.token_stats ? rows : kPassRows;
    for (uint32_t at = 0; at < rows; at += step) {
      const uint32_t n = std::min(step, rows - at);
      SPANSCOPE_TRY(pass_.run({cache, batch.ids.subspan(at, n), batch.positions.subspan(at, n), options, result, at, rows}));
    }
    return result;
  }

  std::shared_ptr<const Model> model_;
  int device_;
  Arithmetic arithmetic_;
  std::string name_;
  Pass pass_;
};

// Every matrix that a pass multiplies by; the embedding is read row by row on the host.
struct Weights {
  uint64_t bytes = 0;
  uint32_t cols = 0;  // of the widest
};
Weights weights_of(const Model& model) {
  Weights all;
  auto add = [&](const WeightMatrix& w) {
    if (!w) return;
    all.bytes += uint64_t(w.rows) * row_bytes(w.type, w.cols);
    all.cols = std::max(all.cols, w.cols);
  };
  auto feed_forward = [&](const FeedForwardWeights& w) {
    for (const WeightMatrix* m : {&w.gate, &w.up, &w.down}) add(*m);
  };
  for (const LayerWeights& w : model.layers) {
    for (const WeightMatrix* m : {&w.q, &w.k, &w.v, &w.o, &w.router, &w.shared_router}) add(*m);
    feed_forward(w.dense);
    feed_forward(w.shared);
    for (const FeedForwardWeights& e : w.experts) feed_forward(e);
  }
  add(model.output);
  return all;
}

// Kernels ask for shared memory by the model's sizes; cards have from 64 to 227 KiB of it a block.
Status check_shared(const SpanscopeGpuDevice& card, uint64_t bytes, const std::string& what) {
  if (bytes <= card.shared_bytes_of_block) return {};
  return make_error(ErrorCode::unsupported, "SPAN-GPU-SHARED",
                    what + " needs " + std::to_string(bytes) + " bytes of shared memory a block, " + card.name + " has " +
                        std::to_string(card.shared_bytes_of_block));
}

}  // namespace

Result<std::unique_ptr<Backend>> make_gpu_backend(std::shared_ptr<const Model> model, BackendOptions options, int device) {
  const Recipe& r = model->recipe;
  if (model->layers.size() != r.layers || !model->embedding)
    return make_error(ErrorCode::invalid, "SPAN-MODEL", "the model has no weights (it was opened for its vocabulary)", model->path);
  const bool fast = options.arithmetic == Arithmetic::fast;
  if (options.cache == CacheType::f16 && !fast) return unsupported("an f16 cache in exact mode (fast mode always has one)");
  if (!attention_has(r.head_dim))
    return make_error(ErrorCode::unsupported, "SPAN-GPU-HEADS", "no attention kernel for heads of " + std::to_string(r.head_dim) + " (family " + r.family + ")");
  if (r.experts > kMaxExperts || r.experts_used > kMaxUsed) return unsupported(std::to_string(r.experts) + " experts");
  const auto [bytes, widest] = weights_of(*model);
  SPANSCOPE_TRY(use_device(device));
  auto found = describe_device(device);
  if (!found) return found.error();
  SPANSCOPE_TRY(check_shared(*found, attention_shared_bytes(r.head_dim, options.arithmetic), "attention over heads of " + std::to_string(r.head_dim)));
  if (options.token_stats) SPANSCOPE_TRY(check_shared(*found, token_stats_shared_bytes(r.head_dim, options.arithmetic), "token statistics over heads of " + std::to_string(r.head_dim)));
  SPANSCOPE_TRY(check_shared(*found, products_shared_bytes(widest), "a product with rows of " + std::to_string(widest) + " weights"));
  // Weights go to the device at their first use; what will not fit is said now, not in the middle of a conversation. Beside
  // them: activations of one pass and the cache's first pages.
  const uint64_t wide = std::max<uint64_t>({r.hidden, uint64_t(r.query_heads) * r.head_dim, r.feed_forward, r.expert_feed_forward});
  const uint64_t activations = sizeof(float) * (uint64_t(kPassRows) * wide * 10 + r.vocab);
  const uint64_t pages = uint64_t(r.layers) * r.kv_heads * r.head_dim * ((fast ? 4 : 8) + (options.originals ? 4 : 0)) * kPassRows;
  if (const DeviceMemory memory = device_memory(); bytes + activations + pages > memory.free)
    return out_of_device_memory(bytes + activations + pages, memory,
                                "weights of " + std::to_string(bytes) + " bytes, " + std::to_string(activations) + " for activations, " +
                                    std::to_string(pages) + " for keys and values of " + std::to_string(kPassRows) + " tokens");
  return std::unique_ptr<Backend>(std::make_unique<GpuBackend>(std::move(model), device, options.arithmetic, found->name));
}

}  // namespace spanscope::gpu
