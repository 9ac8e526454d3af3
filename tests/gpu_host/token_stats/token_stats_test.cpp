// SPDX-License-Identifier: GPL-3.0-or-later
// Token statistics on the host layer against the CPU reference path, over several tiles of rows and keys and in passes of all
// sizes; and what their kernels move: nothing that grows with rows x keys is ever stored.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <optional>

#include "core/cpu/backends.h"
#include "core/file/safetensors.h"
#include "gpu/backend.h"
#include "tests/support/catch.h"
#include "tests/support/oracles.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {

// Everything of every pass, one after the other.
struct Kept final : TokenStatsSink {
  std::vector<double> column_sum, column_square, column_max, window_sum, last_row, row_max, row_lse, row_entropy, value_norm, output_norm, cosine;
  std::vector<uint32_t> column_count, window_count, row_argmax, layers;
  std::vector<ResidualStats> residual;
  std::vector<uint8_t> wanted;  // of a layer and head: [layers][heads], 1 each when empty
  double given = 0;             // what all columns got

  void on_tokens(const TokenStats& s) override {
    layers.push_back(s.layer);
    auto add = [&](auto& to, const auto* from, size_t count) { to.insert(to.end(), from, from + count); };
    for (uint32_t h = 0; h < s.query_heads; ++h) {
      if (!wanted.empty() && !wanted[size_t(s.layer) * s.query_heads + h]) continue;
      const size_t at = size_t(h) * s.keys, row = size_t(h) * s.rows;
      add(column_sum, s.column_sum + at, s.keys);
      given += std::accumulate(s.column_sum + at, s.column_sum + at + s.keys, 0.0);
      add(column_square, s.column_square + at, s.keys);
      add(column_max, s.column_max + at, s.keys);
      add(column_count, s.column_count + at, s.keys);
      add(last_row, s.last_row + at, s.keys);
      for (uint32_t w = 0; w < s.windows; ++w) {
        add(window_sum, s.window_sum + size_t(w) * s.query_heads * s.keys + at, s.keys);
        add(window_count, s.window_count + size_t(w) * s.query_heads * s.keys + at, s.keys);
      }
      add(row_argmax, s.row_argmax + row, s.rows);
      add(row_max, s.row_max + row, s.rows);
      add(row_lse, s.row_lse + row, s.rows);
      add(row_entropy, s.row_entropy + row, s.rows);
      add(output_norm, s.output_norm + row, s.rows);
    }
    add(value_norm, s.value_norm, size_t(s.kv_heads) * s.rows);
    add(cosine, s.residual_cosine, s.rows);
  }
  void on_residual(const ResidualStats& s) override { residual.push_back(s); }
};

// Some rows count to nothing, eight windows of different lengths.
TokenStatsPlan plan_of(uint32_t first, uint32_t rows, uint32_t all, bool full) {
  TokenStatsPlan plan;
  plan.windows = full ? kMaxStatWindows : 0;
  for (uint32_t i = 0; i < rows; ++i) {
    if (full) plan.counted.push_back((first + i) % 7 != 3);
    uint8_t in = 0;
    for (uint32_t w = 0; w < kMaxStatWindows; ++w) in |= uint8_t((first + i + (4u << w) >= all) << w);
    if (full) plan.row_windows.push_back(in);
  }
  return plan;
}

std::vector<float> run(Backend& backend, const std::vector<TokenId>& ids, const std::vector<uint32_t>& borders, Kept* kept, bool full,
                       const std::vector<uint8_t>& layers = {}, const std::vector<uint8_t>& heads = {}) {
  auto cache = backend.new_cache(0);
  std::vector<float> logits;
  uint32_t at = 0;
  for (const uint32_t end : borders) {
    std::vector<TokenPos> positions(end - at);
    std::iota(positions.begin(), positions.end(), at);
    TokenStatsPlan plan = plan_of(at, end - at, uint32_t(ids.size()), full);
    plan.layers = layers;
    plan.heads = heads;
    ForwardOptions options;
    options.logits = LogitRows::all;
    if (kept) {
      options.token_stats = &plan;
      options.token_sink = kept;
      kept->wanted = heads;
    }
    auto result = backend.forward(*cache, Batch{std::span(ids).subspan(at, end - at), positions, ids.size()}, options);
    if (!result) FAIL(result.error().line());
    logits.insert(logits.end(), result->logits.begin(), result->logits.end());
    at = end;
  }
  return logits;
}

double near(const char* name, const std::vector<double>& got, const std::vector<double>& expected, double tolerance) {
  INFO(name);
  REQUIRE(got.size() == expected.size());
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double d = std::abs(got[i] - expected[i]) / std::max(std::abs(expected[i]), 1.0);
    if (!(d <= worst)) worst = d;
  }
  CHECK(worst <= tolerance);
  return worst;
}

std::shared_ptr<const Model> tiny(const std::string& name, std::vector<TokenId>& ids, uint32_t count) {
  const auto path = oracle("tiny/" + name + "/model.gguf"), reference = oracle("tiny/" + name + "/ref.safetensors");
  if (!path || !reference) return {};
  auto model = load_model(*path);
  if (!model) FAIL(model.error().line());
  auto blob = read_safetensors_file(*reference);
  REQUIRE(blob);
  const std::vector<int32_t> raw = *blob->get<int32_t>("ids");
  // Longer than the sample; no token twice at its distance, so that no two rows have the same peaks.
  const uint32_t vocab = (*model)->recipe.vocab;
  for (uint32_t i = 0; i < count; ++i) ids.push_back(TokenId((uint32_t(raw[i % raw.size()]) + i / raw.size() * 37) % vocab));
  return *model;
}

}  // namespace

