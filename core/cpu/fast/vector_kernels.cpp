// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/cpu/fast/vector_kernels.h"

#include <algorithm>
#include <cmath>

#include "core/cpu/fast/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/cpu/fast/vector_kernels.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "core/cpu/fast/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace spanscope {
namespace fast {
namespace HWY_NAMESPACE {

void RmsNorm(const float* HWY_RESTRICT x, const float* HWY_RESTRICT weight, uint32_t n, float eps,
             float* HWY_RESTRICT out) {
  const F d;
  const size_t lanes = hn::Lanes(d);
  V squares = hn::Zero(d);
  for (size_t i = 0; i < n; i += lanes) {
    const V v = LoadFirst(d, x + i, n - i);
    squares = hn::MulAdd(v, v, squares);
  }
  const float inverse = float(1.0 / std::sqrt(double(Sum(d, squares)) / double(n) + double(eps)));
  const V factor = hn::Set(d, inverse);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(hn::Mul(hn::LoadU(d, weight + i), hn::Mul(hn::LoadU(d, x + i), factor)), d, out + i);
  for (; i < n; ++i) out[i] = weight[i] * (x[i] * inverse);
}

void LayerNorm(const float* HWY_RESTRICT x, const float* HWY_RESTRICT weight, const float* bias, uint32_t n, float eps,
               float* HWY_RESTRICT out) {
  const F d;
  const size_t lanes = hn::Lanes(d);
  V total = hn::Zero(d);
  for (size_t i = 0; i < n; i += lanes) total = hn::Add(total, LoadFirst(d, x + i, n - i));
  const float mean = float(double(Sum(d, total)) / double(n));
  const V middle = hn::Set(d, mean);
  V squares = hn::Zero(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const V v = hn::Sub(hn::LoadU(d, x + i), middle);
    squares = hn::MulAdd(v, v, squares);
  }
  double sum = double(Sum(d, squares));
  for (size_t j = i; j < n; ++j) sum += double(x[j] - mean) * double(x[j] - mean);
  const float inverse = float(1.0 / std::sqrt(sum / double(n) + double(eps)));
  const V factor = hn::Set(d, inverse);
  for (i = 0; i + lanes <= n; i += lanes) {
    const V v = hn::Mul(hn::LoadU(d, weight + i), hn::Mul(hn::Sub(hn::LoadU(d, x + i), middle), factor));
    hn::StoreU(bias ? hn::Add(v, hn::LoadU(d, bias + i)) : v, d, out + i);
  }
  for (; i < n; ++i) out[i] = weight[i] * ((x[i] - mean) * inverse) + (bias ? bias[i] : 0.0f);
}

void AddScaled(float* HWY_RESTRICT x, const float* HWY_RESTRICT delta, float scale, size_t n) {
  const F d;
  const V factor = hn::Set(d, scale);
  size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d))
    hn::StoreU(hn::Add(hn::LoadU(d, x + i), hn::Mul(hn::LoadU(d, delta + i), factor)), d, x + i);
  for (; i < n; ++i) x[i] += delta[i] * scale;
}

HWY_INLINE V Act(F d, Activation kind, V x) {
  const V one = hn::Set(d, 1.0f);
  if (kind == Activation::silu) return hn::Div(x, hn::Add(one, Exp(d, hn::Neg(x))));
  // gelu by tanh: x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))
  const V inner =
      hn::Mul(hn::Set(d, 0.79788456f), hn::MulAdd(hn::Mul(hn::Mul(x, x), x), hn::Set(d, 0.044715f), x));
  return hn::Mul(hn::Mul(hn::Set(d, 0.5f), x), hn::Add(one, Tanh(d, inner)));
}

void Activate(Activation kind, const float* gate, float* up, size_t n) {
  const F d;
  const size_t lanes = hn::Lanes(d);
  for (size_t i = 0; i < n; i += lanes) {
    const size_t left = std::min(lanes, n - i);
    const float* from = gate ? gate + i : up + i;
    V y;
    if (kind == Activation::gelu_erf) {  // rare: plain code
      HWY_ALIGN float part[16] = {};
      for (size_t j = 0; j < left; ++j) part[j] = 0.5f * from[j] * (1.0f + std::erf(from[j] * 0.70710678f));
      y = hn::Load(d, part);
    } else {
      y = Act(d, kind, LoadFirst(d, from, left));
    }
    if (gate) y = hn::Mul(y, LoadFirst(d, up + i, left));
    if (left == lanes) {
      hn::StoreU(y, d, up + i);
    } else {
      HWY_ALIGN float part[16];
      hn::Store(y, d, part);
      std::copy_n(part, left, up + i);
    }
  }
}

