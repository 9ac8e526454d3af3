// SPDX-License-Identifier: GPL-3.0-or-later
// From file to model: what the recipe says, how tensors are bound, and what is refused by name.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>

#include <unistd.h>

#include "core/model/weights.h"
#include "tests/support/catch.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/oracles.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {

class TempFile {
 public:
  explicit TempFile(const std::vector<uint8_t>& bytes) {
    static int counter = 0;
    path = (std::filesystem::temp_directory_path() /
            ("spanscope-model-" + std::to_string(getpid()) + "-" + std::to_string(counter++) + ".gguf"))
               .string();
    std::ofstream out(path, std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()), std::streamsize(bytes.size()));
  }
  ~TempFile() { std::filesystem::remove(path); }
  std::string path;
};

std::shared_ptr<const Model> load(const GgufBuilder& g) {
  const TempFile file(g.build());
  auto model = load_model(file.path);
  if (!model) FAIL(model.error().line());
  return *model;
}

void refused(const GgufBuilder& g, const std::string& tag, const std::string& part) {
  const TempFile file(g.build());
  auto model = load_model(file.path);
  INFO(tag << ": " << part);
  REQUIRE_FALSE(model);
  INFO(model.error().line());
  CHECK(model.error().tag == tag);
  CHECK(model.error().where == file.path);
  CHECK(model.error().message.find(part) != std::string::npos);
}

GgufBuilder changed(const std::function<void(GgufBuilder&)>& change) {
  GgufBuilder g = small_llama();
  change(g);
  return g;
}

GgufBuilder small_moe(bool stacked) {
  GgufBuilder g = small_llama();
  g.u32("llama.expert_count", 3).u32("llama.expert_used_count", 2);
  for (const char* part : {"gate", "up", "down"}) {
    const std::string name = std::string("blk.0.ffn_") + part;
    const TensorSpec dense = *g.find(name + ".weight");
    g.remove_tensor(name + ".weight");
    std::vector<uint8_t> all;
    for (int e = 0; e < 3; ++e) {
      TensorSpec t = dense;
      for (size_t i = 0; i < t.data.size(); i += 4) {
        float v;
        std::memcpy(&v, t.data.data() + i, 4);
        v += float(e) * 1000.0f;
        std::memcpy(t.data.data() + i, &v, 4);
      }
      all.insert(all.end(), t.data.begin(), t.data.end());
      t.name = name + "." + std::to_string(e) + ".weight";
      if (!stacked) g.tensor(t);
    }
    if (stacked) g.tensor({name + "_exps.weight", {dense.shape[0], dense.shape[1], 3}, 0, all});
  }
  g.tensor_f32("blk.0.ffn_gate_inp.weight", {32, 3});
  return g;
}

}  // namespace

TEST_CASE("a small llama model") {
  const auto m = load(small_llama());
  const Recipe& r = m->recipe;
  CHECK(r.family == "llama");
  CHECK(r.name == "small");
  CHECK(r.layers == 1);
  CHECK(r.head_dim == 16);
  CHECK(r.kv_heads == 1);
  CHECK(r.vocab == 6);
  CHECK(r.context == 64);
  CHECK(r.rotary_dims == 16);
  CHECK(r.rotary == RotaryLayout::interleaved);
  CHECK(r.attention_scale == 0.25f);
  CHECK(r.tied_output);
  CHECK(m->output.data == m->embedding.data);
  CHECK(r.window == std::vector<uint32_t>{0});
  CHECK(r.moe_layers() == 0);
  REQUIRE(r.rotary_tables[0].inverse_frequency.size() == 8);
  CHECK(r.rotary_tables[0].inverse_frequency[0] == 1.0f);
  CHECK(r.rotary_tables[0].inverse_frequency[4] == Approx(0.01).epsilon(1e-6));
  CHECK(m->weight_types == "F32");
  CHECK(m->digest.size() == 64);
  CHECK(m->chat_template == "{{ messages }}");
  CHECK(m->vocabulary.tokens[3] == "ab");
  CHECK(m->vocabulary.kinds[4] == TokenKind::control);
  CHECK(m->vocabulary.bos == 4);
  CHECK(m->vocabulary.eot == -1);
  CHECK(m->vocabulary.add_bos);
  std::vector<float> k(32);
  dequantise_row(m->layers[0].k, 15, k.data());
  CHECK(k[31] == 511.0f / 64.0f);
  CHECK(m->layers[0].attention_norm[31] == 31.0f / 64.0f);
}

