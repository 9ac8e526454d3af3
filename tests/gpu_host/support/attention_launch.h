// SPDX-License-Identifier: GPL-3.0-or-later
// Attention kernels on the host layer, by name. Only attention_launch.cpp includes the kernels, so that the mutants'
// programs compile nothing else anew.
#pragma once
#include "gpu/kernels/params.h"
#include "tests/gpu_host/layer/launch.h"

namespace spanscope::gpu::test {

enum class Mode : uint8_t { exact, f16, bf16 };
enum class Shape : uint8_t { prefill, decode };

// params.pool is not looked at: pool32 (exact) or pool16 is. Head sizes: 16, 32, 64, 128; mutants have 32 only.
layer::LaunchReport run_attention(Mode mode, Shape shape, uint32_t dim, bool planned, AttentionParams<float> params,
                                  Global<const float> pool32, Global<const uint16_t> pool16, const layer::LaunchOptions& options);
uint32_t prefill_shared_bytes(Mode mode, uint32_t dim, uint32_t shared_leaves);

}  // namespace spanscope::gpu::test
