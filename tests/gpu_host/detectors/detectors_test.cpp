// SPDX-License-Identifier: GPL-3.0-or-later
// The host execution layer itself: right kernels run and give the right numbers; each rule that a wrong kernel breaks is
// noticed, and the text says which.
#include <cmath>
#include <functional>
#include <random>

#include "gpu/lane_products.h"
#include "tests/gpu_host/layer/launch.h"
#include "tests/support/catch.h"

using namespace spanscope::gpu;
using spanscope::gpu::layer::Dim3;
using spanscope::gpu::layer::LaunchReport;

namespace {

struct Params {
  Global<const float> in;
  Global<float> out;
  uint32_t what = 0;
};

// What a launch of one block says.
std::string fault_of(void (*kernel)(Params), uint32_t threads, uint32_t what = 0, size_t elements = 256) {
  std::vector<float> in(elements), out(elements, -1.0f);
  for (size_t i = 0; i < elements; ++i) in[i] = float(i);
  Params p{{in.data(), in.size()}, {out.data(), out.size()}, what};
  std::string fault;
  for (const bool backwards : {false, true}) {
    layer::LaunchOptions options;
    options.backwards = backwards;
    const LaunchReport r = layer::launch(kernel, {2}, threads, 4096, p, options);
    CHECK(r.ok == r.fault.empty());
    if (backwards) CHECK(fault.empty() == r.fault.empty());  // what is wrong is wrong in any order
    fault = r.fault;
  }
  return fault;
}
bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

// Reverses 128 numbers through shared memory. what 0: right; 1: no barrier.
void reverse(Params p) {
  const Shared<float> s = shared_array<float>(0, 128);
  const uint32_t t = thread_x();
  s.set(t, p.in.load(t));
  if (p.what != 1) sync_block();
  p.out.store(t, s.get(127 - t));
}

// Neighbours in a warp exchange through shared memory. what 0: with sync_warp; 1: without; 2: across warps.
void exchange(Params p) {
  const Shared<float> s = shared_array<float>(0, 128);
  const uint32_t t = thread_x();
  s.set(t, float(t));
  if (p.what != 1) sync_warp();
  p.out.store(t, s.get(p.what == 2 ? (t + 32) % 128 : t ^ 1));
}

void barrier(Params p) {
  const uint32_t t = thread_x();
  switch (p.what) {
    case 0:  // threads that are done need not come
      if (t >= 64) return;
      sync_block();
      break;
    case 1:  // half of the threads wait here, half there
      if (t % 2) sync_block();
      else sync_block();
      break;
    case 2:  // some wait for the block, others for their warp
      if (t == 3) sync_block();
      else any_lane(true);
      break;
    case 3:  // a lane has left
      if (t == 5) return;
      p.out.store(t, shuffle_xor(1.0f, 1));
      break;
    case 4:  // lanes at different operations
      if (t % 32 < 16) p.out.store(t, shuffle(1.0f, 0));
      else p.out.store(t, shuffle(2.0f, 0));
      break;
    case 5:  // outside its own mask
      p.out.store(t, shuffle(1.0f, 0, 0xffff));
      break;
  }
}

void memory(Params p) {
  const uint32_t t = thread_x();
  const Shared<float> s = shared_array<float>(0, 64);
  const Shared<uint16_t> h = shared_array<uint16_t>(512, 1024);
  switch (p.what) {
    case 0: p.out.store(t == 7 ? 256 : t, 0); break;
    case 1: p.out.store(t, p.in.load(t == 9 ? uint64_t(-1) : t)); break;
    case 2: s.set(t, 1.0f); break;                                                // 128 threads, 64 elements
    case 3: p.out.store(t, s.get(0)); break;                                      // nobody wrote it
    case 4: shared_array<float>(4000, 64); break;                                 // ends behind the launch's memory
    case 5: if (t % 32 == 0) s.set(0, 1.0f); break;                                    // written by four warps
    case 6: if (t == 0) copy_async(s, 0, p.in, 1, true); break;                   // not at a multiple of 16 bytes
    case 7: if (t == 0) copy_async(s, 1, p.in, 0, true); break;
    case 8: if (t == 0) copy_async(s, 0, p.in, 254, true); break;                 // reads behind the array
    case 9: {                                                                     // a matrix row at an odd place
      for (uint32_t i = 2 * t; i < 1024; i += 256) { h.set(i, 0); h.set(i + 1, 0); }
      sync_block();
      uint32_t out[4];
      load_matrix_x4(out, h, thread_x() % 32 * 8 + 4);
      break;
    }
  }
}

// Two groups of copies. what 0: right; 1: waits for the first only; 2: no wait; 3: waits, but no barrier for the others.
void copies(Params p) {
  const Shared<float> s = shared_array<float>(0, 256);
  const uint32_t t = thread_x();
  copy_async(s, t * 4, p.in, t * 4, true);
  copy_commit();
  copy_async(s, 128 + t * 4, p.in, 128 + t * 4, t < 31);
  copy_commit();
  if (p.what == 0 || p.what == 3) copy_wait<0>();
  if (p.what == 1) copy_wait<1>();
  if (p.what != 3) sync_block();
  p.out.store(t, s.get(t * 4 ^ 4));
  p.out.store(32 + t, p.what == 1 ? 0.0f : s.get(128 + (t * 4 ^ 4)));
  if (p.what == 1) p.out.store(64 + t, s.get(128 + t * 4));
}

void counting(Params p) {
  const uint32_t i = block_x() * 32 + thread_x();
  p.out.store(i, p.in.load(i) + p.in.load(i + 1));
}

}  // namespace

