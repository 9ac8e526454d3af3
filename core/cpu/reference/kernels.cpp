// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cpu/reference/kernels.h"

#include <algorithm>
#include <cstring>

#define SPANSCOPE_INLINE inline __attribute__((always_inline))

namespace spanscope::reference {
namespace {

// Element-wise vectors of a fixed length; the compiler maps them to whatever registers the target has.
constexpr uint32_t kLanes = 16, kDoubleLanes = 8;
typedef float FloatLanes __attribute__((vector_size(kLanes * sizeof(float))));
typedef double DoubleLanes __attribute__((vector_size(kDoubleLanes * sizeof(double))));
typedef float HalfLanes __attribute__((vector_size(kDoubleLanes * sizeof(float))));

SPANSCOPE_INLINE void load(FloatLanes& v, const float* p) { std::memcpy(&v, p, sizeof v); }
SPANSCOPE_INLINE void load_tail(FloatLanes& v, const float* p, uint32_t n) {
  v = FloatLanes{};
  std::memcpy(&v, p, n * sizeof(float));
}

// Pairwise, always in this order.
SPANSCOPE_INLINE float sum_of(const FloatLanes& v) {
  float s[kLanes];
  std::memcpy(s, &v, sizeof s);
  for (uint32_t width = kLanes / 2; width > 0; width /= 2)
    for (uint32_t i = 0; i < width; ++i) s[i] += s[i + width];
  return s[0];
}

// R x O dot products at once: a block keeps R * O sums in registers. How they are grouped changes no sum.
template <uint32_t R, uint32_t O>
SPANSCOPE_INLINE void product_block(const float* w, const float* x, uint32_t cols, float* out,
                                    size_t out_stride) {
  FloatLanes sum[R][O] = {};
  uint32_t c = 0;
  for (; c + kLanes <= cols; c += kLanes) {
    FloatLanes wv[O], xv;
    for (uint32_t o = 0; o < O; ++o) load(wv[o], w + size_t(o) * cols + c);
    for (uint32_t r = 0; r < R; ++r) {
      load(xv, x + size_t(r) * cols + c);
      for (uint32_t o = 0; o < O; ++o) sum[r][o] += wv[o] * xv;
    }
  }
  if (c < cols) {
    FloatLanes wv[O], xv;
    for (uint32_t o = 0; o < O; ++o) load_tail(wv[o], w + size_t(o) * cols + c, cols - c);
    for (uint32_t r = 0; r < R; ++r) {
      load_tail(xv, x + size_t(r) * cols + c, cols - c);
      for (uint32_t o = 0; o < O; ++o) sum[r][o] += wv[o] * xv;
    }
  }
  for (uint32_t r = 0; r < R; ++r)
    for (uint32_t o = 0; o < O; ++o) out[r * out_stride + o] = sum_of(sum[r][o]);
}

template <uint32_t R, uint32_t O>
SPANSCOPE_INLINE void products_of(const float* w, uint32_t outputs, const float* x, uint32_t rows,
                                  uint32_t cols, float* out, size_t out_stride) {
  uint32_t r = 0;
  for (; r + R <= rows; r += R) {
    uint32_t o = 0;
    for (; o + O <= outputs; o += O)
      product_block<R, O>(w + size_t(o) * cols, x + size_t(r) * cols, cols, out + r * out_stride + o,
                          out_stride);
    for (; o < outputs; ++o)
      product_block<R, 1>(w + size_t(o) * cols, x + size_t(r) * cols, cols, out + r * out_stride + o,
                          out_stride);
  }
  for (; r < rows; ++r) {
    uint32_t o = 0;
    for (; o + O <= outputs; o += O)
      product_block<1, O>(w + size_t(o) * cols, x + size_t(r) * cols, cols, out + r * out_stride + o,
                          out_stride);
    for (; o < outputs; ++o)
      product_block<1, 1>(w + size_t(o) * cols, x + size_t(r) * cols, cols, out + r * out_stride + o,
                          out_stride);
  }
}

SPANSCOPE_INLINE void scores_of(const float* q, const float* keys, uint32_t count, uint32_t dim, float scale,
                                float* out) {
  products_of<1, 4>(keys, count, q, 1, dim, out, 0);
  for (uint32_t j = 0; j < count; ++j) out[j] *= scale;
}

SPANSCOPE_INLINE void weighted_sum_of(const float* p, const float* values, uint32_t count, uint32_t dim,
                                      double* sum) {
  uint32_t d = 0;
  for (; d + kDoubleLanes <= dim; d += kDoubleLanes) {
    DoubleLanes total;
    std::memcpy(&total, sum + d, sizeof total);
    for (uint32_t j = 0; j < count; ++j) {
      HalfLanes v;
      std::memcpy(&v, values + size_t(j) * dim + d, sizeof v);
      total += double(p[j]) * __builtin_convertvector(v, DoubleLanes);
    }
    std::memcpy(sum + d, &total, sizeof total);
  }
  for (; d < dim; ++d)
    for (uint32_t j = 0; j < count; ++j) sum[d] += double(p[j]) * double(values[size_t(j) * dim + d]);
}

// One instantiation per instruction set; R and O fill its registers.
#define SPANSCOPE_KERNELS(suffix, attributes, R, O)                                                        \
  attributes void products_##suffix(const float* w, uint32_t outputs, const float* x, uint32_t rows,       \
                                    uint32_t cols, float* out, size_t out_stride) {                        \
    products_of<R, O>(w, outputs, x, rows, cols, out, out_stride);                                         \
  }                                                                                                        \
  attributes void scores_##suffix(const float* q, const float* keys, uint32_t count, uint32_t dim,         \
                                  float scale, float* out) {                                               \
    scores_of(q, keys, count, dim, scale, out);                                                            \
  }                                                                                                        \
  attributes void weighted_sum_##suffix(const float* p, const float* values, uint32_t count, uint32_t dim, \
                                        double* sum) {                                                     \
    weighted_sum_of(p, values, count, dim, sum);                                                           \
  }                                                                                                        \
  constexpr Kernels k_##suffix{products_##suffix, scores_##suffix, weighted_sum_##suffix};

