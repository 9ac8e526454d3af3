// SPDX-License-Identifier: GPL-3.0-or-later
// Kernels on a card: time, useful operations and bytes a second beside what the card can do, recording off and on. Each number
// is the median of nine launches, timed by the card's own events, after two that are not counted.
//   attention   one layer, 32 heads of 128 on 8: a prefill pass of 512 rows, or one answer row, at the end of a context.
//               FLOP: 4 x rows x keys seen x heads x dim (products of TF32 count once, not three times);
//               bytes: the layer's keys and values, once.
//   products    4096 x 14336 weights as they are stored, one row and 512. FLOP: 2 x rows x weights; bytes: the weights, once.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <random>

#include "gpu/kernels/decode_attention.cuh"
#include "gpu/kernels/prefill_attention.cuh"
#include "gpu/plan_arrays.h"
#include "gpu/products.h"
#include "tests/gpu_device/launch_device.h"

using namespace spanscope;
using namespace spanscope::gpu;

namespace {

constexpr uint32_t kHeads = 32, kKvHeads = 8, kDim = 128, kLeaves = 200;

bool complain(const std::string& what) {
  std::printf("FAILED: %s\n", what.c_str());
  return false;
}

struct Limits {
  double bytes = 0, flop32 = 0, flop_tf32 = 0;  // a second
};

// From clocks and counts that the driver gives and from the published operations per clock of a multiprocessor.
Limits limits_of(int device, int major, int minor) {
  auto attribute = [&](cudaDeviceAttr a) {
    int value = 0;
    return cudaDeviceGetAttribute(&value, a, device) == cudaSuccess ? double(value) : 0.0;
  };
  const double clocks = attribute(cudaDevAttrMultiProcessorCount) * attribute(cudaDevAttrClockRate) * 1e3;
  Limits l;
  l.bytes = 2 * attribute(cudaDevAttrMemoryClockRate) * 1e3 * attribute(cudaDevAttrGlobalMemoryBusWidth) / 8;
  const int kind = major * 10 + minor;
  l.flop32 = clocks * 2 * (kind == 75 || kind == 80 ? 64 : 128);
  l.flop_tf32 = clocks * (kind == 80 ? 1024 : kind == 90 ? 2048 : kind == 100 || kind == 103 ? 4096 : major < 8 ? 0 : 256);
  return l;
}

// Seconds; negative: it failed, and why was said.
double median_time(const std::function<bool()>& work) {
  cudaEvent_t begin, end;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  std::vector<float> times;
  for (int i = 0; i < 11; ++i) {
    cudaEventRecord(begin);
    if (!work()) return -1;
    cudaEventRecord(end);
    if (const auto code = cudaEventSynchronize(end); code != cudaSuccess) return complain(cudaGetErrorString(code)) - 1.0;
    float ms = 0;
    cudaEventElapsedTime(&ms, begin, end);
    if (i >= 2) times.push_back(ms);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  return times[times.size() / 2] * 1e-3;
}

template <class P>
bool start(void (*kernel)(P), dim3 grid, uint32_t threads, uint32_t shared, const std::type_identity_t<P>& p) {
  if (const auto code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(shared)); code != cudaSuccess)
    return complain(std::to_string(shared) + " bytes of shared memory: " + cudaGetErrorString(code));
  kernel<<<grid, threads, shared>>>(p);
  const auto code = cudaGetLastError();
  return code == cudaSuccess || complain(std::string("a launch: ") + cudaGetErrorString(code));
}

template <class M, bool kPlanned>
bool start_attention(const AttentionParams<typename M::Element>& p) {
  using E = typename M::Element;
  if (p.rows > 4)
    return start(prefill_attention<M, kDim, kPlanned>, dim3((p.rows + kTileRows - 1) / kTileRows, p.heads), kPrefillThreads,
                 PrefillShared<E, kDim>::bytes(kPlanned ? p.shared_leaves : 0), p);
  const uint32_t chunks = (p.heads / p.kv_heads + kDecodeHeads - 1) / kDecodeHeads;
  return start(decode_attention<M, kDim, kPlanned>, dim3(p.parts, p.kv_heads, p.rows * chunks), kDecodeThreads, DecodeShared<E, kDim>::kBytes, p) &&
         start(join_partitions<M, kDim, kPlanned>, dim3(p.heads, p.rows), kDecodeThreads, JoinShared::bytes(p.parts), p);
}

template <class M>
bool attention(const char* mode, uint32_t rows, uint32_t slots, const Limits& limits, uint32_t shared_limit) {
  using E = typename M::Element;
  const uint32_t before = slots - rows;
  RecordPlan plan;
  for (uint32_t s = 0; s < kLeaves; ++s) {
    const uint32_t begin = uint64_t(slots) * s / kLeaves, end = uint64_t(slots) * (s + 1) / kLeaves;
    plan.leaves.push_back({begin, end - begin, end, true});
  }
  plan.levels = 1;
  plan.query_leaves = 1;
  plan.group_of_leaf.assign(kLeaves, -1);
  plan.group_of_row.assign(rows, -1);
  plan.row_phase.assign(rows, rows == 1 ? RowPhase::answer : RowPhase::prompt);
  plan.row_query.assign(rows, 0);
  std::vector<TokenPos> positions(slots);
  for (uint32_t i = 0; i < slots; ++i) positions[i] = i;
  auto tables = PlanTables::make(plan, kHeads, std::span(positions).subspan(before), slots);
  if (!tables) return complain(tables.error().line());
  tables->begin_layer(0);

  uint32_t state = 7;
  auto random = [&] { return float((state = state * 1664525u + 1013904223u) >> 8) / float(1 << 23) - 1.0f; };
  const uint32_t pages = (slots + kPage - 1) / kPage, tiles = (rows + kTileRows - 1) / kTileRows;
  std::vector<float> q(size_t(rows) * kHeads * kDim), out(q.size());
  std::vector<E> pool(size_t(pages) * kKvHeads * 2 * kPage * kDim);
  for (float& x : q) x = random();
  for (E& x : pool) {
    if constexpr (sizeof(E) == 4) x = random();
    else x = E(0x3f00 | (state = state * 1664525u + 1013904223u) >> 24);  // bf16 numbers from 0.5 to 2
  }
  std::vector<uint32_t> page_of(pages), first(rows, 0), end(rows), tile;
  for (uint32_t i = 0; i < pages; ++i) page_of[i] = i;
  for (uint32_t i = 0; i < rows; ++i) end[i] = before + i + 1;
  uint32_t most = 0;
  for (uint32_t i = 0; i < tiles; ++i) {
    const uint32_t last = std::min(rows, (i + 1) * kTileRows) - 1;
    const auto leaves = tables->leaves_in(0, end[last]);
    tile.insert(tile.end(), {0, end[last], leaves.first, leaves.second});
    most = std::max(most, leaves.second - leaves.first);
  }
  auto view = [](auto& v) { return Global<std::remove_reference_t<decltype(v[0])>>{v.data(), v.size()}; };
  auto read = [](auto& v) { return Global<const std::remove_reference_t<decltype(v[0])>>{v.data(), v.size()}; };
  AttentionParams<E> p;
  p.q = read(q), p.out = view(out), p.pool = read(pool), p.page_of = read(page_of);
  p.row_first = read(first), p.row_end = read(end), p.tile = read(tile);
  p.rows = rows, p.heads = kHeads, p.kv_heads = kKvHeads, p.scale = 0.088f;
  const uint32_t room = (shared_limit - PrefillShared<E, kDim>::bytes(0)) / (kTileRows * 4);
  p.shared_leaves = std::min(most, PrefillShared<E, kDim>::bytes(0) < shared_limit ? room : 0);
  std::vector<float> spill;
  if (rows > 4 && most > p.shared_leaves) {
    p.spill_leaves = most;
    spill.resize(size_t(kHeads) * tiles * most * kTileRows);
    p.spill = view(spill);
  }
  p.parts = (slots + kPartKeys - 1) / kPartKeys;
  p.segments = uint32_t(tables->segment_begin.size());
  p.part_segment = read(tables->part_segment), p.segment_begin = read(tables->segment_begin), p.segment_end = read(tables->segment_end);
  p.segment_leaf = read(tables->segment_leaf), p.leaf_segment = read(tables->leaf_segment);
  const size_t cells = rows <= 4 ? size_t(rows) * kHeads : 0;
  std::vector<float> part_max(cells * p.parts), part_sum(cells * p.parts), part_out(cells * p.parts * kDim), segment_sum(cells * p.segments);
  p.part_max = view(part_max), p.part_sum = view(part_sum), p.part_out = view(part_out), p.part_segment_sum = view(segment_sum);
  p.plan = tables->arrays();
  test::Mirror mirror;
  test::each_array(p, mirror);
  if (mirror.failed() != cudaSuccess) return complain(std::string("copying to the card: ") + cudaGetErrorString(mirror.failed()));

  const double off = median_time([&] { return start_attention<M, false>(p); }), on = median_time([&] { return start_attention<M, true>(p); });
  if (off < 0 || on < 0) return false;
  double seen = 0;
  for (uint32_t e : end) seen += e;
  const double flop = 4.0 * seen * kHeads * kDim, bytes = 2.0 * slots * kKvHeads * kDim * sizeof(E);
  std::printf("%-8s %-6s %8u %10.3f %10.3f %7.3f %9.2f %6.1f %9.1f %6.1f\n", rows == 1 ? "decode" : "prefill", mode, slots, off * 1e3, on * 1e3, on / off,
              flop / off * 1e-12, 100 * flop / off / (rows == 1 ? limits.flop32 : std::max(limits.flop_tf32, limits.flop32)), bytes / off * 1e-9,
              100 * bytes / off / limits.bytes);
  std::fflush(stdout);
  return true;
}

bool products(TensorType type, uint32_t rows, const Limits& limits) {
  constexpr uint32_t kOutputs = 4096, kCols = 14336;
  std::vector<uint8_t> bytes(size_t(kOutputs) * row_bytes(type, kCols));
  uint32_t state = 3;
  for (uint8_t& b : bytes) b = uint8_t((state = state * 1664525u + 1013904223u) >> 26);  // small exponents: no NaN anywhere
  const WeightMatrix w{type, kOutputs, kCols, bytes.data()};
  std::vector<float> x(size_t(rows) * kCols, 0.5f);
  Products own;
  Array<float> device_x, out;
  if (!device_x.resize(x.size()) || !device_x.upload(x.data(), x.size())) return complain("no memory for products");
  const double time = median_time([&] {
    const Status done = own.run(w, {}, device_x, rows, out);
    return done || complain(done.error().line());
  });
  if (time < 0) return false;
  const double flop = 2.0 * rows * kOutputs * kCols;
  std::printf("product  %-6s %8u %10.3f %10s %7s %9.2f %6.1f %9.1f %6.1f\n", tensor_type_name(type), rows, time * 1e3, "-", "-", flop / time * 1e-12,
              100 * flop / time / limits.flop32, bytes.size() / time * 1e-9, 100 * bytes.size() / time / limits.bytes);
  std::fflush(stdout);
  return true;
}

}  // namespace