TEST_CASE("the digest names the file") {
  const auto a = load(small_llama()), same = load(small_llama());
  const auto other = load(changed([](GgufBuilder& g) { g.text("general.name", "other"); }));
  CHECK(a->digest == same->digest);
  CHECK(a->digest != other->digest);
}

TEST_CASE("an output matrix, rotary factors and scaling") {
  const auto untied = load(changed([](GgufBuilder& g) { g.tensor_f32("output.weight", {32, 6}); }));
  CHECK_FALSE(untied->recipe.tied_output);
  CHECK(untied->output.data != untied->embedding.data);

  const auto plain = load(small_llama());
  const auto linear = load(changed([](GgufBuilder& g) {
    g.text("llama.rope.scaling.type", "linear").f32("llama.rope.scaling.factor", 4);
  }));
  const auto factors = load(changed([](GgufBuilder& g) {
    Bytes b;
    for (int i = 0; i < 8; ++i) b.put(float(i + 1));
    g.tensor({"rope_freqs.weight", {8}, 0, b.data});
  }));
  for (size_t i = 0; i < 8; ++i) {
    CHECK(linear->recipe.rotary_tables[0].inverse_frequency[i] ==
          plain->recipe.rotary_tables[0].inverse_frequency[i] / 4);
    CHECK(factors->recipe.rotary_tables[0].inverse_frequency[i] ==
          plain->recipe.rotary_tables[0].inverse_frequency[i] / float(i + 1));
  }
  CHECK(load(changed([](GgufBuilder& g) { g.f32("llama.attention.scale", 0.5f); }))->recipe.attention_scale ==
        0.5f);
  CHECK(load(changed([](GgufBuilder& g) { g.u32("llama.attention.sliding_window", 9); }))->recipe.window[0] ==
        9);
}

TEST_CASE("experts: stacked tensors and one tensor per expert are the same model") {
  const auto stacked = load(small_moe(true)), single = load(small_moe(false));
  for (const auto& m : {stacked, single}) {
    CHECK(m->recipe.moe_layers() == 1);
    CHECK(m->recipe.experts == 3);
    CHECK(m->recipe.experts_used == 2);
    CHECK(m->recipe.expert_feed_forward == 64);
    CHECK(m->recipe.renormalise_experts);
    REQUIRE(m->layers[0].experts.size() == 3);
    CHECK_FALSE(m->layers[0].dense.gate);
  }
  std::vector<float> a(64), b(64);
  for (size_t e = 0; e < 3; ++e)
    for (WeightMatrix FeedForwardWeights::*part :
         {&FeedForwardWeights::gate, &FeedForwardWeights::up, &FeedForwardWeights::down}) {
      const WeightMatrix &x = stacked->layers[0].experts[e].*part, &y = single->layers[0].experts[e].*part;
      REQUIRE(x.cols == y.cols);
      REQUIRE(x.rows == y.rows);
      for (uint32_t r = 0; r < x.rows; ++r) {
        dequantise_row(x, r, a.data());
        dequantise_row(y, r, b.data());
        CHECK(std::equal(a.begin(), a.begin() + x.cols, b.begin()));
      }
      CHECK(a[0] >= float(e) * 1000.0f);
    }
}

