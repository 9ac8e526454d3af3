// SPDX-License-Identifier: GPL-3.0-or-later
// Every backend against transformers' outputs for the tiny models: logits, hidden states, attention (as row
// masses over one-token leaves), routing, decoding; in pieces of 1, of 7 and all at once. Tolerances: the
// reference data's README.
#include <algorithm>
#include <cstring>

#include "tests/oracle/engine/engine_case.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {
constexpr double kLogits = 2e-4, kHidden = 2e-4, kRouter = 2e-4, kAttention = 2e-5, kWeights = 1e-5;

bool same_bytes(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}
}  // namespace

TEST_CASE("prefill equals the reference in any pieces") {
  for (const char* name : {"llama-gqa", "llama-mha", "mixtral"}) {
    const Family* f = family(name);
    if (!f) continue;
    for (const BackendCase& c : backend_cases())
      for (uint32_t chunk : {1u, 7u, 0u}) {
        INFO(name << ", " << c.name << ", chunk " << chunk);
        auto backend = made(c, f->model);
        auto cache = backend->new_cache(0);
        const RunOutput out = run_pieces(*backend, *cache, f->ids, chunk, PlanKind::tokens);
        CHECK(largest_difference(out.logits, f->floats("logits")) <= kLogits);
        CHECK(largest_difference(out.hidden, f->floats("hidden")) <= kHidden);
        CHECK(largest_difference(out.attention, f->floats("attn")) <= kAttention);
        if (f->model->recipe.moe_layers() == 0) continue;
        CHECK(largest_difference(out.router_logits, f->floats("router_logits")) <= kRouter);
        CHECK(largest_difference(out.topk_weights, f->floats("topk_weights")) <= kWeights);
        CHECK(out.topk_ids == f->integers("topk_ids"));  // no row of these models has a near tie
      }
  }
}

TEST_CASE("greedy decoding through the cache equals the reference") {
  for (const char* name : {"llama-gqa", "llama-mha", "mixtral"}) {
    const Family* f = family(name);
    if (!f) continue;
    for (const BackendCase& c : backend_cases()) {
      INFO(name << ", " << c.name);
      auto backend = made(c, f->model);
      auto cache = backend->new_cache(uint32_t(f->ids.size()));
      std::vector<float> logits = run_pieces(*backend, *cache, f->ids, 0, PlanKind::none).logits;
      const uint32_t vocab = f->model->recipe.vocab;
      logits.erase(logits.begin(), logits.end() - vocab);
      const std::vector<int32_t> expected_ids = f->integers("decode_ids");
      std::vector<float> decoded;
      for (int32_t expected : expected_ids) {
        const TokenId id = TokenId(std::max_element(logits.begin(), logits.end()) - logits.begin());
        CHECK(id == expected);
        const TokenPos position = cache->size();
        auto step = backend->forward(*cache, Batch{{&id, 1}, {&position, 1}}, ForwardOptions{});
        if (!step) FAIL(step.error().line());
        logits = step->logits;
        decoded.insert(decoded.end(), logits.begin(), logits.end());
      }
      CHECK(largest_difference(decoded, f->floats("decode_logits")) <= kLogits);
    }
  }
}

TEST_CASE("a plan changes no bit of the logits, with one thread and with two") {
  for (const char* name : {"llama-gqa", "llama-mha", "mixtral"}) {
    const Family* f = family(name);
    if (!f) continue;
    for (const BackendCase& c : backend_cases())
      for (unsigned threads : {1u, 2u})
        for (uint32_t chunk : {1u, 7u, 0u}) {
          INFO(name << ", " << c.name << ", threads " << threads << ", chunk " << chunk);
          auto backend = made(c, f->model, threads);
          CHECK(backend->threads() == threads);
          auto planned_cache = backend->new_cache(0), plain_cache = backend->new_cache(0);
          const RunOutput planned =
              run_pieces(*backend, *planned_cache, f->ids, chunk, PlanKind::tokens, false);
          const RunOutput plain = run_pieces(*backend, *plain_cache, f->ids, chunk, PlanKind::none, false);
          CHECK(same_bytes(planned.logits, plain.logits));
        }
  }
}

TEST_CASE("the reference path gives the same bits for any pieces and threads") {
  for (const char* name : {"llama-gqa", "mixtral"}) {
    const Family* f = family(name);
    if (!f) continue;
    const BackendCase& c = backend_cases().front();
    auto one = made(c, f->model, 1), three = made(c, f->model, 3);
    auto a = one->new_cache(0), b = three->new_cache(0);
    const RunOutput whole = run_pieces(*one, *a, f->ids, 0, PlanKind::tokens);
    const RunOutput pieces = run_pieces(*three, *b, f->ids, 5, PlanKind::tokens);
    CHECK(same_bytes(whole.logits, pieces.logits));
    CHECK(same_bytes(whole.hidden, pieces.hidden));
    CHECK(same_bytes(whole.attention, pieces.attention));
  }
}

TEST_CASE("a sliding window as transformers applies it") {
  // The file carries no window (architecture llama); the published configuration says 16 in every layer.
  if (!have_full_oracles()) {
    std::cout << "SKIPPED: no reference data for tiny/mistral\n";
    return;
  }
  const Family* f = family("mistral");
  REQUIRE(f);
  auto windowed = std::make_shared<Model>(*f->model);
  windowed->recipe.window.assign(windowed->recipe.layers, 16);
  for (const BackendCase& c : backend_cases()) {
    for (uint32_t chunk : {1u, 7u, 0u}) {
      INFO(c.name << ", chunk " << chunk);
      auto backend = made(c, windowed);
      auto cache = backend->new_cache(0);
      const RunOutput out = run_pieces(*backend, *cache, f->ids, chunk, PlanKind::tokens);
      CHECK(largest_difference(out.logits, f->floats("logits")) <= kLogits);
      CHECK(largest_difference(out.attention, f->floats("attn")) <= kAttention);
    }
    auto backend = made(c, f->model);
    auto cache = backend->new_cache(0);
    const RunOutput out = run_pieces(*backend, *cache, f->ids, 0, PlanKind::tokens);
    CHECK(largest_difference(out.logits, f->floats("gguf_logits")) <= kLogits);
    CHECK(largest_difference(out.attention, f->floats("gguf_attn")) <= kAttention);
  }
}
