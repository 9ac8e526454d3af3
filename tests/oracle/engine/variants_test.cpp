// SPDX-License-Identifier: GPL-3.0-or-later
// Hugging Face folders in the other forms that are published: sharded, 16-bit, without the outermost module's name, with
// stored masks, experts unquantised. Made from the reference data's folders; the same numbers have to come out. And what is
// wrong with a folder is said by name.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iostream>

#include <unistd.h>

#include "core/base/files.h"
#include "core/base/half.h"
#include "core/base/json.h"
#include "tests/oracle/engine/engine_case.h"

using namespace spanscope;
using namespace spanscope::test;
namespace fs = std::filesystem;

namespace {

bool need_data() {
  if (have_full_oracles()) return true;
  std::cout << "SKIPPED: no reference data for the forms of Hugging Face folders\n";
  return false;
}

// A copy of a family's folder whose weights and configuration may be changed; gone at the end.
class Copy {
 public:
  explicit Copy(const std::string& family) {
    static int number = 0;
    path = fs::temp_directory_path() / ("spanscope-variant-" + std::to_string(getpid()) + "-" + std::to_string(number++));
    fs::remove_all(path);
    fs::create_directories(path);
    const fs::path from = *oracle("tiny/" + family + "/hf");
    for (const auto& entry : fs::directory_iterator(from))
      if (entry.path().extension() != ".safetensors" && entry.path().filename() != "config.v5.json")
        fs::copy_file(entry.path(), path / entry.path().filename());
    for (const auto& entry : fs::directory_iterator(path)) fs::permissions(entry.path(), fs::perms::owner_write, fs::perm_options::add);
    auto read = read_safetensors_file((from / "model.safetensors").string());
    if (!read) FAIL(read.error().line());
    blob = std::move(*read);
  }
  ~Copy() { fs::remove_all(path); }
  void write(const Blob& b, const std::string& file = "model.safetensors") {
    const Status status = write_safetensors_file((path / file).string(), b, true);
    if (!status) FAIL(status.error().line());
  }
  void text(const std::string& file, const std::string& content) {
    const Status status = write_file((path / file).string(), content, true);
    if (!status) FAIL(status.error().line());
  }
  void configure(const std::function<void(Json&)>& change) {
    auto config = read_file((path / "config.json").string());
    if (!config) FAIL(config.error().line());
    Json json = Json::parse(*config);
    change(json);
    text("config.json", json.dump());
  }
  fs::path path;
  Blob blob;
};

std::vector<TokenId> prompt(const std::string& family) {
  auto blob = read_safetensors_file(*oracle("tiny/" + family + "/ref.safetensors"));
  if (!blob) FAIL(blob.error().line());
  auto ids = blob->get<int32_t>("ids");
  return {ids->begin(), ids->end()};
}

std::vector<float> logits_of(const BackendCase& c, const std::string& path, const std::vector<TokenId>& ids, uint32_t chunk = 0) {
  auto backend = made(c, loaded(path));
  auto cache = backend->new_cache(0);
  return run_pieces(*backend, *cache, ids, chunk, PlanKind::none).logits;
}

bool same_bytes(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

float f32_at(const Tensor& t, size_t i) {
  float v;
  std::memcpy(&v, t.data.data() + i * sizeof v, sizeof v);
  return v;
}

// The nearest 16-bit number towards zero; which rounding does not matter here.
uint16_t brain_of(float v) {
  uint32_t bits;
  std::memcpy(&bits, &v, sizeof bits);
  return uint16_t(bits >> 16);
}
uint16_t half_of(float v) {
  uint32_t bits;
  std::memcpy(&bits, &v, sizeof bits);
  const int exponent = int(bits >> 23 & 255) - 127;
  if (exponent < -14) return uint16_t(bits >> 16 & 0x8000);
  REQUIRE(exponent < 16);
  return uint16_t((bits >> 16 & 0x8000) | uint32_t(exponent + 15) << 10 | (bits >> 13 & 0x3ff));
}

}  // namespace

TEST_CASE("a sharded folder is the same model") {
  if (!need_data()) return;
  for (const char* family : {"llama-gqa", "qwen3-moe"}) {
    Copy copy(family);
    Json map = Json::object();
    for (int shard = 0; shard < 3; ++shard) {
      Blob part;
      const std::string file = "model-0000" + std::to_string(shard + 1) + "-of-00003.safetensors";
      for (size_t i = size_t(shard); i < copy.blob.tensors.size(); i += 3) {
        part.tensors.push_back(copy.blob.tensors[i]);
        map[copy.blob.tensors[i].name] = file;
      }
      copy.write(part, file);
    }
    copy.text("model.safetensors.index.json", Json{{"metadata", {{"total_size", 1}}}, {"weight_map", map}}.dump());
    const auto ids = prompt(family);
    for (const BackendCase& c : backend_cases())
      CHECK(same_bytes(logits_of(c, copy.path.string(), ids),
                       logits_of(c, *oracle(std::string("tiny/") + family + "/hf"), ids)));
    fs::remove(copy.path / "model-00002-of-00003.safetensors");
    auto missing = load_model(copy.path.string());
    REQUIRE_FALSE(missing);
    CHECK(missing.error().tag == "SPAN-HF-FILES");
    CHECK(missing.error().message.find("model-00002-of-00003.safetensors") != std::string::npos);
  }
}

TEST_CASE("16-bit weights give the float32 results of their values, on both paths") {
  if (!need_data()) return;
  for (const char* family : {"qwen3", "mixtral", "gemma2", "gpt2", "starcoder2"})
    for (const DType type : {DType::bf16, DType::f16}) {
      INFO(family << ", " << dtype_name(type));
      Copy narrow(family), wide(family);
      for (size_t t = 0; t < narrow.blob.tensors.size(); ++t) {
        Tensor &n = narrow.blob.tensors[t], &w = wide.blob.tensors[t];
        REQUIRE(w.dtype == DType::f32);
        n.dtype = type;
        n.data.resize(w.data.size() / 2);
        for (size_t i = 0; i < n.data.size() / 2; ++i) {
          const uint16_t stored = type == DType::bf16 ? brain_of(f32_at(w, i)) : half_of(f32_at(w, i));
          const float value = type == DType::bf16 ? bf16_to_f32(stored) : f16_to_f32(stored);
          std::memcpy(n.data.data() + 2 * i, &stored, 2);
          std::memcpy(w.data.data() + 4 * i, &value, 4);
        }
      }
      narrow.write(narrow.blob);
      wide.write(wide.blob);
      const auto ids = prompt(family);
      const std::vector<float> exact = logits_of(backend_cases()[0], wide.path.string(), ids);
      CHECK(same_bytes(logits_of(backend_cases()[0], narrow.path.string(), ids), exact));
      for (uint32_t chunk : {0u, 7u, 1u})
        CHECK(largest_difference(logits_of(backend_cases()[1], narrow.path.string(), ids, chunk), exact) <= 2e-4);
    }
}

TEST_CASE("gpt2 without the outermost module's name, and with stored masks") {
  if (!need_data()) return;
  Copy copy("gpt2");
  for (Tensor& t : copy.blob.tensors) t.name = t.name.substr(std::strlen("transformer."));
  for (int l = 0; l < 3; ++l) {
    const std::string layer = "h." + std::to_string(l) + ".attn.";
    copy.blob.add<float>(layer + "bias", {1, 1, 64, 64}, std::vector<float>(64 * 64, 1.0f));
    copy.blob.add<float>(layer + "masked_bias", {1}, std::vector<float>{-1e4f});
  }
  copy.write(copy.blob);
  const auto ids = prompt("gpt2");
  for (const BackendCase& c : backend_cases())
    CHECK(same_bytes(logits_of(c, copy.path.string(), ids), logits_of(c, *oracle("tiny/gpt2/hf"), ids)));
}

TEST_CASE("gpt-oss with unquantised experts") {
  if (!need_data()) return;
  Copy copy("gpt-oss");
  const std::string folder = *oracle("tiny/gpt-oss/hf");
  const auto model = loaded(folder);
  auto& tensors = copy.blob.tensors;
  tensors.erase(std::remove_if(tensors.begin(), tensors.end(),
                               [](const Tensor& t) { return t.name.ends_with("_blocks") || t.name.ends_with("_scales"); }),
                tensors.end());
  const Recipe& r = model->recipe;
  for (uint32_t l = 0; l < r.layers; ++l) {
    std::vector<float> gate_up(size_t(r.experts) * r.hidden * 2 * r.expert_feed_forward),
        down(size_t(r.experts) * r.expert_feed_forward * r.hidden), row(std::max(r.hidden, r.expert_feed_forward));
    for (uint32_t e = 0; e < r.experts; ++e) {
      const FeedForwardWeights& w = model->layers[l].experts[e];
      for (uint32_t f = 0; f < r.expert_feed_forward; ++f)
        for (int part = 0; part < 2; ++part) {
          dequantise_row(part ? w.up : w.gate, f, row.data());
          for (uint32_t c = 0; c < r.hidden; ++c)
            gate_up[(size_t(e) * r.hidden + c) * 2 * r.expert_feed_forward + 2 * f + uint32_t(part)] = row[c];
        }
      for (uint32_t o = 0; o < r.hidden; ++o) {
        dequantise_row(w.down, o, row.data());
        for (uint32_t f = 0; f < r.expert_feed_forward; ++f)
          down[(size_t(e) * r.expert_feed_forward + f) * r.hidden + o] = row[f];
      }
    }
    const std::string base = "model.layers." + std::to_string(l) + ".mlp.experts.";
    copy.blob.add(base + "gate_up_proj", {r.experts, r.hidden, 2 * r.expert_feed_forward}, gate_up);
    copy.blob.add(base + "down_proj", {r.experts, r.expert_feed_forward, r.hidden}, down);
  }
  copy.write(copy.blob);
  const auto ids = prompt("gpt-oss");
  CHECK(same_bytes(logits_of(backend_cases()[0], copy.path.string(), ids), logits_of(backend_cases()[0], folder, ids)));
  CHECK(largest_difference(logits_of(backend_cases()[1], copy.path.string(), ids),
                           logits_of(backend_cases()[1], folder, ids)) <= 2e-4);
}

TEST_CASE("a folder that is not right is refused by name") {
  if (!need_data()) return;
  const auto refused = [](const Copy& copy, const char* tag, const char* part) {
    auto model = load_model(copy.path.string());
    INFO(tag << ": " << part);
    REQUIRE_FALSE(model);
    INFO(model.error().line());
    CHECK(model.error().tag == tag);
    CHECK(model.error().line().find(part) != std::string::npos);
    CHECK(model.error().line().find(copy.path.string()) != std::string::npos);
  };
  const auto with = [&](const std::function<void(Json&)>& change, const char* tag, const char* part) {
    Copy copy("qwen2-moe");
    copy.write(copy.blob);
    copy.configure(change);
    refused(copy, tag, part);
  };
  with([](Json& c) { c["model_type"] = "mamba"; }, "SPAN-UNSUPPORTED-ARCH", "recurrent");
  with([](Json& c) { c["model_type"] = "nobody_knows"; }, "SPAN-UNSUPPORTED-ARCH", "qwen3_moe");
  with([](Json& c) { c.erase("model_type"); }, "SPAN-HF-CONFIG", "model_type");
  with([](Json& c) { c.erase("hidden_size"); }, "SPAN-HF-CONFIG", "hidden_size");
  with([](Json& c) { c["hidden_size"] = -48; }, "SPAN-HF-CONFIG", "-48");
  with([](Json& c) { c["num_attention_heads"] = 5; }, "SPAN-MODEL", "5");
  with([](Json& c) { c["num_hidden_layers"] = 60000; }, "SPAN-MODEL", "60000");
  with([](Json& c) { c["num_hidden_layers"] = 4; }, "SPAN-HF-TENSOR", "model.layers.3.");
  with([](Json& c) { c["num_hidden_layers"] = 2; }, "SPAN-UNSUPPORTED-TENSOR", "model.layers.2.");
  with([](Json& c) { c["moe_intermediate_size"] = 13; }, "SPAN-HF-TENSOR", "expected shape [13 x 48], found [12 x 48]");
  with([](Json& c) { c["hidden_act"] = "relu"; }, "SPAN-UNSUPPORTED", "relu");
  with([](Json& c) { c["rope_scaling"] = {{"rope_type", "dynamic"}, {"factor", 2.0}}; }, "SPAN-UNSUPPORTED", "dynamic");
  with([](Json& c) { c["rope_scaling"] = {{"rope_type", "linear"}}; }, "SPAN-HF-CONFIG", "rope_scaling.factor");
  with([](Json& c) { c["mlp_only_layers"] = {7}; }, "SPAN-MODEL", "mlp_only_layers");
  with([](Json& c) { c["layer_types"] = {"full_attention", "linear_attention", "full_attention"}; }, "SPAN-UNSUPPORTED",
       "linear_attention");
  with([](Json& c) { c["num_experts_per_tok"] = 9; }, "SPAN-HF-CONFIG", "num_experts_per_tok");
  {
    Copy copy("llama-gqa");
    copy.write(copy.blob);
    copy.text("config.json", "{\"model_type\": \"llama\",}");
    refused(copy, "SPAN-JSON", "config.json:1:");
  }
  {
    Copy copy("llama-gqa");
    refused(copy, "SPAN-HF-FILES", "model.safetensors");
    copy.text("model.safetensors.index.json", R"({"weight_map": {"a": "../../etc/passwd"}})");
    refused(copy, "SPAN-HF-INDEX", "beside the index");
    fs::remove(copy.path / "config.json");
    refused(copy, "SPAN-HF-FILES", "config.json");
  }
  {
    Copy copy("llama-gqa");
    copy.blob.tensors[3].name += "x";
    copy.write(copy.blob);
    refused(copy, "SPAN-HF-TENSOR", "is missing");
  }
  {
    Copy copy("gpt-oss");
    auto& tensors = copy.blob.tensors;
    tensors.erase(std::remove_if(tensors.begin(), tensors.end(), [](const Tensor& t) { return t.name.ends_with("_blocks"); }),
                  tensors.end());
    copy.write(copy.blob);
    refused(copy, "SPAN-HF-TENSOR", "without its blocks");
  }
}
