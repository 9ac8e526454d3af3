// SPDX-License-Identifier: GPL-3.0-or-later
// Token statistics (R1-R6, R8, R9) of every backend against the reference data, in passes of all sizes; and that asking for
// them changes no bit of the forward pass. Tolerances: the reference data's README.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "core/base/files.h"
#include "core/base/json.h"
#include "tests/oracle/engine/engine_case.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {

// Sums of all passes, in the reference data's shapes.
class Collected final : public TokenStatsSink {
 public:
  Collected(const Recipe& r, uint32_t n, uint32_t windows) : r_(r), n_(n), windows_(windows) {
    const size_t keys = size_t(r.layers) * r.query_heads * n;
    for (auto* v : {&column_sum, &column_square, &column_max, &column_count, &last, &argmax, &pmax, &lse, &entropy, &fnorm, &pass_sum})
      v->assign(keys, 0);
    window_sum.assign(windows, std::vector<double>(keys, 0));
    window_count = window_sum;
    vnorm.assign(size_t(r.layers) * r.kv_heads * n, 0);
    cosine.assign(size_t(r.layers) * n, 0);
  }
  void begin_pass(uint32_t first_row) {
    first = first_row;
    std::fill(pass_sum.begin(), pass_sum.end(), 0);
    std::fill(last.begin(), last.end(), 0);
  }
  void on_tokens(const TokenStats& s) override {
    REQUIRE(s.windows == windows_);
    for (uint32_t h = 0; h < s.query_heads; ++h) {
      const size_t base = (size_t(s.layer) * r_.query_heads + h) * n_;
      for (uint32_t k = 0; k < s.keys; ++k) {
        const size_t i = size_t(h) * s.keys + k;
        column_sum[base + k] += s.column_sum[i];
        pass_sum[base + k] += s.column_sum[i];
        column_square[base + k] += s.column_square[i];
        column_max[base + k] = std::max(column_max[base + k], double(s.column_max[i]));
        column_count[base + k] += s.column_count[i];
        last[base + k] = s.last_row[i];
        for (uint32_t w = 0; w < windows_; ++w) {
          window_sum[w][base + k] += s.window_sum[size_t(w) * s.query_heads * s.keys + i];
          window_count[w][base + k] += s.window_count[size_t(w) * s.query_heads * s.keys + i];
        }
      }
      for (uint32_t i = 0; i < s.rows; ++i) {
        const size_t from = size_t(h) * s.rows + i, to = base + first + i;
        argmax[to] = s.row_argmax[from];
        pmax[to] = s.row_max[from];
        lse[to] = s.row_lse[from];
        entropy[to] = s.row_entropy[from];
        fnorm[to] = s.output_norm[from];
      }
    }
    for (uint32_t g = 0; g < s.kv_heads; ++g)
      for (uint32_t i = 0; i < s.rows; ++i)
        vnorm[(size_t(s.layer) * r_.kv_heads + g) * n_ + first + i] = s.value_norm[size_t(g) * s.rows + i];
    for (uint32_t i = 0; i < s.rows; ++i) cosine[size_t(s.layer) * n_ + first + i] = s.residual_cosine[i];
  }
  void on_residual(const ResidualStats& s) override {
    REQUIRE(s.index == residual.size() % (r_.layers + 1));
    residual.push_back(s);
  }
  std::vector<double> column_sum, column_square, column_max, column_count, last, argmax, pmax, lse, entropy, fnorm, pass_sum, vnorm, cosine;
  std::vector<std::vector<double>> window_sum, window_count;
  std::vector<ResidualStats> residual;
  uint32_t first = 0;

 private:
  const Recipe& r_;
  uint32_t n_, windows_;
};

struct Data {
  std::vector<TokenId> ids;
  Blob blob;
  std::shared_ptr<const Model> model;
  std::vector<double> doubles(const std::string& name) const {
    auto v = blob.get<double>(name);
    if (!v) FAIL(v.error().line());
    return *v;
  }
  std::vector<double> integers(const std::string& name) const {
    auto v = blob.get<int32_t>(name);
    if (!v) FAIL(v.error().line());
    return {v->begin(), v->end()};
  }
};

std::optional<Data> load(const std::string& family) {
  if (!have_full_oracles()) {
    std::cout << "SKIPPED: no reference data for derived/reductions\n";
    return {};
  }
  const std::string base = "derived/reductions/" + family + "/reductions";
  auto text = read_file(*oracle(base + ".json"));
  auto blob = read_safetensors_file(*oracle(base + ".safetensors"));
  REQUIRE(text);
  REQUIRE(blob);
  return Data{Json::parse(*text)["tokens"], std::move(*blob), loaded(*oracle("tiny/" + family + "/model.gguf"))};
}

