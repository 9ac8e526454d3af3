// SPDX-License-Identifier: GPL-3.0-or-later
// One pass of the recipe on the device. Activations stay there; the host sees logits, what was asked for, and the reduced
// record of each layer. Engine thread.
#pragma once
#include "gpu/attention.h"
#include "gpu/products.h"
#include "gpu/token_stats.h"

namespace spanscope::gpu {

struct PassInput {
  GpuCache& cache;
  std::span<const TokenId> ids;
  std::span<const TokenPos> positions;
  const ForwardOptions& options;
  ForwardResult& result;
  uint32_t first_row, all_rows;  // of the batch
  uint32_t rows() const { return uint32_t(ids.size()); }
};

class Pass {
 public:
  Pass(const Model& model, Arithmetic arithmetic) : model_(model), recipe_(model.recipe), products_(arithmetic), attention_(recipe_), tokens_(model) {}
  Status run(const PassInput& in);

 private:
  struct Angles {
    Array<float> cosines, sines;  // [rows][pairs]
  };
  Status embed(const PassInput& in);
  Status fill_angles(const PassInput& in);
  Status normalise(const Array<float>& from, const std::vector<float>& weight, const std::vector<float>& bias, NormKind kind, uint32_t rows,
                   Array<float>& to);
  Status normalise_heads(Array<float>& x, const std::vector<float>& weight, uint32_t heads, uint32_t rows);
  Status rotate(const Angles& angles, Array<float>& x, uint32_t heads, uint32_t rows);
  Status attend(const PassInput& in, uint32_t layer, uint32_t first_slot);
  Status token_statistics(const PassInput& in, uint32_t layer);
  Status add_residual(const std::vector<float>& post_norm, uint32_t rows);
  Status feed_forward(const FeedForwardWeights& w, const Array<float>& x, uint32_t rows, Array<float>& out);
  Status experts(const LayerWeights& w, uint32_t rows);
  Status shared_expert(const LayerWeights& w, uint32_t rows);
  Status scatter(const Array<float>& from, const std::vector<uint32_t>& row_of, const std::vector<float>& weight);
  Status keep_hidden(const PassInput& in, uint32_t index, const Array<float>& x);
  Status keep_routing(const PassInput& in, uint32_t moe_index);
  Status finish(const PassInput& in);

  const Model& model_;
  const Recipe& recipe_;
  Products products_;
  Attention attention_;
  DevicePlan plan_;
  TokenStatsFold tokens_;
  std::vector<Angles> angles_;  // [rotary tables]
  Array<float> x_, normed_, delta_, q_, k_, v_, mixed_, up_, gate_, gathered_, expert_out_, scores_, row_weight_, logits_;
  Array<uint32_t> row_of_;
  Array<int32_t> ids_;
  Array<float> weights_, margin_;
  std::vector<int32_t> host_ids_;                  // [rows][used]
  std::vector<float> host_weights_, host_margin_;  // [rows][used], [rows]
};

}  // namespace spanscope::gpu