TEST_CASE("a right kernel passes; a missing barrier is a race") {
  CHECK(fault_of(reverse, 128, 0).empty());
  CHECK(has(fault_of(reverse, 128, 1), "before it was written") );
  CHECK(fault_of(exchange, 128, 0).empty());
  CHECK(!fault_of(exchange, 128, 1).empty());
  CHECK(!fault_of(exchange, 128, 2).empty());
}

TEST_CASE("a race is seen whatever order threads run in") {
  // Thread 0 writes what all have read before, with and without a barrier between.
  struct Late {
    static void kernel(Params p) {
      const Shared<float> s = shared_array<float>(0, 4);
      if (thread_x() == 0) s.set(0, 1.0f);
      sync_block();
      p.out.store(thread_x(), s.get(0));
      if (p.what == 0) sync_block();
      if (thread_x() == (p.what == 2 ? 100u : 0u)) s.set(0, 2.0f);
    }
  };
  CHECK(fault_of(Late::kernel, 128, 0).empty());
  CHECK(has(fault_of(Late::kernel, 128, 1), "race"));
  CHECK(has(fault_of(Late::kernel, 128, 2), "race"));
  CHECK(has(fault_of(Late::kernel, 32, 1), "race"));
}

TEST_CASE("barriers and warp operations that not everybody reaches") {
  CHECK(fault_of(barrier, 128, 0).empty());
  CHECK(has(fault_of(barrier, 128, 1), "different barriers"));
  CHECK(has(fault_of(barrier, 128, 2), "reached by lanes"));
  CHECK(has(fault_of(barrier, 128, 3), "reached by lanes"));
  CHECK(has(fault_of(barrier, 128, 4), "different operations"));
  CHECK(has(fault_of(barrier, 128, 5), "outside its mask"));
}

TEST_CASE("accesses outside an array, misaligned, of unwritten memory") {
  CHECK(has(fault_of(memory, 128, 0), "global access to element 256 of 256"));
  CHECK(has(fault_of(memory, 128, 1), "global access"));
  CHECK(has(fault_of(memory, 128, 2), "of 64"));
  CHECK(has(fault_of(memory, 128, 3), "before it was written"));
  CHECK(has(fault_of(memory, 128, 4), "ends behind"));
  CHECK(has(fault_of(memory, 128, 5), "race"));
  CHECK(has(fault_of(memory, 128, 6), "misaligned address"));
  CHECK(has(fault_of(memory, 128, 7), "misaligned"));
  CHECK(has(fault_of(memory, 128, 8), "global access to element 254"));
  CHECK(has(fault_of(memory, 128, 9), "not a multiple of 8"));
}

TEST_CASE("asynchronous copies") {
  CHECK(fault_of(copies, 32, 0).empty());
  CHECK(has(fault_of(copies, 32, 1), "before its asynchronous copy"));
  CHECK(has(fault_of(copies, 32, 2), "before its asynchronous copy"));
  CHECK(!fault_of(copies, 32, 3).empty());
}

