// SPDX-License-Identifier: GPL-3.0-or-later
// What token statistics say of values and of the residual stream (R8, R9). Everything is summed in double.
#pragma once
#include "gpu/kernels/params.h"

namespace spanscope::gpu {

inline constexpr uint32_t kValueThreads = 128;

// Sum over a warp, the same in every lane.
SPANSCOPE_DEVICE double warp_sum(double x) {
  for (uint32_t bits = 16; bits > 0; bits /= 2) x += shuffle_xor(x, bits);
  return x;
}

struct CopyParams {
  Global<const float> from;
  Global<float> to;
  uint32_t count = 0;
};
SPANSCOPE_KERNEL(kValueThreads) copy_numbers(const CopyParams p) {
  const uint32_t i = block_x() * kValueThreads + thread_x();
  if (i < p.count) p.to.store(i, p.from.load(i));
}

struct CosineParams {
  Global<const float> before, after;  // [rows][width]
  Global<float> out;                  // [rows]
  uint32_t width = 0;
};
// Grid: rows. One warp.
SPANSCOPE_KERNEL(32) residual_cosines(const CosineParams p) {
  const uint64_t row = uint64_t(block_x()) * p.width;
  double xy = 0, xx = 0, yy = 0;
  for (uint32_t i = thread_x(); i < p.width; i += 32) {
    const double x = double(p.before.load(row + i)), y = double(p.after.load(row + i));
    xy += x * y;
    xx += x * x;
    yy += y * y;
  }
  xy = warp_sum(xy);
  xx = warp_sum(xx);
  yy = warp_sum(yy);
  if (thread_x() == 0) p.out.store(block_x(), float(xy / (square_root(xx) * square_root(yy))));
}

struct GramParams {
  Global<const float> weights;  // [count][cols]: some rows of the output matrix
  Global<double> gram;          // [heads][dim][dim], added to
  uint32_t count = 0, cols = 0, dim = 0;
};
// gram += W^T W of each head's columns. Grid: (pieces of dim x dim, heads).
SPANSCOPE_KERNEL(kValueThreads) add_gram(const GramParams p) {
  const uint32_t e = block_x() * kValueThreads + thread_x(), head = block_y();
  if (e >= p.dim * p.dim) return;
  const uint32_t i = head * p.dim + e / p.dim, j = head * p.dim + e % p.dim;
  double sum = 0;
  for (uint32_t o = 0; o < p.count; ++o) sum += double(p.weights.load(uint64_t(o) * p.cols + i)) * double(p.weights.load(uint64_t(o) * p.cols + j));
  const uint64_t at = uint64_t(head) * p.dim * p.dim + e;
  p.gram.store(at, p.gram.load(at) + sum);
}

struct ValueNormParams {
  Global<const float> v;        // [rows][kv heads][dim]
  Global<const double> gram;    // of this layer
  Global<const uint8_t> wanted; // [heads]
  Global<float> value_norm, output_norm;  // [kv heads][rows], [heads][rows]
  uint32_t rows = 0, heads = 0, kv_heads = 0, dim = 0;
};
// |v|. Grid: (rows, KV heads). One warp.
SPANSCOPE_KERNEL(32) value_norms(const ValueNormParams p) {
  const uint64_t from = (uint64_t(block_x()) * p.kv_heads + block_y()) * p.dim;
  double squares = 0;
  for (uint32_t d = thread_x(); d < p.dim; d += 32) squares += double(p.v.load(from + d)) * double(p.v.load(from + d));
  squares = warp_sum(squares);
  if (thread_x() == 0) p.value_norm.store(uint64_t(block_y()) * p.rows + block_x(), float(square_root(squares)));
}
// |W v| = sqrt(v^T gram v). Grid: (rows, heads). One warp. Shared: dim floats.
SPANSCOPE_KERNEL(32) output_norms(const ValueNormParams p) {
  const uint32_t row = block_x(), head = block_y();
  if (!p.wanted.load(head)) return;
  const Shared<float> v = shared_array<float>(0, p.dim);
  const uint64_t from = (uint64_t(row) * p.kv_heads + head / (p.heads / p.kv_heads)) * p.dim, gram = uint64_t(head) * p.dim * p.dim;
  for (uint32_t d = thread_x(); d < p.dim; d += 32) v.set(d, p.v.load(from + d));
  sync_block();
  double sum = 0;
  for (uint32_t j = thread_x(); j < p.dim; j += 32) {  // the matrix is symmetric: lanes read side by side
    double x = 0;
    for (uint32_t i = 0; i < p.dim; ++i) x += p.gram.load(gram + uint64_t(i) * p.dim + j) * double(v.get(i));
    sum += x * double(v.get(j));
  }
  sum = warp_sum(sum);
  if (thread_x() == 0) p.output_norm.store(uint64_t(head) * p.rows + row, float(square_root(sum > 0 ? sum : 0.0)));
}

}  // namespace spanscope::gpu