void ClampedSwiglu(float limit, float alpha, const float* gate, float* up, size_t n) {
  const F d;
  const size_t lanes = hn::Lanes(d);
  const V top = hn::Set(d, limit), bottom = hn::Set(d, -limit), one = hn::Set(d, 1.0f), steep = hn::Set(d, -alpha);
  for (size_t i = 0; i < n; i += lanes) {
    const size_t left = std::min(lanes, n - i);
    const V g = hn::Min(LoadFirst(d, gate + i, left), top);
    const V u = hn::Min(hn::Max(LoadFirst(d, up + i, left), bottom), top);
    const V y = hn::Mul(hn::Add(u, one), hn::Div(g, hn::Add(one, Exp(d, hn::Mul(steep, g)))));
    if (left == lanes) {
      hn::StoreU(y, d, up + i);
    } else {
      HWY_ALIGN float part[16];
      hn::Store(y, d, part);
      std::copy_n(part, left, up + i);
    }
  }
}

void WidenHalves(const uint16_t* HWY_RESTRICT from, float* HWY_RESTRICT to, size_t n) {
  const F d;
  const hn::Rebind<hwy::float16_t, F> half;
  for (size_t i = 0; i < n; i += hn::Lanes(d))
    hn::StoreU(hn::PromoteTo(d, hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(from + i))), d, to + i);
}

void Rotate(RotaryLayout layout, const float* HWY_RESTRICT cosines, const float* HWY_RESTRICT sines,
            uint32_t pairs, float* HWY_RESTRICT head) {
  const F d;
  const size_t lanes = hn::Lanes(d);
  size_t p = 0;
  for (; p + lanes <= pairs; p += lanes) {
    const V c = hn::LoadU(d, cosines + p), s = hn::LoadU(d, sines + p);
    V a, b;
    if (layout == RotaryLayout::interleaved) {
      hn::LoadInterleaved2(d, head + 2 * p, a, b);
    } else {
      a = hn::LoadU(d, head + p);
      b = hn::LoadU(d, head + pairs + p);
    }
    const V x = hn::Sub(hn::Mul(a, c), hn::Mul(b, s)), y = hn::Add(hn::Mul(a, s), hn::Mul(b, c));
    if (layout == RotaryLayout::interleaved) {
      hn::StoreInterleaved2(x, y, d, head + 2 * p);
    } else {
      hn::StoreU(x, d, head + p);
      hn::StoreU(y, d, head + pairs + p);
    }
  }
  const size_t step = layout == RotaryLayout::interleaved ? 2 : 1,
               apart = layout == RotaryLayout::interleaved ? 1 : pairs;
  for (; p < pairs; ++p) {
    const float a = head[p * step], b = head[p * step + apart];
    head[p * step] = a * cosines[p] - b * sines[p];
    head[p * step + apart] = a * sines[p] + b * cosines[p];
  }
}

const char* TargetName() { return hwy::TargetName(HWY_TARGET); }

}  // namespace HWY_NAMESPACE
}  // namespace fast
}  // namespace spanscope
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spanscope::fast {
HWY_EXPORT(RmsNorm);
HWY_EXPORT(LayerNorm);
HWY_EXPORT(AddScaled);
HWY_EXPORT(Activate);
HWY_EXPORT(ClampedSwiglu);
HWY_EXPORT(WidenHalves);
HWY_EXPORT(Rotate);
HWY_EXPORT(TargetName);

void rms_norm(const float* x, const float* weight, uint32_t n, float eps, float* out) {
  HWY_DYNAMIC_DISPATCH(RmsNorm)(x, weight, n, eps, out);
}
void layer_norm(const float* x, const float* weight, const float* bias, uint32_t n, float eps, float* out) {
  HWY_DYNAMIC_DISPATCH(LayerNorm)(x, weight, bias, n, eps, out);
}
void add_scaled(float* x, const float* delta, float scale, size_t n) {
  HWY_DYNAMIC_DISPATCH(AddScaled)(x, delta, scale, n);
}
void activate(Activation kind, const float* gate, float* up, size_t n) {
  HWY_DYNAMIC_DISPATCH(Activate)(kind, gate, up, n);
}
void clamped_swiglu(float limit, float alpha, const float* gate, float* up, size_t n) {
  HWY_DYNAMIC_DISPATCH(ClampedSwiglu)(limit, alpha, gate, up, n);
}
void widen_halves(const uint16_t* from, float* to, size_t n) { HWY_DYNAMIC_DISPATCH(WidenHalves)(from, to, n); }
void rotate(RotaryLayout layout, const float* cosines, const float* sines, uint32_t pairs, float* head) {
  HWY_DYNAMIC_DISPATCH(Rotate)(layout, cosines, sines, pairs, head);
}
const char* instruction_set() { return HWY_DYNAMIC_DISPATCH(TargetName)(); }
}  // namespace spanscope::fast
#endif
