// SPDX-License-Identifier: GPL-3.0-or-later
// Y = X W^T for many rows, on tensor cores. Weights are widened once a pass, into rows of whole stretches of 32 in the
// precision of the product; then a block takes 64 rows and 64 outputs and walks the columns in steps of 32. In f16 a row of X
// is first multiplied by the power of two that brings its largest number to [2^13, 2^14): nothing overflows, no bit is lost.
#pragma once
#include "gpu/kernels/score_units.cuh"
#include "gpu/kernels/weight_formats.cuh"

namespace spanscope::gpu {

inline constexpr uint32_t kTilesThreads = 128, kTileOutputs = 64, kTileDepth = 32;

template <class Word, class Element>
struct WidenParams {
  Global<const Word> weights;  // [..][cols / block elements][words of a block]
  Global<Element> out;         // [rows][padded]
  uint32_t first_row = 0, rows = 0, cols = 0, padded = 0;
};

// One thread a stretch of 32. Grid: enough threads for rows x padded / 32.
template <class Format, class Mode>
SPANSCOPE_KERNEL(kTilesThreads)
widen_matrix(const WidenParams<typename Format::Word, typename Mode::Element> p) {
  const uint32_t stretches = p.padded / 32, i = block_x() * kTilesThreads + thread_x();
  if (i >= p.rows * stretches) return;
  const uint32_t row = i / stretches, b = i % stretches;
  const uint64_t first = uint64_t(p.first_row + row) * (uint64_t(p.cols / Format::kElements) * Format::kWords), to = uint64_t(row) * p.padded + b * 32;
  if constexpr (Format::kElements == 1) {
    for (uint32_t k = 0; k < 32; ++k)
      p.out.store(to + k, Mode::element(b * 32 + k < p.cols ? Format::number(p.weights.load(first + b * 32 + k)) : 0.0f));
  } else {
    constexpr uint32_t kStretches = Format::kElements / 32;
    float w[32];
    const uint64_t at = first + uint64_t(b / kStretches) * Format::kWords;
    Format::widen([&](uint32_t k) { return p.weights.load(at + k); }, b % kStretches, w);
    SPANSCOPE_UNROLL
    for (uint32_t k = 0; k < 32; ++k) p.out.store(to + k, Mode::element(w[k]));
  }
}

template <class Element>
struct TilesParams {
  Global<const float> x;          // [rows][cols]
  Global<const Element> weights;  // [outputs][padded]
  Global<const float> scale;      // [rows] or none: what x is multiplied by
  Global<const float> bias;       // [all outputs] or none
  Global<float> out;              // [rows][all outputs]
  uint32_t rows = 0, cols = 0, padded = 0;
  uint32_t first_output = 0, outputs = 0, all_outputs = 0;
};

// Grid: rows. The power of two of each row.
struct RowScaleParams {
  Global<const float> x;
  Global<float> scale;
  uint32_t cols = 0;
};
SPANSCOPE_KERNEL(32) row_scales(const RowScaleParams p) {
  uint32_t largest = 0;  // bits of a number without its sign: ordered as the numbers are
  for (uint32_t i = thread_x(); i < p.cols; i += 32) {
    const uint32_t bits = bits_of(p.x.load(uint64_t(block_x()) * p.cols + i)) & 0x7fffffff;
    largest = bits > largest ? bits : largest;
  }
  for (uint32_t bits = 16; bits > 0; bits /= 2) {
    const uint32_t other = shuffle_xor(largest, bits);
    largest = other > largest ? other : largest;
  }
  if (thread_x() != 0) return;
  const uint32_t exponent = largest >> 23;  // with 127 added
  // 2^(13 - (exponent - 127)), as far as it is a normal number; zeros and what is not finite stay as they are.
  const uint32_t power = exponent == 0 || exponent == 255 ? 127 : exponent > 266 ? 1 : 267 - exponent < 254 ? 267 - exponent : 254;
  p.scale.store(block_x(), float_of(power << 23));
}

template <class Element>
struct TilesShared {
  static constexpr uint32_t kTile = kTileRows * kRowStride<Element, kTileDepth>;
  static constexpr uint32_t kTileBytes = kTile * uint32_t(sizeof(Element));
  static constexpr uint32_t kX = 0, kW = kTileBytes, kBytes = 3 * kTileBytes;  // weights twice, in turn
};

// Grid: (outputs / 64, rows / 64).
template <class Mode>
SPANSCOPE_KERNEL(kTilesThreads)
multiply_tiles(const TilesParams<typename Mode::Element> p) {
  using Element = typename Mode::Element;
  using Layout = TilesShared<Element>;
  constexpr uint32_t kStride = kRowStride<Element, kTileDepth>, kPiece = 16 / sizeof(Element), kPieces = kTileDepth / kPiece;
  const uint32_t thread = thread_x(), warp = thread / 32, lane = thread % 32, g = lane / 4, t = lane % 4;
  const uint32_t row0 = block_y() * kTileRows, output0 = block_x() * kTileOutputs, steps = p.padded / kTileDepth;
  const Shared<Element> x = shared_array<Element>(Layout::kX, Layout::kTile);
  auto weights = [&](uint32_t step) { return shared_array<Element>(Layout::kW + step % 2 * Layout::kTileBytes, Layout::kTile); };
  auto fetch = [&](uint32_t step) {
    const Shared<Element> to = weights(step);
    for (uint32_t i = thread; i < kTileOutputs * kPieces; i += kTilesThreads) {
      const uint32_t row = i / kPieces, column = i % kPieces * kPiece;
      copy_async(to, row * kStride + column, p.weights, uint64_t(output0 + row) * p.padded + step * kTileDepth + column, output0 + row < p.outputs);
    }
  };
  fetch(0);
  copy_commit();
  float s[8][4];
  SPANSCOPE_UNROLL
  for (uint32_t n = 0; n < 8; ++n)
    for (uint32_t e = 0; e < 4; ++e) s[n][e] = 0;
  for (uint32_t step = 0; step < steps; ++step) {
    if (step + 1 < steps) fetch(step + 1);
    copy_commit();
    for (uint32_t i = thread; i < kTileRows * kTileDepth / 2; i += kTilesThreads) {  // pairs: no two threads share a word
      const uint32_t row = i / (kTileDepth / 2), column = i % (kTileDepth / 2) * 2, from = step * kTileDepth + column;
      const bool real = row0 + row < p.rows;
      const uint64_t at = uint64_t(row0 + row) * p.cols + from;
      const float scale = real && p.scale ? p.scale.load(row0 + row) : 1.0f;
      x.set(row * kStride + column, Mode::element(real && from < p.cols ? p.x.load(at) * scale : 0.0f));
      x.set(row * kStride + column + 1, Mode::element(real && from + 1 < p.cols ? p.x.load(at + 1) * scale : 0.0f));
    }
    copy_wait<1>();
    sync_block();
    add_products<Mode, kTileDepth>(s, x, weights(step), warp * 16, lane);
    sync_block();  // both are read
  }
  SPANSCOPE_UNROLL
  for (uint32_t n = 0; n < 8; ++n)
    for (uint32_t e = 0; e < 4; ++e) {
      const uint32_t row = row0 + warp * 16 + g + e / 2 * 8, output = output0 + n * 8 + 2 * t + e % 2;
      if (row >= p.rows || output >= p.outputs) continue;
      const float y = p.scale ? s[n][e] / p.scale.load(row) : s[n][e];
      const uint32_t place = p.first_output + output;
      p.out.store(uint64_t(row) * p.all_outputs + place, p.bias ? y + p.bias.load(place) : y);
    }
}

}  // namespace spanscope::gpu