TEST_CASE("refused by name") {
  refused(changed([](GgufBuilder& g) { g.text("general.architecture", "mamba"); }), "SPAN-UNSUPPORTED-ARCH",
          "\"mamba\" is not supported (it has recurrent or linear-attention layers");
  refused(changed([](GgufBuilder& g) { g.remove_key("general.architecture"); }), "SPAN-GGUF-KEY",
          "general.architecture");
  refused(changed([](GgufBuilder& g) {
            TensorSpec* t = g.find("blk.0.ffn_down.weight");
            t->type = 99;
          }),
          "SPAN-UNSUPPORTED-TYPE", "type 99; supported are F32, F16");
  refused(changed([](GgufBuilder& g) {
            TensorSpec* t = g.find("blk.0.ffn_down.weight");
            t->type = 26;  // I32: known to the format, no weights
          }),
          "SPAN-UNSUPPORTED-TYPE", "I32");
  refused(changed([](GgufBuilder& g) { g.text("llama.rope.scaling.type", "other"); }), "SPAN-UNSUPPORTED",
          "\"other\"");
  refused(changed([](GgufBuilder& g) { g.u32("llama.attention.value_length", 8); }), "SPAN-UNSUPPORTED",
          "values of 8");
  refused(changed([](GgufBuilder& g) { g.u32("split.count", 3).u32("split.no", 0); }), "SPAN-GGUF-SPLIT",
          "shard 1 of 3");
  refused(changed([](GgufBuilder& g) { g.tensor_f32("blk.0.ssm_d", {32}); }), "SPAN-UNSUPPORTED-TENSOR",
          "blk.0.ssm_d");
}

TEST_CASE("keys and tensors that do not fit together") {
  refused(changed([](GgufBuilder& g) { g.remove_tensor("blk.0.attn_v.weight"); }), "SPAN-GGUF-TENSOR",
          "\"blk.0.attn_v.weight\" is missing");
  refused(changed([](GgufBuilder& g) { g.remove_tensor("token_embd.weight"); }), "SPAN-GGUF-TENSOR",
          "\"token_embd.weight\" is missing");
  refused(changed([](GgufBuilder& g) {
            g.find("blk.0.attn_v.weight")->shape = {16, 32};
          }),
          "SPAN-GGUF-TENSOR", "expected shape [32 x 16], found [16 x 32]");
  refused(changed([](GgufBuilder& g) { g.u32("llama.block_count", 2); }), "SPAN-GGUF-TENSOR",
          "blk.1.attn_norm.weight");
  refused(changed([](GgufBuilder& g) { g.u32("llama.block_count", 60000); }), "SPAN-MODEL", "60000 layers");
  refused(changed([](GgufBuilder& g) { g.u32("llama.block_count", 4000000000u); }), "SPAN-GGUF-KEY",
          "found 4000000000");
  refused(changed([](GgufBuilder& g) { g.u32("llama.block_count", 0); }), "SPAN-GGUF-KEY", "block_count");
  refused(changed([](GgufBuilder& g) { g.u32("llama.attention.head_count", 3); }), "SPAN-MODEL",
          "does not divide");
  refused(changed([](GgufBuilder& g) { g.u32("llama.attention.head_count", 0); }), "SPAN-GGUF-KEY",
          "head_count");
  refused(changed([](GgufBuilder& g) { g.u32("llama.attention.head_count_kv", 0); }), "SPAN-GGUF-KEY",
          "head_count_kv");
  refused(changed([](GgufBuilder& g) {
            g.u32("llama.attention.head_count", 4).u32("llama.attention.head_count_kv", 3);
          }),
          "SPAN-MODEL", "evenly");
  refused(changed([](GgufBuilder& g) { g.u32("llama.rope.dimension_count", 17); }), "SPAN-GGUF-KEY",
          "dimension_count");
  refused(changed([](GgufBuilder& g) { g.u32("llama.rope.dimension_count", 15); }), "SPAN-MODEL", "even");
  refused(changed([](GgufBuilder& g) { g.f32("llama.attention.layer_norm_rms_epsilon", NAN); }),
          "SPAN-GGUF-KEY", "finite");
  refused(changed([](GgufBuilder& g) { g.remove_key("llama.embedding_length"); }), "SPAN-GGUF-KEY",
          "llama.embedding_length");
  refused(changed([](GgufBuilder& g) { g.text("llama.embedding_length", "32"); }), "SPAN-GGUF-KEY",
          "found string");
  refused(changed([](GgufBuilder& g) { g.u32("tokenizer.ggml.bos_token_id", 6); }), "SPAN-GGUF-KEY",
          "below 6");
  refused(changed([](GgufBuilder& g) {
            g.i32s("tokenizer.ggml.token_type", {1, 1});
          }),
          "SPAN-GGUF-KEY", "expected 6 values");
  refused(changed([](GgufBuilder& g) {
            g.i32s("tokenizer.ggml.token_type", {1, 1, 1, 1, 1, 9});
          }),
          "SPAN-GGUF-KEY", "token 5 has type 9");
  refused(changed([](GgufBuilder& g) {
            g.texts("tokenizer.ggml.tokens", {"a", "b", "c", "d", "e", "f", "g"})
                .remove_key("tokenizer.ggml.token_type");
          }),
          "SPAN-MODEL", "7 tokens");
  GgufBuilder moe = small_moe(true);
  moe.u32("llama.expert_used_count", 4);
  refused(moe, "SPAN-GGUF-KEY", "expert_used_count");
  moe = small_moe(true);
  moe.u32("llama.expert_count", 4);
  refused(moe, "SPAN-GGUF-TENSOR", "expected shape [32 x 4]");
  moe = small_moe(false);
  moe.remove_tensor("blk.0.ffn_up.2.weight");
  refused(moe, "SPAN-GGUF-TENSOR", "blk.0.ffn_up.2.weight");
}

