// SPDX-License-Identifier: GPL-3.0-or-later
// Attention kernels of the cases in tests/gpu_host/support on a card: the arrays of the parameters, which lie in the host's
// memory there, are copied to the card in exactly their sizes (so that compute-sanitizer sees an access behind an end), the
// kernel runs, and what it may write is copied back.
#pragma once
#include <cuda_runtime.h>

#include <string>
#include <type_traits>
#include <vector>

#include "gpu/kernels/params.h"
#include "tests/gpu_host/layer/launch.h"

namespace spanscope::gpu::test {

template <class E, class F>
void each_array(AttentionParams<E>& p, F&& f) {
  f(p.q), f(p.out), f(p.pool), f(p.page_of), f(p.row_first), f(p.row_end), f(p.tile), f(p.sinks), f(p.spill);
  f(p.part_segment), f(p.segment_begin), f(p.segment_end), f(p.segment_leaf), f(p.leaf_segment);
  f(p.part_max), f(p.part_sum), f(p.part_out), f(p.part_segment_sum);
  PlanArrays& a = p.plan;
  f(a.leaf_begin), f(a.leaf_end), f(a.leaf_position), f(a.readable), f(a.group_of_leaf), f(a.group_of_row);
  f(a.row_phase), f(a.row_query), f(a.row_position), f(a.habit);
  f(a.head_mass), f(a.inside), f(a.query_leaf), f(a.learned_sink), f(a.unattributed), f(a.spike);
  f(a.event_count), f(a.events), f(a.row_mass), f(a.row_lse);
}

// Copies of a struct's arrays on the card, for one launch.
class Mirror {
 public:
  ~Mirror() {
    for (const Copy& c : copies_) cudaFree(c.device);
  }
  template <class T>
  void operator()(Global<T>& array) {
    if (!array.data || array.size == 0 || failed_ != cudaSuccess) return;
    using Value = std::remove_const_t<T>;
    const size_t bytes = array.size * sizeof(T);
    void* device = nullptr;
    if (failed_ = cudaMalloc(&device, bytes); failed_ != cudaSuccess) return;
    copies_.push_back({device, const_cast<Value*>(array.data), bytes, !std::is_const_v<T>});
    failed_ = cudaMemcpy(device, array.data, bytes, cudaMemcpyHostToDevice);
    array.data = static_cast<T*>(device);
  }
  cudaError_t back() {
    for (const Copy& c : copies_)
      if (c.written && failed_ == cudaSuccess) failed_ = cudaMemcpy(c.host, c.device, c.bytes, cudaMemcpyDeviceToHost);
    return failed_;
  }
  cudaError_t failed() const { return failed_; }

 private:
  struct Copy {
    void *device, *host;
    size_t bytes;
    bool written;
  };
  std::vector<Copy> copies_;
  cudaError_t failed_ = cudaSuccess;
};

// As layer::launch, without its counts: a card does not say what it loaded. The order of threads is the card's.
template <class P>
layer::LaunchReport launch_case(void (*kernel)(P), layer::Dim3 grid, uint32_t threads, uint32_t shared_bytes, const std::type_identity_t<P>& params,
                                const layer::LaunchOptions&) {
  auto failed = [](cudaError_t code, const char* what) {
    cudaGetLastError();
    return layer::LaunchReport{false, std::string(what) + ": " + cudaGetErrorString(code), {}};
  };
  P on_card = params;
  Mirror mirror;
  each_array(on_card, mirror);
  if (mirror.failed() != cudaSuccess) return failed(mirror.failed(), "copying to the card");
  if (const auto code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(shared_bytes)); code != cudaSuccess)
    return failed(code, "shared memory");
  kernel<<<dim3(grid.x, grid.y, grid.z), threads, shared_bytes>>>(on_card);
  if (const auto code = cudaGetLastError(); code != cudaSuccess) return failed(code, "the launch");
  if (const auto code = cudaDeviceSynchronize(); code != cudaSuccess) return failed(code, "the kernel");
  if (const auto code = mirror.back(); code != cudaSuccess) return failed(code, "copying from the card");
  return {};
}

}  // namespace spanscope::gpu::test