// |x - ref| <= tolerance x max(|ref|, 1)
void near(const char* name, const std::vector<double>& got, const std::vector<double>& expected, double tolerance) {
  INFO(name);
  REQUIRE(got.size() == expected.size());
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double d = std::abs(got[i] - expected[i]) / std::max(std::abs(expected[i]), 1.0);
    if (!(d <= worst)) worst = d;
  }
  CHECK(worst <= tolerance);
}

// Equal, except where the margin says that rounding may decide.
void exact(const char* name, const std::vector<double>& got, const std::vector<double>& expected, const std::vector<double>& margin) {
  INFO(name);
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i)
    if (margin[i] >= 1e-5) REQUIRE(got[i] == expected[i]);
}

// Runs the prompt in passes that end at `borders`. check(pass) is called after each.
template <class Check>
std::vector<float> run(Backend& backend, const std::vector<TokenId>& ids, const std::vector<uint32_t>& borders, Collected* sink,
                       const Check& check, std::vector<uint32_t> window_sizes = {8, 16}) {
  const uint32_t n = uint32_t(ids.size());
  auto cache = backend.new_cache(n);
  std::vector<float> logits;
  uint32_t at = 0;
  for (size_t pass = 0; pass < borders.size(); ++pass) {
    const uint32_t end = borders[pass], rows = end - at;
    std::vector<TokenPos> positions(rows);
    std::iota(positions.begin(), positions.end(), at);
    ForwardOptions options;
    options.logits = LogitRows::all;
    TokenStatsPlan plan;
    if (sink) {
      plan.windows = uint32_t(window_sizes.size());
      plan.row_windows.assign(rows, 0);
      for (uint32_t i = 0; i < rows; ++i)
        for (size_t w = 0; w < window_sizes.size(); ++w)
          if (at + i + window_sizes[w] >= n) plan.row_windows[i] |= uint8_t(1u << w);
      options.token_stats = &plan;
      options.token_sink = sink;
      sink->begin_pass(at);
    }
    auto result = backend.forward(*cache, Batch{std::span(ids).subspan(at, rows), positions}, options);
    if (!result) FAIL(result.error().line());
    logits.insert(logits.end(), result->logits.begin(), result->logits.end());
    check(pass);
    at = end;
  }
  return logits;
}

std::vector<uint32_t> borders_of(uint32_t n, uint32_t chunk) {
  std::vector<uint32_t> out;
  for (uint32_t at = chunk ? chunk : n; at < n; at += chunk) out.push_back(at);
  out.push_back(n);
  return out;
}

}  // namespace

TEST_CASE("token statistics equal the reference data, in passes of all sizes") {
  for (const char* family : {"llama-gqa", "mixtral"}) {
    const auto d = load(family);
    if (!d) return;
    const uint32_t n = uint32_t(d->ids.size());
    const Recipe& r = d->model->recipe;
    for (const BackendCase& c : backend_cases())
      for (uint32_t chunk : {0u, 7u, 1u}) {
        INFO(family << ", " << c.name << ", passes of " << chunk);
        auto backend = made(c, d->model);
        Collected s(r, n, 2);
        run(*backend, d->ids, borders_of(n, chunk), &s, [](size_t) {});
        near("R1", s.column_sum, d->doubles("R1.colsum"), 1e-5);
        near("R4 squares", s.column_square, d->doubles("R4.colsq"), 1e-5);
        near("R4 maxima", s.column_max, d->doubles("R4.colmax"), 1e-5);
        near("R2, 8", s.window_sum[0], d->doubles("R2.wincol_w8"), 1e-5);
        near("R2, 16", s.window_sum[1], d->doubles("R2.wincol_w16"), 1e-5);
        near("R3", s.last, d->doubles("R3.last"), 1e-5);
        const auto margin = d->doubles("R5.margin");
        exact("R5", s.column_count, d->integers("R5.cnt"), margin);
        exact("R5, 8", s.window_count[0], d->integers("R5.cnt_w8"), margin);
        exact("R5, 16", s.window_count[1], d->integers("R5.cnt_w16"), margin);
        exact("R6 argmax", s.argmax, d->integers("R6.argmax"), d->doubles("R6.argmax_margin"));
        near("R6 pmax", s.pmax, d->doubles("R6.pmax"), 1e-5);
        near("R6 lse", s.lse, d->doubles("R6.lse"), 2e-5);
        near("R6 entropy", s.entropy, d->doubles("R6.entropy"), 2e-5);
        near("R8 values", s.vnorm, d->doubles("R8.vnorm"), 1e-5);
        near("R8 outputs", s.fnorm, d->doubles("R8.fnorm"), 1e-5);
        near("R9 cosine", s.cosine, d->doubles("R9.cos_token"), 1e-5);
        // Conservation: every row gives 1.
        for (size_t lh = 0; lh < size_t(r.layers) * r.query_heads; ++lh)
          CHECK(std::accumulate(s.column_sum.begin() + ptrdiff_t(lh * n), s.column_sum.begin() + ptrdiff_t((lh + 1) * n), 0.0) ==
                Approx(n).epsilon(1e-5));
        if (chunk != 0) continue;
        const auto median = d->doubles("R9.hmed"), top = d->doubles("R9.top3"), at = d->integers("R9.top3_at"),
                   massive = d->integers("R9.massive");
        REQUIRE(s.residual.size() == r.layers + 1);
        for (size_t l = 0; l <= r.layers; ++l) {
          CHECK(std::abs(s.residual[l].median - median[l]) <= 1e-5 * std::max(1.0, median[l]));
          CHECK(s.residual[l].massive == uint32_t(massive[l]));
          for (size_t p = 0; p < 3; ++p) {
            CHECK(std::abs(s.residual[l].peaks[p].size - top[l * 3 + p]) <= 2e-4);
            CHECK(s.residual[l].peaks[p].row == uint32_t(at[(l * 3 + p) * 2]));
            CHECK(s.residual[l].peaks[p].dimension == uint32_t(at[(l * 3 + p) * 2 + 1]));
          }
        }
      }
  }
}