int main() {
  auto card = describe_device(0);
  if (!card) {
    std::printf("SKIPPED: %s\n", card.error().line().c_str());
    return 77;
  }
  const Limits limits = limits_of(0, card->compute_major, card->compute_minor);
  std::printf("%s, compute capability %d.%d, %s, driver %s\n", card->name, card->compute_major, card->compute_minor, runtime_name().c_str(),
              driver_version().c_str());
  std::printf("limits: %.0f GB/s, %.1f TFLOP/s float32, %.0f TFLOP/s TF32 (without sparsity)\n\n", limits.bytes * 1e-9, limits.flop32 * 1e-12,
              limits.flop_tf32 * 1e-12);
  std::printf("%-8s %-6s %8s %10s %10s %7s %9s %6s %9s %6s\n", "kernel", "mode", "context", "off ms", "on ms", "on/off", "TFLOP/s", "%", "GB/s", "%");
  const uint32_t shared = uint32_t(card->shared_bytes_of_block);
  bool fine = true;
  for (const uint32_t slots : {1024u, 8192u, 32768u, 131072u})
    for (const uint32_t rows : {512u, 1u}) {
      fine &= attention<Exact>("exact", rows, slots, limits, shared);
      fine &= attention<HalfBf16>("bf16", rows, slots, limits, shared);
    }
  std::printf("\n%-8s %-6s %8s\n", "", "format", "rows");
  for (const TensorType type : kTensorTypes)
    for (const uint32_t rows : {1u, 512u}) fine &= products(type, rows, limits);
  return fine ? 0 : 1;
}
