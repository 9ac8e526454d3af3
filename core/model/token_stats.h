// SPDX-License-Identifier: GPL-3.0-or-later
// Statistics per key and per row, for every layer and query head: the token detail. What a pass should reduce while it
// runs, and what it gives back, one TokenStats per layer. Sums over rows add up over passes and chunks.
//
// A[i,k] = exp(score(i,k) - lse(i)) over the keys that row i sees, a learned sink in lse; scores scaled and capped.
//   R1 column_sum[k]    = sum over rows of A[i,k]          R4 column_square = sum of A^2, column_max = max of A
//   R5 column_count[k]  = rows with A[i,k] > 1 / (position(i) + 1), strictly
//   R2 window_sum[w][k], window_count[w][k]: the same over the rows of window w (say, the last 16 before a border)
//   R3 last_row[k]      = A of the pass's last row
//   R6 row_argmax (slot; the lowest of equals), row_max, row_lse, row_entropy = lse - sum over k of A * score
//   R8 value_norm = |v_k| per KV head, output_norm = |W_O,h v_k| per query head, without bias, of this pass's keys
//   R9 residual_cosine[i] = cosine between the residual stream before the layer and after its attention
// They need a second product of queries and keys, because a row's lse is known only when its softmax is done; the numbers
// of the forward pass itself do not change. Rows that are not counted add to nothing.
// Sources: the table of reductions in the specification (algorithms.md 1); massive activations: arXiv 2402.17762.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "core/base/ids.h"

namespace spanscope {

inline constexpr uint32_t kMaxStatWindows = 8;

struct TokenStatsPlan {
  std::vector<uint8_t> counted;      // [rows] 1: the row adds to columns; empty: all do
  uint32_t windows = 0;              // at most kMaxStatWindows
  std::vector<uint8_t> row_windows;  // [rows] bit w: the row belongs to window w; empty when windows == 0
  std::vector<uint8_t> layers;       // [layers] 1: wanted, on_tokens is called for it; empty: all. on_residual always is
  std::vector<uint8_t> heads;        // [layers][query heads] 1: R1-R6 wanted; of others nothing is computed and the values
                                     // mean nothing; empty: all

  bool wants_layer(uint32_t layer) const { return layers.empty() || layers[layer]; }
  bool wants_head(uint32_t layer, uint32_t head, uint32_t query_heads) const {
    return heads.empty() || heads[size_t(layer) * query_heads + head];
  }
};

// Pointers stay valid during on_tokens only.
struct TokenStats {
  uint32_t layer = 0, rows = 0, keys = 0, query_heads = 0, kv_heads = 0, windows = 0;
  const double* column_sum = nullptr;       // [query heads][keys]
  const double* column_square = nullptr;    // [query heads][keys]
  const float* column_max = nullptr;        // [query heads][keys]
  const uint32_t* column_count = nullptr;   // [query heads][keys]
  const double* window_sum = nullptr;       // [windows][query heads][keys]
  const uint32_t* window_count = nullptr;   // [windows][query heads][keys]
  const float* last_row = nullptr;          // [query heads][keys]
  const uint32_t* row_argmax = nullptr;     // [query heads][rows] slot
  const float* row_max = nullptr;           // [query heads][rows]
  const float* row_lse = nullptr;           // [query heads][rows]
  const float* row_entropy = nullptr;       // [query heads][rows] nats
  const float* value_norm = nullptr;        // [kv heads][rows]
  const float* output_norm = nullptr;       // [query heads][rows]
  const float* residual_cosine = nullptr;   // [rows]
};

// The residual stream of a pass's rows before layer `index`; index == layers: behind the last layer, before the final norm.
struct ResidualStats {
  uint32_t index = 0;
  float median = 0;  // of |x| over rows and dimensions; of an even count the mean of the middle two
  struct Peak {
    float size = 0;  // |x|
    uint32_t row = 0, dimension = 0;
  };
  std::array<Peak, 3> peaks;  // largest first; of equals the lower row, then the lower dimension
  uint32_t massive = 0;       // entries above 100 and at least 1,000 times the median
};

class TokenStatsSink {
 public:
  virtual ~TokenStatsSink() = default;
  virtual void on_tokens(const TokenStats& stats) = 0;  // layers in order, on the thread that called forward()
  virtual void on_residual(const ResidualStats& stats) = 0;  // indices in order, between the layers
};

}  // namespace spanscope
