// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/gpu_host/support/attention_launch.h"

#include "gpu/kernels/decode_attention.cuh"
#include "gpu/kernels/prefill_attention.cuh"
#if defined(__CUDACC__)
#include "tests/gpu_device/launch_device.h"  // the same cases on a card
#endif

namespace spanscope::gpu::test {
namespace {
using layer::LaunchReport;
#if !defined(__CUDACC__)
template <class P>
LaunchReport launch_case(void (*kernel)(P), layer::Dim3 grid, uint32_t threads, uint32_t shared_bytes, const std::type_identity_t<P>& params,
                         const layer::LaunchOptions& options) {
  return layer::launch(kernel, grid, threads, shared_bytes, params, options);
}
#endif

template <class M, uint32_t kDim, bool kPlanned>
LaunchReport run(Shape shape, const AttentionParams<typename M::Element>& p, const layer::LaunchOptions& options) {
  using E = typename M::Element;
  if (shape == Shape::prefill)
    return launch_case(prefill_attention<M, kDim, kPlanned>, {(p.rows + kTileRows - 1) / kTileRows, p.heads}, kPrefillThreads,
                         PrefillShared<E, kDim>::bytes(kPlanned ? p.shared_leaves : 0), p, options);
  const uint32_t chunks = (p.heads / p.kv_heads + kDecodeHeads - 1) / kDecodeHeads;
  LaunchReport report = launch_case(decode_attention<M, kDim, kPlanned>, {p.parts, p.kv_heads, p.rows * chunks}, kDecodeThreads,
                                      DecodeShared<E, kDim>::kBytes, p, options);
  if (!report.ok) return report;
  const LaunchReport joined =
      launch_case(join_partitions<M, kDim, kPlanned>, {p.heads, p.rows}, kDecodeThreads, JoinShared::bytes(p.parts), p, options);
  report.ok = joined.ok;
  report.fault = joined.fault;
  report.traffic += joined.traffic;
  return report;
}

#if SPANSCOPE_MUTANT == 0
// AttentionParams of another element: everything but the pool is the same.
AttentionParams<uint16_t> with_pool(const AttentionParams<float>& p, Global<const uint16_t> pool) {
  static_assert(sizeof(AttentionParams<float>) == sizeof(AttentionParams<uint16_t>));
  AttentionParams<uint16_t> out;
  std::memcpy(static_cast<void*>(&out), static_cast<const void*>(&p), sizeof out);
  out.pool = pool;
  return out;
}
#endif

template <uint32_t kDim>
LaunchReport of_dim(Mode mode, Shape shape, bool planned, AttentionParams<float> p, Global<const float> pool32, Global<const uint16_t> pool16,
                    const layer::LaunchOptions& options) {
  p.pool = pool32;
  if (mode == Mode::exact) return planned ? run<Exact, kDim, true>(shape, p, options) : run<Exact, kDim, false>(shape, p, options);
#if SPANSCOPE_MUTANT == 0
  const AttentionParams<uint16_t> h = with_pool(p, pool16);
  if (mode == Mode::f16) return planned ? run<HalfF16, kDim, true>(shape, h, options) : run<HalfF16, kDim, false>(shape, h, options);
  if constexpr (kDim == 80 || kDim == 96 || kDim == 256) return {false, "no cases in bf16 for heads of " + std::to_string(kDim), {}};
  else return planned ? run<HalfBf16, kDim, true>(shape, h, options) : run<HalfBf16, kDim, false>(shape, h, options);
#else
  (void)pool16;
  return {false, "mutants are made in exact mode only", {}};
#endif
}

}  // namespace

LaunchReport run_attention(Mode mode, Shape shape, uint32_t dim, bool planned, AttentionParams<float> p, Global<const float> pool32,
                           Global<const uint16_t> pool16, const layer::LaunchOptions& options) {
  switch (dim) {
    case 32: return of_dim<32>(mode, shape, planned, p, pool32, pool16, options);
#if SPANSCOPE_MUTANT == 0
    case 16: return of_dim<16>(mode, shape, planned, p, pool32, pool16, options);
    case 64: return of_dim<64>(mode, shape, planned, p, pool32, pool16, options);
    case 80: return of_dim<80>(mode, shape, planned, p, pool32, pool16, options);
    case 96: return of_dim<96>(mode, shape, planned, p, pool32, pool16, options);
    case 256: return of_dim<256>(mode, shape, planned, p, pool32, pool16, options);
    case 128: return of_dim<128>(mode, shape, planned, p, pool32, pool16, options);
#endif
    default: return {false, "no attention kernel for heads of " + std::to_string(dim), {}};
  }
}

uint32_t prefill_shared_bytes(Mode mode, uint32_t dim, uint32_t leaves) {
  const uint32_t element = mode == Mode::exact ? 4 : 2;
  const uint32_t tile = kTileKeys * (dim * element + 16);
  return 3 * tile + RowFacts<kTileRows>::kWords * 4 + 2 * kLeafChunk * 4 + leaves * kTileRows * 4;
}

}  // namespace spanscope::gpu::test
