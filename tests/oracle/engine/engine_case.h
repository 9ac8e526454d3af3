// SPDX-License-Identifier: GPL-3.0-or-later
// What the engine tests share: the backends under test, the families with their reference outputs, and a run
// in pieces.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/cpu/backends.h"
#include "core/file/safetensors.h"
#include "tests/support/catch.h"
#include "tests/support/oracles.h"

namespace spanscope::test {

struct BackendCase {
  const char* name;
  std::function<Result<std::unique_ptr<Backend>>(std::shared_ptr<const Model>, BackendOptions)> make;
};
const std::vector<BackendCase>& backend_cases();

struct Family {
  std::string name;
  std::shared_ptr<const Model> model;
  Blob reference;
  std::vector<TokenId> ids;
  // Values of one array of the reference; the test fails when it is not there.
  std::vector<float> floats(const std::string& array) const;
  std::vector<int32_t> integers(const std::string& array) const;
};
// Empty when the data is not here (the test has said SKIPPED). Loaded once.
const Family* family(const std::string& name);
std::shared_ptr<const Model> loaded(const std::string& path);
std::unique_ptr<Backend> made(const BackendCase& c, std::shared_ptr<const Model> model, unsigned threads = 2);

enum class PlanKind { none, tokens };  // tokens: one leaf per key, row masses wanted

struct RunOutput {
  // attention [layers][heads][n][n], sink_mass and lse [layers][heads][n]
  std::vector<float> logits, hidden, attention, sink_mass, lse, router_logits, topk_weights;
  std::vector<int32_t> topk_ids;
};
// Runs ids from position cache.size() on in pieces of `chunk` rows (0: all at once) and joins the outputs.
RunOutput run_pieces(Backend& backend, Cache& cache, const std::vector<TokenId>& ids, uint32_t chunk,
                     PlanKind plan, bool everything = true);

// One row = one phase, one query leaf, no nesting: the least plan over the given leaves.
RecordPlan simple_plan(std::vector<PlanLeaf> leaves, uint32_t rows);

double largest_difference(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace spanscope::test
