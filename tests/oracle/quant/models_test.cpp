// SPDX-License-Identifier: GPL-3.0-or-later
// Whole models with weights in every format, from a file through the loader: the fast path against the
// reference path. Both keep activations in f32, so they differ by rounding alone.
#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/base/digest.h"
#include "core/cpu/backends.h"
#include "core/model/block_formats.h"
#include "core/model/gguf.h"
#include "tests/support/catch.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/oracles.h"
#include "tests/support/random_blocks.h"
#include "tests/support/temp_dir.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {

// Two llama layers of width 256, so that blocks of 256 divide every row; all matrices in one format. With
// experts: four of them stacked in each layer, two chosen.
GgufBuilder model_in(TensorType type, bool experts) {
  std::mt19937 random(5 + uint32_t(type));
  GgufBuilder g;
  g.text("general.architecture", "llama").text("general.name", tensor_type_name(type));
  g.u32("llama.block_count", 2).u32("llama.context_length", 256).u32("llama.embedding_length", 256);
  g.u32("llama.feed_forward_length", 512).u32("llama.attention.head_count", 4);
  g.u32("llama.attention.head_count_kv", 2).f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  g.f32("llama.rope.freq_base", 10000.0f);
  g.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "gpt-2");
  std::vector<std::string> tokens;
  for (int i = 0; i < 96; ++i) tokens.push_back("t" + std::to_string(i));
  g.texts("tokenizer.ggml.tokens", tokens).texts("tokenizer.ggml.merges", {});
  const auto matrix = [&](const std::string& name, uint32_t cols, uint32_t rows, float size) {
    g.tensor({name, {cols, rows}, ggml_number(type), random_weights(type, rows, cols, size, random)});
  };
  const auto ones = [&](const std::string& name) {
    g.tensor({name, {256}, 0, random_weights(TensorType::f32, 1, 256, 1.0f, random)});
  };
  const auto stack = [&](const std::string& name, uint32_t cols, uint32_t rows) {
    g.tensor({name, {cols, rows, 4}, ggml_number(type), random_weights(type, 4 * rows, cols, 0.2f, random)});
  };
  if (experts) g.u32("llama.expert_count", 4).u32("llama.expert_used_count", 2);
  matrix("token_embd.weight", 256, 96, 1.0f);
  matrix("output.weight", 256, 96, 0.2f);
  ones("output_norm.weight");
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    ones(layer + "attn_norm.weight");
    ones(layer + "ffn_norm.weight");
    matrix(layer + "attn_q.weight", 256, 256, 0.2f);
    matrix(layer + "attn_k.weight", 256, 128, 0.2f);
    matrix(layer + "attn_v.weight", 256, 128, 0.2f);
    matrix(layer + "attn_output.weight", 256, 256, 0.2f);
    if (experts) {
      g.tensor({layer + "ffn_gate_inp.weight",
                {256, 4},
                0,
                random_weights(TensorType::f32, 4, 256, 0.2f, random)});
      stack(layer + "ffn_gate_exps.weight", 256, 512);
      stack(layer + "ffn_up_exps.weight", 256, 512);
      stack(layer + "ffn_down_exps.weight", 512, 256);
    } else {
      matrix(layer + "ffn_gate.weight", 256, 512, 0.2f);
      matrix(layer + "ffn_up.weight", 256, 512, 0.2f);
      matrix(layer + "ffn_down.weight", 512, 256, 0.2f);
    }
  }
  return g;
}

std::vector<float> logits_of(Backend& backend, uint32_t tokens, uint32_t chunk) {
  const uint32_t vocab = backend.model().recipe.vocab;
  std::vector<TokenId> ids(tokens);
  for (uint32_t i = 0; i < tokens; ++i) ids[i] = TokenId(i * 37 % vocab);
  std::vector<TokenPos> positions(tokens);
  std::iota(positions.begin(), positions.end(), 0u);
  auto cache = backend.new_cache(tokens);
  ForwardOptions options;
  options.logits = LogitRows::all;
  std::vector<float> logits;
  for (uint32_t at = 0; at < tokens; at += chunk) {
    const uint32_t n = std::min(chunk, tokens - at);
    auto result = backend.forward(
        *cache,
        {std::span<const TokenId>(ids).subspan(at, n), std::span<const TokenPos>(positions).subspan(at, n)},
        options);
    if (!result) FAIL(result.error().line());
    logits.insert(logits.end(), result->logits.begin(), result->logits.end());
  }
  return logits;
}

