// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/oracle/engine/engine_case.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

namespace spanscope::test {

const std::vector<BackendCase>& backend_cases() {
  static const std::vector<BackendCase> cases = {
      {"reference", make_reference_backend},
      {"fast", make_fast_backend},
  };
  return cases;
}

std::vector<float> Family::floats(const std::string& array) const {
  auto values = reference.get<float>(array);
  if (!values) FAIL(values.error().line());
  return *values;
}

std::vector<int32_t> Family::integers(const std::string& array) const {
  auto values = reference.get<int32_t>(array);
  if (!values) FAIL(values.error().line());
  return *values;
}

std::shared_ptr<const Model> loaded(const std::string& path) {
  auto model = load_model(path);
  if (!model) FAIL(model.error().line());
  return *model;
}

const Family* family(const std::string& name) {
  static std::map<std::string, std::optional<Family>> families;
  auto [at, fresh] = families.try_emplace(name);
  if (fresh) {
    const auto model = oracle("tiny/" + name + "/model.gguf"),
               reference = oracle("tiny/" + name + "/ref.safetensors");
    if (model && reference) {
      auto blob = read_safetensors_file(*reference);
      if (!blob) FAIL(blob.error().line());
      Family f{name, loaded(*model), std::move(*blob), {}};
      f.ids = f.integers("ids");
      at->second = std::move(f);
    }
  }
  return at->second ? &*at->second : nullptr;
}

std::unique_ptr<Backend> made(const BackendCase& c, std::shared_ptr<const Model> model, unsigned threads) {
  auto backend = c.make(std::move(model), BackendOptions{threads});
  if (!backend) FAIL(backend.error().line());
  return std::move(*backend);
}

RecordPlan simple_plan(std::vector<PlanLeaf> leaves, uint32_t rows) {
  RecordPlan plan;
  plan.group_of_leaf.assign(leaves.size(), -1);
  plan.leaves = std::move(leaves);
  plan.group_of_row.assign(rows, -1);
  plan.row_phase.assign(rows, RowPhase::prompt);
  plan.row_query.assign(rows, 0);
  plan.query_leaves = 1;
  plan.want_row_masses = true;
  return plan;
}

namespace {

// Puts the rows of one piece where they belong in [layers][heads][n][n].
class AttentionSink final : public RecordSink {
 public:
  AttentionSink(RunOutput& run, uint32_t n, uint32_t first_row)
      : out_(run.attention), sinks_(run.sink_mass), lse_(run.lse), n_(n), first_row_(first_row) {}
  void on_layer(const LayerRecord& r) override {
    REQUIRE(r.layer == next_layer_++);
    REQUIRE(r.row_mass != nullptr);
    for (uint32_t row = 0; row < r.rows; ++row)
      for (uint32_t h = 0; h < r.query_heads; ++h) {
        const float* mass = r.row_mass + (size_t(row) * r.query_heads + h) * (r.leaves + 2);
        CHECK(mass[r.leaves] == 0.0f);  // every key has a leaf
        const size_t at = (size_t(r.layer) * r.query_heads + h) * n_ + first_row_ + row;
        std::copy_n(mass, r.leaves, out_.data() + at * n_);
        sinks_[at] = mass[r.leaves + 1];
        lse_[at] = r.row_lse[size_t(row) * r.query_heads + h];
      }
  }

 private:
  std::vector<float>&out_, &sinks_, &lse_;
  uint32_t n_, first_row_, next_layer_ = 0;
};

// Appends a piece [planes][rows][width] to [planes][all rows][width].
template <class T>
void join(std::vector<T>& all, const std::vector<T>& piece, size_t planes, size_t all_rows, size_t first_row,
          size_t rows) {
  if (piece.empty()) return;
  const size_t width = piece.size() / planes / rows;
  all.resize(planes * all_rows * width);
  for (size_t p = 0; p < planes; ++p)
    std::copy_n(piece.data() + p * rows * width, rows * width,
                all.data() + (p * all_rows + first_row) * width);
}

}  // namespace

RunOutput run_pieces(Backend& backend, Cache& cache, const std::vector<TokenId>& ids, uint32_t chunk,
                     PlanKind kind, bool everything) {
  const Recipe& r = backend.model().recipe;
  const uint32_t n = uint32_t(ids.size());
  if (chunk == 0) chunk = n;
  RunOutput out;
  if (kind == PlanKind::tokens) {
    out.attention.assign(size_t(r.layers) * r.query_heads * n * n, 0.0f);
    out.sink_mass.assign(size_t(r.layers) * r.query_heads * n, 0.0f);
    out.lse = out.sink_mass;
  }
  const uint64_t reach = cache.size() + n;  // the pieces are one sequence
  for (uint32_t at = 0; at < n; at += chunk) {
    const uint32_t rows = std::min(chunk, n - at), before = cache.size();
    std::vector<TokenPos> positions(rows);
    std::iota(positions.begin(), positions.end(), before ? cache.position(before - 1) + 1 : 0);
    ForwardOptions options;
    options.logits = LogitRows::all;
    options.hidden = options.router_logits = everything;
    RecordPlan plan;
    AttentionSink sink(out, n, at);
    if (kind == PlanKind::tokens) {
      std::vector<PlanLeaf> leaves;
      for (uint32_t j = 0; j < before + rows; ++j) leaves.push_back({j, 1, j + 1, false});
      plan = simple_plan(std::move(leaves), rows);
      plan.want_row_lse = true;
      options.plan = &plan;
      options.sink = &sink;
    }
    auto result = backend.forward(cache, Batch{std::span(ids).subspan(at, rows), positions, reach}, options);
    if (!result) FAIL(result.error().line());
    REQUIRE(cache.size() == before + rows);
    join(out.logits, result->logits, 1, n, at, rows);
    join(out.hidden, result->hidden, r.layers + 1, n, at, rows);
    join(out.router_logits, result->router_logits, r.moe_layers(), n, at, rows);
    join(out.topk_ids, result->topk_ids, r.moe_layers(), n, at, rows);
    join(out.topk_weights, result->topk_weights, r.moe_layers(), n, at, rows);
  }
  return out;
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size() || a.empty()) FAIL("compared " << a.size() << " values with " << b.size());
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double d = std::abs(double(a[i]) - double(b[i]));
    if (!(d <= largest)) largest = std::isnan(d) ? std::numeric_limits<double>::infinity() : d;
  }
  return largest;
}

}  // namespace spanscope::test
