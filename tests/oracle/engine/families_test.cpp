// SPDX-License-Identifier: GPL-3.0-or-later
// Every family of the reference data, from its Hugging Face folder and from its GGUF file, on every backend, against
// transformers' outputs: logits, hidden states, attention, learned sinks, routing; in pieces of 1, of 7 and all at once;
// decoding. The reference path is also held to the double-precision logits. Tolerances: the reference data's README.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>

#include "core/base/files.h"
#include "core/base/json.h"
#include "tests/oracle/engine/engine_case.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {

constexpr double kLogits = 2e-4, kHidden = 2e-4, kRouter = 2e-4, kAttention = 2e-5, kWeights = 1e-5;
const char* const kFolders[] = {"gemma2",    "gemma3-text", "gpt-oss", "gpt2",      "granite",         "llama-gqa", "llama-mha",
                                "mistral",   "mixtral",     "olmo2",   "olmoe",     "phi3",            "qwen2",     "qwen2-moe",
                                "qwen2-moe-dense", "qwen3", "qwen3-moe", "smollm3", "starcoder2"};

struct View {
  std::string name, folder;
  std::shared_ptr<const Model> model;
  bool own_reference = false;  // what a reader of the GGUF alone must get differs from transformers
};

struct Folder {
  Json info;
  Blob reference;
  std::vector<TokenId> ids;
  std::vector<View> views;
  std::vector<float> floats(const std::string& array) const {
    auto values = reference.get<float>(array);
    if (!values) FAIL(values.error().line());
    return *values;
  }
};

Folder folder_of(const std::string& name) {
  Folder f;
  auto text = read_file(*oracle("tiny/" + name + "/info.json"));
  if (!text) FAIL(text.error().line());
  f.info = Json::parse(*text);
  auto blob = read_safetensors_file(*oracle("tiny/" + name + "/ref.safetensors"));
  if (!blob) FAIL(blob.error().line());
  f.reference = std::move(*blob);
  auto ids = f.reference.get<int32_t>("ids");
  if (!ids) FAIL(ids.error().line());
  f.ids.assign(ids->begin(), ids->end());
  f.views.push_back({name + " (folder)", name, loaded(*oracle("tiny/" + name + "/hf")), false});
  if (name != "qwen2-moe-dense") {
    const bool same = f.info["hf_equals_gguf"].get<bool>();
    REQUIRE((same || f.reference.find("gguf_logits") != nullptr));
    f.views.push_back({name + " (GGUF)", name, loaded(*oracle("tiny/" + name + "/model.gguf")), !same});
  }
  return f;
}

// Largest difference of what one view and backend give from the reference.
struct Errors {
  double logits = 0, hidden = 0, attention = 0, router = 0, weights = 0;
  void take(double& slot, double value) { slot = std::max(slot, value); }
};

bool need_data() {
  if (have_full_oracles()) return true;
  std::cout << "SKIPPED: no reference data for the families\n";
  return false;
}

}  // namespace