// The reference data's tolerance for logits, 2e-4, is for logits below 12; rounding grows with their size.
void compare_paths(const std::shared_ptr<const Model>& model, uint32_t tokens) {
  auto reference = make_reference_backend(model, {}), fast = make_fast_backend(model, {});
  REQUIRE((reference && fast));
  const std::vector<float> expected = logits_of(**reference, tokens, tokens);
  REQUIRE(expected.size() == size_t(tokens) * model->recipe.vocab);
  double size = 0;
  for (const float x : expected) size = std::max(size, std::abs(double(x)));
  REQUIRE(std::isfinite(size));
  CHECK(size > 0.5);
  for (const uint32_t chunk : {1u, 7u, tokens}) {
    INFO("passes of " << chunk << ", logits up to " << size);
    const std::vector<float> found = logits_of(**fast, tokens, chunk);
    REQUIRE(found.size() == expected.size());
    double worst = 0;
    for (size_t i = 0; i < found.size(); ++i) {
      const double difference = std::abs(double(found[i]) - double(expected[i]));
      if (!(difference <= worst)) worst = difference;
    }
    CHECK(worst <= 2e-4 * std::max(1.0, size / 12));
  }
}

}  // namespace

TEST_CASE("a model in every format gives the same logits on both paths") {
  const TempDir dir;
  for (const TensorType type : kTensorTypes)
    for (const bool experts : {false, true}) {
      INFO(tensor_type_name(type) << (experts ? " with experts" : ""));
      auto model = load_model(dir.write("model.gguf", model_in(type, experts).build()));
      if (!model) FAIL(model.error().line());
      const LayerWeights& layer = (*model)->layers[1];
      CHECK((experts ? layer.experts.at(3).down : layer.dense.down).type == type);
      CHECK((*model)->weight_types.find(tensor_type_name(type)) == 0);
      compare_paths(*model, 40);
    }
}

TEST_CASE("a file that another program quantised") {
  // tests/data/quant/make_model.py: a small mixture of experts, its matrices in eight formats by turns.
  const std::string base = data_dir() + "/quant/mixtral-mixed";
  auto text = read_file(base + ".json");
  if (!text) FAIL(text.error().line());
  const nlohmann::json said = nlohmann::json::parse(*text);
  auto mapped = MappedFile::open(base + ".gguf");
  if (!mapped) FAIL(mapped.error().line());
  auto file = GgufFile::parse((*mapped)->bytes(), base + ".gguf");
  if (!file) FAIL(file.error().line());
  REQUIRE(file->tensors().size() == said.size());
  std::map<std::string, int> types;
  for (const GgufTensor& t : file->tensors()) {
    INFO(t.name);
    const nlohmann::json& expected = said.at(t.name);
    const auto type = tensor_type_from_ggml(t.type);
    REQUIRE(type);
    CHECK(tensor_type_name(*type) == expected.at("type").get<std::string>());
    ++types[tensor_type_name(*type)];
    const uint64_t blocks = t.bytes / block_bytes(*type);
    std::vector<float> values(blocks * block_elements(*type));
    dequantise_blocks(*type, (*mapped)->bytes().data() + t.data, blocks, values.data());
    const auto* bytes = reinterpret_cast<const uint8_t*>(values.data());
    CHECK(sha256_hex({bytes, values.size() * sizeof(float)}) == expected.at("f32_sha256").get<std::string>());
  }
  CHECK(types.size() >= 8);
  auto model = load_model(base + ".gguf");
  if (!model) FAIL(model.error().line());
  compare_paths(*model, 60);
}
