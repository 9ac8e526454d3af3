// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/model/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace spanscope {
namespace {

// base^(2i / dims): exponent and power each rounded to float32.
std::vector<float> periods(uint32_t dims, double base) {
  std::vector<float> out(dims / 2);
  for (uint32_t i = 0; i < out.size(); ++i) {
    const float exponent = float(2 * i) / float(dims);
    out[i] = float(std::pow(double(float(base)), double(exponent)));
  }
  return out;
}

void scale_llama3(std::vector<float>& inverse, const RotaryScaling& s) {
  const float low_wavelength = float(s.original_context / s.low_factor),
              high_wavelength = float(s.original_context / s.high_factor);
  for (float& f : inverse) {
    const float wavelength = float(2 * std::numbers::pi) / f;
    if (wavelength > low_wavelength) {
      f = f / float(s.factor);
    } else if (wavelength >= high_wavelength) {
      const float smooth =
          (float(s.original_context) / wavelength - float(s.low_factor)) / float(s.high_factor - s.low_factor);
      f = (1 - smooth) * f / float(s.factor) + smooth * f;
    }
  }
}

// Dimensions that turn often keep their frequency, those that turn rarely are stretched, a ramp between.
void scale_yarn(std::vector<float>& inverse, const std::vector<float>& period, uint32_t dims, double base,
                const RotaryScaling& s) {
  const auto corner = [&](double rotations) {
    return double(dims) * std::log(s.original_context / (rotations * 2 * std::numbers::pi)) / (2 * std::log(base));
  };
  double low = corner(s.beta_fast), high = corner(s.beta_slow);
  if (s.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0);
  high = std::min(high, double(dims) - 1);
  if (low == high) high += 0.001;
  for (size_t i = 0; i < inverse.size(); ++i) {
    const float ramp = std::clamp((float(i) - float(low)) / float(high - low), 0.0f, 1.0f);
    const float stretched = 1.0f / (float(s.factor) * period[i]);
    inverse[i] = stretched * ramp + inverse[i] * (1 - ramp);
  }
}

}  // namespace

RotaryTable make_rotary(uint32_t dims, double base, const RotaryScaling& s, double extension) {
  using Kind = RotaryScaling::Kind;
  const std::vector<float> period = periods(dims, base);
  RotaryTable out;
  out.inverse_frequency.resize(period.size());
  for (size_t i = 0; i < period.size(); ++i) out.inverse_frequency[i] = 1.0f / period[i];
  switch (s.kind) {
    case Kind::none:
      break;
    case Kind::linear:
      for (float& f : out.inverse_frequency) f /= float(s.factor);
      break;
    case Kind::llama3:
      scale_llama3(out.inverse_frequency, s);
      break;
    case Kind::yarn:
      scale_yarn(out.inverse_frequency, period, dims, base, s);
      out.magnitude = s.magnitude > 0 ? float(s.magnitude) : s.factor > 1 ? float(0.1 * std::log(s.factor) + 1) : 1.0f;
      break;
    case Kind::longrope:
      out.long_inverse_frequency.resize(period.size());
      for (size_t i = 0; i < period.size(); ++i) {
        out.inverse_frequency[i] = 1.0f / (s.short_factors[i] * period[i]);
        out.long_inverse_frequency[i] = 1.0f / (s.long_factors[i] * period[i]);
      }
      if (s.magnitude > 0)
        out.magnitude = float(s.magnitude);
      else if (extension > 1)
        out.magnitude = float(std::sqrt(1 + std::log(extension) / std::log(s.original_context)));
      break;
  }
  return out;
}

void rotary_angles(const RotaryTable& table, bool long_rotary, TokenPos position, float* cosines, float* sines) {
  const std::vector<float>& inverse = long_rotary ? table.long_inverse_frequency : table.inverse_frequency;
  for (size_t p = 0; p < inverse.size(); ++p) {
    const float angle = float(position) * inverse[p];
    cosines[p] = float(std::cos(double(angle))) * table.magnitude;
    sines[p] = float(std::sin(double(angle))) * table.magnitude;
  }
}

}  // namespace spanscope
