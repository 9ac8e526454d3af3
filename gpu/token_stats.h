// SPDX-License-Identifier: GPL-3.0-or-later
// Token statistics of one pass (core/model/token_stats.h) on the device: rows and columns are reduced there, never an array
// of rows x keys. The residual stream (rows x hidden) is copied to the host at each layer, for its median. Engine thread.
#pragma once
#include "gpu/attention.h"

namespace spanscope::gpu {

// What a block of these kernels asks of a card, in bytes.
uint32_t token_stats_shared_bytes(uint32_t dim, Arithmetic arithmetic);

class TokenStatsFold {
 public:
  explicit TokenStatsFold(const Model& model) : model_(model), recipe_(model.recipe) {}
  // positions: of the rows; slots: those of the pass included.
  Status begin_pass(const TokenStatsPlan& plan, std::span<const TokenPos> positions, uint32_t slots);
  // What a layer begins with, [rows][hidden], kept for compare(); index as ResidualStats has it.
  Status begin_layer(uint32_t index, const Array<float>& x, TokenStatsSink& sink);
  // R1-R6: after the layer's attention.  // q [rows][query heads][dim], rotated
  Status attend(uint32_t layer, const Attention& attention, GpuCache& cache, Global<const float> q, Global<const float> sinks);
  // R8.  // v [rows][kv heads][dim]
  Status values(uint32_t layer, const Array<float>& v);
  // R9.  // x [rows][hidden], after attention
  Status compare(const Array<float>& x);
  // Everything of the layer, on the host; valid until the next begin_pass() or result().
  Result<TokenStats> result(uint32_t layer);

 private:
  template <class Mode>
  Status launch_scores(uint32_t layer, const Attention& attention, AttentionParams<typename Mode::Element>& in);
  Status make_gram(uint32_t layer);

  template <class T>
  struct Both {  // on the device, and what came back
    Array<T> device;
    std::vector<T> host;
    Status fetch() {
      host.resize(device.size());
      return host.empty() ? Status{} : device.download(host.data(), host.size());
    }
  };
  const Model& model_;
  const Recipe& recipe_;
  const TokenStatsPlan* plan_ = nullptr;
  uint32_t rows_ = 0, slots_ = 0;
  Array<uint8_t> wanted_, counted_, row_windows_;
  Array<float> bound_, before_, weights_;
  std::vector<Array<double>> grams_;  // [layers]: [heads][dim][dim], made when first needed
  Both<double> column_sum_, column_square_, window_sum_;
  Both<float> column_max_, last_row_, row_max_, row_lse_, row_entropy_, value_norm_, output_norm_, cosine_;
  Both<uint32_t> column_count_, window_count_, row_argmax_;
};

}  // namespace spanscope::gpu
