// SPDX-License-Identifier: GPL-3.0-or-later
// Prints the shared memory that launches of the attention kernels ask for, in bytes, without leaves: lines of gpu/resources.txt.
#include <cstdio>

#include "gpu/kernels/decode_attention.cuh"
#include "gpu/kernels/prefill_attention.cuh"

using namespace spanscope::gpu;

namespace {
template <class E, uint32_t kDim>
void print(const char* mode) {
  std::printf("launch prefill_attention<%s,%u> shared %u\n", mode, kDim, PrefillShared<E, kDim>::bytes(0));
  std::printf("launch decode_attention<%s,%u> shared %u\n", mode, kDim, DecodeShared<E, kDim>::kBytes);
}
template <uint32_t kDim>
void of_dim() {
  print<float, kDim>("32 bits");
  print<uint16_t, kDim>("16 bits");
}
}  // namespace

int main() {
  of_dim<16>();
  of_dim<32>();
  of_dim<64>();
  of_dim<80>();
  of_dim<96>();
  of_dim<128>();
  of_dim<256>();
}