TEST_CASE("no more threads and shared memory than a device has; traffic is counted") {
  std::vector<float> in(129, 1.0f), out(128);
  Params p{{in.data(), in.size()}, {out.data(), out.size()}, 0};
  CHECK(!layer::launch(counting, {1}, 1025, 0, p).ok);
  CHECK(!layer::launch(counting, {1}, 32, 300 << 10, p).ok);
  const LaunchReport r = layer::launch(counting, {4}, 32, 0, p);
  CHECK(r.ok);
  CHECK(r.traffic.loaded == 128 * 2 * 4);
  CHECK(r.traffic.stored == 128 * 4);
  for (float x : out) CHECK(x == 2.0f);
}

namespace {
struct MatrixParams {
  Global<const float> a, b;  // [16][K], [K][8]
  Global<float> d;           // [16][8]
};
template <bool kLanes>
void multiply_tf32(MatrixParams p) {
  const uint32_t g = thread_x() / 4, t = thread_x() % 4;
  const uint32_t a[4] = {to_tf32(p.a.load(g * 8 + t)), to_tf32(p.a.load((g + 8) * 8 + t)), to_tf32(p.a.load(g * 8 + t + 4)),
                         to_tf32(p.a.load((g + 8) * 8 + t + 4))};
  const uint32_t b[2] = {to_tf32(p.b.load(t * 8 + g)), to_tf32(p.b.load((t + 4) * 8 + g))};
  float d[4] = {0, 0, 0, 0};
  if constexpr (kLanes) lane_mma_tf32(d, a, b);
  else mma_tf32(d, a, b);
  for (uint32_t e = 0; e < 4; ++e) p.d.store((g + e / 2 * 8) * 8 + 2 * t + e % 2, d[e]);
}
// Through shared memory and matrix loads: A as it lies, B transposed on the way.
template <bool kHalf, bool kLanes = false>
void multiply_16(MatrixParams p) {
  const Shared<uint16_t> a = shared_array<uint16_t>(0, 16 * 16), b = shared_array<uint16_t>(512, 16 * 8);
  auto round = [](float x) { return kHalf ? to_f16(x) : to_bf16(x); };
  for (uint32_t i = thread_x() * 2; i < 256; i += 64)
    for (uint32_t k = i; k < i + 2; ++k) a.set(k, round(p.a.load(k)));
  for (uint32_t i = thread_x() * 2; i < 128; i += 64)
    for (uint32_t k = i; k < i + 2; ++k) b.set(k, round(p.b.load(k)));
  sync_block();
  const uint32_t lane = thread_x(), g = lane / 4, t = lane % 4;
  uint32_t fa[4], fb[4];
  load_matrix_x4(fa, a, lane % 16 * 16 + lane / 16 * 8);
  load_matrix_x4_transposed(fb, b, lane % 16 * 8);
  float d[4] = {0, 0, 0, 0};
  if constexpr (kLanes) lane_mma_bf16(d, fa, fb);
  else if constexpr (kHalf) mma_f16(d, fa, fb);
  else mma_bf16(d, fa, fb);
  for (uint32_t e = 0; e < 4; ++e) p.d.store((g + e / 2 * 8) * 8 + 2 * t + e % 2, d[e]);
}

// Small whole numbers: exact in every format and order, so only misplaced elements can differ.
void check_product(void (*kernel)(MatrixParams), uint32_t k) {
  std::mt19937 random(3);
  std::vector<float> a(16 * k), b(k * 8), d(16 * 8, NAN);
  for (float& x : a) x = float(int(random() % 15) - 7);
  for (float& x : b) x = float(int(random() % 15) - 7);
  const LaunchReport r = layer::launch(kernel, {1}, 32, 1024, {{a.data(), a.size()}, {b.data(), b.size()}, {d.data(), d.size()}});
  INFO(r.fault);
  REQUIRE(r.ok);
  for (uint32_t i = 0; i < 16; ++i)
    for (uint32_t j = 0; j < 8; ++j) {
      float sum = 0;
      for (uint32_t c = 0; c < k; ++c) sum += a[i * k + c] * b[c * 8 + j];
      CHECK(d[i * 8 + j] == sum);
    }
}
}  // namespace

TEST_CASE("matrix units and matrix loads") {
  check_product(multiply_tf32<false>, 8);
  check_product(multiply_tf32<true>, 8);
  check_product(multiply_16<true>, 16);
  check_product(multiply_16<false>, 16);
  check_product(multiply_16<false, true>, 16);
  CHECK(float_of(to_tf32(1.0f + 0x1p-11f)) == 1.0f + 0x1p-10f);  // ties away from zero
  CHECK(float_of(to_tf32(1.0f + 0x1p-12f)) == 1.0f);
}
