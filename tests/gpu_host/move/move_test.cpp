// SPDX-License-Identifier: GPL-3.0-or-later
// Keys from before rotation on the host layer: what a cache keeps, selects, moves and forgets, against itself (bit by bit)
// and against the CPU; and re-attention, new rows over a selection whose keys were rotated once when they moved.
#include <cmath>
#include <cstring>
#include <numeric>

#include "core/cpu/backends.h"
#include "core/file/safetensors.h"
#include "gpu/backend.h"
#include "tests/support/catch.h"
#include "tests/support/oracles.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {

constexpr double kLogits = 2e-3;

struct Sample {
  std::shared_ptr<const Model> model;
  std::vector<TokenId> ids;
};
std::optional<Sample> sample(const std::string& name) {
  const auto path = oracle("tiny/" + name + "/model.gguf"), reference = oracle("tiny/" + name + "/ref.safetensors");
  if (!path || !reference) return {};
  auto model = load_model(*path);
  if (!model) FAIL(model.error().line());
  auto blob = read_safetensors_file(*reference);
  REQUIRE(blob);
  const std::vector<int32_t> raw = *blob->get<int32_t>("ids");
  return Sample{*model, {raw.begin(), raw.begin() + 30}};
}
std::vector<TokenPos> from(TokenPos first, size_t count) {
  std::vector<TokenPos> p(count);
  std::iota(p.begin(), p.end(), first);
  return p;
}
std::vector<float> run(Backend& backend, Cache& cache, std::span<const TokenId> ids, const std::vector<TokenPos>& positions, uint64_t reach = 0) {
  ForwardOptions options;
  options.logits = LogitRows::all;
  auto result = backend.forward(cache, Batch{ids, positions, reach}, options);
  if (!result) FAIL(result.error().line());
  return result->logits;
}
std::vector<float> keys(const Cache& cache, const Recipe& r, uint32_t layer, bool original) {
  std::vector<float> out(size_t(r.kv_heads) * cache.size() * r.head_dim);
  const auto status = cache.read_keys(layer, {0, cache.size()}, original, out.data());
  if (!status) FAIL(status.error().line());
  return out;
}
std::vector<float> values(const Cache& cache, const Recipe& r, uint32_t layer) {
  std::vector<float> out(size_t(r.kv_heads) * cache.size() * r.head_dim);
  REQUIRE(cache.read_values(layer, {0, cache.size()}, out.data()));
  return out;
}
bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}
double farthest(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double d = std::abs(double(a[i]) - double(b[i]));
    if (!(d <= worst)) worst = d;
  }
  return worst;
}
std::unique_ptr<Backend> on_gpu(const Sample& s, Arithmetic arithmetic = Arithmetic::exact) {
  BackendOptions options;
  options.arithmetic = arithmetic;
  options.originals = true;
  auto backend = gpu::make_gpu_backend(s.model, options);
  if (!backend) FAIL(backend.error().line());
  return std::move(*backend);
}

// Half-split and interleaved pairs, two tables, layers without rotation, partial rotation.
const char* const kFamilies[] = {"llama-gqa", "mixtral", "gemma3-text", "smollm3", "phi3"};

}  // namespace

TEST_CASE("a moved key on the GPU is the key that the token would have had there") {
  for (const char* name : kFamilies)
    for (const Arithmetic arithmetic : {Arithmetic::exact, Arithmetic::fast}) {
      const auto s = sample(name);
      if (!s || (arithmetic == Arithmetic::fast && std::string(name) != "llama-gqa")) continue;
      INFO(name << (arithmetic == Arithmetic::fast ? ", fast" : ", exact"));
      const Recipe& r = s->model->recipe;
      const uint32_t n = uint32_t(s->ids.size());
      const uint64_t reach = r.long_from ? 1000 : 0;
      const std::vector<TokenPos> plain = from(0, n);
      std::vector<TokenPos> gaps(n);
      for (uint32_t i = 0; i < n; ++i) gaps[i] = i + (i > 9) * 7 + (i > 20) * 100;
      auto backend = on_gpu(*s, arithmetic);
      auto moved = backend->new_cache(0, true), there = backend->new_cache(0, true), kept = backend->new_cache(0, true);
      run(*backend, *moved, s->ids, plain, reach);
      run(*backend, *there, s->ids, gaps, reach);
      run(*backend, *kept, s->ids, plain, reach);
      REQUIRE(moved->has_originals());
      if (r.rotary_of_layer[0] >= 0) CHECK(!same(keys(*moved, r, 0, false), keys(*there, r, 0, false)));
      const auto status = moved->move_to(gaps);
      if (!status) FAIL(status.error().line());
      for (uint32_t i = 0; i < n; ++i) REQUIRE(moved->position(i) == gaps[i]);
      CHECK(same(keys(*moved, r, 0, false), keys(*there, r, 0, false)));
      CHECK(same(keys(*moved, r, 0, true), keys(*there, r, 0, true)));
      for (uint32_t l = 0; l < r.layers; ++l) {
        CHECK(same(keys(*moved, r, l, true), keys(*kept, r, l, true)));
        CHECK(same(values(*moved, r, l), values(*kept, r, l)));
      }
      REQUIRE(moved->move_to(plain));  // every move starts from the originals: there and back, and not a bit has changed
      for (uint32_t l = 0; l < r.layers; ++l) CHECK(same(keys(*moved, r, l, false), keys(*kept, r, l, false)));
    }
}

