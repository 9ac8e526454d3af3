// SPDX-License-Identifier: GPL-3.0-or-later
#include "gpu/products.h"

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

template <class Format>
Status Products::launch_format(const WeightMatrix& w, const Array<uint8_t>& bytes, Global<const float> bias, const Array<float>& x, uint32_t rows,
                               Array<float>& out) {
  using Word = typename Format::Word;
  VectorParams<Word> p;
  const Global<const uint8_t> raw = bytes.view();
  p.weights = {reinterpret_cast<const Word*>(raw.data), raw.size / sizeof(Word)};
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
    case TensorType::f32: return launch_format<FormatF32>(w, at->second, *b, x, rows, out);
    case TensorType::f16: return launch_format<FormatF16>(w, at->second, *b, x, rows, out);
    case TensorType::bf16: return launch_format<FormatBf16>(w, at->second, *b, x, rows, out);
    case TensorType::q8_0: return launch_format<FormatQ8_0>(w, at->second, *b, x, rows, out);
    case TensorType::q4_0: return launch_format<FormatQ4_0>(w, at->second, *b, x, rows, out);
    case TensorType::q4_1: return launch_format<FormatQ4_1>(w, at->second, *b, x, rows, out);
    case TensorType::q5_0: return launch_format<FormatQ5_0>(w, at->second, *b, x, rows, out);
    case TensorType::q5_1: return launch_format<FormatQ5_1>(w, at->second, *b, x, rows, out);
    case TensorType::iq4_nl: return launch_format<FormatIq4Nl>(w, at->second, *b, x, rows, out);
    case TensorType::mxfp4: return launch_format<FormatMxfp4>(w, at->second, *b, x, rows, out);
    case TensorType::q2_k: return launch_format<FormatQ2K>(w, at->second, *b, x, rows, out);
    case TensorType::q3_k: return launch_format<FormatQ3K>(w, at->second, *b, x, rows, out);
    case TensorType::q4_k: return launch_format<FormatQ4K>(w, at->second, *b, x, rows, out);
    case TensorType::q5_k: return launch_format<FormatQ5K>(w, at->second, *b, x, rows, out);
    case TensorType::q6_k: return launch_format<FormatQ6K>(w, at->second, *b, x, rows, out);
    case TensorType::iq4_xs: return launch_format<FormatIq4Xs>(w, at->second, *b, x, rows, out);
  }
  return make_error(ErrorCode::unsupported, "SPAN-GPU-TYPE", "no GPU product for weights of type number " + std::to_string(int(w.type)));
}

}  // namespace spanscope::gpu
