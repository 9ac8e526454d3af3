// SPDX-License-Identifier: GPL-3.0-or-later
// Rotary frequencies and their scaling, computed in float32 as the published models were run: one unit in the last
// place of a frequency moves far positions visibly. Any thread.
#pragma once
#include <cstdint>
#include <vector>

#include "core/base/ids.h"
#include "core/model/recipe.h"

namespace spanscope {

struct RotaryScaling {
  enum class Kind : uint8_t { none, linear, llama3, yarn, longrope } kind = Kind::none;
  double factor = 1;
  double original_context = 0;           // llama3, yarn, longrope
  double low_factor = 1, high_factor = 4;   // llama3: wavelengths above context/low are scaled, below context/high kept
  double beta_fast = 32, beta_slow = 1;     // yarn: rotations within the original context at the ramp's corners
  bool truncate = true;                     // yarn: the corners are rounded to whole dimensions
  double magnitude = 0;                     // yarn, longrope; 0: computed from the factor
  std::vector<float> short_factors, long_factors;  // longrope [dims/2]
};

// 1 / base^(2i / dims), scaled. `extension`: trained context over original context (longrope's magnitude).
// Sources: RoPE scaling by llama 3.1, YaRN (arXiv 2309.00071, section 3.4 and 3.3), LongRoPE (arXiv 2402.13753).
RotaryTable make_rotary(uint32_t dims, double base, const RotaryScaling& scaling, double extension = 1);

// Cosines and sines of one position, times the table's magnitude: the angle in f32 (position * inverse frequency), as the
// published models were run, its functions in double.  // cosines, sines [dims/2]
void rotary_angles(const RotaryTable& table, bool long_rotary, TokenPos position, float* cosines, float* sines);

}  // namespace spanscope
