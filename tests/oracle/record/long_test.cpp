// SPDX-License-Identifier: GPL-3.0-or-later
// derived/long: sixteen turns with an edited message, eviction with compaction, a message left out that comes back, eviction
// with positions kept. Every number from the closed, reopened file; and the logits of every turn's last row, which say that
// keys were kept and rotated rightly.
#include <cmath>

#include "tests/oracle/record/derived_check.h"
#include "tests/oracle/record/record_file.h"

using namespace spanscope;
using namespace spanscope::test;

namespace {

std::string turn_prefix(size_t turn) { return "t0" + std::to_string(turn + 1) + "."; }

std::optional<Derived> load_long() {
  if (!have_full_oracles()) {
    std::cout << "SKIPPED: no reference data for derived/long\n";
    return {};
  }
  Derived d;
  d.family = "long";
  const auto spans = oracle("derived/long/spans.json"), lists = oracle("derived/long/derived.json"), ring = oracle("derived/long/ring.safetensors");
  d.spans_json = take(read_file(*spans));
  d.spans = take(parse_json(d.spans_json, *spans));
  d.lists = take(parse_json(take(read_file(*lists)), *lists));
  d.arrays = take(read_safetensors_file(*ring));
  for (size_t t = 0; t < d.spans["turns"].size(); ++t) {
    Blob turn = take(read_safetensors_file(*oracle("derived/long/turn" + std::string(t < 9 ? "0" : "") + std::to_string(t + 1) + ".safetensors")));
    for (Tensor& tensor : turn.tensors) {
      tensor.name = turn_prefix(t) + tensor.name;
      d.arrays.tensors.push_back(std::move(tensor));
    }
  }
  return d;
}

// Makes every pass give its last row's logits, and remembers the last ones.
class Watched : public Backend {
 public:
  explicit Watched(Backend& inner) : inner_(inner) {}
  const Model& model() const override { return inner_.model(); }
  std::string name() const override { return inner_.name(); }
  unsigned threads() const override { return inner_.threads(); }
  std::unique_ptr<Cache> new_cache(uint32_t hint, bool originals) const override { return inner_.new_cache(hint, originals); }
  Result<ForwardResult> forward(Cache& cache, const Batch& batch, const ForwardOptions& options) override {
    ForwardOptions more = options;
    more.logits = LogitRows::last;
    auto result = inner_.forward(cache, batch, more);
    if (result) last = result->logits;
    return result;
  }
  std::vector<float> last;

 private:
  Backend& inner_;
};

void record_and_check(const Derived& d, const std::string& path, uint32_t pass_rows, bool heads) {
  INFO(path << " path, passes of " << pass_rows);
  const std::string family = d.spans["family"];
  auto inner = backend_of(*oracle("tiny/" + family + "/model.gguf"), path, path == "fast" ? 2 : 1);
  auto replay = take(make_ids_replay("", d.spans_json, "long"));
  CHECK(replay->moves_keys());
  RecordRequest request;
  request.recorder.heads = heads;
  request.pass_rows = pass_rows;
  const TemporaryFile file("long.span");
  auto writer = take(SessionWriter::create(file.path(), true));
  SessionHeader header;
  header.program_version = "test";
  const RecordOutcome outcome = take(record_session(*inner, *replay, nullptr, writer.get(), header, {}, request));
  writer.reset();
  const auto session = take(load_session(file.path(), true));
  CHECK(session->findings.empty());
  check_session(*session, d, true);
  check_session(*outcome.session, d, false);
}

}  // namespace

TEST_CASE("edits, eviction, compaction, messages that leave and come back: every recorded number") {
  const auto d = load_long();
  if (!d) return;
  for (const char* path : {"reference", "fast"})
    for (uint32_t rows : {512u, 7u}) record_and_check(*d, path, rows, rows == 7);
}

TEST_CASE("every turn's last row answers as the reference's does") {
  const auto d = load_long();
  if (!d) return;
  const std::string family = d->spans["family"];
  for (const char* path : {"reference", "fast"}) {
    INFO(path);
    auto inner = backend_of(*oracle("tiny/" + family + "/model.gguf"), path, 2);
    Watched backend(*inner);
    auto replay = take(make_ids_replay("", d->spans_json, "long"));
    RecordRequest request;
    request.pass_rows = 512;
    // Without a writer a turn is told when it closes.
    std::vector<std::vector<float>> logits;
    request.progress = [&](const RecordProgress& p) {
      if (p.turn_closed) logits.push_back(backend.last);
    };
    take(record_session(backend, *replay, nullptr, nullptr, {}, {}, request));
    REQUIRE(logits.size() == d->spans["turns"].size());
    double worst = 0;
    for (size_t t = 0; t < logits.size(); ++t) {
      const auto expected = take(d->arrays.get<float>(turn_prefix(t) + "last_logits"));
      REQUIRE(expected.size() == logits[t].size());
      for (size_t i = 0; i < expected.size(); ++i) worst = std::max(worst, std::fabs(double(expected[i]) - double(logits[t][i])));
    }
    CHECK(worst <= 2e-4);
  }
}