SPANSCOPE_KERNELS(baseline, , 1, 2)
#if defined(__x86_64__)
SPANSCOPE_KERNELS(avx2, __attribute__((target("avx2"))), 2, 2)
SPANSCOPE_KERNELS(avx512, __attribute__((target("avx512f"))), 4, 4)
#endif

}  // namespace

const Kernels* kernels_named(const char* name) {
  if (std::strcmp(name, "baseline") == 0) return &k_baseline;
#if defined(__x86_64__)
  if (std::strcmp(name, "avx2") == 0 && __builtin_cpu_supports("avx2")) return &k_avx2;
  if (std::strcmp(name, "avx512") == 0 && __builtin_cpu_supports("avx512f")) return &k_avx512;
#endif
  return nullptr;
}

const Kernels& kernels() {
  static const Kernels& best = [] {
    for (const char* name : {"avx512", "avx2"})
      if (const Kernels* k = kernels_named(name)) return *k;
    return *kernels_named("baseline");
  }();
  return best;
}

void matmul(ThreadPool& pool, std::vector<ThreadScratch>& scratch, const WeightMatrix& w, const float* x,
            uint32_t rows, float* out) {
  constexpr uint32_t kOutputs = 16;  // weight rows of one work item: 16 rows of 1,536 are 96 KiB as f32
  const bool in_place =
      w.type == TensorType::f32 && reinterpret_cast<uintptr_t>(w.data) % alignof(float) == 0;
  if (!in_place)
    for (ThreadScratch& s : scratch)
      if (s.weights.size() < size_t(kOutputs) * w.cols) s.weights.resize(size_t(kOutputs) * w.cols);
  pool.parallel_for((w.rows + kOutputs - 1) / kOutputs, [&](size_t item, unsigned thread) {
    const uint32_t first = uint32_t(item) * kOutputs, count = std::min(kOutputs, w.rows - first);
    const float* weights = reinterpret_cast<const float*>(w.row(first));
    if (!in_place) {
      float* made = scratch[thread].weights.data();
      for (uint32_t o = 0; o < count; ++o) dequantise_row(w, first + o, made + size_t(o) * w.cols);
      weights = made;
    }
    kernels().products(weights, count, x, rows, w.cols, out + first, w.rows);
  });
}

void rotate_pairs(const Recipe& recipe, const float* cosines, const float* sines, float* head) {
  const uint32_t pairs = recipe.rotary_dims / 2;
  const bool interleaved = recipe.rotary == RotaryLayout::interleaved;
  const uint32_t step = interleaved ? 2 : 1, apart = interleaved ? 1 : pairs;
  for (uint32_t p = 0; p < pairs; ++p) {
    float &a = head[p * step], &b = head[p * step + apart];
    const float rotated = a * cosines[p] - b * sines[p];
    b = a * sines[p] + b * cosines[p];
    a = rotated;
  }
}

}  // namespace spanscope::reference