// A selection moves together and new rows read it: every step on the GPU's cache and on the CPU's.
TEST_CASE("re-attention on the GPU is that of the CPU") {
  for (const char* name : kFamilies) {
    const auto s = sample(name);
    if (!s) continue;
    INFO(name);
    const Recipe& r = s->model->recipe;
    const uint64_t reach = r.long_from ? 1000 : 0;
    auto gpu = on_gpu(*s);
    auto cpu = make_reference_backend(s->model, BackendOptions{2});
    REQUIRE(cpu);
    struct Seen {
      std::vector<float> kept, compact, spread;
      std::vector<std::vector<float>> keys, originals, values;
      uint32_t left = 0;
    };
    auto go = [&](Backend& backend) {
      Seen seen;
      auto whole = backend.new_cache(0, true);
      const std::span<const TokenId> ids(s->ids), head = ids.first(25), tail = ids.subspan(25);
      run(backend, *whole, head, from(0, 25), reach);
      const std::vector<SlotRange> ranges = {{0, 4}, {9, 13}, {17, 25}};
      auto stay = whole->select(ranges), together = whole->select(ranges), apart = whole->select(ranges);
      seen.left = together->size();
      REQUIRE(together->move_to(from(0, together->size())));
      std::vector<TokenPos> spread(apart->size());
      for (uint32_t i = 0; i < apart->size(); ++i) spread[i] = 40 + 3 * i;
      REQUIRE(apart->move_to(spread));
      seen.kept = run(backend, *stay, tail, from(25, tail.size()), reach);
      seen.compact = run(backend, *together, tail, from(together->size(), tail.size()), reach);
      seen.spread = run(backend, *apart, tail, from(200, tail.size()), reach);
      together->truncate(6);
      REQUIRE(together->size() == 6);
      run(backend, *together, tail, from(10, tail.size()), reach);
      for (uint32_t l = 0; l < r.layers; ++l) {
        seen.keys.push_back(keys(*together, r, l, false));
        seen.originals.push_back(keys(*together, r, l, true));
        seen.values.push_back(values(*together, r, l));
      }
      // What was selected from is as it was.
      REQUIRE(whole->size() == 25);
      REQUIRE(whole->position(20) == 20);
      return seen;
    };
    const Seen expected = go(**cpu), found = go(*gpu);
    CHECK(expected.left == found.left);
    CHECK(farthest(expected.kept, found.kept) <= kLogits);
    CHECK(farthest(expected.compact, found.compact) <= kLogits);
    CHECK(farthest(expected.spread, found.spread) <= kLogits);
    CHECK(farthest(expected.kept, expected.compact) > kLogits);  // moving is no small thing
    for (uint32_t l = 0; l < r.layers; ++l) {
      CHECK(farthest(expected.keys[l], found.keys[l]) <= kLogits);
      CHECK(farthest(expected.originals[l], found.originals[l]) <= kLogits);
      CHECK(farthest(expected.values[l], found.values[l]) <= kLogits);
    }
  }
}

TEST_CASE("originals change no number of a pass; what cannot be moved is refused and stays") {
  const auto s = sample("llama-gqa");
  if (!s) return;
  const Recipe& r = s->model->recipe;
  auto backend = on_gpu(*s);
  const std::vector<TokenPos> plain = from(0, s->ids.size());
  auto with = backend->new_cache(0, true), without = backend->new_cache(0);
  CHECK(same(run(*backend, *with, s->ids, plain), run(*backend, *without, s->ids, plain)));
  CHECK(with->bytes() > without->bytes());
  CHECK(!without->has_originals());
  std::vector<float> buffer(size_t(r.kv_heads) * s->ids.size() * r.head_dim);
  CHECK(without->move_to(plain).error().tag == "SPAN-ORIGINALS");
  CHECK(without->read_keys(0, {0, 4}, true, buffer.data()).error().tag == "SPAN-ORIGINALS");
  CHECK(without->read_keys(0, {0, 4}, false, buffer.data()));
  CHECK(with->read_keys(r.layers, {0, 4}, true, buffer.data()).error().tag == "SPAN-CACHE");
  CHECK(with->read_values(0, {4, 3}, buffer.data()).error().tag == "SPAN-CACHE");
  const std::vector<float> before = keys(*with, r, 0, false);
  std::vector<TokenPos> wrong = plain;
  wrong.pop_back();
  CHECK(with->move_to(wrong).error().tag == "SPAN-POSITIONS");
  wrong = plain;
  wrong[5] = wrong[4];
  CHECK(with->move_to(wrong).error().tag == "SPAN-POSITIONS");
  CHECK(same(keys(*with, r, 0, false), before));
  if (const auto learned = sample("gpt2")) {
    auto gpt2 = on_gpu(*learned);
    auto cache = gpt2->new_cache(0, true);
    run(*gpt2, *cache, learned->ids, plain);
    CHECK(cache->move_to(from(3, plain.size())).error().tag == "SPAN-ORIGINALS");
    CHECK(same(keys(*cache, learned->model->recipe, 0, true), keys(*cache, learned->model->recipe, 0, false)));
  }
}
