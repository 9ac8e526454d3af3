// SPDX-License-Identifier: GPL-3.0-or-later
// Keys moved in the caches against keys rotated elsewhere with angles in double: halves, pairs side by side, a part of the
// dimensions, YaRN with its magnitude. The caches rotate in f32 with f32 angles, as the models were run, so what may differ is
// the rounding of an angle, which grows with the position, and a few roundings of the key itself.
#include <cmath>
#include <cstring>

#include "core/cpu/fast/page_cache.h"
#include "core/cpu/reference/cache.h"
#include "core/model/rotary.h"
#include "tests/oracle/engine/engine_case.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {

constexpr uint32_t kSlots = 8, kHeads = 2, kDim = 16;
constexpr TokenPos kElsewhere = 777;  // where every key stands before it is moved

std::vector<double> doubles(const Blob& blob, const std::string& name) {
  auto values = blob.get<double>(name);
  if (!values) FAIL(values.error().line());
  return *values;
}

std::shared_ptr<const Model> model_with(RotaryLayout layout, uint32_t dims, RotaryTable table) {
  auto model = std::make_shared<Model>();
  Recipe& r = model->recipe;
  r.layers = 1, r.kv_heads = kHeads, r.query_heads = kHeads, r.head_dim = kDim, r.context = 1024;
  r.rotary = layout, r.rotary_dims = dims;
  r.rotary_tables = {std::move(table)};
  r.rotary_of_layer = {0};
  return model;
}

void make_room(reference::ReferenceCache& cache) { cache.reserve(1); }
void make_room(fast::PageCache& cache) { cache.make_room(1); }

std::vector<float> moved(Cache& cache, TokenPos to) {
  const auto status = cache.move_to(std::vector<TokenPos>{to});
  if (!status) FAIL(status.error().line());
  std::vector<float> out(kHeads * kDim);
  REQUIRE(cache.read_keys(0, {0, 1}, false, out.data()));
  return out;
}

// Each key alone in a cache, because the reference's positions are in no order: to each of `places` in turn.
template <class SomeCache>
void check_moves(const std::shared_ptr<const Model>& model, const std::vector<double>& original, double magnitude,
                 const std::vector<std::pair<std::vector<int32_t>, std::vector<double>>>& places) {
  REQUIRE(original.size() == size_t(kSlots) * kHeads * kDim);
  double largest = 0;
  for (double x : original) largest = std::max(largest, std::abs(x));
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    SomeCache cache(model, CacheType::f32, true);
    make_room(cache);
    const std::vector<float> nothing(kDim, 0.0f);
    for (uint32_t h = 0; h < kHeads; ++h) {
      const double* from = original.data() + (size_t(slot) * kHeads + h) * kDim;
      const std::vector<float> raw(from, from + kDim);
      cache.write(0, h, 0, nothing.data(), nothing.data(), raw.data());
    }
    cache.commit(std::vector<TokenPos>{kElsewhere});
    std::vector<std::vector<float>> first;
    for (int round = 0; round < 2; ++round)
      for (size_t p = 0; p < places.size(); ++p) {
        const TokenPos to = TokenPos(places[p].first[slot]);
        INFO("key " << slot << " to position " << to << ", round " << round);
        const std::vector<float> got = moved(cache, to);
        if (round == 0) first.push_back(got);
        CHECK(std::memcmp(got.data(), first[p].data(), got.size() * sizeof(float)) == 0);  // whatever it went through
        const double bound = (to + 4) * std::ldexp(1.0, -22) * largest * magnitude;
        double worst = 0;
        for (uint32_t i = 0; i < kHeads * kDim; ++i) worst = std::max(worst, std::abs(double(got[i]) - places[p].second[size_t(slot) * kHeads * kDim + i]));
        CHECK(worst <= bound);
      }
  }
}

void check_both(const std::shared_ptr<const Model>& model, const std::vector<double>& original, double magnitude,
                const std::vector<std::pair<std::vector<int32_t>, std::vector<double>>>& places) {
  check_moves<reference::ReferenceCache>(model, original, magnitude, places);
  check_moves<fast::PageCache>(model, original, magnitude, places);
}

