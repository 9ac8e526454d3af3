// SPDX-License-Identifier: GPL-3.0-or-later
// Keys that move: rotated once, from what they were before rotation. In the first layer a moved key is bit by bit the key
// that the token would have had there; under a shift of everything all layers agree, because rotation is relative.
#include <cmath>
#include <cstring>
#include <numeric>

#include "tests/oracle/engine/engine_case.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {

struct Sample {
  std::shared_ptr<const Model> model;
  std::vector<TokenId> ids;
};
std::optional<Sample> sample(const std::string& name) {
  if (!have_full_oracles() && name != "llama-gqa" && name != "mixtral") return {};
  auto blob = read_safetensors_file(*oracle("tiny/" + name + "/ref.safetensors"));
  REQUIRE(blob);
  const std::vector<int32_t> raw = *blob->get<int32_t>("ids");
  return Sample{loaded(*oracle("tiny/" + name + "/model.gguf")), {raw.begin(), raw.begin() + 30}};
}

void run(Backend& backend, Cache& cache, const std::vector<TokenId>& ids, const std::vector<TokenPos>& positions, uint64_t reach = 0) {
  ForwardOptions options;
  options.logits = LogitRows::none;
  auto result = backend.forward(cache, Batch{ids, positions, reach}, options);
  if (!result) FAIL(result.error().line());
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
  for (size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(double(a[i]) - double(b[i])));
  return worst;
}

const char* const kFamilies[] = {"llama-gqa", "mixtral", "qwen3", "gemma3-text", "gpt-oss", "phi3", "smollm3", "starcoder2"};

}  // namespace

TEST_CASE("a moved key is the key that the token would have had there") {
  for (const char* name : kFamilies)
    for (const CacheType type : {CacheType::f32, CacheType::f16}) {
      const auto s = sample(name);
      if (!s) continue;
      const Recipe& r = s->model->recipe;
      const uint32_t n = uint32_t(s->ids.size());
      std::vector<TokenPos> plain(n), gaps(n), shifted(n);
      std::iota(plain.begin(), plain.end(), 0u);
      for (uint32_t i = 0; i < n; ++i) gaps[i] = i + (i > 9) * 7 + (i > 20) * 100, shifted[i] = i + 300;
      const uint64_t reach = r.long_from ? 1000 : 0;  // the same factors for all of them
      for (const BackendCase& c : backend_cases()) {
        INFO(name << ", " << c.name << (type == CacheType::f16 ? ", f16" : ""));
        auto backend = c.make(s->model, BackendOptions{2, type});
        REQUIRE(backend);
        for (const auto& target : {gaps, shifted}) {
          auto moved = (*backend)->new_cache(0, true), there = (*backend)->new_cache(0, true), kept = (*backend)->new_cache(0, true);
          run(**backend, *moved, s->ids, plain, reach);
          run(**backend, *there, s->ids, target, reach);
          run(**backend, *kept, s->ids, plain, reach);
          REQUIRE(moved->has_originals());
          const std::vector<float> before = keys(*moved, r, 0, false);
          if (r.rotary_of_layer[0] >= 0) CHECK(!same(before, keys(*there, r, 0, false)));
          const auto status = moved->move_to(target);
          if (!status) FAIL(status.error().line());
          for (uint32_t i = 0; i < n; ++i) REQUIRE(moved->position(i) == target[i]);
          CHECK(same(keys(*moved, r, 0, false), keys(*there, r, 0, false)));
          CHECK(same(keys(*moved, r, 0, true), keys(*there, r, 0, true)));
          for (uint32_t l = 0; l < r.layers; ++l) {
            CHECK(same(keys(*moved, r, l, true), keys(*kept, r, l, true)));  // originals and values stay
            CHECK(same(values(*moved, r, l), values(*kept, r, l)));
            if (target == shifted && type == CacheType::f32) CHECK(farthest(keys(*moved, r, l, false), keys(*there, r, l, false)) <= 2e-3);
          }
          // There and back again, and not a bit has changed: every move starts from the originals.
          REQUIRE(moved->move_to(plain));
          for (uint32_t l = 0; l < r.layers; ++l) CHECK(same(keys(*moved, r, l, false), keys(*kept, r, l, false)));
        }
      }
    }
}