TEST_CASE("paths that are no model file") {
  for (const std::string& path :
       {std::string("/nonexistent/model.gguf"), std::filesystem::temp_directory_path().string()})
    for (auto open : {load_model, load_vocabulary}) {
      auto model = open(path);
      REQUIRE_FALSE(model);
      CHECK(model.error().where == path);
    }
  const TempFile empty({});
  CHECK_FALSE(load_model(empty.path));
  const std::string text = "not a model\n";
  const TempFile renamed({text.begin(), text.end()});
  auto model = load_model(renamed.path);
  REQUIRE_FALSE(model);
  CHECK(model.error().tag == "SPAN-GGUF-MAGIC");
}

TEST_CASE("a vocabulary needs no tensors") {
  GgufBuilder g = small_llama();
  g.tensors.clear();
  g.text("general.architecture", "mamba");
  const TempFile file(g.build());
  auto vocabulary = load_vocabulary(file.path);
  REQUIRE(vocabulary);
  CHECK((*vocabulary)->vocabulary.tokens.size() == 6);
  CHECK((*vocabulary)->vocabulary.merges == std::vector<std::string>{"a b"});
  CHECK((*vocabulary)->chat_template == "{{ messages }}");
  CHECK((*vocabulary)->recipe.family == "mamba");
  CHECK((*vocabulary)->layers.empty());
  g.remove_key("tokenizer.ggml.tokens");
  const TempFile without(g.build());
  CHECK_FALSE(load_vocabulary(without.path));
}

TEST_CASE("changed header bytes never crash the loader") {
  const std::vector<uint8_t> whole = small_moe(true).build();
  const size_t header = whole.size() - 16384;  // the data behind is longer than this
  std::mt19937 random(7);
  for (int round = 0; round < 600; ++round) {
    std::vector<uint8_t> bytes = whole;
    for (int change = 0; change < 1 + round % 3; ++change) {
      const uint8_t values[] = {0, 1, 0x7f, 0x80, 0xff, uint8_t(random())};
      bytes[random() % std::min<size_t>(header, 4096)] = values[random() % 6];
    }
    const TempFile file(bytes);
    auto model = load_model(file.path);
    if (!model) CHECK_FALSE(model.error().message.empty());
    auto vocabulary = load_vocabulary(file.path);
    if (!vocabulary) CHECK_FALSE(vocabulary.error().message.empty());
  }
}

TEST_CASE("the shipped models load") {
  for (const char* name : {"relay-dense.gguf", "relay-moe.gguf"}) {
    auto model = load_model(demo(name));
    if (!model) FAIL(model.error().line());
    CHECK((*model)->recipe.vocab == (*model)->vocabulary.tokens.size());
    CHECK_FALSE((*model)->chat_template.empty());
    auto vocabulary = load_vocabulary(demo(name));
    REQUIRE(vocabulary);
    CHECK((*vocabulary)->vocabulary.tokens == (*model)->vocabulary.tokens);
    CHECK((*vocabulary)->digest == (*model)->digest);
  }
}