TEST_CASE("column sums of chunks are those of their rows") {
  for (const char* family : {"llama-gqa", "mixtral"}) {
    const auto d = load(family);
    if (!d) return;
    const std::vector<double> expected = d->doubles("R1.chunk");
    const size_t each = expected.size() / 3;
    for (const BackendCase& c : backend_cases()) {
      INFO(family << ", " << c.name);
      auto backend = made(c, d->model);
      Collected s(d->model->recipe, uint32_t(d->ids.size()), 2);
      run(*backend, d->ids, {17, 31, 48}, &s, [&](size_t pass) {
        near("chunk", s.pass_sum, {expected.begin() + ptrdiff_t(pass * each), expected.begin() + ptrdiff_t((pass + 1) * each)}, 1e-5);
      });
    }
  }
}

TEST_CASE("token statistics change no bit of the pass; windows, caps, learned sinks and f16 keys are in them") {
  if (!have_full_oracles()) {
    std::cout << "SKIPPED: no reference data for token statistics of other families\n";
    return;
  }
  for (const char* family : {"gemma2", "gpt-oss", "gemma3-text", "qwen2-moe"})
    for (const CacheType type : {CacheType::f32, CacheType::f16}) {
      const auto model = loaded(*oracle(std::string("tiny/") + family + "/hf"));
      auto blob = read_safetensors_file(*oracle(std::string("tiny/") + family + "/ref.safetensors"));
      REQUIRE(blob);
      const std::vector<int32_t> raw = *blob->get<int32_t>("ids");
      const std::vector<TokenId> ids(raw.begin(), raw.end());
      std::vector<Collected> both;
      for (const BackendCase& c : backend_cases()) {
        INFO(family << ", " << c.name);
        auto backend = c.make(model, BackendOptions{2, type});
        REQUIRE(backend);
        Collected s(model->recipe, uint32_t(ids.size()), 2);
        const auto with = run(**backend, ids, borders_of(uint32_t(ids.size()), 20), &s, [](size_t) {});
        const auto without = run(**backend, ids, borders_of(uint32_t(ids.size()), 20), nullptr, [](size_t) {});
        REQUIRE(with.size() == without.size());
        CHECK(std::memcmp(with.data(), without.data(), with.size() * sizeof(float)) == 0);
        both.push_back(std::move(s));
      }
      if (type == CacheType::f16) continue;  // a key may round the other way in the other path
      INFO(family);
      near("sums", both[1].column_sum, both[0].column_sum, 2e-5);
      near("entropy", both[1].entropy, both[0].entropy, 4e-5);
      near("outputs", both[1].fnorm, both[0].fnorm, 1e-5);
    }
}

TEST_CASE("token statistics that do not fit their pass are refused") {
  const Family* f = family("llama-gqa");
  if (!f) return;
  for (const BackendCase& c : backend_cases()) {
    auto backend = made(c, f->model);
    auto cache = backend->new_cache(0);
    Collected s(f->model->recipe, 4, 0);
    const std::vector<TokenPos> positions = {0, 1, 2, 3};
    const std::vector<TokenId> ids(f->ids.begin(), f->ids.begin() + 4);
    const auto refused = [&](const TokenStatsPlan& plan, TokenStatsSink* sink) {
      ForwardOptions options;
      options.token_stats = &plan;
      options.token_sink = sink;
      auto result = backend->forward(*cache, Batch{ids, positions}, options);
      REQUIRE_FALSE(result);
      CHECK(result.error().tag == "SPAN-PLAN");
      CHECK(cache->size() == 0);
    };
    TokenStatsPlan plan;
    refused(plan, nullptr);
    plan.counted.assign(3, 1);
    refused(plan, &s);
    plan = {};
    plan.windows = 9, plan.row_windows.assign(4, 0);
    refused(plan, &s);
    plan.windows = 1, plan.row_windows.assign(5, 0);
    refused(plan, &s);
  }
}