// The file says [key][head][dim] of this one array, but its values lie as [dim][key][head].
std::vector<double> in_key_order(const std::vector<double>& stored) {
  REQUIRE(stored.size() == size_t(kSlots) * kHeads * kDim);
  std::vector<double> out(stored.size());
  for (size_t run = 0; run < size_t(kSlots) * kHeads; ++run)
    for (size_t d = 0; d < kDim; ++d) out[run * kDim + d] = stored[d * kSlots * kHeads + run];
  return out;
}

RotaryTable table_of(const std::vector<double>& inverse, double magnitude = 1) {
  RotaryTable out;
  out.inverse_frequency.assign(inverse.begin(), inverse.end());
  out.magnitude = float(magnitude);
  return out;
}

}  // namespace

TEST_CASE("keys moved in the caches are keys rotated with angles in double") {
  const auto path = oracle("derived/reattend/rerotation/rerotation.safetensors");
  if (!path) return;
  auto blob = read_safetensors_file(*path);
  REQUIRE(blob);
  const std::vector<int32_t> p = *blob->get<int32_t>("p"), p2 = *blob->get<int32_t>("p2");
  const auto array = [&](const char* name) { return doubles(*blob, name); };

  const auto halves = model_with(RotaryLayout::halves, kDim, table_of(array("inv_freq")));
  check_both(halves, array("kraw"), 1, {{p, array("k_at_p")}, {p2, array("k_at_p2")}});
  const auto interleaved = model_with(RotaryLayout::interleaved, kDim, table_of(array("inv_freq")));
  check_both(interleaved, array("interleaved_kraw"), 1, {{p, in_key_order(array("interleaved_k_at_p"))}});
  const auto partial = model_with(RotaryLayout::halves, 8, make_rotary(8, 10000, {}));
  check_both(partial, array("kraw"), 1, {{p, array("partial8_k_at_p")}});
  // The magnitude is in a key once, however often it moves.
  const double scale = array("gptoss_attention_scale")[0];
  const auto yarn = model_with(RotaryLayout::halves, kDim, table_of(array("gptoss_inv_freq"), scale));
  check_both(yarn, array("gptoss_kraw"), scale, {{p, array("gptoss_k_at_p")}, {p2, array("gptoss_k_at_p2")}});
}

TEST_CASE("frequencies scaled as the reference scales them") {
  const auto path = oracle("derived/reattend/rerotation/rerotation.safetensors");
  if (!path) return;
  auto blob = read_safetensors_file(*path);
  REQUIRE(blob);
  RotaryScaling llama3;
  llama3.kind = RotaryScaling::Kind::llama3;
  llama3.factor = 8, llama3.original_context = 8192;
  const RotaryTable scaled = make_rotary(128, 5e5, llama3), plain = make_rotary(128, 5e5, {});
  const std::vector<double> ratio = doubles(*blob, "llama3_ratio");
  REQUIRE(ratio.size() == scaled.inverse_frequency.size());
  for (size_t i = 0; i < ratio.size(); ++i) CHECK(std::abs(double(scaled.inverse_frequency[i]) / double(plain.inverse_frequency[i]) - ratio[i]) <= 1e-5);

  const auto gpt_oss = loaded(*oracle("tiny/gpt-oss/model.gguf"));
  const RotaryTable& table = gpt_oss->recipe.rotary_tables.at(size_t(gpt_oss->recipe.rotary_of_layer.at(1)));
  const std::vector<double> inverse = doubles(*blob, "gptoss_inv_freq");
  REQUIRE(inverse.size() == table.inverse_frequency.size());
  for (size_t i = 0; i < inverse.size(); ++i) CHECK(std::abs(double(table.inverse_frequency[i]) / inverse[i] - 1) <= 2e-6);
  CHECK(std::abs(double(table.magnitude) - doubles(*blob, "gptoss_attention_scale")[0]) <= 1e-6);
}