TEST_CASE("every family from both file kinds, on every backend, in any pieces") {
  if (!need_data()) return;
  for (const char* name : kFolders) {
    const Folder f = folder_of(name);
    for (const BackendCase& c : backend_cases()) {
      Errors worst;
      for (const View& view : f.views)
        for (uint32_t chunk : {0u, 7u, 1u}) {
          INFO(view.name << ", " << c.name << ", chunk " << chunk);
          const Recipe& r = view.model->recipe;
          auto backend = made(c, view.model);
          auto cache = backend->new_cache(0);
          const RunOutput out = run_pieces(*backend, *cache, f.ids, chunk, PlanKind::tokens);
          const auto difference = [&](const std::vector<float>& got, const std::string& array, double tolerance, double& slot) {
            INFO(array);
            const double d = largest_difference(got, f.floats(array));
            CHECK(d <= tolerance);
            worst.take(slot, d);
          };
          const std::string prefix = view.own_reference ? "gguf_" : "";
          difference(out.logits, prefix + "logits", kLogits, worst.logits);
          difference(out.attention, prefix + "attn", kAttention, worst.attention);
          if (view.own_reference) continue;
          difference(out.hidden, "hidden", kHidden, worst.hidden);
          if (r.learned_sink) difference(out.sink_mass, "sink_mass", kAttention, worst.attention);
          if (r.moe_layers() == 0) continue;
          difference(out.router_logits, "router_logits", kRouter, worst.router);
          difference(out.topk_weights, "topk_weights", kWeights, worst.weights);
          auto expected = f.reference.get<int32_t>("topk_ids");
          REQUIRE(expected);
          REQUIRE(f.info["near_tie_rows"].empty());  // else those rows would have to be left out
          CHECK(out.topk_ids == *expected);
        }
      std::cout << name << ", " << c.name << ": logits " << worst.logits << ", attention " << worst.attention << ", hidden "
                << worst.hidden << ", router " << worst.router << ", weights " << worst.weights << "\n";
    }
  }
}

TEST_CASE("greedy decoding of every family") {
  if (!need_data()) return;
  for (const char* name : kFolders) {
    const Folder f = folder_of(name);
    auto ids = f.reference.get<int32_t>("decode_ids");
    REQUIRE(ids);
    for (const View& view : f.views) {
      if (view.own_reference) continue;
      for (const BackendCase& c : backend_cases()) {
        INFO(view.name << ", " << c.name);
        auto backend = made(c, view.model);
        auto cache = backend->new_cache(uint32_t(f.ids.size() + ids->size()));
        std::vector<float> logits = run_pieces(*backend, *cache, f.ids, 0, PlanKind::none).logits;
        logits.erase(logits.begin(), logits.end() - view.model->recipe.vocab);
        std::vector<float> decoded;
        for (int32_t expected : *ids) {
          const TokenId id = TokenId(std::max_element(logits.begin(), logits.end()) - logits.begin());
          CHECK(id == expected);
          const TokenPos position = cache->size();
          auto step = backend->forward(*cache, Batch{{&id, 1}, {&position, 1}}, ForwardOptions{});
          if (!step) FAIL(step.error().line());
          logits = step->logits;
          decoded.insert(decoded.end(), logits.begin(), logits.end());
        }
        CHECK(largest_difference(decoded, f.floats("decode_logits")) <= kLogits);
      }
    }
  }
}

TEST_CASE("the reference path is as near to double precision as transformers is, within a factor of two") {
  if (!need_data()) return;
  for (const char* name : kFolders) {
    const Folder f = folder_of(name);
    auto exact = f.reference.get<double>("logits64");
    REQUIRE(exact);
    const auto error_of = [&](const std::vector<float>& logits) {
      REQUIRE(logits.size() == exact->size());
      double largest = 0;
      for (size_t i = 0; i < logits.size(); ++i) largest = std::max(largest, std::abs(double(logits[i]) - (*exact)[i]));
      return largest;
    };
    const double theirs = error_of(f.floats("logits"));
    const View& view = f.views.front();
    auto backend = made(backend_cases().front(), view.model);
    auto cache = backend->new_cache(0);
    const double ours = error_of(run_pieces(*backend, *cache, f.ids, 0, PlanKind::none).logits);
    INFO(name << ": " << ours << ", transformers " << theirs);
    CHECK(ours <= 2 * theirs);
  }
}

