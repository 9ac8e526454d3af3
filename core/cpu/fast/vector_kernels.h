// SPDX-License-Identifier: GPL-3.0-or-later
// Vector work of the fast path: norms, rotary embedding, activations. The best instruction set of the machine
// is chosen at run time. Any thread.
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/model/recipe.h"

namespace spanscope::fast {

// out = weight * x / sqrt(mean(x^2) + eps)
void rms_norm(const float* x, const float* weight, uint32_t n, float eps, float* out);

// out = weight * (x - mean(x)) / sqrt(variance(x) + eps) + bias (null: none)
void layer_norm(const float* x, const float* weight, const float* bias, uint32_t n, float eps, float* out);

// x += scale * delta
void add_scaled(float* x, const float* delta, float scale, size_t n);

// up = act(gate) * up; without a gate up = act(up). Not swiglu_clamped.
void activate(Activation kind, const float* gate, float* up, size_t n);
// up = (u + 1) * g * sigmoid(alpha * g), g = min(gate, limit), u = clamp(up, -limit, limit)
void clamped_swiglu(float limit, float alpha, const float* gate, float* up, size_t n);

// f16 to f32. n is a multiple of 16.
void widen_halves(const uint16_t* from, float* to, size_t n);

// Rotates the pairs of one head.  // cosines, sines [pairs]
void rotate(RotaryLayout layout, const float* cosines, const float* sines, uint32_t pairs, float* head);

// The instruction set in use: "AVX3".
const char* instruction_set();

}  // namespace spanscope::fast