TEST_CASE("token statistics on the GPU are those of the CPU") {
  for (const char* name : {"llama-gqa", "gemma2", "gpt-oss", "gemma3-text", "qwen3"}) {
    std::vector<TokenId> ids;
    const auto model = tiny(name, ids, 85);
    if (!model) continue;
    const Recipe& r = model->recipe;
    auto gpu = gpu::make_gpu_backend(model, BackendOptions{.token_stats = true});
    if (!gpu) FAIL(gpu.error().line());
    auto cpu = make_reference_backend(model, BackendOptions{2});
    REQUIRE(cpu);
    const bool first = std::string(name) == "llama-gqa";
    for (const std::vector<uint32_t>& borders : {std::vector<uint32_t>{85}, std::vector<uint32_t>{66, 67, 85}}) {
      if (!first && borders.size() == 1) continue;
      INFO(name << ", passes " << borders.size());
      Kept expected, found;
      run(**cpu, ids, borders, &expected, true);
      const auto with = run(**gpu, ids, borders, &found, true);
      if (first) {
        const auto without = run(**gpu, ids, borders, nullptr, true);
        CHECK(std::memcmp(with.data(), without.data(), with.size() * sizeof(float)) == 0);
      }
      CHECK(found.layers == expected.layers);
      double worst = 0;
      auto compare = [&](const char* what, const std::vector<double>& a, const std::vector<double>& b, double tolerance) {
        worst = std::max(worst, near(what, a, b, tolerance));
      };
      compare("R1", found.column_sum, expected.column_sum, 1e-5);
      compare("R4 squares", found.column_square, expected.column_square, 1e-5);
      compare("R4 maxima", found.column_max, expected.column_max, 1e-5);
      compare("R2", found.window_sum, expected.window_sum, 1e-5);
      compare("R3", found.last_row, expected.last_row, 1e-5);
      compare("R6 max", found.row_max, expected.row_max, 1e-5);
      compare("R6 lse", found.row_lse, expected.row_lse, 2e-5);
      compare("R6 entropy", found.row_entropy, expected.row_entropy, 2e-5);
      compare("R8 values", found.value_norm, expected.value_norm, 1e-5);
      compare("R8 outputs", found.output_norm, expected.output_norm, 1e-5);
      compare("R9", found.cosine, expected.cosine, 1e-5);
      // A weight may lie on its bound, and two weights of a row may be equal, within rounding: seldom.
      auto different = [](const std::vector<uint32_t>& a, const std::vector<uint32_t>& b) {
        REQUIRE(a.size() == b.size());
        size_t n = 0;
        for (size_t i = 0; i < a.size(); ++i) n += a[i] != b[i];
        return n;
      };
      const size_t counts = different(found.column_count, expected.column_count), maxima = different(found.row_argmax, expected.row_argmax);
      CHECK(counts * 1000 <= expected.column_count.size());
      CHECK(maxima * 1000 <= expected.row_argmax.size());
      CHECK(different(found.window_count, expected.window_count) * 1000 <= expected.window_count.size());
      REQUIRE(found.residual.size() == (r.layers + 1) * borders.size());
      for (size_t i = 0; i < found.residual.size(); ++i) {
        const ResidualStats &a = found.residual[i], &b = expected.residual[i];
        CHECK(a.index == b.index);
        CHECK(std::abs(a.median - b.median) <= 1e-5f * std::max(1.0f, b.median));
        CHECK(a.massive == b.massive);
        for (size_t p = 0; p < 3; ++p) {
          CHECK(std::abs(a.peaks[p].size - b.peaks[p].size) <= 2e-4f);
          CHECK(a.peaks[p].row == b.peaks[p].row);
          CHECK(a.peaks[p].dimension == b.peaks[p].dimension);
        }
      }
      std::printf("%-12s %zu passes: worst %.1e, counts differ %zu of %zu, argmax %zu of %zu\n", name, borders.size(), worst, counts,
                  expected.column_count.size(), maxima, expected.row_argmax.size());
    }
  }
}

TEST_CASE("only the layers and heads that are wanted; fast mode gives each row's weight away too") {
  std::vector<TokenId> ids;
  const auto model = tiny("llama-gqa", ids, 70);
  if (!model) return;
  const Recipe& r = model->recipe;
  auto cpu = make_reference_backend(model, BackendOptions{2});
  auto gpu = gpu::make_gpu_backend(model);
  REQUIRE(cpu);
  REQUIRE(gpu);
  std::vector<uint8_t> layers(r.layers), heads(size_t(r.layers) * r.query_heads);
  for (uint32_t l = 0; l < r.layers; ++l) layers[l] = l % 2;
  for (size_t i = 0; i < heads.size(); ++i) heads[i] = i % 3 == 1;
  Kept expected, found;
  run(**cpu, ids, {70}, &expected, false, layers, heads);
  run(**gpu, ids, {70}, &found, false, layers, heads);
  CHECK(found.layers == expected.layers);
  CHECK(!found.column_sum.empty());
  near("sums", found.column_sum, expected.column_sum, 1e-5);
  near("entropy", found.row_entropy, expected.row_entropy, 2e-5);
  near("outputs", found.output_norm, expected.output_norm, 1e-5);
  CHECK(found.window_sum.empty());

  BackendOptions options;
  options.arithmetic = Arithmetic::fast;
  auto fast = gpu::make_gpu_backend(model, options);
  REQUIRE(fast);
  Kept all;
  run(**fast, ids, {70}, &all, false);
  const double rows = 70.0 * r.layers * r.query_heads;
  CHECK(std::abs(all.given - rows) <= 1e-5 * rows);
}
