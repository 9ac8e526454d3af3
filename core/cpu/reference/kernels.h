// SPDX-License-Identifier: GPL-3.0-or-later
// The three inner loops of the reference path. Each sums in a fixed number of lanes and a fixed order (no
// contraction to fused multiply-add), so a result depends neither on the width of the machine's vectors, nor
// on how many rows are worked on together, nor on the number of threads. Any thread.
#pragma once
#include <cstdint>
#include <vector>

#include "core/base/thread_pool.h"
#include "core/model/weights.h"

namespace spanscope::reference {

struct Kernels {
  // out[r * out_stride + o] = w[o] . x[r].  // w [outputs][cols], x [rows][cols]
  void (*products)(const float* w, uint32_t outputs, const float* x, uint32_t rows, uint32_t cols, float* out,
                   size_t out_stride);
  // out[j] = scale * (q . keys[j]).  // keys [count][dim]
  void (*scores)(const float* q, const float* keys, uint32_t count, uint32_t dim, float scale, float* out);
  // sum[d] += p[j] * values[j][d] over all j, in double.  // values [count][dim]
  void (*weighted_sum)(const float* p, const float* values, uint32_t count, uint32_t dim, double* sum);
};
// The widest instruction set of this machine; all sets give the same bits.
const Kernels& kernels();
// By name, for the test that says so: "baseline", "avx2", "avx512"; nullptr when this machine lacks it.
const Kernels* kernels_named(const char* name);

// Rotates one head by the angles of its position.  // cosines, sines [rotary_dims/2], head [dim]
void rotate_pairs(const Recipe& recipe, const float* cosines, const float* sines, float* head);

// Buffers that belong to one thread of the pool each. Grown by the calling thread, before the threads start.
struct ThreadScratch {
  std::vector<float> weights;  // matmul: a few rows of the matrix as f32
  std::vector<float> row;      // attention: one row's scores over its visible keys
  std::vector<double> sum;     // attention: one row's value sum
};

// out[r][o] = W x[r], weights made f32 a few rows at a time, once for all rows.  // x [rows][w.cols], out
// [rows][w.rows]
void matmul(ThreadPool& pool, std::vector<ThreadScratch>& scratch, const WeightMatrix& w, const float* x,
            uint32_t rows, float* out);

}  // namespace spanscope::reference
