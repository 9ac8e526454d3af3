// SPDX-License-Identifier: GPL-3.0-or-later
#include "gpu/products.h"

#include <algorithm>

#include "gpu/kernels/matrix_tiles.cuh"
#include "gpu/kernels/matrix_vector.cuh"

namespace spanscope::gpu {

Result<Global<const float>> Products::vector(const std::vector<float>& v) {
  if (v.empty()) return Global<const float>{};
  auto [at, fresh] = vectors_.try_emplace(v.data());
  if (fresh) {
    SPANSCOPE_TRY(at->second.resize(v.size()));
    SPANSCOPE_TRY(at->second.upload(v.data(), v.size()));
  }
  return std::as_const(at->second).view();
}

uint64_t products_shared_bytes(uint32_t cols) { return vector_shared_bytes(cols); }

namespace {
constexpr uint64_t kWidenedNumbers = uint64_t(16) << 20;  // of a matrix at a time

template <class Format>
Global<const typename Format::Word> words(const Array<uint8_t>& bytes) {
  using Word = typename Format::Word;
  const Global<const uint8_t> raw = bytes.view();
  return {reinterpret_cast<const Word*>(raw.data), raw.size / sizeof(Word)};
}
}  // namespace

template <class Format>
Status Products::run_format(const WeightMatrix& w, const Array<uint8_t>& bytes, Global<const float> bias, const Array<float>& x, uint32_t rows,
                            Array<float>& out) {
  if (rows <= kFewRows) return launch_vector<Format>(w, bytes, bias, x, rows, out);
  if (arithmetic_ == Arithmetic::fast) return launch_tiles<Format, HalfF16>(w, bytes, bias, x, rows, out, widened16_);
  return launch_tiles<Format, Exact>(w, bytes, bias, x, rows, out, widened_);
}

template <class Format, class Mode>
Status Products::launch_tiles(const WeightMatrix& w, const Array<uint8_t>& bytes, Global<const float> bias, const Array<float>& x, uint32_t rows,
                              Array<float>& out, Array<typename Mode::Element>& widened) {
  using Element = typename Mode::Element;
  TilesParams<Element> p;
  p.x = x.view();
  p.bias = bias;
  p.out = out.view();
  p.rows = rows;
  p.cols = w.cols;
  p.padded = (w.cols + 31) / 32 * 32;
  p.all_outputs = w.rows;
  if constexpr (sizeof(Element) == 2) {
    SPANSCOPE_TRY(scale_.resize(rows));
    SPANSCOPE_TRY(launch(row_scales, {rows}, 32, 0, RowScaleParams{x.view(), scale_.view(), w.cols}));
    p.scale = std::as_const(scale_).view();
  }
  const uint32_t most = std::max<uint32_t>(uint32_t(kWidenedNumbers / p.padded / kTileOutputs) * kTileOutputs, kTileOutputs);
  for (uint32_t first = 0; first < w.rows; first += most) {
    const uint32_t outputs = std::min(most, w.rows - first);
    const size_t numbers = size_t(outputs) * p.padded;
    if (widened.size() < numbers) SPANSCOPE_TRY(widened.resize(numbers));
    WidenParams<typename Format::Word, Element> wide;
    wide.weights = words<Format>(bytes);
    wide.out = widened.view();
    wide.first_row = first;
    wide.rows = outputs;
    wide.cols = w.cols;
    wide.padded = p.padded;
    const uint32_t threads = outputs * (p.padded / 32);
    SPANSCOPE_TRY(launch(widen_matrix<Format, Mode>, {(threads + kTilesThreads - 1) / kTilesThreads}, kTilesThreads, 0, wide));
    p.weights = std::as_const(widened).view();
    p.first_output = first;
    p.outputs = outputs;
    SPANSCOPE_TRY(launch(multiply_tiles<Mode>, {(outputs + kTileOutputs - 1) / kTileOutputs, (rows + kTileRows - 1) / kTileRows}, kTilesThreads,
                         TilesShared<Element>::kBytes, p));
  }
  return {};
}

template <class Format>
Status Products::launch_vector(const WeightMatrix& w, const Array<uint8_t>& bytes, Global<const float> bias, const Array<float>& x, uint32_t rows,
                               Array<float>& out) {
  VectorParams<typename Format::Word> p;
  p.weights = words<Format>(bytes);
  p.x = x.view();
  p.bias = bias;
  p.out = out.view();
  p.outputs = w.rows;
  p.cols = w.cols;
  p.each = rows > 4 ? 8 : 1;  // few rows: as many blocks as there are; many: each reads its row of x once for 32 outputs
  const uint32_t outputs = kVectorThreads / 32 * p.each;
  return launch(matrix_vector<Format>, {(w.rows + outputs - 1) / outputs, rows}, kVectorThreads, vector_shared_bytes(w.cols), p);
}

Status Products::run(const WeightMatrix& w, const std::vector<float>& bias, const Array<float>& x, uint32_t rows, Array<float>& out) {
  SPANSCOPE_TRY(out.resize(size_t(rows) * w.rows));
  auto [at, fresh] = matrices_.try_emplace(w.data);
  if (fresh) {
    const size_t bytes = size_t(w.rows) * row_bytes(w.type, w.cols);
    SPANSCOPE_TRY(at->second.resize(bytes));
    SPANSCOPE_TRY(at->second.upload(w.data, bytes));
  }
  auto b = vector(bias);
  if (!b) return b.error();
  switch (w.type) {
    case TensorType::f32: return run_format<FormatF32>(w, at->second, *b, x, rows, out);
    case TensorType::f16: return run_format<FormatF16>(w, at->second, *b, x, rows, out);
    case TensorType::bf16: return run_format<FormatBf16>(w, at->second, *b, x, rows, out);
    case TensorType::q8_0: return run_format<FormatQ8_0>(w, at->second, *b, x, rows, out);
    case TensorType::q4_0: return run_format<FormatQ4_0>(w, at->second, *b, x, rows, out);
    case TensorType::q4_1: return run_format<FormatQ4_1>(w, at->second, *b, x, rows, out);
    case TensorType::q5_0: return run_format<FormatQ5_0>(w, at->second, *b, x, rows, out);
    case TensorType::q5_1: return run_format<FormatQ5_1>(w, at->second, *b, x, rows, out);
    case TensorType::iq4_nl: return run_format<FormatIq4Nl>(w, at->second, *b, x, rows, out);
    case TensorType::mxfp4: return run_format<FormatMxfp4>(w, at->second, *b, x, rows, out);
    case TensorType::q2_k: return run_format<FormatQ2K>(w, at->second, *b, x, rows, out);
    case TensorType::q3_k: return run_format<FormatQ3K>(w, at->second, *b, x, rows, out);
    case TensorType::q4_k: return run_format<FormatQ4K>(w, at->second, *b, x, rows, out);
    case TensorType::q5_k: return run_format<FormatQ5K>(w, at->second, *b, x, rows, out);
    case TensorType::q6_k: return run_format<FormatQ6K>(w, at->second, *b, x, rows, out);
    case TensorType::iq4_xs: return run_format<FormatIq4Xs>(w, at->second, *b, x, rows, out);
  }
  return make_error(ErrorCode::unsupported, "SPAN-GPU-TYPE", "no GPU product for weights of type number " + std::to_string(int(w.type)));
}

}  // namespace spanscope::gpu