TEST_CASE("a configuration as transformers 5 writes it is the same model") {
  if (!need_data()) return;
  for (const char* name : kFolders) {
    INFO(name);
    const std::string folder = *oracle(std::string("tiny/") + name + "/hf");
    const std::filesystem::path copy = std::filesystem::temp_directory_path() / (std::string("spanscope-v5-") + name);
    std::filesystem::remove_all(copy);
    std::filesystem::create_directories(copy);
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const std::string file = entry.path().filename().string();
      if (file == "config.json") continue;
      std::filesystem::create_symlink(entry.path(), copy / (file == "config.v5.json" ? "config.json" : file));
    }
    const auto a = loaded(folder), b = loaded(copy.string());
    std::filesystem::remove_all(copy);
    CHECK(a->recipe.window == b->recipe.window);
    CHECK(a->recipe.rotary_of_layer == b->recipe.rotary_of_layer);
    CHECK(a->recipe.long_from == b->recipe.long_from);
    CHECK(a->recipe.attention_scale == b->recipe.attention_scale);
    CHECK(a->recipe.renormalise_experts == b->recipe.renormalise_experts);
    REQUIRE(a->recipe.rotary_tables.size() == b->recipe.rotary_tables.size());
    for (size_t t = 0; t < a->recipe.rotary_tables.size(); ++t) {
      CHECK(a->recipe.rotary_tables[t].inverse_frequency == b->recipe.rotary_tables[t].inverse_frequency);
      CHECK(a->recipe.rotary_tables[t].long_inverse_frequency == b->recipe.rotary_tables[t].long_inverse_frequency);
      CHECK(a->recipe.rotary_tables[t].magnitude == b->recipe.rotary_tables[t].magnitude);
    }
  }
}

TEST_CASE("rotary factors that change with length: short sequences, and a cache that crosses") {
  if (!need_data()) return;
  const Folder f = folder_of("phi3");
  const std::vector<TokenId> first(f.ids.begin(), f.ids.begin() + 32);
  for (const View& view : f.views)
    for (const BackendCase& c : backend_cases()) {
      INFO(view.name << ", " << c.name);
      auto backend = made(c, view.model);
      auto cache = backend->new_cache(0);
      CHECK(largest_difference(run_pieces(*backend, *cache, first, 0, PlanKind::none).logits, f.floats("logits_short")) <=
            kLogits);
      CHECK_FALSE(cache->long_rotary());
      // The 33rd token makes it a long sequence: the keys of the first 32 are of the short one.
      const TokenId next = f.ids[32];
      const TokenPos position = 32;
      auto crossed = backend->forward(*cache, Batch{{&next, 1}, {&position, 1}}, {});
      REQUIRE_FALSE(crossed);
      CHECK(crossed.error().tag == "SPAN-ROTARY-LENGTH");
      CHECK(cache->size() == 32);
      // Built again from the start, knowing where it leads, it is the long sequence.
      cache->truncate(0);
      const RunOutput all = run_pieces(*backend, *cache, f.ids, 7, PlanKind::none);
      CHECK(largest_difference(all.logits, f.floats("logits")) <= kLogits);
      CHECK(cache->long_rotary());
    }
}

TEST_CASE("log-sum-exp of every row") {
  if (!need_data()) return;
  for (const char* name : {"llama-gqa", "mixtral"}) {
    const std::string base = std::string("derived/reductions/") + name + "/reductions";
    auto text = read_file(*oracle(base + ".json"));
    auto blob = read_safetensors_file(*oracle(base + ".safetensors"));
    REQUIRE(text);
    REQUIRE(blob);
    const std::vector<TokenId> ids = Json::parse(*text)["tokens"];
    auto expected = blob->get<double>("R6.lse");
    REQUIRE(expected);
    const auto model = loaded(*oracle(std::string("tiny/") + name + "/model.gguf"));
    for (const BackendCase& c : backend_cases())
      for (uint32_t chunk : {0u, 7u, 1u}) {
        INFO(name << ", " << c.name << ", chunk " << chunk);
        auto backend = made(c, model);
        auto cache = backend->new_cache(0);
        const RunOutput out = run_pieces(*backend, *cache, ids, chunk, PlanKind::tokens);
        CHECK(largest_difference(out.lse, {expected->begin(), expected->end()}) <= 2e-5);
      }
  }
}
