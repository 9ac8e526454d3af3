// SPDX-License-Identifier: GPL-3.0-or-later
// What recording costs when it is off: nothing. Every allocation of this program is counted; a pass without a plan makes as
// many and as large ones before anything was ever recorded as after, and what a plan adds does not grow with the rows. The
// logits are the same bytes.
#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "core/record/recorder.h"
#include "tests/oracle/relay/relay_case.h"

namespace {

std::atomic<uint64_t> allocations{0}, allocated_bytes{0};

void* counted(std::size_t size, std::size_t alignment) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  allocated_bytes.fetch_add(size, std::memory_order_relaxed);
  void* p = nullptr;
  if (alignment <= alignof(std::max_align_t)) p = std::malloc(size ? size : 1);
  else if (posix_memalign(&p, alignment, size ? size : 1) != 0) p = nullptr;
  if (!p) throw std::bad_alloc();
  return p;
}

}  // namespace

void* operator new(std::size_t size) { return counted(size, 1); }
void* operator new[](std::size_t size) { return counted(size, 1); }
void* operator new(std::size_t size, std::align_val_t a) { return counted(size, std::size_t(a)); }
void* operator new[](std::size_t size, std::align_val_t a) { return counted(size, std::size_t(a)); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }

using namespace spanscope;
using namespace spanscope::test;

namespace {

struct Pass {
  uint64_t count = 0, bytes = 0;  // of forward() alone
  std::vector<float> logits;
};

struct Quiet : RecordSink {
  uint64_t layers = 0;
  void on_layer(const LayerRecord&) override { ++layers; }
};

constexpr uint32_t kBefore = 64;  // tokens in the cache

class Bench {
 public:
  Bench(const std::string& model, const std::string& path) : backend_(backend_of(demo(model + ".gguf"), path, 1)) {
    const uint32_t vocab = backend_->model().recipe.vocab;
    for (uint32_t i = 0; i < 1024; ++i) ids_.push_back(TokenId((i * 7919u + 13u) % vocab)), positions_.push_back(i);
    cache_ = backend_->new_cache(1024);
    run(0, kBefore, nullptr);
  }
  // Rows [kBefore, kBefore + rows), always on the same cache.
  Pass pass(uint32_t rows, bool planned) {
    cache_->truncate(kBefore);
    RecordPlan plan;
    plan.leaves = {{0, 4, 4, false}, {4, 30, 34, true}, {34, 30, 64, true}, {64, rows, 64 + rows, true}};
    plan.group_of_leaf = {0, 1, 2, 3};
    plan.group_of_row.assign(rows, 3);
    plan.row_phase.assign(rows, RowPhase::answer);
    plan.row_query.assign(rows, 0);
    plan.query_leaves = 1;
    plan.want_routing = backend_->model().recipe.experts != 0;
    return run(kBefore, rows, planned ? &plan : nullptr);
  }
  std::string name() const { return backend_->name(); }

 private:
  Pass run(uint32_t begin, uint32_t rows, const RecordPlan* plan) {
    Quiet sink;
    ForwardOptions options;
    options.logits = LogitRows::all;
    options.plan = plan;
    options.sink = plan ? &sink : nullptr;
    const Batch batch{std::span(ids_).subspan(begin, rows), std::span(positions_).subspan(begin, rows)};
    Pass out;
    const uint64_t count = allocations, bytes = allocated_bytes;
    auto result = backend_->forward(*cache_, batch, options);
    out.count = allocations - count, out.bytes = allocated_bytes - bytes;
    if (!result) FAIL(result.error().line());
    if (plan) CHECK(sink.layers == backend_->model().recipe.layers);
    out.logits = std::move(result->logits);
    return out;
  }

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Cache> cache_;
  std::vector<TokenId> ids_;
  std::vector<TokenPos> positions_;
};

bool same_bytes(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && !a.empty() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

void check(const std::string& model, const std::string& path) {
  Bench bench(model, path);
  INFO(model << " " << path);
  std::string line;
  uint64_t extra[2] = {0, 0};
  const uint32_t sizes[] = {1, 32, 512};
  // Before anything was recorded: room that grows once is made here.
  for (uint32_t rows : {512u, 32u, 1u}) bench.pass(rows, false);
  Pass before[3], planned[3];
  for (int i = 0; i < 3; ++i) {
    before[i] = bench.pass(sizes[i], false);
    const Pass again = bench.pass(sizes[i], false);
    CHECK(again.count == before[i].count);
    CHECK(again.bytes == before[i].bytes);
    CHECK(same_bytes(again.logits, before[i].logits));
  }
  for (int i = 2; i >= 0; --i) bench.pass(sizes[i], true);
  for (int i = 0; i < 3; ++i) {
    INFO(sizes[i] << " rows");
    planned[i] = bench.pass(sizes[i], true);
    const Pass after = bench.pass(sizes[i], false);
    CHECK(after.count == before[i].count);
    CHECK(after.bytes == before[i].bytes);
    CHECK(same_bytes(after.logits, before[i].logits));
    CHECK(same_bytes(planned[i].logits, before[i].logits));
    CHECK(planned[i].count >= before[i].count);
    line += fmt::format("; {} rows {} (+{} planned)", sizes[i], before[i].count, planned[i].count - before[i].count);
  }
  for (int i : {0, 1}) extra[i] = planned[i + 1].count - before[i + 1].count;
  fmt::print("allocations, {} {}{}\n", model, path, line);
  // 480 rows more: a vector of events that doubles may grow a few times a layer, nothing is allocated a row.
  CHECK(extra[1] <= extra[0] + 64);
}

}  // namespace

TEST_CASE("without a plan nothing is allocated for recording, and the logits are the same bytes") {
  const uint64_t here = allocations;
  auto one = std::make_unique<std::vector<int>>(10);
  REQUIRE(allocations == here + 2);  // the counters see this program's allocations
  one.reset();
  for (const char* model : {"relay-dense", "relay-moe"})
    for (const char* path : {"reference", "fast"}) check(model, path);
}
