// SPDX-License-Identifier: GPL-3.0-or-later
// One pass of rows through all layers, with the activations it works on. Engine thread, inside Team::run.
#pragma once
#include <span>
#include <vector>

#include "core/cpu/fast/attention.h"
#include "core/cpu/fast/buffer.h"
#include "core/cpu/fast/mass_fold.h"
#include "core/cpu/fast/matrix.h"
#include "core/cpu/fast/page_cache.h"
#include "core/cpu/fast/team.h"
#include "core/cpu/fast/token_stats.h"
#include "core/model/backend.h"

namespace spanscope::fast {

// What one pass works on: a stretch of the batch and where its results go.
struct PassWork {
  PageCache& cache;
  std::span<const TokenId> ids;
  std::span<const TokenPos> positions;
  const ForwardOptions& options;
  ForwardResult& result;
  uint32_t first_row = 0, all_rows = 0;  // of the batch
  uint32_t rows() const { return uint32_t(ids.size()); }
};

class Pass {
 public:
  Pass(const Model& model, ThreadPool& pool);
  // Appends the rows to the cache. SPAN-CANCELLED when stopped: the cache is as it was. Throws std::bad_alloc
  // and dnnl::error.
  Status run(const PassWork& work);
  Team& team() { return team_; }

 private:
  void begin(const PassWork& work);
  void attend(const PassWork& work, const LayerWeights& w, uint32_t layer);
  void embed(const PassWork& work, uint32_t row);
  void fill_angles(const PassWork& work);
  void normalise(const float* x, const std::vector<float>& weight, const std::vector<float>& bias, float* out);
  void add_bias(const std::vector<float>& bias, float* out, uint32_t rows);
  void feed_forward(const FeedForwardWeights& w, const float* x, uint32_t rows, float* out);
  void run_experts(const LayerWeights& w, uint32_t rows);
  void add_shared_expert(const LayerWeights& w, uint32_t rows);
  void add_and_normalise(float* delta, const std::vector<float>& post, const std::vector<float>& weight,
                         const std::vector<float>& bias, uint32_t rows);
  void keep_hidden(const PassWork& work, uint32_t index, const float* x);
  void keep_routing(const PassWork& work, uint32_t moe_index);
  void record(const PassWork& work, bool moe);
  void report_last_residual(const PassWork& work);
  void finish(const PassWork& work);
  // body(row, thread) for every row, several rows an item.
  template <class Body>
  void each_row(uint32_t rows, const Body& body);

  const Model& model_;
  const Recipe& recipe_;
  Team team_;
  Matrices matrices_;
  Attention attention_;
  MassFold fold_;
  TokenStatsFold tokens_;
  std::vector<TokenPos> positions_;  // of all slots
  const std::vector<float>* post_ = nullptr;  // norm of what the last layer adds
  // [rows, padded to kRowPadding][width]
  Buffer x_, normed_, delta_, q_, k_, v_, mixed_, gate_, up_, router_, gathered_, expert_out_;
  struct Angles {
    Buffer cosines, sines;  // [rows][pairs]
  };
  std::vector<Angles> angles_;  // [rotary tables]
  std::vector<float> raw_;  // [rows][kv heads][dim] keys before rotation, for a cache that keeps them
  std::vector<float> expert_weights_, expert_margin_;
  std::vector<int32_t> expert_ids_;
};

}  // namespace spanscope::fast