TEST_CASE("originals change no number of a pass, and go along with a subset, which moves alone") {
  for (const char* name : {"llama-gqa", "gemma3-text"}) {
    const auto s = sample(name);
    if (!s) continue;
    const Recipe& r = s->model->recipe;
    const uint32_t n = uint32_t(s->ids.size());
    std::vector<TokenPos> plain(n);
    std::iota(plain.begin(), plain.end(), 0u);
    for (const BackendCase& c : backend_cases()) {
      INFO(name << ", " << c.name);
      auto backend = made(c, s->model);
      auto with = backend->new_cache(0, true), without = backend->new_cache(0);
      const std::vector<TokenId> head(s->ids.begin(), s->ids.begin() + 20), tail(s->ids.begin() + 20, s->ids.end());
      const std::vector<TokenPos> first(plain.begin(), plain.begin() + 20), rest(plain.begin() + 20, plain.end());
      run(*backend, *with, head, first);
      run(*backend, *without, head, first);
      CHECK(with->bytes() > without->bytes());
      const auto a = backend->forward(*with, Batch{tail, rest}, {}), b = backend->forward(*without, Batch{tail, rest}, {});
      REQUIRE(a);
      REQUIRE(b);
      CHECK(same(a->logits, b->logits));

      const std::vector<SlotRange> ranges = {{0, 4}, {9, 25}};
      auto subset = with->select(ranges);
      const std::vector<float> whole = keys(*with, r, 1, false);
      std::vector<TokenPos> compact(subset->size());
      std::iota(compact.begin(), compact.end(), 0u);
      REQUIRE(subset->move_to(compact));
      CHECK(same(keys(*with, r, 1, false), whole));  // pages are shared until somebody writes
      // What moved is what a cache with only these keys at these places holds, in the first layer.
      std::vector<TokenId> ids(s->ids.begin(), s->ids.begin() + 4);
      ids.insert(ids.end(), s->ids.begin() + 9, s->ids.begin() + 25);
      auto fresh = backend->new_cache(0, true);
      run(*backend, *fresh, ids, compact);
      CHECK(same(keys(*subset, r, 0, false), keys(*fresh, r, 0, false)));
      // It goes on like any other.
      std::vector<TokenPos> next(tail.size());
      std::iota(next.begin(), next.end(), TokenPos(subset->size()));
      run(*backend, *subset, tail, next);
      CHECK(subset->size() == compact.size() + tail.size());
      REQUIRE(subset->move_to(std::vector<TokenPos>([&] {
        std::vector<TokenPos> p(subset->size());
        std::iota(p.begin(), p.end(), 5u);
        return p;
      }())));
    }
  }
}

TEST_CASE("moves that cannot be made are refused and change nothing") {
  const auto s = sample("llama-gqa");
  REQUIRE(s);
  const Recipe& r = s->model->recipe;
  std::vector<TokenPos> plain(s->ids.size());
  std::iota(plain.begin(), plain.end(), 0u);
  for (const BackendCase& c : backend_cases()) {
    INFO(c.name);
    auto backend = made(c, s->model);
    auto without = backend->new_cache(0), with = backend->new_cache(0, true);
    run(*backend, *without, s->ids, plain);
    run(*backend, *with, s->ids, plain);
    std::vector<float> buffer(size_t(r.kv_heads) * s->ids.size() * r.head_dim);
    CHECK(!without->has_originals());
    CHECK(without->move_to(plain).error().tag == "SPAN-ORIGINALS");
    CHECK(without->read_keys(0, {0, 4}, true, buffer.data()).error().tag == "SPAN-ORIGINALS");
    CHECK(without->read_keys(0, {0, 4}, false, buffer.data()));
    CHECK(with->read_keys(r.layers, {0, 4}, false, buffer.data()).error().tag == "SPAN-CACHE");
    CHECK(with->read_values(0, {4, 3}, buffer.data()).error().tag == "SPAN-CACHE");
    CHECK(with->read_values(0, {0, uint32_t(plain.size()) + 1}, buffer.data()).error().tag == "SPAN-CACHE");
    const std::vector<float> before = keys(*with, r, 0, false);
    std::vector<TokenPos> wrong = plain;
    wrong.pop_back();
    CHECK(with->move_to(wrong).error().tag == "SPAN-POSITIONS");
    wrong = plain;
    wrong[5] = wrong[4];
    CHECK(with->move_to(wrong).error().tag == "SPAN-POSITIONS");
    CHECK(same(keys(*with, r, 0, false), before));
  }
  if (const auto learned = sample("gpt2")) {
    for (const BackendCase& c : backend_cases()) {
      auto backend = made(c, learned->model);
      auto cache = backend->new_cache(0, true);
      run(*backend, *cache, learned->ids, plain);
      std::vector<TokenPos> moved = plain;
      for (TokenPos& p : moved) p += 3;
      CHECK(cache->move_to(moved).error().tag == "SPAN-ORIGINALS");
      CHECK(same(keys(*cache, learned->model->recipe, 0, true), keys(*cache, learned->model->recipe, 0, false)));
    }
  }
}
