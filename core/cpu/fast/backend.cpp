// SPDX-License-Identifier: GPL-3.0-or-later
// The fast CPU backend: Highway for attention, vectors and few-row products, oneDNN for products of many
// rows, f32 activations. It shares no kernel with the reference path, which it is compared with.
#include <fmt/format.h>

#include <algorithm>
#include <oneapi/dnnl/dnnl.hpp>

#include "core/cpu/backends.h"
#include "core/model/batch_check.h"
#include "core/cpu/fast/pass.h"
#include "core/cpu/fast/vector_kernels.h"

namespace spanscope {
namespace fast {
namespace {

// Rows of activations held at once; a longer batch runs in passes of this many.
constexpr uint32_t kPassRows = kMaxPlannedRows;

class FastBackend final : public Backend {
 public:
  FastBackend(std::shared_ptr<const Model> model, const BackendOptions& options)
      : model_(std::move(model)),
        recipe_(model_->recipe),
        cache_type_(options.cache),
        pool_(options.threads),
        pass_(*model_, pool_) {}

  const Model& model() const override { return *model_; }
  std::string name() const override {
    return fmt::format("cpu fast ({}){}", instruction_set(), cache_type_ == CacheType::f16 ? ", f16 cache" : "");
  }
  unsigned threads() const override { return pool_.threads(); }

  std::unique_ptr<Cache> new_cache(uint32_t, bool originals) const override {
    return std::make_unique<PageCache>(model_, cache_type_, originals);
  }

  Result<ForwardResult> forward(Cache& cache, const Batch& batch, const ForwardOptions& options) override {
    auto* own = dynamic_cast<PageCache*>(&cache);
    if (!own || !own->fits(recipe_.layers, recipe_.kv_heads, recipe_.head_dim))
      return make_error(ErrorCode::invalid, "SPAN-CACHE",
                        "this cache was made by another backend or for another model");
    const uint32_t before = own->size();
    try {
      SPANSCOPE_TRY(check_batch(recipe_, own->positions(), batch, options));
      SPANSCOPE_TRY(settle_rotary_length(recipe_, *own, batch));
      ForwardResult result = room_for(batch, options);
      Status status;
      pass_.team().run([&] { status = run(*own, batch, options, result); });
      if (status) return result;
      own->truncate(before);
      return std::move(status).error();
    } catch (const std::bad_alloc&) {
      own->truncate(before);
      return make_error(
          ErrorCode::memory, "SPAN-MEMORY",
          fmt::format("not enough memory to run {} rows after {} slots", batch.ids.size(), before));
    } catch (const dnnl::error& e) {
      own->truncate(before);
      return make_error(e.status == dnnl_out_of_memory ? ErrorCode::memory : ErrorCode::unsupported,
                        "SPAN-ONEDNN", fmt::format("oneDNN: {}", e.what()));
    }
  }

 private:
  ForwardResult room_for(const Batch& batch, const ForwardOptions& options) const {
    const size_t rows = batch.ids.size();
    ForwardResult result;
    if (options.logits != LogitRows::none)
      result.logits.resize((options.logits == LogitRows::all ? rows : 1) * recipe_.vocab);
    if (options.hidden) result.hidden.resize(size_t(recipe_.layers + 1) * rows * recipe_.hidden);
    if (options.router_logits) {
      const size_t moe_rows = recipe_.moe_layers() * rows;
      result.router_logits.resize(moe_rows * recipe_.experts);
      result.topk_ids.resize(moe_rows * recipe_.experts_used);
      result.topk_weights.resize(moe_rows * recipe_.experts_used);
    }
    return result;
  }

  Status run(PageCache& cache, const Batch& batch, const ForwardOptions& options, ForwardResult& result) {
    const uint32_t rows = uint32_t(batch.ids.size());
    // Planned passes are never longer than this; what they reduce belongs to one pass.
    for (uint32_t at = 0; at < rows; at += kPassRows) {
      const uint32_t n = std::min(kPassRows, rows - at);
      SPANSCOPE_TRY(pass_.run(
          {cache, batch.ids.subspan(at, n), batch.positions.subspan(at, n), options, result, at, rows}));
    }
    return {};
  }

  std::shared_ptr<const Model> model_;
  const Recipe& recipe_;
  CacheType cache_type_;
  ThreadPool pool_;
  Pass pass_;
};

}  // namespace
}  // namespace fast

Result<std::unique_ptr<Backend>> make_fast_backend(std::shared_ptr<const Model> model,
                                                   BackendOptions options) {
  const Recipe& r = model->recipe;
  if (model->layers.size() != r.layers || !model->embedding)
    return make_error(ErrorCode::invalid, "SPAN-MODEL", "the model was opened without its weights",
                      model->path);
  try {
    return std::unique_ptr<Backend>(std::make_unique<fast::FastBackend>(std::move(model), options));
  } catch (const std::bad_alloc&) {
    return make_error(ErrorCode::memory, "SPAN-MEMORY", "not enough memory for the fast path");
  } catch (const dnnl::error& e) {
    return make_error(ErrorCode::unsupported, "SPAN-ONEDNN", fmt::format("oneDNN: {}", e.what()));
  }
}

}  // namespace spanscope
